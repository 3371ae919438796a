"""Surfaces of fields: where values on a grid, positive inside, are zero, so that topology changes by gradients.

``isosurface`` the mesh of a field, differentiable in its values; ``rays`` silhouettes of the field itself,
which also open holes that a mesh covers.
"""

from .isosurface import Isosurface
from .rays import Rays, ray_loss, sample_field

__all__ = ["Isosurface", "Rays", "ray_loss", "sample_field"]
