"""`dressi fit --many`: many objects, each fitted by a process of its own, on this machine or over a ray cluster.

``listing`` reads and checks the list, ``job`` fits one object in a worker, ``pool`` keeps the workers,
``table`` holds what became of each object, and ``run`` gives the workers their jobs until all are done.
"""
