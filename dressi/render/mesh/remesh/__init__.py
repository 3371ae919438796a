"""Other faces for a surface: remeshing while it is optimised, see ``remesh``; ``decimate``, fewer faces; ``volume``, fields and back."""

from .remesh import Remeshed, remesh, target_lengths

__all__ = ["Remeshed", "remesh", "target_lengths"]
