"""Attributes of vertices at every pixel, and how they change from pixel to pixel."""

from __future__ import annotations

from collections.abc import Sequence

from ...ad import functional as F
from ...ad.graph import Variable
from ...render.surface.screen import Corners, corners, interpolate


def face_of(rast: Variable) -> Variable:
    """INT: the triangle at every pixel of the first output of rasterize, -1 for none. No derivative."""
    return F.to_int(F.stop_gradient(rast.w) + 0.5) - 1


def interpolated(
    tables: Sequence[Variable], rast: Variable, faces: Variable
) -> tuple[Corners, tuple[Variable, ...]]:
    """The corners at every pixel, and the attributes of the tables there. Differentiable in the tables, u and v."""
    at = corners(face_of(rast), faces)
    weights = F.vec3(rast.x, rast.y, 1.0 - rast.x - rast.y)
    return at, tuple(interpolate(table, at, weights) for table in tables)


def slopes(
    tables: Sequence[Variable], at: Corners, rast_db: Variable, chosen: Sequence[int]
) -> tuple[Variable, ...]:
    """The derivatives of the chosen attributes by pixels, (dA/dX, dA/dY) of each one after the other, as Variables of at
    most four components. Differentiable in the tables and in rast_db."""
    across = F.vec3(rast_db.x, rast_db.z, -rast_db.x - rast_db.z)
    down = F.vec3(rast_db.y, rast_db.w, -rast_db.y - rast_db.w)
    found: dict[int, tuple[Variable, Variable]] = {}
    scalars: list[Variable] = []
    for number in chosen:
        table, k = divmod(number, 4)
        if table not in found:
            values = tables[table]
            found[table] = (interpolate(values, at, across), interpolate(values, at, down))
        scalars += [v if v.vtype.is_scalar else F.component(v, k) for v in found[table]]
    return packed(scalars)


def packed(scalars: Sequence[Variable]) -> tuple[Variable, ...]:
    """FLOATs as Variables of four components, and the rest."""
    groups = [scalars[k : k + 4] for k in range(0, len(scalars), 4)]
    make = {1: lambda x: x, 2: F.vec2, 3: F.vec3, 4: F.vec4}
    return tuple(make[len(group)](*group) for group in groups)
