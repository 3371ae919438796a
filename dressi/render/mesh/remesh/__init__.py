"""Other faces for a surface: ``remesh`` while it is optimised, or to fewer faces; ``volume`` by fields on a grid."""

from .remesh import Remeshed, remesh, target_lengths

__all__ = ["Remeshed", "remesh", "target_lengths"]
