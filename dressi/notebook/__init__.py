"""What values show of themselves in a notebook: ``draw(kind, value)``. Each module registers the figures of some classes."""

from . import fits as fits
from . import graphs as graphs
from . import pictures as pictures
from . import plans as plans
from .kinds import draw

__all__ = ["draw"]
