"""Shaders of a SubStage by its mode."""

from __future__ import annotations

from ..limits import DeviceLimits
from ..substage import Mode, SubStage
from .blocks import block_shaders
from .lists import list_shaders
from .pixel import compute_shaders, fragment_shaders
from .raster import raster_shaders
from .scatter import scatter_shaders
from .writer import Shaders, ShaderText

_GENERATORS = {
    Mode.FRAGMENT: fragment_shaders,
    Mode.COMPUTE: compute_shaders,
    Mode.RASTER: raster_shaders,
    Mode.SCATTER: scatter_shaders,
    Mode.BLOCKS: block_shaders,
    Mode.LIST: list_shaders,
}


def generate(s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """All shaders of a SubStage, with the descriptors they share."""
    return _GENERATORS[s.mode](s, limits, shader_text)
