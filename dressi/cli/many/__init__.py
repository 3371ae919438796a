"""`dressi fit --many`: many objects, each fitted by its own process, on this machine or over a ray cluster.

``listing`` reads and checks the list, ``job`` fits one object in a worker, ``pool`` keeps the workers, and
``run`` gives them their jobs until all are done, and keeps the table of what became of each object.
"""
