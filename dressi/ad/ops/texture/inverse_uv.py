"""Textures: gradients through the inverse UV table, without atomic additions."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....errors import GraphError
from ...graph import Variable
from ...graph.types import INT, VEC2, Access, Size
from ...transform.gradient import local_gradient, local_jvp
from ..image.coordinates import Picks, linear_index, tile_index, where_inside
from ..image.lookup import scatter_add, scatter_max
from ..pixel.arithmetic import hadamard, mod
from ..pixel.compare import less, select
from ..pixel.constant import Like, constant, floats
from ..pixel.kinds import Alias
from ..pixel.math import floor, stop_gradient, to_int
from ..pixel.random import random
from .addressing import WrapTexel
from .sample import check_texture, sample

__all__ = ["inverse_uv", "sample_inverse_uv"]


class GatherNumbered(Picks):
    """Inputs (x, number): the texel of x of that number, (tile * H + y) * W + x; 0 for negative numbers."""

    operations = 10.0

    def infer(self):
        if self.inputs[1].vtype is not INT:
            raise self.fail("the number must be INT")
        return self.inputs[0].vtype, self.inputs[1].domain

    glsl = (
        "{ int number = $1; ivec2 extent = $size0; int row = number / extent.x;\n"
        "$y = number >= 0 && row < extent.y * $batch0"
        " ? $0(ivec2(number % extent.x, row % extent.y), row / extent.y) : $type(0); }"
    )

    def evaluate(self, at, x, number):
        inside = (number >= 0) & (number < x.shape[0] * x.shape[1] * x.shape[2])
        return where_inside(inside, x.reshape((-1, *x.shape[3:]))[np.where(inside, number, 0)])

    def vjp(self, gy, i):
        if i == 0 and not self.inputs[0].vtype.is_int:
            raise self.fail(
                "reads across tiles and has no transpose; sample with F.sample (gradient='exact' of"
                " texture_colour) for second derivatives"
            )
        return None


class InverseUVSample(Alias):
    """Inputs (value, texture, uv, mask, table, scale): the value. The texture's gradient is read through the
    table.

    ``value`` is the texture sampled at uv, ``table`` comes from ``inverse_uv``, ``scale`` is a factor for the
    gradient of each texel. The gradient by uv is exact. The gradient by the texture is an estimate: its
    derivative, and the forward derivative by the texture, raise GraphError.
    """

    fetches = 0.0

    @cached_property
    def access(self):
        same, fetch = Access.SAME_PIXEL, Access.FETCH
        return (same, fetch, same, same, fetch, fetch)

    def infer(self):
        return self.inputs[0].vtype, self.broadcast(self.inputs[0], self.inputs[3])

    def vjp(self, gy, i):
        _, texture, uv, mask, table, scale = self.inputs
        if i == 1:
            return hadamard(GatherNumbered(select(mask, gy, 0.0), table).output, scale)
        return local_gradient(sample, (texture, uv), 1, gy) if i == 2 else None

    def jvp(self, tangents):
        if tangents[1] is not None:
            raise self.fail("has no forward derivative by its texture, nor a second one; use F.sample")
        return local_jvp(sample, self.inputs[1:3], (None, tangents[2]))


def _claims(uv: Variable, mask: Variable, size: Size, jitter: Variable) -> Variable:
    """IVEC2: the texel that each pixel claims, (-1, -1) for none."""
    if uv.vtype is not VEC2 or jitter.vtype is not VEC2:
        raise GraphError(f"uv and jitter must be VEC2, not {uv} and {jitter}")
    place = uv * (float(size[0]), float(size[1])) - 0.5 + jitter
    texel = WrapTexel(to_int(floor(place)), (size[0], size[1]), "repeat").output
    return select(mask, texel, (-1, -1))


def inverse_uv(uv: Variable, mask: Like, size: Size, jitter: Like = (0.5, 0.5), batch: int = 1) -> Variable:
    """The inverse UV table (Dressi, algorithm 1): for each texel one screen pixel that shows it, -1 for none.

    uv: VEC2 on the screen; it repeats. mask: FLOAT, 0 where the screen shows nothing. size, batch: of the
    texture (batch 1, or that of uv). jitter: VEC2 in [0, 1), usually ``F.sobol2(step)``. A pixel claims the
    texel ``floor(uv * size - 0.5 + jitter)``, one of the four that bilinear sampling reads; with uniform
    jitter, with the probability of its weight. With the default jitter it claims the texel that contains it.
    If several pixels claim a texel one of them wins, by a hash of its number and the jitter that does not
    depend on the order of execution. Returns INT of domain (size, batch): the number of the pixel, (tile * H
    + y) * W + x. Not differentiable. Raises GraphError.

    >>> uv = Variable.of([[[0.125, 0.5], [0.875, 0.5]]], VEC2)
    >>> evaluate(F.inverse_uv(uv, 1.0, (4, 1))).ravel().tolist()
    [0, -1, -1, 1]
    """
    uv, mask, jitter = floats(uv, mask, jitter)
    width, height = uv.size
    pixels = width * height * uv.tiles
    number = linear_index(uv.size, uv.tiles) + tile_index(uv.size, uv.tiles) * (width * height)
    # The key is (random rank, number) in 31 bits. With the number alone the same pixels would always win, and
    # the others would never contribute to the texture (measured: 1 to 4 dB lost on a noisy image).
    ranks = 1 << max(31 - pixels.bit_length(), 0)
    rank = random(to_int(jitter.y * 2.0**24), to_int(jitter.x * 2.0**24), uv.size, uv.tiles)
    key = to_int(rank * float(ranks)) * pixels + number
    winner = scatter_max(key, _claims(uv, mask, size, jitter), size, batch)
    return select(less(winner, 0), -1, mod(winner, pixels))


def sample_inverse_uv(
    texture: Variable, uv: Variable, mask: Like, jitter: Like = (0.5, 0.5), *, count: bool = True
) -> Variable:
    """``sample(texture, uv)`` whose texture gradient is read through the inverse UV table (Dressi, 3.3.2).

    Arguments, types and result as for ``sample`` (bilinear, repeat) and ``inverse_uv``. The gradient by uv is
    exact and can be differentiated again. The gradient by the texture is an estimate, whose derivatives raise
    GraphError: each pixel claims one of its four texels, with the probability of its weight if jitter is
    uniform in [0, 1)^2, and a texel gets the gradient of one pixel that claims it, times the number of
    claims.

    - If pixels are at least a texel apart in the texture, no two claim the same texel, and the mean over the
      jitter is the exact gradient.
    - If the texture is magnified, the mean has the right scale, and the pixels that share a texel are chosen
      equally often.
    - With ``count=False``, the algorithm of the paper, there is no factor: in the second case the gradient is
      too small by the number of claims, but no additions are needed.

    >>> texture = Variable.of([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])
    >>> uv = Variable.of([[[0.25, 0.5], [0.75, 0.5]]], VEC2)  # the centres of texels 1 and 4
    >>> shown = F.sample_inverse_uv(texture, uv, 1.0)
    >>> evaluate(shown).ravel().tolist(), evaluate(gradient(F.sum(shown), [texture]))[0].ravel().tolist()
    ([1.0, 4.0], [0.0, 1.0, 0.0, 0.0, 1.0, 0.0])
    """
    uv, mask, jitter = floats(uv, mask, jitter)
    check_texture(texture, uv)
    table = inverse_uv(uv, mask, texture.size, jitter, texture.tiles)
    scale = constant(1.0)
    if count:
        claims, one = _claims(uv, mask, texture.size, jitter), constant(1.0)
        scale = scatter_add(one, claims, texture.size, texture.tiles, bound=1.0)
    value = sample(stop_gradient(texture), stop_gradient(uv))
    return InverseUVSample(value, texture, uv, mask, table, scale).output
