"""Sums over all fragments of drawn triangles, at each pixel or in tables. Their derivatives are built with ``transform``."""
