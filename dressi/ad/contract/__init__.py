"""Contractions: sums (products, largest values) over axes of values that are read at affine places of images."""
