"""Sums over all fragments of drawn triangles, at each pixel or in tables.

``F.accumulate`` adds at every pixel; its gradient by a list adds what each fragment contributes to the
entries that it looked up. Derivatives are built with ``transform``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import GraphError
from .graph import (
    AccumulateFunction,
    At,
    Domain,
    DrawFunction,
    FragmentScatterFunction,
    Function,
    ScatterFunction,
    Variable,
    as_variable,
)
from .graph.traversal import topological_order
from .graph.types import FLOAT, INT, IVEC2, Access, Size, VType, size_of
from .ops.image.coordinates import pixel_coordinates
from .ops.image.draws import Draw, FragmentGraph, check_root, held_triangles, split
from .ops.image.lookup import Lookup, add_at, lookup, texel_of
from .ops.pixel.arithmetic import Add
from .ops.pixel.compare import less, not_equal, select
from .ops.pixel.constant import is_constant
from .ops.pixel.geometry import cross, dot
from .ops.pixel.math import to_float
from .ops.pixel.vector import vec3
from .transform.gradient import blocks_derivatives, depending, gradient, jvp, total, unbroadcast
from .transform.rewrite import rewrite
from .transform.rules import COMMUTATIVE, RULES, drop_derivative_marks

__all__ = ["accumulate"]

Value = Callable[[Variable, Variable], Any]
"""From the face INT and the depth FLOAT of a fragment to its value, or to (value, keep)."""


class Accumulate(Draw, AccumulateFunction):
    """See :func:`accumulate`. The roots of the sub-graph are the value, and maybe the mask ``keep``."""

    def __init__(
        self, inputs: Sequence[Variable], like: DrawFunction | None, graph: FragmentGraph, **fields: Any
    ):
        super().__init__(*inputs, **{**_fields_of(like), **fields, "fragment": graph})

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
        super().__init__(*inputs, **{**_fields_of(like), "fragment": graph, "table": table})

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


def _fields_of(like: DrawFunction | None) -> dict[str, Any]:
    return {} if like is None else {name: getattr(like, name) for name in DrawFunction.fields}


def _add(total: np.ndarray, where: np.ndarray, value: np.ndarray, *masks: np.ndarray) -> None:
    """Adds values (fragments, ...) to rows of ``total``, where no mask is False."""
    kept = np.logical_and.reduce([np.ones(len(value), bool), *masks])
    add_at(total, where[kept], value.reshape(len(value), -1)[kept])


def _pulled(
    f: DrawFunction,
    inside: Inside,
    seeded: Sequence[tuple[Variable, Variable]],
    i: int,
    keep: Sequence[Variable],
    actual: dict[Variable, Variable],
) -> Variable | None:
    """The gradient of input ``i``: fragments add to their pixel, or to the texels that they fetched."""
    x = f.inputs[i]
    if x.vtype.is_int or 0 < i < f.pulled:
        return None
    slope = _by(inside.pixel[i], seeded) if i in inside.pixel else None
    pairs = inside.by_table(seeded, i)
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
    """The sum over all fragments of drawn triangles at every pixel, 0 where there are none.

    position, faces, triangles, triangles_per_face, live: as for ``rasterize``. Every triangle counts, not
    only the nearest. Of two triangles that meet in an edge one covers a pixel centre on it.

    value: ``value(face, depth)`` builds the value of a fragment, FLOAT, VECn or MATn, from the number of its
    face (INT) and its depth (FLOAT in [0, 1], the z / w that the rasterizer interpolates at the pixel
    centre). It may use any outer Variables: images of ``size`` or of one texel, at the fragment's pixel, and
    lists and textures by ``lookup`` and ``sample``; and PixelFunctions over face and depth. It returns the
    value, or (value, keep), where keep is a FLOAT mask: fragments where it is 0 are not counted. The result
    has the type of the value.

    limit: FLOAT, an image of ``size`` or one texel: only fragments with a depth less than that count.

    fixed_point: devices add floats in the order of the triangles by their blending units, so that runs on one
    device agree to the bit. With ``fixed_point``, and where a device cannot blend floats of 32 bits, sums are
    those of 64-bit integers between 2^-60 and 2^24, by atomic operations. GPUs that draw slowly add all floats
    from 2^-60 on so, in dispatches, and agree to the bit as well.

    Differentiable in what the value reads: images, lists, textures; and in the positions as far as the value
    uses ``depth`` (with one triangle a face). Which pixels a triangle covers, ``keep`` and ``limit`` count as
    constant: a value that fades to zero towards the border of its triangle, computed from positions that it
    looks up, has the right derivative by these. Raises GraphError.

    >>> half = [[-1.0, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]]  # of the image
    >>> position = Variable.of(2 * half, VEC4)
    >>> alpha = Variable.of([0.25, 0.5], FLOAT)
    >>> both = F.accumulate(position, size=(4, 3), value=lambda face, depth: F.lookup(alpha, face))
    >>> evaluate(both)[0].tolist()
    [[0.75, 0.75, 0.75, 0.0], [0.75, 0.75, 0.0, 0.0], [0.75, 0.0, 0.0, 0.0]]
    """
    size = size_of(size)
    triangles = held_triangles(position, faces) if triangles is None else triangles
    batch = max(x.tiles for x in (position, faces, live) if x is not None)
    face, depth = Variable(INT, size, batch, name="face"), Variable(FLOAT, size, batch, name="depth")
    result = value(face, depth)
    made, keep = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if made is None:
        raise GraphError(
            "value(face, depth) of F.accumulate returns the value of a fragment, or (value, keep), not None"
        )
    mask = None if keep is None else as_variable(keep)
    if mask is not None:
        check_root(mask, "masks")
    if limit is not None:
        limit = as_variable(limit)
        check_root(limit, "the limits")
        if limit.size not in ((1, 1), size):
            raise GraphError(f"the limit {limit} is one texel or of {size[0]}x{size[1]} (at {limit.where})")
        nearer = less(depth, limit)
        mask = nearer if mask is None else mask * nearer
    roots = [as_variable(made)] if mask is None else [as_variable(made), mask]
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


# The sub-graph of a draw as an ordinary graph, whose derivatives are those of the values of a fragment.

KEEPING_MARKS = tuple(rule for rule in RULES if rule is not drop_derivative_marks)

Pair = tuple[Variable, Variable]
"""(value, index): what a fragment adds to which texel of a table."""
Seeded = tuple[Variable, Variable]
"""A value of the fragments, and the gradient of the loss by it."""


@dataclass(eq=False)
class Inside:
    """The sub-graph of a draw over leaves of its own.

    face, z: of the fragment. pixel: leaves over all fragments for the inputs that are read at the fragment's
    pixel, by their numbers among the inputs of the draw. table: leaves for the inputs that are fetched from.
    readers: (Function, number of its input, number of the input of the draw) of every fetch.
    """

    f: DrawFunction
    face: Variable = field(init=False)
    z: Variable = field(init=False)
    pixel: dict[int, Variable] = field(default_factory=dict)
    table: dict[int, Variable] = field(default_factory=dict)
    roots: list[Variable] = field(init=False)
    readers: list[tuple[Function, int, int]] = field(default_factory=list)

    def __post_init__(self):
        f, graph = self.f, self.f.fragment
        self.face, self.z = self.over_fragments(graph.face), self.over_fragments(Variable(FLOAT, name="z"))
        made = dict(zip(graph.given, (self.face, self.z), strict=False))
        number = {v: f.pulled + k for k, v in enumerate(graph.formals)}

        def read(v: Variable, access: Access) -> Variable:
            if v in made:
                return made[v]
            k = number[v]
            if access is not Access.SAME_PIXEL:
                return self._table(k)
            return self.pixel.setdefault(k, self.over_fragments(self.f.inputs[k]))

        for g in graph.functions:
            inside = g.rebuild(*map(read, g.inputs, g.access))
            made[g.output] = inside.output
            self.readers += [
                (inside, i, number[x])
                for i, (x, access) in enumerate(zip(g.inputs, g.access, strict=True))
                if access is not Access.SAME_PIXEL
            ]
        self.roots = [read(v, Access.SAME_PIXEL) for v in graph.roots]

    def over_fragments(self, like: Variable) -> Variable:
        return Variable(like.vtype, self.f.size, self.f.batch, name=like.name)

    def _table(self, k: int) -> Variable:
        x = self.f.inputs[k]
        return self.table.setdefault(k, Variable(x.vtype, x.size, x.batch, name=x.name))

    # ---- derivatives
    def by_table(self, seeded: Sequence[Seeded], k: int) -> list[Pair]:
        """What each fragment adds to the gradient by the table that is input ``k`` of the draw."""
        pairs = _scattered([(g, i) for g, i, number in self.readers if number == k], seeded)
        slope = _by(self.z, seeded) if k == 0 else None
        if slope is None:
            return pairs
        depth = self.depth()  # positions count through it, too
        readers = [(g, 0) for g in topological_order([depth]) if g.inputs[:1] == (self.table[0],)]
        return pairs + _scattered(readers, [(depth, slope)])

    def depth(self) -> Variable:
        """The depth of a fragment as a function of the positions: on the plane of the face's corners."""
        f = self.f
        if f.triangles_per_face != 1:
            raise f.fail(
                "the derivative by the depth of a fragment needs triangles_per_face=1; compute the depth from"
                " the lists, or use F.stop_gradient(depth)"
            )
        position = self._table(0)
        if f.indexed:
            corners = lookup(self._table(1), self.face)
            numbers = [corners.x, corners.y, corners.z]
        else:
            numbers = [self.face * 3 + k for k in range(3)]
        p = [lookup(position, n) for n in numbers]
        x, y, z, w = (vec3(*(c[k] for c in p)) for k in range(4))
        width, height = f.size
        ray = (to_float(pixel_coordinates(f.size)) + 0.5) * (2.0 / width, 2.0 / height) - 1.0
        # Olano and Greer 1997: the weights of the corners, times a common factor.
        weights = cross(x - w * ray.x, y - w * ray.y)
        return dot(weights, z) / dot(weights, w)

    def along(
        self, roots: Sequence[Variable], tangents: Sequence[Variable | None]
    ) -> tuple[list[Variable | None], dict[Variable, Variable]]:
        """The derivatives of some roots along tangents of the inputs of the draw, None where zero; and {leaf:
        the tangent that it stands for}."""
        leaves, moved, actual = [], [], {}
        for k, tangent in enumerate(tangents):
            if tangent is None or tangent.vtype.is_int:
                continue
            held = [leaf for leaf in (self.pixel.get(k), self.table.get(k)) if leaf is not None]
            if k == 0 and any(self.z in depending(topological_order([r]), [self.z]) for r in roots):
                depth = self.depth()
                along = Variable(tangent.vtype, tangent.size, tangent.batch)
                actual[along] = tangent
                leaves.append(self.z)
                moved.append(jvp([depth], [self.table[0]], [along])[0])
                held = [leaf for leaf in held if leaf is not self.table[0]]
            for leaf in held:
                along = Variable(leaf.vtype, leaf.size, leaf.batch)
                actual[along] = tangent
                leaves.append(leaf)
                moved.append(along)
        along_roots = [
            jvp([root], leaves, moved)[0] if root in depending(topological_order([root]), leaves) else None
            for root in roots
        ]
        return along_roots, actual

    # ---- back to draws
    def outside(
        self, roots: Sequence[Variable], actual: Mapping[Variable, Variable] | None = None
    ) -> tuple[FragmentGraph, tuple[Variable, ...]]:
        """A sub-graph of these roots, and the images that it reads. actual: what further leaves stand for."""
        standing = {leaf: self.f.inputs[k] for held in (self.pixel, self.table) for k, leaf in held.items()}
        standing.update(actual or {})
        return simplified(self.face, self.z, roots, standing)


def simplified(
    face: Variable,
    z: Variable,
    roots: Sequence[Variable],
    standing: Mapping[Variable, Variable] | None = None,
) -> tuple[FragmentGraph, tuple[Variable, ...]]:
    """A simplified sub-graph of these roots, without the depth if it is not used, and the images that it
    reads. standing: what leaves stand for. Marks such as ``stop_gradient`` stay for derivatives."""
    simple = rewrite(roots, KEEPING_MARKS, dict(standing or {}), COMMUTATIVE)
    roots = [simple[r] for r in roots]
    used = any(z in f.inputs for f in topological_order(roots)) or z in roots
    return split(face, roots, z if used else None)


def joined(
    parts: Sequence[tuple[FragmentGraph, Sequence[Variable]]],
) -> tuple[FragmentGraph, tuple[Variable, ...]]:
    """One sub-graph with the roots of several over one domain, and the images that it reads; equal parts are
    computed once. parts: sub-graphs, each with the images that its formals stand for."""
    face = parts[0][0].face
    z = next((graph.z for graph, _ in parts if graph.z is not None), None)
    formals: dict[Variable, Variable] = {}
    alike: dict[Variable, Variable] = {}
    for graph, externals in parts:
        given = [(graph.face, face)]
        given += [(graph.z, z)] if graph.z is not None and z is not None else []
        standing = zip(graph.formals, externals, strict=True)
        given += [(formal, formals.setdefault(x, formal)) for formal, x in standing]
        alike.update((own, other) for own, other in given if own is not other)
    roots = [root for graph, _ in parts for root in graph.roots]
    same = rewrite(roots, (), alike, COMMUTATIVE)
    return FragmentGraph(tuple(formals.values()), tuple(same[r] for r in roots), face, z), tuple(formals)


def kept_only(pairs: Sequence[Pair], keep: Variable | None) -> list[Variable]:
    """The roots of a scatter of pairs, one for each index: fragments that ``keep`` drops add nothing."""
    by_index: dict[Variable, list[Variable]] = {}
    for value, index in pairs:
        by_index.setdefault(index, []).append(value)
    roots = []
    for index, values in by_index.items():
        kept = index if keep is None else select(not_equal(keep, 0.0), index, -1)
        roots += [total(values), kept]
    return roots


def _by(x: Variable, seeded: Sequence[Seeded]) -> Variable | None:
    """The gradient by a leaf or a value of the fragments; None if it is zero."""
    slopes = [
        gradient(y, [x], seed)[0]
        for y, seed in seeded
        if not y.vtype.is_int and y in depending(topological_order([y]), [x])
    ]
    return total(slopes) if slopes else None


def _scattered(readers: Iterable[tuple[Function, int]], seeded: Sequence[Seeded]) -> list[Pair]:
    """What each fragment adds to the gradient by a table. readers: (Function, input) that fetch from it."""
    pairs: list[Pair] = []
    for g, i in readers:
        if blocks_derivatives(g) or g.inputs[i].vtype.is_int:
            continue
        slope = _by(g.output, seeded)
        if slope is not None:
            pairs += _pairs_of(g, g.vjp(slope, i), g.inputs[i])
    return pairs


def _pairs_of(g: Function, slope: Variable | None, table: Variable) -> list[Pair]:
    """The pairs of the scatters whose sum is the gradient by a table."""
    pairs: list[Pair] = []
    stack = [] if slope is None else [slope]
    while stack:
        v = stack.pop()
        made = v.creator
        if isinstance(made, Add):
            stack += made.inputs
        elif isinstance(made, ScatterFunction) and made.operation == "add" and made.table == table.domain:
            pairs += made.pairs
        elif not is_constant(v, 0.0):
            raise GraphError(
                f"{g!r} reads {table} in the fragments of a draw, and its gradient by that is no sum of"
                f" scatters; read lists by F.lookup and textures by F.sample (at {g.where})"
            )
    return pairs
