"""Textures on surfaces: colour of a texture at each pixel, with the exact gradient or that of inverse UV."""

from __future__ import annotations

from typing import Any

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import INT, Size
from ...ad.ops.texture.addressing import WrapName
from ...errors import InputError
from .screen import Corners, covered, interpolate, pixel_rays


def _exact(
    texture: Variable, uv: Variable, mask: Variable, step: Variable | None, level: Variable | None, **how: Any
) -> Variable:
    if level is None:
        return F.sample(texture, uv, "bilinear", **how)
    # Constant where nothing is covered: the planner then works on the covered blocks alone.
    uv, level = F.select(mask, uv, 0.0), F.select(mask, level, 0.0)
    return F.sample(texture, uv, "trilinear", level=level, **how)


def _inverse_uv(
    texture: Variable, uv: Variable, mask: Variable, step: Variable | None, level: Variable | None, **how: Any
) -> Variable:
    if how["layer"] is not None:
        raise InputError("gradient='inverse_uv' reads one texture, not a stack of them; use gradient='exact'")
    if level is not None:
        raise InputError("gradient='inverse_uv' has no mip levels; leave out level, or use gradient='exact'")
    if how["wrap"] != "repeat":
        raise InputError(
            f"gradient='inverse_uv' wraps by 'repeat', not {how['wrap']!r}; use gradient='exact'"
        )
    if step is None or step.vtype is not INT:
        raise InputError("gradient='inverse_uv' needs step, an INT 1x1 Variable that counts the steps")
    return F.sample_inverse_uv(texture, uv, mask, F.sobol2(step))


GRADIENTS = {"exact": _exact, "inverse_uv": _inverse_uv}
"""Ways to differentiate by the texture: samplers of (texture, uv, mask, step, level) and of how to read
it."""


def texture_uv(uvs: Variable, at: Corners, weights: Variable) -> Variable:
    """VEC2: texture coordinates at each pixel, from a VEC2 list and the corners in the list of UV faces.

    ``weights`` are those of ``barycentric``, perspective-correct. Differentiable in both.

    >>> at = corners(Variable(INT, (32, 32), name="face"), np.array([[0, 1, 2]]))
    >>> texture_uv(Variable.of(np.ones((3, 2))), at, Variable(VEC3, (32, 32))).vtype
    VEC2
    """
    return interpolate(uvs, at, weights)


def texture_colour(
    texture: Variable,
    uv: Variable,
    face: Variable,
    *,
    gradient: str = "exact",
    step: Variable | None = None,
    wrap: WrapName = "repeat",
    level: Variable | None = None,
    layers: int = 1,
    layer: Variable | None = None,
) -> Variable:
    """The texture (float image of linear colours) at uv (VEC2) where there is a face (INT, -1: none), else 0.

    Bilinear, or with ``level`` (FLOAT, ``uv_level``) trilinear; (0, 0) is the corner of the first texel, v
    grows downward.
    wrap: a name of ``F.sample``, or two, along u and v.  gradient: "exact" adds the gradients of all pixels
    to the texels they read (``scatter_add``); "inverse_uv" (section 3.3 of the paper) lets each texel take
    that of one pixel which shows it, chosen anew by a Sobol jitter each step: ``step`` is then an INT 1x1
    Variable that counts up.  layers, layer: of a stack of textures, as ``F.sample`` takes them. Raises
    InputError.

    >>> texture_colour(Variable(VEC3, (64, 64)), Variable(VEC2, (32, 32)), Variable(INT, (32, 32))).shape
    (1, 32, 32, 3)
    """
    if gradient not in GRADIENTS:
        raise InputError(f"gradient is one of {', '.join(GRADIENTS)}, not {gradient!r}")
    mask = covered(face)
    how = {"wrap": wrap, "layers": layers, "layer": layer}
    return F.select(mask, GRADIENTS[gradient](texture, uv, mask, step, level, **how), 0.0)


# The footprint of a pixel on a surface: how barycentric weights and texture coordinates change from pixel to
# pixel.


def barycentric_slopes(position: Variable, at: Corners, size: Size) -> tuple[Variable, Variable]:
    """(VEC3, VEC3): the derivatives of the weights of ``barycentric`` by one pixel to the right and one pixel
    down.

    Exact at the pixel centre, perspective included; (0, 0, 0) where there is no face. Arguments as for
    ``barycentric``. Differentiable in position.

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


def uv_level(
    uvs: Variable, at: Corners, slopes: tuple[Variable, Variable], size: Size, samples: float = 1.0
) -> Variable:
    """FLOAT: the level of a texture of ``size`` for ``F.sample`` with filter "trilinear".

    uvs, at: as for ``texture_uv``.  slopes: ``barycentric_slopes``.  samples: how many samples share a pixel;
    each stands for that part of its area. Differentiable in uvs and slopes.

    >>> at = corners(Variable(INT, (32, 32), name="face"), np.array([[0, 1, 2]]))
    >>> slopes = barycentric_slopes(Variable.of(np.ones((3, 4))), at, (32, 32))
    >>> uv_level(Variable.of(np.ones((3, 2))), at, slopes, (256, 256)).vtype
    FLOAT
    """
    across, down = (interpolate(uvs, at, slope) * samples**-0.5 for slope in slopes)
    return F.mip_level(across, down, size)
