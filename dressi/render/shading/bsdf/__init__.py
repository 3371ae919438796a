"""How surfaces reflect and transmit light: one class for each kind of surface, for every light.

``bsdf`` the base class; ``gltf`` the materials of glTF 2.0; ``unlit`` colours as they are. A surface of one's own is one
class: a dataclass derived from ``Bsdf`` with its table of parameters and ``reflected``. ``microfacet``, ``sheen`` and
``albedo`` are the parts of glTF's; ``hair`` fibres of hair, with ``bessel``, and ``hair_far``, from
afar; ``skin`` skin; ``sampling`` draws directions, ``quadrature`` sums the light of a sky.
"""

from .bsdf import Bsdf, Frame, Sky, SkyLight
from .gltf import GltfBsdf
from .hair import HairBsdf
from .skin import SkinBsdf
from .unlit import UnlitBsdf

__all__ = ["Bsdf", "Frame", "GltfBsdf", "HairBsdf", "SkinBsdf", "Sky", "SkyLight", "UnlitBsdf"]
