"""Scenes: several things in one picture, each with a shape, a material and a place (``Scene``, ``Node``)."""
