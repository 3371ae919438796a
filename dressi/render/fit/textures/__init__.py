"""Textures of a fit: charts, and the pyramid that is optimised."""
