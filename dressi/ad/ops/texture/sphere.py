"""Textures: equirectangular maps, seamless around the horizon and over the poles."""

from __future__ import annotations

import math

from ....errors import GraphError
from ...graph import Variable
from ...types import VEC3
from ..pixel.arithmetic import maximum
from ..pixel.compare import greater, select
from ..pixel.constant import Like, operands
from ..pixel.exponential import sqrt
from ..pixel.trigonometry import atan2
from ..pixel.vector import vec2
from .mipmap import LEAST
from .sample import sample

__all__ = ["sample_sphere", "sphere_uv"]


def sphere_uv(direction: Like) -> Variable:
    """VEC2: where a direction meets an equirectangular map: u = 1/2 + atan2(x, -z) / (2 pi), v = acos(y / length) / pi.

    direction: VEC3, of any length but 0; Y is up. So the middle of the map is -Z, +X is to the right of it, and its first
    row is +Y. At the poles u is 1/2. Differentiable in the direction; the derivative of u is 0 at the poles and grows beyond
    all bounds beside them. Raises GraphError.

    >>> evaluate(F.sphere_uv((2.0, 0.0, 0.0))).ravel().tolist()
    [0.75, 0.5]
    """
    (direction,) = operands(direction)
    if direction.vtype is not VEC3:
        raise GraphError(f"a direction is VEC3, not {direction}")
    x, y, z = direction.x, direction.y, direction.z
    level2 = x * x + z * z
    away = greater(level2, 0.0)
    u = atan2(select(away, x, 0.0), select(away, -z, 1.0)) * (0.5 / math.pi) + 0.5
    # acos(y / length), without its loss of digits at the poles.
    return vec2(u, atan2(sqrt(maximum(level2, LEAST)), y) * (1.0 / math.pi))


def sample_sphere(
    texture: Variable, direction: Like, filter: str = "bilinear", *, level: Like | None = None
) -> Variable:
    """The equirectangular map in a direction: ``sample`` at ``sphere_uv``, with wrap "sphere".

    texture: FLOAT, VECn or MATn, usually twice as wide as high; batch 1 (shared) or that of the direction. direction: VEC3, of
    any length but 0. filter: "nearest", "bilinear", or "trilinear" with ``level`` (FLOAT, usually ``direction_level``). The
    result has the type of the map and the domain of the direction. Differentiable in the map, in the direction unless the
    filter is "nearest", and in the level. Raises GraphError.

    The value is continuous along every path but one that turns around a pole on the spot. The width is even, so that each
    texel of the first and last row has one opposite to it across the pole.

    >>> sky = Variable(FLOAT, (4, 2), data=np.array([[[3.0, 3.0, 3.0, 3.0], [1.0, 1.0, 1.0, 1.0]]]))  # up, and down
    >>> evaluate(F.sample_sphere(sky, (0.2, 1.0, 0.1), "nearest")).item()
    3.0
    """
    if texture.size[0] % 2 and texture.size[0] > 1:
        raise GraphError(
            f"an equirectangular map has an even width, not {texture.size[0]}: use F.resize or resize the file"
        )
    return sample(texture, sphere_uv(direction), filter, "sphere", level=level)
