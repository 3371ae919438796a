"""Accumulation: sums over all fragments of drawn triangles.

``F.accumulate`` adds at every pixel; its gradient by a list adds what each fragment contributes to the entries that it
looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....errors import GraphError
from ...graph import (
    AccumulateFunction,
    At,
    Domain,
    DrawFunction,
    FragmentScatterFunction,
    Variable,
    as_variable,
)
from ...transform.gradient import unbroadcast
from ...types import FLOAT, INT, IVEC2, Size, VType, size_of
from ..image.draws import Draw, FragmentGraph, check_root, held_triangles
from ..image.lookup import Lookup, texel_of
from ..pixel.compare import less
from .inside import Inside, Pair, kept_only, simplified

__all__ = ["accumulate"]

Value = Callable[[Variable, Variable], Any]
"""From the face INT and the depth FLOAT of a fragment to its value, or to (value, keep)."""


class Accumulate(Draw, AccumulateFunction):
    """See :func:`accumulate`. The roots of the sub-graph are the value, and maybe the mask ``keep``."""

    def __init__(
        self,
        inputs: Sequence[Variable],
        like: DrawFunction | None,
        graph: FragmentGraph,
        **fields: Any,
    ):
        if like is not None:
            fields = {name: getattr(like, name) for name in DrawFunction.fields} | fields
        super().__init__(*inputs, **{**fields, "fragment": graph})

    def infer(self) -> tuple[VType, Domain]:
        self.check_inputs()
        value = self.fragment.roots[0]
        if value.vtype.is_int:
            raise self.fail("adds floats; use F.to_float")
        return value.vtype, self.drawn

    def evaluate(self, at: At, *x: np.ndarray) -> np.ndarray:
        width, height = self.size
        vtype = self.output.vtype
        total = np.zeros((self.batch * height * width, vtype.components))
        for here in self.fragments(x, once=True):
            value, *keep = self.values(here, x)
            px, py, tile = (a.reshape(-1) for a in here.at)
            _add(total, (tile * height + py) * width + px, value, *(mask != 0 for mask in keep))
        return total.reshape(self.output.tiled)

    def vjp(self, gy: Variable, i: int) -> Variable | None:
        inside = Inside(self)
        value, *keep = inside.roots
        seed = inside.over_fragments(gy)
        return _pulled(self, inside, [(value, seed)], i, keep, {seed: gy})

    def jvp(self, tangents: Sequence[Variable | None]) -> Variable | None:
        inside = Inside(self)
        (along,), actual = inside.along(inside.roots[:1], tangents)
        if along is None:
            return None
        return _summed(self, inside, [along, *inside.roots[1:]], actual)


class FragmentScatter(Draw, FragmentScatterFunction):
    """See FragmentScatterFunction; linear in the values."""

    def __init__(self, inputs: Sequence[Variable], like: DrawFunction, graph: FragmentGraph, table: Domain):
        fields = {name: getattr(like, name) for name in DrawFunction.fields}
        super().__init__(*inputs, **{**fields, "fragment": graph, "table": table})

    def infer(self) -> tuple[VType, Domain]:
        self.check_inputs()
        vtypes = {value.vtype for value, _ in self.pairs}
        if len(vtypes) != 1 or any(v.is_int for v in vtypes):
            raise self.fail("adds floats of one type")
        if any(index.vtype not in (INT, IVEC2) for _, index in self.pairs):
            raise self.fail("indices are INT (row by row) or IVEC2 (texel)")
        if self.table.tiles not in (1, self.batch):
            raise self.fail(f"a table of batch {self.table.batch} cannot take values of batch {self.batch}")
        return vtypes.pop(), self.table

    def evaluate(self, at: At, *x: np.ndarray) -> np.ndarray:
        (width, height), batch, _ = self.table
        total = np.zeros((batch * height * width, self.output.vtype.components))
        for here in self.fragments(x, once=True):
            roots = self.values(here, x)
            tile = here.at.tile.reshape(-1) if batch > 1 else 0
            for value, index, (_, formal) in zip(roots[0::2], roots[1::2], self.pairs, strict=True):
                tx, ty, inside = texel_of(index, formal.vtype.is_scalar, self.table.size)
                _add(total, (tile * height + ty) * width + tx, value, inside)
        return total.reshape(self.output.tiled)

    def vjp(self, gy: Variable, i: int) -> Variable | None:
        inside = Inside(self)
        held = Variable(gy.vtype, gy.size, gy.batch)
        roots = inside.roots
        seeded = [(v, Lookup(held, n).output) for v, n in zip(roots[0::2], roots[1::2], strict=True)]
        return _pulled(self, inside, seeded, i, [], {held: gy})

    def jvp(self, tangents: Sequence[Variable | None]) -> Variable | None:
        inside = Inside(self)
        along, actual = inside.along(inside.roots[0::2], tangents)
        pairs = [(t, n) for t, n in zip(along, inside.roots[1::2], strict=True) if t is not None]
        return _scatter(self, inside, pairs, [], self.table, actual) if pairs else None


def _add(total: np.ndarray, where: np.ndarray, value: np.ndarray, *masks: np.ndarray) -> None:
    """Adds values (fragments, ...) to rows of ``total``, where no mask is False."""
    kept = np.ones(len(value), bool)
    for mask in masks:
        kept &= mask
    value = value.reshape(len(value), -1)[kept]
    for c in range(total.shape[1]):
        total[:, c] += np.bincount(where[kept], value[:, c], len(total))


def _pulled(
    f: DrawFunction,
    inside: Inside,
    seeded: Sequence[tuple[Variable, Variable]],
    i: int,
    keep: Sequence[Variable],
    actual: dict[Variable, Variable],
) -> Variable | None:
    """The gradient of input ``i`` of a draw: fragments add to the pixel where they read it, or to the texels that they
    fetched."""
    x = f.inputs[i]
    if x.vtype.is_int or 0 < i < f.pulled:
        return None
    slope, pairs = inside.by_pixel(seeded, i), inside.by_table(seeded, i)
    near = None if slope is None else _summed(f, inside, [slope, *keep], actual)
    if i >= f.pulled and not f.fragment.fetched[i - f.pulled]:
        return near
    near = near and unbroadcast(near, x, f.drawn)
    far = _scatter(f, inside, pairs, keep, x.domain, actual) if pairs else None
    return near + far if near and far else near or far


def _summed(
    f: DrawFunction, inside: Inside, roots: Sequence[Variable], actual: dict[Variable, Variable]
) -> Variable:
    graph, externals = inside.outside(roots, actual)
    fixed = isinstance(f, AccumulateFunction) and f.fixed_point
    return Accumulate((*f.inputs[: f.pulled], *externals), f, graph, fixed_point=fixed).output


def _scatter(
    f: DrawFunction,
    inside: Inside,
    pairs: Sequence[Pair],
    keep: Sequence[Variable],
    table: Domain,
    actual: dict[Variable, Variable],
) -> Variable:
    roots = kept_only(pairs, keep[0] if keep else None)
    graph, externals = inside.outside(roots, actual)
    return FragmentScatter((*f.inputs[: f.pulled], *externals), f, graph, table).output


def accumulate(
    position: Variable,
    faces: Variable | None = None,
    *,
    size: Size,
    value: Value,
    triangles: int | None = None,
    triangles_per_face: int = 1,
    live: Variable | None = None,
    limit: Variable | float | None = None,
    fixed_point: bool = False,
) -> Variable:
    """The sum over all fragments of drawn triangles at every pixel, 0 where there are none; of ``size``, and of the type
    of the value.

    position, faces, triangles, triangles_per_face, live: as for ``rasterize``. Every triangle counts, not only the nearest.
    Of two triangles that meet in an edge one covers a pixel centre on it.

    value: ``value(face, depth)`` builds the value of a fragment, FLOAT, VECn or MATn, from the number of its face (INT) and
    its depth (FLOAT in [0, 1], the z / w that the rasterizer interpolates at the pixel centre). It may use any outer
    Variables: images of ``size`` or of one texel, at the fragment's pixel, and lists and textures by ``lookup`` and
    ``sample``; and PixelFunctions over face and depth. It returns the value, or (value, keep), where keep is a FLOAT mask:
    fragments where it is 0 are not counted.

    limit: FLOAT, an image of ``size`` or one texel: only fragments nearer than that, with a depth less than it, count.

    fixed_point: devices add floats in the order of the triangles by their blending units, so that runs on one device agree
    to the bit. With ``fixed_point``, and where a device cannot blend floats of 32 bits, sums are those of 64-bit integers
    between 2^-60 and 2^24, by atomic operations.

    Differentiable in what the value reads: images, lists, textures; and in the positions as far as the value uses ``depth``
    (with one triangle a face). Which pixels a triangle covers, ``keep`` and ``limit`` count as constant: a value that fades
    to zero towards the border of its triangle, computed from positions that it looks up, has the right derivative by these.
    Gradients are sums over all fragments, too: of images by this Function, of lists by a scatter in fixed point. Raises
    GraphError.

    >>> position = Variable.of(2 * [[-1.0, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]], VEC4)  # half of the image, twice
    >>> alpha = Variable.of([0.25, 0.5], FLOAT)
    >>> both = F.accumulate(position, size=(4, 3), value=lambda face, depth: F.lookup(alpha, face))
    >>> evaluate(both)[0].tolist()
    [[0.75, 0.75, 0.75, 0.0], [0.75, 0.75, 0.0, 0.0], [0.75, 0.0, 0.0, 0.0]]
    """
    size = size_of(size)
    triangles = held_triangles(position, faces) if triangles is None else triangles
    batch = max(x.tiles for x in (position, faces, live) if x is not None)
    face, depth = Variable(INT, size, batch, name="face"), Variable(FLOAT, size, batch, name="depth")
    made = value(face, depth)
    found, keep = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if found is None:
        raise GraphError(
            "value(face, depth) of F.accumulate returns the value of a fragment, or (value, keep), not None"
        )
    masks = [] if keep is None else [as_variable(keep)]
    if limit is not None:
        limit = as_variable(limit)
        check_root(limit, "the limits")
        if limit.size not in ((1, 1), size):
            raise GraphError(f"the limit {limit} is one texel or of {size[0]}x{size[1]} (at {limit.where})")
        masks.append(less(depth, limit))
    for mask in masks:
        check_root(mask, "masks")
    roots = [as_variable(found), *masks[:1]]
    if len(masks) > 1:
        roots[1] = masks[0] * masks[1]
    graph, externals = simplified(face, depth, roots)
    return Accumulate(
        (position, *(x for x in (faces, live) if x is not None), *externals),
        None,
        graph,
        indexed=faces is not None,
        masked=live is not None,
        size=size,
        batch=max(batch, *(x.tiles for x in externals), 1),
        triangles=triangles,
        triangles_per_face=triangles_per_face,
        fixed_point=bool(fixed_point),
    ).output
