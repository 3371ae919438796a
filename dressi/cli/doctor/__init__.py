"""`dressi doctor`: what is missing on a machine, and how to get it.

``probe`` runs in a process of its own, so that a crashing driver is a finding and not the end; ``machine``, ``drivers`` and
``settings`` look at one matter each, and ``command`` prints what they found. ``gpu_probes`` are the small programs of
`dressi doctor --gpu` with their NumPy meaning, ``gpu_facts`` what a driver says of itself, and ``gpu_report`` judges.
"""
