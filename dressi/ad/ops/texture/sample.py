"""Textures: filtered sampling."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....errors import GraphError
from ...graph import PixelFunction, Variable
from ...types import VEC2, Access
from ..image.lookup import lookup
from ..pixel.constant import Like, operands
from ..pixel.math import floor, to_int
from .addressing import WrapTexel
from .levels import bilinear, sample_levels
from .mipmap import mip_places, mipmaps

__all__ = ["sample"]


HARDWARE_WRAPS = frozenset({"repeat", "clamp"})
"""What the samplers of devices are asked for; other wraps are always computed from single texels."""


class Filtered(PixelFunction):
    """Inputs (value, texture, uv): the value, which is the texture at uv, computed from single texels.

    A planner may read the texture with the device's own sampler instead, where that is off by at most ``tolerance`` of the
    range of the texture's values. Derivatives are those of the value.
    """

    operations, fetches = 0.0, 0.0
    fields = ("filter", "wrap", "tolerance")
    filter: str
    wrap: str
    tolerance: float
    glsl = "$0"

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH, Access.SAME_PIXEL)

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, *x: np.ndarray) -> np.ndarray:
        return x[0]

    def known_value(self, known):
        return known.get(0)

    def vjp(self, gy, i):
        return gy if i == 0 else None

    def jvp(self, tangents):
        return tangents[0]


def check_texture(texture: Variable, uv: Variable) -> None:
    if uv.vtype is not VEC2:
        raise GraphError(f"uv must be VEC2, not {uv}")
    if texture.vtype.is_int:
        raise GraphError(f"a texture holds floats, not {texture}")


def sample(
    texture: Variable,
    uv: Like,
    filter: str = "bilinear",
    wrap: str = "repeat",
    *,
    level: Like | None = None,
    tolerance: float = 1e-3,
) -> Variable:
    """The texture at uv: (0, 0) is the corner of texel (0, 0), v grows downward, texel i has its centre at (i + 0.5) / W.

    texture: FLOAT, VECn or MATn; batch 1 (shared) or that of uv (own tile). uv: VEC2. filter: "nearest", "bilinear" or
    "trilinear". wrap: "repeat", "clamp", "mirror" (every other repetition is mirrored) or "sphere" (equirectangular maps: u
    repeats; beyond a pole the rows come back, shifted by half the width, which should be even). level: FLOAT, for "trilinear" only, usually ``mip_level``: 0 is the texture, and
    each level has half the width and height of the one before, rounded down; its texels are means. Levels are clamped to
    those there are. The result has the type of the texture and the domain of uv. Differentiable in the texture (exactly:
    the transpose is ``scatter_add``), in uv unless the filter is "nearest", and in the level. Raises GraphError.

    tolerance: a device may read the texture with its own sampler if that is faster and is known to be off by at most so
    much of the range of the texture's values; 0 never allows it. Samplers of GPUs round the weights of bilinear filters to
    8 bits, which is up to 0.004. Textures with tiles, the filter "trilinear", and the wraps "mirror" and "sphere" are always
    computed from single texels.

    >>> texture = Variable.of([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]])
    >>> evaluate(F.sample(texture, (0.25, 0.5))).item()
    1.5
    >>> evaluate(F.sample(texture, (0.25, 0.5), "trilinear", level=2.5)).item()
    2.5
    """
    (uv,) = operands(uv)
    check_texture(texture, uv)
    if (level is None) == (filter == "trilinear"):
        raise GraphError(
            f"filter {filter!r} {'needs' if level is None else 'has no'} level=; it belongs to filter 'trilinear'"
        )
    if level is not None:
        (level,) = operands(level, beside=(uv,))
        return sample_levels(mipmaps(texture), mip_places(texture.size), uv, level, wrap)
    size = (float(texture.size[0]), float(texture.size[1]))
    if filter == "nearest":
        value = lookup(texture, WrapTexel(to_int(floor(uv * size)), texture.size, wrap).output)
        return _filtered(value, texture, uv, filter, wrap, tolerance)
    if filter != "bilinear":
        raise GraphError(f"filter is 'nearest', 'bilinear' or 'trilinear', not {filter!r}")

    def texel(at: Variable) -> Variable:
        return lookup(texture, WrapTexel(at, texture.size, wrap).output)

    return _filtered(bilinear(uv * size, texel), texture, uv, filter, wrap, tolerance)


def _filtered(
    value: Variable, texture: Variable, uv: Variable, filter: str, wrap: str, tolerance: float
) -> Variable:
    if texture.batch > 1 or texture.size == (1, 1) or wrap not in HARDWARE_WRAPS or not tolerance:
        return value
    return Filtered(value, texture, uv, filter=filter, wrap=wrap, tolerance=float(tolerance)).output
