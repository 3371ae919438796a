"""What the viewer shows and steers: a fit, an optimisation of one's own, or a mesh.

``session`` is the protocol; ``fit``, ``engine`` and ``mesh`` are the three kinds.
"""
