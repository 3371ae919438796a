"""Other faces for a surface: remeshing while it is optimised, see ``remesh``; ``decimate``, fewer faces; ``volume``, fields and back."""

from .lengths import target_lengths
from .remesh import Remeshed, remesh

__all__ = ["Remeshed", "remesh", "target_lengths"]
