"""Textures: filtered sampling."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....errors import GraphError
from ...graph import PixelFunction, Variable
from ...types import FLOAT, INT, VEC2, Access, whole
from ..image.lookup import lookup
from ..pixel.arithmetic import clamp
from ..pixel.constant import Like, constant, integers, operands
from ..pixel.math import floor, to_int
from .addressing import WrapName, WrapTexel, one_wrap, wrap_of
from .anisotropic import sample_anisotropic
from .levels import between_levels, bilinear, sample_level, sample_levels, sample_nearest
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
    wrap: WrapName
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


OPTIONS: dict[str, tuple[str, ...]] = {
    "nearest": (),
    "bilinear": (),
    "trilinear": ("level",),
    "anisotropic": ("across", "down"),
}
"""Filters by name, and the options of ``sample`` that each of them needs and no other filter has."""

LARGEST_TAPS = 16


def _check_filter(filter: str, given: dict[str, object]) -> None:
    if filter not in OPTIONS:
        raise GraphError(f"filter is one of {', '.join(map(repr, OPTIONS))}, not {filter!r}")
    for option, value in given.items():
        needed = option in OPTIONS[filter]
        if (value is None) == needed:
            (owner,) = (name for name, options in OPTIONS.items() if option in options)
            raise GraphError(
                f"filter {filter!r} {'needs' if needed else 'has no'} {option}=; it belongs to filter {owner!r}"
            )


def _layer(texture: Variable, layers: int, layer: Like | None, uv: Variable) -> Variable | None:
    """The layer, INT inside of those there are, or FLOAT; None without a stack."""
    whole(layers, "layers", 1)
    if texture.size[1] % layers:
        raise GraphError(
            f"a stack of {layers} textures has a height that {layers} divides, not {texture.size[1]}"
        )
    if (layer is None) != (layers == 1):
        raise GraphError("a stack of textures needs both layers=, how many there are, and layer=, INT")
    if layer is None:
        return None
    (layer,) = (
        integers(layer)
        if isinstance(layer, Variable) or np.ndim(layer) == 0
        else operands(layer, beside=(uv,))
    )
    if layer.vtype not in (INT, FLOAT):
        raise GraphError(f"layer is INT, or FLOAT to mix two layers, not {layer}")
    return clamp(layer, 0, layers - 1) if layer.vtype is INT else layer


def sample(
    texture: Variable,
    uv: Like,
    filter: str = "bilinear",
    wrap: WrapName = "repeat",
    *,
    level: Like | None = None,
    across: Like | None = None,
    down: Like | None = None,
    taps: int = 8,
    layers: int = 1,
    layer: Like | None = None,
    tolerance: float = 1e-3,
) -> Variable:
    """The texture at uv: (0, 0) is the corner of texel (0, 0), v grows downward, texel i has its centre at (i + 0.5) / W.

    texture: FLOAT, VECn or MATn; batch 1 (shared) or that of uv (own tile). uv: VEC2. The result has the type of the
    texture and the domain of uv. Differentiable in the texture (exactly: the transpose is ``scatter_add``), in uv unless
    the filter is "nearest", and in level, across and down. Raises GraphError.

    filter: "nearest" is the texel that contains uv, "bilinear" the mean of the four around it by distance.

    - "trilinear" mixes the two mip levels beside ``level`` (FLOAT, usually ``mip_level``), each bilinear. Level 0 is the
      texture; each level has half the width and height of the one before, rounded down (for the wrap "sphere" to an even
      width), and its texels are means. Levels are clamped to those there are.
    - "anisotropic" takes ``across`` and ``down``, VEC2, the derivatives of uv by one pixel to the right and one pixel down.
      J has them as columns, in texels, and the singular values s1 >= s2; d is s1's axis in the texture, with the length
      sqrt(s1^2 - s2^2). The value is the mean of n = ``taps`` (1 to 16) trilinear samples at uv + ((k + 1/2) / n - 1/2) d,
      k = 0 ... n - 1, all of level log2 sqrt(s2^2 + |d|^2 / n^2). So the second moments of the taps and of their level
      add up to those of the footprint, and where it is a circle the filter is trilinear. It is smooth in J but there.

    wrap: "repeat", "clamp", "mirror" (every other repetition is mirrored), "zero" (texels outside are 0) or "sphere"
    (equirectangular maps, see ``sample_sphere``: u repeats; beyond a pole the rows come back, shifted by half the width,
    which should be even); or two of the others, along u and v.

    layers, layer: a stack of so many textures of one size stands below each other in one image; ``layer`` (INT) chooses
    one, clamped to those there are; a FLOAT mixes the two beside it, and is differentiable, as the third axis of a volume. uv
    spans one layer, and a filter or a level never mixes texels of two.

    tolerance: a device may read the texture with its own sampler if that is faster and is off by at most so much of the
    range of the texture's values. A sampler knows 2^b places between two texels, with b the device's ``subTexelPrecisionBits``
    (``dressi devices``), and a bilinear read is off by up to 2^(1 - b): 0.008 with the 8 bits of most GPUs (0.005 measured on
    an H100). So the default always computes from single texels there, to the precision of 32-bit floats; ``tolerance=0.01`` is
    for where speed is worth more. A "nearest" read may take the texel beside, an error of 1. Only "nearest" and "bilinear" with
    "repeat" or "clamp" of single textures without tiles are read so; all else is computed from single texels.

    >>> texture = Variable.of([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]])
    >>> evaluate(F.sample(texture, (0.25, 0.5))).item()
    1.5
    >>> evaluate(F.sample(texture, (0.25, 0.5), "trilinear", level=2.5)).item()
    2.5
    >>> across, down = (0.5, 0.0), (0.0, 1.0)  # a pixel is four texels long and one high
    >>> round(evaluate(F.sample(texture, (0.5, 0.5), "anisotropic", across=across, down=down, taps=4)).item(), 6)
    3.5
    """
    (uv,) = operands(uv)
    check_texture(texture, uv)
    wrap = one_wrap(wrap)
    wrap_of(wrap)
    _check_filter(filter, {"level": level, "across": across, "down": down})
    layer = _layer(texture, layers, layer, uv)
    if layer is not None and layer.vtype is FLOAT:
        given = {"level": level, "across": across, "down": down, "taps": taps, "tolerance": tolerance}
        return between_levels(
            layer, layers, lambda k: sample(texture, uv, filter, wrap, layers=layers, layer=k, **given)
        )
    size = (texture.size[0], texture.size[1] // layers)
    extent = (float(size[0]), float(size[1]))
    if OPTIONS[filter]:
        even = wrap_of(wrap).even
        maps, places = mipmaps(texture, layers, even), mip_places(size, layers, even)
        if level is not None:
            (level,) = operands(level, beside=(uv,))
            return sample_levels(maps, places, uv, level, wrap, layer)
        across, down = operands(across, down, beside=(uv,))
        if across.vtype is not VEC2 or down.vtype is not VEC2:
            raise GraphError(f"across and down are VEC2, not {across} and {down}")
        if whole(taps, "taps", 1) > LARGEST_TAPS:
            raise GraphError(f"taps are at most {LARGEST_TAPS}, not {taps}")
        return sample_anisotropic(maps, places, uv, across, down, int(taps), wrap, layer)
    place = (0, 0, *size)
    if layer is not None:
        if filter == "nearest":
            return sample_nearest(texture, place, uv, wrap, layer)
        return sample_level(texture, (place,), uv, constant(0), wrap, layer)

    def texel(at: Variable) -> Variable:
        return lookup(texture, WrapTexel(at, size, wrap).output)

    value = texel(to_int(floor(uv * extent))) if filter == "nearest" else bilinear(uv * extent, texel)
    if texture.tiles > 1 or texture.size == (1, 1) or wrap not in HARDWARE_WRAPS or not tolerance:
        return value
    return Filtered(value, texture, uv, filter=filter, wrap=wrap, tolerance=float(tolerance)).output
