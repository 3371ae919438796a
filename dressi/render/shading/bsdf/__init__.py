"""How surfaces reflect and transmit light: one class for each kind of surface, for every light.

``bsdf`` the base class; ``gltf`` the materials of glTF 2.0; ``unlit`` colours as they are. A surface of one's own is one
class: a dataclass derived from ``Bsdf`` with its table of parameters and ``reflected``. ``microfacet``, ``sheen`` and
``albedo`` are the parts of glTF's; ``hair`` fibres of hair, with ``bessel``, ``hair_far`` those from afar; ``skin``, ``eye`` and
``teeth`` the rest of a human; ``sampling`` draws directions and sums the light of a sky.
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
