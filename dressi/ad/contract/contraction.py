"""The Function behind convolutions, matrix products and poolings: a body reduced over axes, of texels at affine places."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..graph import At, PixelFunction, ReduceFunction, Variable
from ..graph.index_map import IMAGE_AXES, MIRRORED, Affine, IndexMap, mirror_period, wrapped
from ..ops.hints import store
from ..ops.image.image import pad
from ..ops.pixel.arithmetic import add
from ..ops.pixel.compare import equal, select
from ..sub_graph import SubGraph
from ..transform.gradient import gradient
from ..types import INT, Access
from . import derivative
from .loops import contraction_glsl, index_glsl
from .split import split
from .terms import COMBINE, Guard, Terms, domain_of_shape, is_product, nothing, shape_of

CHUNK = 1 << 18
"""Values of a body that NumPy computes at once."""
ORIGIN = At(*(np.zeros((1, 1, 1), int),) * 3)


class Contraction(Terms, PixelFunction):
    """The base of Functions of the terms of a contraction."""

    @cached_property
    def product(self) -> bool:
        """Whether the body is the product of its formals, each once."""
        return is_product(self.body)

    @cached_property
    def includes(self) -> tuple[str, ...]:
        return self.body.includes

    # ---- what it reads, and its work
    @cached_property
    def access(self):
        return (Access.FETCH,) * len(self.inputs)

    def infer(self):
        vtype = self.body.root.vtype
        if self.combine not in COMBINE or (self.combine != "add" and vtype.is_matrix):
            raise self.fail("combines values by 'add', scalars and vectors by 'max' and 'min', too")
        return vtype, domain_of_shape(self.shape)

    @property
    def operations(self):
        return self.body.operations / self.output.vtype.components + 2.0

    @property
    def iterations(self) -> int:
        return self.terms if self.terms > 1 else 0

    def reads(self, k):
        inner = {*self.maps[k].axes} & {*self.reduced_axes}
        return float(math.prod(self.extents[a] for a in inner))

    @property
    def fetches(self):
        return max((self.reads(k) for k in range(len(self.inputs))), default=0.0)

    @property
    def footprint(self):
        if any(len(extents) != 1 for extents in self.parallel):
            return math.inf
        near = [m for x, m in zip(self.inputs, self.maps, strict=True) if x.domain == self.output.domain]
        return max((m.footprint(self.extents) for m in near), default=0.0)

    # ---- its terms in NumPy
    def _terms(self, at: At, inputs: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The numbers of terms, counted over the reduced axes, the last one fastest, and their values at the texels: (terms,
        tiles, H, W) + shape of the type."""
        own: dict[int, Any] = {}
        places = (at.tile // self.shape[1], at.tile % self.shape[1], at.y, at.x)
        for place, axes in zip(places, self.axes, strict=True):
            for axis in reversed(axes):
                own[axis], place = (place % self.extents[axis])[None], place // self.extents[axis]
        texels = np.broadcast_shapes(at.tile.shape, at.y.shape, at.x.shape)
        length = max(CHUNK // max(math.prod(texels), 1), 1)
        for first in range(0, self.terms, length):
            numbers = np.arange(first, min(first + length, self.terms))
            index = np.unravel_index(numbers, self.reduced) if self.reduced else ()
            inner = {a: v.reshape(-1, 1, 1, 1) for a, v in zip(self.reduced_axes, index, strict=True)}
            yield numbers, self._values(own | inner, inputs, (len(numbers), *texels))

    def _values(self, at: dict[int, Any], inputs: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """The values of the body where the axes have these values; what no terms combine to where a guard is not met."""
        flat = (shape[0] * shape[1], *shape[2:])
        read = []
        for x, values, m in zip(self.inputs, inputs, self.maps, strict=True):
            index, inside = [], np.ones(shape, bool)
            for affine, extent in zip(m.affines, shape_of(x), strict=True):
                found = np.broadcast_to(affine.values(at), shape)
                index.append(wrapped(found, extent, m.border))
                if m.border == "zero":
                    inside &= met((affine, extent), at)
            n, c, row, column = index
            found = values[n * shape_of(x)[1] + c, row, column]
            found[~inside] = 0
            read.append(found.reshape(flat + x.vtype.shape))
        read += [np.broadcast_to(affine.values(at), shape).reshape(flat) for affine in self.indices]
        vtype = self.body.root.vtype
        given = dict(zip(self.body.formals, read, strict=True))
        (found,) = self.body.evaluate(ORIGIN, lambda v, _: given[v])
        found = np.broadcast_to(found, flat + vtype.shape)
        found = np.array(found.reshape(shape + vtype.shape))
        for guard in self.guards:
            found[np.broadcast_to(~met(guard, at), shape)] = nothing(self.combine, vtype)
        return found


class ContractFunction(Contraction):
    """Each texel of the output combines the values of a body over all indices of the reduced axes:

        out[i] = sum over r of body(input 0 [map 0 (i, r)], input 1 [map 1 (i, r)], ...)

    Axes are numbered: first the *parallel* ones, ``parallel[k]`` the extents of those that make up axis k of the output (n,
    c, y, x; of several the first varies slowest), then the ``reduced`` ones. maps: which texel of each input is read; beyond
    its image their borders say which, or it is 0. guards: where one is not met, a term does not count. combine: "add", "max" or "min". body: over one
    formal for each input, then one INT formal for each of ``indices``. No terms give 0 for "add", else -inf or inf.
    """

    @cached_property
    def glsl(self):
        return contraction_glsl(self)

    def evaluate(self, at, *inputs):
        combine, total = COMBINE[self.combine], None
        for _, found in self._terms(at, inputs):
            found = combine.reduce(found, axis=0)
            total = found if total is None else combine(total, found)
        return total

    def shortened(self, most):
        parts = split(self, most)
        if parts is None:
            return None
        partial, combined = parts
        return ContractFunction(self._made(partial), **combined).output

    def vjp(self, gy, i):
        if self.output.vtype.is_int or self.inputs[i].vtype.is_int:
            return None
        wide = self._like(derivative.transposed(self, gy, i, self._chosen()))
        if wide is None:
            return None
        return folded(wide, self.inputs[i], derivative.margins(self, i), self.maps[i].border)

    def jvp(self, tangents):
        if self.output.vtype.is_int:
            return None
        return self._like(derivative.pushed(self, tangents, self._chosen()))

    def _chosen(self) -> Variable | None:
        """The number of the term that gives the largest or smallest value; None for sums."""
        fields = dict(zip(self.fields, self.attributes, strict=True))
        return None if self.combine == "add" else ContractIndex(*self.inputs, **fields).output

    def _like(self, made: derivative.Made | None) -> Variable | None:
        return None if made is None else self._made(made)

    def _made(self, made: derivative.Made) -> Variable:
        return ContractFunction(*made.inputs, **made.fields).output


class ContractIndex(Contraction):
    """INT: the number of the first of the largest (smallest) terms, counted over the reduced axes, the last one fastest; -1
    where there is none."""

    zero_derivative = True

    def infer(self):
        vtype, domain = super().infer()
        if not vtype.is_scalar or self.combine == "add":
            raise self.fail("the index is that of the largest or smallest of scalars")
        return INT, domain

    @cached_property
    def glsl(self):
        return index_glsl(self)

    def shortened(self, most):
        """The smallest number of a term that is the best one. What is read is stored: made again, a term may differ in its last
        bit."""
        if self.terms <= most:
            return None
        stored = [store(x) for x in self.inputs]
        fields = dict(zip(self.fields, self.attributes, strict=True))
        best, term, number = (
            ContractFunction(*stored, **fields).output,
            Variable(self.body.root.vtype),
            Variable(INT),
        )
        own = derivative.output_map(self, {a: Affine.axis(a) for a in range(len(self.extents))})
        assert own is not None  # over the axes themselves
        formals, none = self.body.formals, int(nothing("min", INT))
        places, n = formals[len(self.inputs) :], len(self.inputs)
        body = select(equal(self.body.root, term), number, none)
        fields |= {
            "maps": (*self.maps, own),
            "combine": "min",
            "indices": (*self.indices, derivative.term_number(self)),
            "body": SubGraph((*formals[:n], term, *places, number), (body,)),
        }
        found = ContractFunction(*stored, best, **fields).output
        return select(equal(found, none), -1, found)

    def evaluate(self, at, *inputs):
        sign, best, place = 1 if self.combine == "max" else -1, None, None
        none = sign * nothing(self.combine, self.body.root.vtype)
        for numbers, found in self._terms(at, inputs):
            found = sign * found
            first = np.argmax(found, axis=0)
            value = np.take_along_axis(found, first[None], 0)[0]
            number = np.where(value > none, numbers[first], -1)
            if best is None or place is None:
                best, place = value, number
            else:
                better = value > best
                best, place = np.where(better, value, best), np.where(better, number, place)
        return place


def reduced(
    x: Variable,
    shape: Sequence[int],
    extent: int,
    places: Sequence[Affine],
    combine: str,
    guards: tuple[Guard, ...] = (),
) -> ContractFunction:
    """Texels of an image reduced along one axis, the axis 4. shape: n, c, y, x of the output, the axes 0 to 3. places: n, c, y,
    x of the texels."""
    formal = Variable(x.vtype)
    fields = {
        "parallel": tuple((n,) for n in shape),
        "reduced": (extent,),
        "maps": (IndexMap.to(places),),
        "guards": guards,
        "combine": combine,
        "indices": (),
        "body": SubGraph((formal,), (formal,)),
    }
    return ContractFunction(x, **fields)


def contraction_of(f: ReduceFunction) -> ContractFunction:
    """The same reduction as a contraction."""
    axis, shape = IMAGE_AXES.index(f.axis), shape_of(f.inputs[0])
    places = [Affine.axis(4 if a == axis else a) for a in range(4)]
    return reduced(
        f.inputs[0], [1 if a == axis else n for a, n in enumerate(shape)], f.extent, places, f.combine
    )


def folded(wide: Variable, x: Variable, around: Sequence[tuple[int, int]], border: str) -> Variable:
    """The sums, for each texel of x, of those that stand for it in an image with margins, n, c, y, x."""
    for s in (0, 1):
        if any(around[s]):
            parts = [
                reduced(wide, shape, count, places, "add", guards).output
                for shape, count, places, guards in _foldings(wide, shape_of(x)[s], s, around[s][0], border)
            ]
            wide = parts[0]
            for part in parts[1:]:
                wide = add(wide, part)
    (top, bottom), (left, right) = around[2:]
    if not (top or bottom or left or right):
        return wide
    like = Variable(wide.vtype, x.size, x.batch, channels=x.channels)
    return gradient(pad(like, left, top, right, bottom, border), [like], seed=wide)[0]


def _foldings(
    wide: Variable, extent: int, s: int, before: int, border: str
) -> Iterator[tuple[list[int], int, list[Affine], tuple[Guard, ...]]]:
    """Sums that fold the margins of an image along the axis s: the shape that is made, the number of terms, the places of these
    (axis 4 counts them), and guards. Places beyond the image are 0."""
    shape = [*shape_of(wide)]
    own, length = Affine.axis(s), shape[s]
    shape[s] = extent

    def at(sign: int, step: int, first: int) -> list[Affine]:
        places = [Affine.axis(a) for a in range(4)]
        places[s] = Affine.of({s: sign, 4: step}, first)
        return places

    if border == "clamp" or extent == 1:
        behind = before + extent
        yield shape, 1, at(1, 0, before), ()
        if before:
            yield shape, before, at(0, 1, 0), ((own, 1),)
        if length > behind:
            yield shape, length - behind, at(0, 1, behind), ((own.plus(1 - extent), 1),)
        return
    period, last = (extent, 0) if border == "repeat" else mirror_period(extent, border)
    least = -(before // period + 1) * period
    count = (length - before - least) // period + 1
    yield shape, count, at(1, period, before + least), ()
    overlap = MIRRORED.get(border, 0)
    if border in MIRRORED and extent > 2 * overlap:
        # Texel i of a period is texel last - i as well, but for those that are their own image.
        guards = ((own.plus(-overlap), extent - 2 * overlap),) if overlap else ()
        yield shape, count + 1, at(-1, period, before + least + last), guards


def met(guard: Guard, at: dict[int, Any]) -> np.ndarray:
    """Whether an index is whole and in its extent."""
    affine, extent = guard
    value = np.asarray(affine.values(at))
    return (value >= 0) & (value < extent) & affine.whole_at(at)
