"""Graphs that repeat: loops, segments whose values the gradient computes again, and solvers made of them."""
