"""What a material is made of, as tables: each property of a surface is one row, and all else derives from it.

``parameter`` the rows and a table of them; ``gltf`` the table of glTF 2.0; ``placement`` where maps lie; ``learned`` how
fits find parameters. From a table come the fields and checks of
``Material``, the parts that ``render`` accepts, files in and out, the maps that a fit learns and the tables of the guides. A
new property is a row, and the lines of a BSDF (``shading.bsdf``) that use it.
"""

from .gltf import GLTF
from .parameter import BaseColour, Map, MaterialKind, Modulated, Parameter
from .placement import Placement

__all__ = ["GLTF", "BaseColour", "Map", "MaterialKind", "Modulated", "Parameter", "Placement"]
