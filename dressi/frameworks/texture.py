"""Texture: filtered lookups in flat textures and cube maps, and their graphs over Variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..ad import functional as F
from ..ad.graph import Variable
from ..ad.graph.types import FLOAT, whole
from ..ad.ops.texture.addressing import Place
from ..ad.ops.texture.sample import (
    join_levels,
    mip_levels,
    mip_places,
    mip_sizes,
    sample_cube_levels,
    sample_level,
    sample_levels,
)
from ..ad.transform.gradient import jvp
from ..errors import GraphError, InputError
from .operation import Description, Layout, Operation, Parts, Spec, channels, image, need, one_of, same

CUBE = "cube"
"""The boundary mode of cube maps."""
AUTO = "auto"
"""The filter with the most of what is given."""


def texels(spec: Spec) -> Layout:
    """Textures (N, H, W, C), or cube maps (N, 6, W, W, C) with their faces below each other."""
    batch, *faces, height, width, count = spec.shape
    rows = height * (faces[0] if faces else 1)
    return Layout(spec.shape, channels(count), (width, rows), batch)


@dataclass(frozen=True)
class Texture(Operation):
    """Inputs: texture (N or 1, H, W, C) or (N or 1, 6, W, W, C), uv (N, h, w, 2 or 3), uv_da (twice the
    channels of uv) and bias (N, h, w) if any, the ``mips`` levels above the texture. Output: (N, h, w, C)."""

    filter: str
    boundary: str
    with_da: bool = False
    with_bias: bool = False
    mips: int | None = None
    """How many levels are given; None: they are made."""
    most: int | None = None
    """The highest level that is used; None: there is no limit."""

    def __post_init__(self) -> None:
        one_of("filter_mode", self.filter, FILTERS)
        one_of("boundary_mode", self.boundary, (*WRAPS, CUBE))
        if FILTERS[self.filter].mips and not (self.with_da or self.with_bias):
            raise InputError(
                f"filter_mode {self.filter!r} needs uv_da or mip_level_bias, which choose the level"
            )

    @property
    def names(self) -> tuple[str, ...]:
        mips = (f"mip[{k}]" for k in range(self.mips or 0))
        return ("tex", "uv", *("uv_da",) * self.with_da, *("mip_level_bias",) * self.with_bias, *mips)

    @property
    def is_cube(self) -> bool:
        return self.boundary == CUBE

    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        tex, uv, *rest = given
        axes = need("tex", tex, "float32", ("N", 6, "H", "W", "C") if self.is_cube else ("N", "H", "W", "C"))
        if self.is_cube and axes["H"] != axes["W"]:
            raise InputError(f"the faces of a cube map are square, not {axes['H']}x{axes['W']}")
        components = 3 if self.is_cube else 2
        pixels = need("uv", uv, "float32", ("N", "H", "W", components))
        same("images", "uv", pixels["N"], "tex", axes["N"], broadcasts=True)
        if self.with_da:
            need("uv_da", rest.pop(0), "float32", (*uv.shape[:3], 2 * components))
        if self.with_bias:
            need("mip_level_bias", rest.pop(0), "float32", uv.shape[:3])
        sizes = mip_sizes((axes["W"], axes["H"]))
        for k, (level, (width, height)) in enumerate(zip(rest, sizes[1:])):
            need(f"mip[{k}]", level, "float32", (*tex.shape[:-3], height, width, axes["C"]))
        if len(rest) > len(sizes) - 1:
            raise InputError(
                f"mip has {len(rest)} levels; a texture of {axes['H']}x{axes['W']} has {len(sizes) - 1} "
                "above it"
            )
        return ((*uv.shape[:3], axes["C"]),)

    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        tex, uv, *rest = given
        found = [texels(tex), image(uv)]
        if self.with_da:
            found.append(image(rest.pop(0)))
        if self.with_bias:
            bias = rest.pop(0)
            found.append(Layout(bias.shape, (FLOAT,), (bias.shape[2], bias.shape[1]), bias.shape[0]))
        return (*found, *map(texels, rest))

    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        textures, (uv,), *rest = inputs
        uv_da = rest.pop(0) if self.with_da else None
        bias = rest.pop(0)[0] if self.with_bias else None
        given = None if self.mips is None else rest
        filter = FILTERS[self.filter]
        size = (textures[0].size[0], textures[0].size[1] // (6 if self.is_cube else 1))
        count = min(
            len(mip_sizes(size)) if given is None else len(given) + 1,
            1 << 30 if self.most is None else self.most + 1,
        )
        face = F.cube_face(uv) if self.is_cube else None
        level = None
        if filter.mips:
            derivatives = None
            if uv_da is not None:
                derivatives = flat_derivatives(uv_da) if face is None else cube_derivatives(uv, face, uv_da)
            level = level_of(derivatives, bias, size, count - 1)
        found = []
        for k, texture in enumerate(textures):
            mips = None if given is None else [level_parts[k] for level_parts in given[: count - 1]]
            if face is None:
                found.append(sampled(texture, mips, uv, level, filter, WRAPS[self.boundary], count))
            else:
                found.append(sampled_cube(texture, mips, uv, face, level, filter, count))
        return (tuple(found),)


@dataclass(frozen=True)
class Mipmaps(Operation):
    """Input: a texture, (N, 6, W, W, C) with ``is_cube``. Outputs: at most ``most`` levels above it."""

    is_cube: bool = False
    most: int | None = None

    names = ("tex",)

    def _sizes(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        sizes = mip_sizes((shape[-2], shape[-3]))[1:]
        return sizes[: self.most]

    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        (tex,) = given
        need("tex", tex, "float32", ("N", 6, "H", "W", "C") if self.is_cube else ("N", "H", "W", "C"))
        return tuple((*tex.shape[:-3], h, w, tex.shape[-1]) for w, h in self._sizes(tex.shape))

    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        return tuple(map(texels, given))

    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        (textures,) = inputs
        count = None if self.most is None else self.most + 1
        levels = [mip_levels(texture, 6 if self.is_cube else 1, count=count)[1:] for texture in textures]
        return tuple(zip(*levels, strict=True))


TEXTURE = Description(
    {
        "tex": "float32 (N or 1, H, W, C); cube maps (N or 1, 6, W, W, C), the faces +X, -X, +Y, -Y, +Z, -Z turned as in OpenGL.",
        "uv": "float32 (N, height, width, 2), (0, 0) is the corner of the first texel; of cube maps (N, height, width, 3),"
        " directions of any length, where (0, 0, 0) gives 0.",
        "uv_da": "its derivatives by pixels, from ``interpolate``.",
        "mip_level_bias": "float32 (N, height, width), added to the level, or the level itself without uv_da.",
        "mip": "a list of the levels above the texture, which get gradients of their own; by default they are made.",
        "filter_mode": '"nearest", "linear", "linear-mipmap-nearest", "linear-mipmap-linear", or "auto": the last one if uv_da or'
        ' mip_level_bias is given, else "linear".',
        "boundary_mode": '"wrap", "clamp", "zero" (outside is 0) or "cube".',
        "max_mip_level": "the highest level used.",
    },
    "float32 (N, height, width, C).",
    "tex, uv, uv_da, mip_level_bias and the levels, where the filter depends on them smoothly",
)
MIPS = Description(
    {
        "tex": "as for ``texture``.",
        "max_mip_level": "the highest level that is made.",
        "cube_mode": "whether it is a cube map.",
    },
    "the levels, the largest first.",
    "tex",
)


def texture_call(
    tex: Any,
    uv: Any,
    uv_da: Any = None,
    mip_level_bias: Any = None,
    mip: Sequence[Any] | None = None,
    filter_mode: str = AUTO,
    boundary_mode: str = "wrap",
    max_mip_level: int | None = None,
) -> tuple[Texture, list[Any]]:
    """The operation of these arguments of ``texture``, and its arrays. Raises InputError."""
    has_da, has_bias = uv_da is not None, mip_level_bias is not None
    if filter_mode == AUTO:
        filter_mode = "linear-mipmap-linear" if has_da or has_bias else "linear"
    one_of("filter_mode", filter_mode, (AUTO, *FILTERS))
    if not FILTERS[filter_mode].mips:
        return Texture(filter_mode, boundary_mode), [tex, uv]
    count, most = None if mip is None else len(mip), level_limit(max_mip_level)
    operation = Texture(filter_mode, boundary_mode, has_da, has_bias, count, most)
    return operation, [tex, uv, *(x for x in (uv_da, mip_level_bias) if x is not None), *(mip or ())]


def mips_call(
    tex: Any, max_mip_level: int | None = None, cube_mode: bool = False
) -> tuple[Mipmaps, list[Any]]:
    """The operation of these arguments of ``texture_mips``, and its array. Raises InputError."""
    return Mipmaps(bool(cube_mode), level_limit(max_mip_level)), [tex]


def level_limit(max_mip_level: int | None) -> int | None:
    """The highest level that is used, None without a limit. Raises InputError."""
    try:
        return None if max_mip_level is None else whole(max_mip_level, "max_mip_level", 0)
    except GraphError as error:
        raise InputError(str(error)) from None


# Filtered lookups in textures, mipmapped ones and cube maps.


class Filter(NamedTuple):
    """How texels are mixed. base: the name of the filter for ``F.sample`` inside of a level. mips: whether it
    chooses levels. between: whether it mixes the two next to the level, or takes the nearer one."""

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
    """VEC2, VEC2: the derivatives of the place on the face by pixels, from those of the direction."""
    first, last = uv_da
    uv = F.cube_uv(direction, face)
    across, down = F.vec3(first.x, first.z, last.x), F.vec3(first.y, first.w, last.y)
    return jvp(uv, direction, across)[0], jvp(uv, direction, down)[0]


def level_of(
    derivatives: tuple[Variable, Variable] | None, bias: Variable | None, size: tuple[int, int], most: int
) -> Variable:
    """FLOAT in [0, most]: the level whose texels are as long as the pixel's footprint, plus the bias; without
    derivatives the bias alone."""
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
    """A flat texture at uv. mips: the levels above the texture, which are made where None.  count: how many
    levels there are. Differentiable in the texture, the mips, uv and the level."""
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
    """A cube map in a direction, 0 where that is zero. face: ``F.cube_face``; others as for ``sampled``."""
    if level is None:
        value = F.sample_cube(cube, direction, filter.base)
    else:
        levels = mip_levels(cube, 6, count=count) if mips is None else [cube, *mips]
        places: tuple[Place, ...] = mip_places((cube.size[0], cube.size[0]), 6)[: len(levels)]
        if not filter.between:
            level = F.floor(level + 0.5)
        value = sample_cube_levels(join_levels(levels), places, face, F.cube_uv(direction, face), level)
    return F.select(F.greater(F.dot(direction, direction), 0.0), value, 0.0)
