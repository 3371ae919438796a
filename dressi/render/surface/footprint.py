"""The footprint of a pixel on a surface: how barycentric weights and texture coordinates change from pixel to pixel."""

from __future__ import annotations

from typing import NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import Size
from .screen import Corners, barycentric, interpolate, pixel_rays


def barycentric_slopes(position: Variable, at: Corners, size: Size) -> tuple[Variable, Variable]:
    """(VEC3, VEC3): the derivatives of the weights of ``barycentric`` by one pixel to the right and one pixel down.

    Exact at the pixel centre, perspective included; (0, 0, 0) where there is no face. Arguments as for ``barycentric``.
    Differentiable in position.

    >>> face, clip = Variable(INT, (32, 32), name="face"), Variable.of(np.ones((3, 4)))
    >>> [slope.vtype for slope in barycentric_slopes(clip, corners(face, np.array([[0, 1, 2]])), (32, 32))]
    [VEC3, VEC3]
    """
    x, y, w, ray = pixel_rays(position, at, size)
    areas = F.cross(x - w * ray.x, y - w * ray.y)
    total = F.sum_components(areas)
    total = F.select(F.not_equal(total, 0.0), total, 1.0)
    weights = areas / total

    def slope(of_areas: Variable) -> Variable:
        return (of_areas - weights * F.sum_components(of_areas)) / total

    # The areas are linear in the ray: the product with w twice over vanishes.
    return slope(F.cross(y, w) * (2.0 / size[0])), slope(F.cross(w, x) * (2.0 / size[1]))


class Interpolated(NamedTuple):
    """An attribute at each pixel, and how it changes from pixel to pixel.

    >>> interpolate_with_slopes(
    ...     Variable.of(np.ones((3, 2))),
    ...     corners(Variable(INT, (32, 32), name="face"), np.array([[0, 1, 2]])),
    ...     Variable.of(np.ones((3, 4))),
    ...     (32, 32),
    ... ).across.vtype
    VEC2
    """

    value: Variable
    """FLOAT or vectors; 0 where there is no face."""
    across: Variable
    """Its derivative by one pixel to the right."""
    down: Variable
    """Its derivative by one pixel down."""


def interpolate_with_slopes(
    table: Variable,
    at: Corners,
    position: Variable,
    size: Size,
    *,
    table_at: Corners | None = None,
    slopes: tuple[Variable, Variable] | None = None,
) -> Interpolated:
    """An attribute of the vertices at each pixel with its screen derivatives, perspective-correct and exact.

    table: list, FLOAT or vectors.  at, position, size: as for ``barycentric``.  table_at: the corners' entries in the table,
    by default ``at``.  slopes: ``barycentric_slopes``, if they were made before. Values are 0 where there is no face.
    Differentiable in table and position. Raises GraphError.

    >>> at = corners(Variable(INT, (32, 32), name="face"), np.array([[0, 1, 2]]))
    >>> uv = interpolate_with_slopes(Variable.of(np.ones((3, 2))), at, Variable.of(np.ones((3, 4))), (32, 32))
    >>> F.sample(Variable(VEC3, (8, 8)), uv.value, "anisotropic", across=uv.across, down=uv.down).vtype
    VEC3
    """
    across, down = barycentric_slopes(position, at, size) if slopes is None else slopes
    entries = at if table_at is None else table_at
    weights = (barycentric(position, at, size), across, down)
    return Interpolated(*(interpolate(table, entries, w) for w in weights))


def uv_level(
    uvs: Variable, at: Corners, slopes: tuple[Variable, Variable], size: Size, samples: float = 1.0
) -> Variable:
    """FLOAT: the level of a texture of ``size`` for ``F.sample`` with filter "trilinear".

    uvs, at: as for ``texture_uv``.  slopes: ``barycentric_slopes``.  samples: how many samples share a pixel; each stands
    for that part of its area. Differentiable in uvs and slopes.

    >>> at = corners(Variable(INT, (32, 32), name="face"), np.array([[0, 1, 2]]))
    >>> slopes = barycentric_slopes(Variable.of(np.ones((3, 4))), at, (32, 32))
    >>> uv_level(Variable.of(np.ones((3, 2))), at, slopes, (256, 256)).vtype
    FLOAT
    """
    across, down = (interpolate(uvs, at, slope) * samples**-0.5 for slope in slopes)
    return F.mip_level(across, down, size)
