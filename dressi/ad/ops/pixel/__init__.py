"""Functions of values at one pixel: arithmetic, comparisons, vectors, matrices, random numbers."""
