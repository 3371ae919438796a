"""Filtered lookups in textures, mipmapped ones and cube maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.texture.addressing import Place
from ...ad.ops.texture.cube import sample_cube_levels
from ...ad.ops.texture.sample import join_levels, mip_levels, mip_places, sample_level, sample_levels
from ...ad.transform.gradient import jvp


class Filter(NamedTuple):
    """How texels are mixed. base: the name of the filter for ``F.sample`` inside of a level. mips: whether it chooses
    levels. between: whether it mixes the two next to the level, or takes the nearer one."""

    base: str
    mips: bool = False
    between: bool = False


FILTERS = {
    "nearest": Filter("nearest"),
    "linear": Filter("bilinear"),
    "linear-mipmap-nearest": Filter("bilinear", mips=True),
    "linear-mipmap-linear": Filter("bilinear", mips=True, between=True),
}
WRAPS = {"wrap": "repeat", "clamp": "clamp", "zero": "zero"}
"""Boundary modes of flat textures, and the wrap of ``F.sample`` that each is."""


def flat_derivatives(uv_da: Sequence[Variable]) -> tuple[Variable, Variable]:
    """VEC2, VEC2: the derivatives of uv by one pixel along x and y, of (du/dX, du/dY, dv/dX, dv/dY)."""
    (da,) = uv_da
    return F.vec2(da.x, da.z), F.vec2(da.y, da.w)


def cube_derivatives(
    direction: Variable, face: Variable, uv_da: Sequence[Variable]
) -> tuple[Variable, Variable]:
    """VEC2, VEC2: the derivatives of the place on the face by one pixel along x and y, of those of the direction."""
    first, last = uv_da
    uv = F.cube_uv(direction, face)
    across, down = F.vec3(first.x, first.z, last.x), F.vec3(first.y, first.w, last.y)
    return jvp(uv, direction, across)[0], jvp(uv, direction, down)[0]


def level_of(
    derivatives: tuple[Variable, Variable] | None, bias: Variable | None, size: tuple[int, int], most: int
) -> Variable:
    """FLOAT in [0, most]: the level whose texels are as long as the pixel's footprint, plus the bias; without derivatives
    the bias alone."""
    level = bias
    if derivatives is not None:
        level = F.mip_level(*derivatives, size)
        level = level if bias is None else level + bias
    assert level is not None
    return F.clamp(level, 0.0, float(most))


def sampled(
    texture: Variable,
    mips: Sequence[Variable] | None,
    uv: Variable,
    level: Variable | None,
    filter: Filter,
    wrap: str,
    count: int,
) -> Variable:
    """A flat texture at uv. mips: the levels above the texture, which are made where None.  count: how many levels there
    are. Differentiable in the texture, the mips, uv and the level."""
    if level is None:
        return F.sample(texture, uv, filter.base, wrap)
    levels = mip_levels(texture, count=count) if mips is None else [texture, *mips]
    image, places = join_levels(levels), mip_places(texture.size)[: len(levels)]
    if filter.between:
        return sample_levels(image, places, uv, level, wrap)
    return sample_level(image, places, uv, F.to_int(F.floor(level + 0.5)), wrap)


def sampled_cube(
    cube: Variable,
    mips: Sequence[Variable] | None,
    direction: Variable,
    face: Variable,
    level: Variable | None,
    filter: Filter,
    count: int,
) -> Variable:
    """A cube map in a direction, 0 where that is zero. Arguments as for ``sampled``; face: ``F.cube_face``."""
    if level is None:
        value = F.sample_cube(cube, direction, filter.base)
    else:
        levels = mip_levels(cube, 6, count=count) if mips is None else [cube, *mips]
        places: tuple[Place, ...] = mip_places((cube.size[0], cube.size[0]), 6)[: len(levels)]
        if not filter.between:
            level = F.floor(level + 0.5)
        value = sample_cube_levels(join_levels(levels), places, face, F.cube_uv(direction, face), level)
    return F.select(F.greater(F.dot(direction, direction), 0.0), value, 0.0)
