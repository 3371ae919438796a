"""Textures of directions: cube maps and equirectangular maps, seamless across edges, corners and poles."""

from __future__ import annotations

import math

import numpy as np

from ....errors import GraphError
from ...graph import PixelFunction, Variable
from ...graph.types import INT, IVEC2, IVEC4, VEC3
from ..image.lookup import lookup
from ..pixel.arithmetic import add, clamp, maximum, total
from ..pixel.compare import equal, greater, less, select
from ..pixel.constant import Like, constant, operands
from ..pixel.elementary import atan2, sqrt
from ..pixel.math import abs, floor, to_float, to_int
from ..pixel.vector import vec2
from .addressing import LevelPlace, Place
from .sample import LEAST, between_levels, check_filter, mip_places, mipmaps, sample

__all__ = ["cube_face", "cube_uv", "sample_cube", "sample_sphere", "sphere_uv"]


class CubeFace(PixelFunction):
    """Input: direction VEC3. INT: the face of a cube map, 0 to 5 for +X, -X, +Y, -Y, +Z, -Z: the axis of the
    largest component. Of equal ones Z comes before Y, and Y before X, as in Vulkan."""

    operations = 10.0
    zero_derivative = True
    decides_on = None
    glsl = (
        "{ vec3 d = $0, a = abs(d); int axis = a.z >= a.x && a.z >= a.y ? 2 : a.y >= a.x ? 1 : 0;\n"
        "$y = 2 * axis + (d[axis] < 0.0 ? 1 : 0); }"
    )

    def infer(self):
        if self.inputs[0].vtype is not VEC3:
            raise self.fail("takes a direction, VEC3")
        return INT, self.broadcast()

    def eval(self, direction):
        x, y, z = np.moveaxis(np.abs(direction), -1, 0)
        axis = np.where((z >= x) & (z >= y), 2, np.where(y >= x, 1, 0))
        along = np.take_along_axis(direction, axis[..., None], -1)[..., 0]
        return 2 * axis + (along < 0)


class CubeTexel(PixelFunction):
    """Inputs (texel IVEC2, face INT, place IVEC4): the texel in an image with the first face at ``place`` and
    the others below it. One texel beyond an edge is that of the neighbouring face; beyond a corner it is (-1,
    -1)."""

    operations = 50.0
    exact = zero_derivative = True
    includes = ("cube.glsl",)
    glsl = (
        "{ ivec3 inside = cube_texel($0, $1, $2.z);\n"
        "$y = inside.z < 0 ? ivec2(-1) : $2.xy + inside.xy + ivec2(0, inside.z * $2.z); }"
    )

    def infer(self):
        if [x.vtype for x in self.inputs] != [IVEC2, INT, IVEC4]:
            raise self.fail("takes a texel, IVEC2, a face, INT, and a place, IVEC4")
        return IVEC2, self.broadcast()

    def eval(self, texel, face, place):
        width = place[..., 2]
        c = 2 * texel + 1 - width[..., None]
        over = np.maximum(np.abs(c) - width[..., None], 0)
        c = np.clip(c, -width[..., None], width[..., None])
        s, t, m, face = np.broadcast_arrays(c[..., 0], c[..., 1], width - over.sum(-1), face)
        turn = 1 - 2 * (face & 1)
        beside = [face < 2, face < 4]
        p = np.stack(
            [
                np.select(beside, [turn * m, s], turn * s),
                np.select(beside, [-t, turn * m], -t),
                np.select(beside, [-turn * s, turn * t], turn * m),
            ],
            -1,
        )
        axis = (np.abs(p) == width[..., None]).argmax(-1)
        other = 2 * axis + (np.take_along_axis(p, axis[..., None], -1)[..., 0] < 0)
        x, y, z = np.moveaxis(p, -1, 0)
        turn, beside = 1 - 2 * (other & 1), [other < 2, other < 4]
        s, t = np.select(beside, [-turn * z, x], turn * x), np.select(beside, [-y, turn * z], -y)
        inside = np.stack([(s + width - 1) // 2, (t + width - 1) // 2 + other * width], -1)
        return np.where((over > 0).all(-1)[..., None], -1, inside + place[..., :2])


def cube_face(direction: Like) -> Variable:
    """INT: the face of a cube map that a direction meets, 0 to 5 for +X, -X, +Y, -Y, +Z, -Z.

    direction: VEC3, of any length. It is the axis of the largest component; of equal ones Z is taken before
    Y, and Y before X, as in Vulkan. No derivative. Raises GraphError.

    >>> evaluate(F.cube_face((0.1, -2.0, 0.5))).item()
    3
    """
    return CubeFace(*operands(direction)).output


def cube_uv(direction: Like, face: Variable | None = None) -> Variable:
    """VEC2: where a direction meets the plane of a face of a cube map; on the face itself it is in [0, 1].

    direction: VEC3, of any length; (0, 0, 0) is taken as the centre of a face. face: INT, by default
    ``cube_face``. (0, 0) is the corner of the first texel, v grows downward, and faces are turned as in
    Vulkan. Differentiable in the direction. Raises GraphError.

    >>> evaluate(F.cube_uv((2.0, 1.0, 0.0))).ravel().tolist()
    [0.5, 0.25]
    """
    (direction,) = operands(direction)
    face = cube_face(direction) if face is None else face
    x, y, z = direction.x, direction.y, direction.z
    turn = 1.0 - 2.0 * to_float(face - (face / 2) * 2)
    on_x, on_y = less(face, 2), less(face, 4)
    s = select(on_x, -turn * z, select(on_y, x, turn * x))
    t = select(on_x, -y, select(on_y, turn * z, -y))
    along = abs(select(on_x, x, select(on_y, y, z)))
    along = select(equal(along, 0.0), 1.0, along)
    return vec2(s / along, t / along) * 0.5 + 0.5


def sample_cube(
    cube: Variable, direction: Like, filter: str = "bilinear", *, level: Like | None = None
) -> Variable:
    """The cube map in a direction, seamless across edges and corners of faces.

    cube: FLOAT, VECn or MATn of size (W, 6 W): the faces +X, -X, +Y, -Y, +Z, -Z below each other, turned as
    in Vulkan (seen from the inside, x to the right and y down are -Z -Y, +Z -Y, +X +Z, +X -Z, +X -Y, -X -Y of
    the world); batch 1 (shared) or that of the direction. direction: VEC3, of any length. The result has the
    type of the map and the domain of the direction. Differentiable in the map, in the direction unless the
    filter is "nearest", and in the level. Raises GraphError.

    filter: "nearest", "bilinear", or "trilinear" with ``level`` (FLOAT, usually ``direction_level``): 0 is
    the map, and the faces of each level have half the width of the one before, rounded down; its texels are
    means of texels of the same face. Beyond an edge a face goes on with the texels of its neighbour. At a
    corner three texels meet; the weight of the fourth, which does not exist, is shared equally among them.

    >>> cube = Variable(FLOAT, (1, 6), data=np.arange(6.0).reshape(1, 6, 1))
    >>> evaluate(F.sample_cube(cube, (0.0, -3.0, 1.0), "nearest")).item()
    3.0
    >>> evaluate(F.sample_cube(cube, (1.0, 1.0, 1.0))).item()  # the mean of +X, +Y and +Z
    2.0
    """
    (direction,) = operands(direction)
    width = cube.size[0]
    if direction.vtype is not VEC3:
        raise GraphError(f"a direction is VEC3, not {direction}")
    if cube.vtype.is_int or cube.size[1] != 6 * width:
        raise GraphError(
            f"a cube map holds floats in six square faces below each other, size (W, 6 W), not {cube}"
        )
    check_filter(filter, level=level)
    face = cube_face(direction)
    uv = cube_uv(direction, face)
    if level is not None:
        (level,) = operands(level, beside=(direction,))
        maps, places = mipmaps(cube, 6), mip_places((width, width), 6)
        return sample_cube_levels(maps, places, face, uv, level)
    places = ((0, 0, width, width),)
    if filter == "bilinear":
        return _level(cube, places, face, uv, constant(0))
    texel = clamp(to_int(floor(uv * float(width))), 0, width - 1)
    return lookup(cube, CubeTexel(texel, face, LevelPlace(constant(0), places).output).output)


def sample_cube_levels(
    image: Variable, places: tuple[Place, ...], face: Variable, uv: Variable, level: Variable
) -> Variable:
    """The two levels beside ``level``, each bilinear at uv of a face, mixed by its fraction.

    image: it holds the first face of level k at ``places[k]``, which is square, and the others below it. The
    sizes of levels need not be related. face, uv: ``cube_face`` and ``cube_uv``. Differentiable in image, uv
    and level.
    """
    return between_levels(level, len(places), lambda k: _level(image, places, face, uv, k))


def _level(
    image: Variable, places: tuple[Place, ...], face: Variable, uv: Variable, level: Variable
) -> Variable:
    """One level (INT), bilinear."""
    at = LevelPlace(level, places).output
    place = uv * to_float(at.z) - 0.5
    corner = floor(place)
    fraction, first = place - corner, to_int(corner)
    texels, weights, missing = [], [], []
    for dy, wy in enumerate((1.0 - fraction.y, fraction.y)):
        for dx, wx in enumerate((1.0 - fraction.x, fraction.x)):
            texel = CubeTexel(add(first, (dx, dy)), face, at).output
            texels.append(texel)
            weights.append(wx * wy)
            missing.append(select(less(texel.x, 0), weights[-1], 0.0))
    share = total(missing) * (1.0 / 3.0)
    # A texel that does not exist is 0.
    return total([lookup(image, texel) * (w + share) for texel, w in zip(texels, weights, strict=True)])


def sphere_uv(direction: Like) -> Variable:
    """VEC2: where a direction meets an equirectangular map: u = 1/2 + atan2(x, -z) / (2 pi), v = acos(y /
    |d|) / pi.

    direction: VEC3, of any length but 0; Y is up. So the middle of the map is -Z, +X is to the right of it,
    and its first row is +Y. At the poles u is 1/2. Differentiable in the direction; the derivative of u is 0
    at the poles and grows beyond all bounds beside them. Raises GraphError.

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

    texture: FLOAT, VECn or MATn, usually twice as wide as high; batch 1 (shared) or that of the direction.
    direction: VEC3, of any length but 0. filter: "nearest", "bilinear", or "trilinear" with ``level`` (FLOAT,
    usually ``direction_level``). The result has the type of the map and the domain of the direction.
    Differentiable in the map, in the direction unless the filter is "nearest", and in the level. Raises
    GraphError.

    The value is continuous along every path but one that turns around a pole on the spot. The width is even,
    so that each texel of the first and last row has one opposite to it across the pole.

    >>> sky = Variable(FLOAT, (4, 2), data=[[[3.0, 3.0, 3.0, 3.0], [1.0, 1.0, 1.0, 1.0]]])  # up, and down
    >>> evaluate(F.sample_sphere(sky, (0.2, 1.0, 0.1), "nearest")).item()
    3.0
    """
    if texture.size[0] % 2 and texture.size[0] > 1:
        raise GraphError(
            f"an equirectangular map has an even width, not {texture.size[0]}: use F.resize or resize the"
            " file"
        )
    return sample(texture, sphere_uv(direction), filter, "sphere", level=level)
