"""Other faces for a surface: ``remesh`` by edges, or to fewer faces; ``volume`` by fields on a grid."""

from .remesh import Remeshed, remesh, target_lengths

__all__ = ["Remeshed", "remesh", "target_lengths"]
