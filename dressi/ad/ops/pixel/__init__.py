"""Functions of values at one pixel: arithmetic, elementary functions, comparisons, vectors, matrices, random numbers."""
