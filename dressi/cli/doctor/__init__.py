"""`dressi doctor`: what is missing on a machine, and how to get it.

``probe`` runs in a process of its own, so that a crashing driver is a finding and not the end, and tells what
a driver says of itself. ``machine`` looks at drivers, packages and settings. ``gpu_probes`` are the small
programs of `dressi doctor --gpu` with their NumPy meaning. ``command`` judges, and prints what was found.
"""
