"""Contractions that are trained on random values, and the same in torch and NumPy."""
