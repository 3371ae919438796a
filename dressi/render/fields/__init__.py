"""Surfaces of fields, where values on a grid, positive inside, are zero: topology changes by gradients.

``isosurface`` the mesh of a field, differentiable in its values; ``rays`` silhouettes of the field itself,
which also open holes that a mesh covers, and what fields are like where no picture tells.
"""

from .isosurface import Isosurface
from .rays import Rays, eikonal_loss, ray_loss, roughness_loss, sample_field

__all__ = ["Isosurface", "Rays", "eikonal_loss", "ray_loss", "roughness_loss", "sample_field"]
