"""Shaders of a SubStage, by its kind of work."""

from __future__ import annotations

from collections.abc import Callable

from ..limits import DeviceLimits
from ..substage import (
    Accumulate,
    Compute,
    FaceSums,
    FindHits,
    Fragment,
    FragmentScatter,
    ListBlocks,
    ListFaces,
    Raster,
    ScatterDispatch,
    ScatterDraw,
    SubStage,
    TiledCompute,
    Work,
)
from .blocks import block_shaders, hits_shaders
from .face_sum import face_sum_shaders
from .pixel import compute_shaders, fragment_shaders
from .raster import accumulate_shaders, list_shaders, raster_shaders
from .scatter import fragment_scatter_shaders, scatter_dispatch_shaders, scatter_draw_shaders
from .strips.shaders import contract_shaders
from .text.shaders import Shaders, ShaderText

_SHADERS: dict[type[Work], Callable[..., Shaders]] = {
    Fragment: fragment_shaders,
    Compute: compute_shaders,
    Raster: raster_shaders,
    Accumulate: accumulate_shaders,
    FragmentScatter: fragment_scatter_shaders,
    ScatterDispatch: scatter_dispatch_shaders,
    ScatterDraw: scatter_draw_shaders,
    FaceSums: face_sum_shaders,
    TiledCompute: contract_shaders,
    ListBlocks: block_shaders,
    FindHits: hits_shaders,
    ListFaces: list_shaders,
}


def generate(s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """All shaders of a SubStage, with the descriptors they share."""
    return _SHADERS[type(s.work)](s.work, s, limits, shader_text)
