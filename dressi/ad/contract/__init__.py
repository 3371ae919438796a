"""Contractions: sums (products, maxima) over axes of values read at affine places of images."""
