"""Remeshing of surfaces while they are optimised, see ``remesh``."""

from .lengths import target_lengths
from .remesh import Remeshed, remesh

__all__ = ["Remeshed", "remesh", "target_lengths"]
