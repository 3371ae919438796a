"""How surfaces reflect and transmit light: one class for each kind of surface, for every light.

``bsdf`` the base class, and colours as they are; ``gltf`` the materials of glTF 2.0. A surface of one's own
is one class: a dataclass derived from ``Bsdf`` with its table of parameters and ``reflected``. ``microfacet``
and ``albedo`` are parts of glTF's, and directions drawn for the light of a sky. ``hair`` are fibres, near and
from afar; ``human`` is skin, eyes and teeth.
"""

from .bsdf import Bsdf, Frame, Sky, SkyLight, UnlitBsdf
from .gltf import GltfBsdf
from .hair import HairBsdf
from .human import EyeBsdf, SkinBsdf, TeethBsdf

__all__ = [
    "Bsdf",
    "EyeBsdf",
    "Frame",
    "GltfBsdf",
    "HairBsdf",
    "SkinBsdf",
    "Sky",
    "SkyLight",
    "TeethBsdf",
    "UnlitBsdf",
]
