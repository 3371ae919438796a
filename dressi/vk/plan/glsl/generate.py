"""Shaders of a SubStage, by its kind of work."""

from __future__ import annotations

from functools import singledispatch

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


def generate(s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """All shaders of a SubStage, with the descriptors they share."""
    return _shaders(s.work, s, limits, shader_text)


@singledispatch
def _shaders(work: Work, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    raise TypeError(f"there are no shaders for {type(work).__name__}; register a function for it here")


_shaders.register(Fragment, fragment_shaders)
_shaders.register(Compute, compute_shaders)
_shaders.register(Raster, raster_shaders)
_shaders.register(Accumulate, accumulate_shaders)
_shaders.register(FragmentScatter, fragment_scatter_shaders)
_shaders.register(ScatterDispatch, scatter_dispatch_shaders)
_shaders.register(ScatterDraw, scatter_draw_shaders)
_shaders.register(FaceSums, face_sum_shaders)
_shaders.register(TiledCompute, contract_shaders)
_shaders.register(ListBlocks, block_shaders)
_shaders.register(FindHits, hits_shaders)
_shaders.register(ListFaces, list_shaders)
