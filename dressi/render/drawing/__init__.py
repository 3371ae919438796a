"""Pictures of meshes: ``render`` and its parts, and the unlit pictures for targets and scores of fits.

``scenes`` makes images of the arguments and joins the nodes; ``entry`` builds the ``picture`` of their looks.
"""
