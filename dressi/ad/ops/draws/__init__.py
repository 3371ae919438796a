"""Draws of triangles: the sub-graph that their fragments run, which pixels they cover, and their values in NumPy."""
