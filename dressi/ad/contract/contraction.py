"""Contractions, the Functions that add up products over axes, and their loops in GLSL."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..graph import At, Function, PixelFunction, ReduceFunction, Variable
from ..graph.evaluation import SubGraph
from ..graph.index_map import IMAGE_AXES, Affine, IndexMap, wrapped
from ..graph.snippet import LOST, add_compensated
from ..graph.types import INT, Access, vector_type
from ..graph.work import UNROLLED
from ..ops.pixel.compare import equal, select
from ..ops.pixel.hints import store
from ..ops.pixel.vector import fill
from . import derivative
from .derivative import split, term_number
from .terms import COMBINE, Guard, Terms, domain_of_shape, is_product, nothing, nothing_glsl, shape_of

# GLSL of contractions: one loop for each reduced axis, nested; none where the terms are few.

LONG_READERS = 256
"""The same of loops between bounds, as of the terms that add to a texel."""


def contraction_glsl(f: Terms) -> str:
    """Statements that set ``$y``. Every loop has its own sum: errors grow with the longest axis."""
    if f.selects:
        return _selection(f)
    inner = "$y += dressi_term;" if f.combine == "add" else f"$y = {f.combine}($y, dressi_term);"
    start = f"{decoded(f)}\n$y = {nothing_glsl(f.combine, f.body.root.vtype)};"
    if f.place is not None:
        return f"{start}\n{_read(f, inner)}"
    if f.writes_out:
        first, *more = _each(f)
        begin = term(f, "$y = dressi_term;" if f.combine == "add" else inner, first)
        return "\n".join([start, begin, *(term(f, inner, names) for names in more)])
    return f"{decoded(f)}\n{_summed(f, 0)}" if f.combine == "add" else f"{start}\n{_nested(f, inner)}"


def _selection(f: Terms) -> str:
    """An expression: the one texel that is read, or 0."""
    names = dict.fromkeys(f.reduced_axes, "0") | dict(enumerate(_places(f)))
    tests, texel = _texel(f, 0, names)
    tests = [*(test for guard in f.guards for test in _tests(f, guard, names)), *tests]
    return f"{' && '.join(dict.fromkeys(tests))} ? {texel} : $type(0)" if tests else texel


def unrolled_glsl(f: Terms) -> str:
    """The same sum, to the bit, along one axis by iterations of ``UNROLLED`` texels and a rest without
    loop."""
    names, (axis,), (extent,) = names_of(range(len(f.extents))), f.reduced_axes, f.reduced
    kind, end = f.output.vtype.glsl, extent - extent % UNROLLED
    lost, add = _adder(f, axis, "$y", "dressi_lost0")

    def read(index: str) -> str:
        return _texel(f, 0, names | {axis: index})[1]

    texels = [f"x{k}" for k in range(UNROLLED)]
    reads = " ".join(f"{kind} {x} = {read(f'i + {k}')};" for k, x in enumerate(texels))
    loop = f"for (int i = 0; i < {end}; i += {UNROLLED}) {{ {reads} {' '.join(map(add, texels))} }}"
    rest = [add(read(str(k))) for k in range(end, extent)]
    return "\n".join([decoded(f), f"$y = {kind}(0);{lost}", loop, *rest])


def index_glsl(f: Terms) -> str:
    """Statements that set ``$y`` to the number of the first of the largest or smallest terms."""
    number, vtype = term_number(f).glsl(names_of(f.reduced_axes)), f.body.root.vtype
    if vtype.is_scalar:
        better = f"dressi_term {'>' if f.combine == 'max' else '<'} dressi_best"
        inner = f"if ({better}) {{ dressi_best = dressi_term; $y = {number}; }}"
    else:
        better = f"{'greaterThan' if f.combine == 'max' else 'lessThan'}(dressi_term, dressi_best)"
        inner = (
            f"{{ bvec{vtype.components} better = {better};"
            f" dressi_best = mix(dressi_best, dressi_term, better); $y = mix($y, $type({number}), better); }}"
        )
    # Without guards there is a first term, which wins where all are the worst there is.
    best = (
        f"{vtype.glsl} dressi_best = {nothing_glsl(f.combine, vtype)}; $y = $type({-1 if f.guards else 0});"
    )
    return f"{decoded(f)}\n{best}\n{_nested(f, inner)}"


def names_of(axes: Iterable[int]) -> dict[int, str]:
    return {axis: f"dressi_a{axis}" for axis in axes}


def decoded(f: Terms) -> str:
    """Statements that set the parallel axes from ``pixel`` and ``tile``."""
    lines = []
    for place, radix, axes in zip(_places(f), f.shape, f.axes, strict=True):
        for axis in axes:
            extent = f.extents[axis]
            radix //= extent
            value = place if radix == 1 else f"({place}) / {radix}"
            value = value if axis == axes[0] else f"({value}) % {extent}"
            lines.append(f"int {names_of([axis])[axis]} = {'0' if extent == 1 else value};")
    return " ".join(lines)


def _places(f: Terms) -> tuple[str, str, str, str]:
    """The texel n, c, y, x of the output that is computed."""
    n, c, _, _ = f.shape
    return ("tile" if c == 1 else f"tile / {c}", "tile" if n == 1 else f"tile % {c}", "pixel.y", "pixel.x")


def _texel(f: Terms, k: int, names: Mapping[int, str]) -> tuple[list[str], str]:
    """(tests that the texel of input k is inside, an expression that reads it)."""
    x, m = f.inputs[k], f.maps[k]
    shape = shape_of(x)
    n, c, y, column = m.glsl(names, shape, f.extents)
    tiles, channels, _, _ = shape
    tile = n if channels == 1 else c if tiles == 1 else f"({n}) * {channels} + {c}"
    if m[:2] == tuple(Affine.axis(axes[0]) for axes in f.axes[:2]) and (tiles, channels) == f.shape[:2]:
        tile = "tile"
    tests = [
        test
        for guard in zip(m.affines, shape, strict=True)
        if m.border == "zero" and guard not in f.guards
        for test in _tests(f, guard, names)
    ]
    return tests, f"${k}(ivec2({column}, {y}), {tile})".replace("ivec2(pixel.x, pixel.y)", "pixel")


def term(f: Terms, then: str, names: Mapping[int, str] | None = None) -> str:
    """Sets ``dressi_term`` to the value of the body and runs ``then`` where the guards are met."""
    names = names_of(range(len(f.extents))) if names is None else names
    tests = [test for guard in f.guards for test in _tests(f, guard, names)]
    lines, values = [], {}
    for k, x in enumerate(f.inputs):
        inside, value = _texel(f, k, names)
        kind = x.vtype.glsl
        value = f"{' && '.join(dict.fromkeys(inside))} ? {value} : {kind}(0)" if inside else value
        values[f.body.formals[k]] = f"dressi_r{k}"
        lines.append(f"{kind} dressi_r{k} = {value};")
    for k, affine in enumerate(f.indices, len(f.inputs)):
        values[f.body.formals[k]] = f"dressi_r{k}"
        lines.append(f"int dressi_r{k} = {affine.glsl(names)};")
    statements, root = f.body.glsl(values, "dressi_b")
    kind = f.body.root.vtype.glsl
    text = "\n".join([*lines, *statements, f"precise {kind} dressi_term = {root};", then])
    return f"if ({' && '.join(dict.fromkeys(tests))}) {{\n{text}\n}}" if tests else f"{{\n{text}\n}}"


def _tests(f: Terms, guard: Guard, names: Mapping[int, str]) -> list[str]:
    affine, extent = guard
    return affine.inside_glsl(names, extent, affine.bounds(f.extents))


def _each(f: Terms) -> Iterable[dict[int, str]]:
    """The names of the axes for each term; reduced ones are numbers."""
    outer = names_of(range(f.reduced_axes.start))
    for index in np.ndindex(*f.reduced):
        yield outer | {a: str(i) for a, i in zip(f.reduced_axes, index, strict=True)}


def _read(f: Terms, add: str) -> str:
    """Adds the terms whose place is the texel: unrolled where their number is known, else in loops."""
    known = names_of(range(f.reduced_axes.start)) | {a: "0" for a in f.reduced_axes if f.extents[a] == 1}
    tests, several = f.readers.unrolled(known) or ([], [])
    unrolled = "\n".join(term(f, add if k else "$y = dressi_term;", names) for k, names in enumerate(several))
    if several and not tests:
        return unrolled
    start = ""
    if f.readers.iterations > LONG_READERS:
        start, add = LOST, f"{{ {add_compensated('dressi_term')} }}"
    loops = start + f.readers.glsl(known, lambda names: term(f, add, names))
    return f"if ({' && '.join(tests)}) {{ {unrolled} }}\nelse {{ {loops} }}" if several else loops


def _loop(f: Terms, axis: int) -> str:
    name = names_of([axis])[axis]
    return f"for (int {name} = 0; {name} < {f.extents[axis]}; ++{name})"


def _nested(f: Terms, inner: str) -> str:
    """Runs ``inner`` for every term."""
    text = term(f, inner)
    for axis in reversed(f.reduced_axes):
        text = f"{_loop(f, axis)} {text}"
    return text


def _summed(f: Terms, level: int) -> str:
    """Sets the sum of a level (``$y`` for the outermost) to the sum over its axis and all axes inside."""
    kind, total = f.output.vtype.glsl, f"dressi_s{level}" if level else "$y"
    start = f"precise {kind} {total} = {kind}(0);" if level else f"{total} = {kind}(0);"
    if level == len(f.reduced):
        return f"{start}\n{term(f, f'{total} = dressi_term;')}"
    axis, last = f.reduced_axes[level], level == len(f.reduced) - 1
    declared, add = _adder(f, axis, total, f"dressi_lost{level}")
    inner = (
        term(f, add("dressi_term"))
        if last
        else f"{{\n{_summed(f, level + 1)}\n{add(f'dressi_s{level + 1}')}\n}}"
    )
    return f"{start}{declared}\n{_loop(f, axis)} {inner}"


def _adder(f: Terms, axis: int, total: str, lost: str) -> tuple[str, Callable[[str], str]]:
    """(the declarations of a sum along an axis, statements that add a value to it)."""
    if f.extents[axis] < f.long or f.output.vtype.is_int:
        return "", lambda value: f"{total} += {value};"
    kind = f.output.vtype.glsl
    return (
        f" precise {kind} {lost} = {kind}(0);",
        lambda value: f"{{ {add_compensated(value, total, lost, kind)} }}",
    )


CHUNK = 1 << 18
"""Values of a body that NumPy computes at once."""
BOUNDS = 8.0
"""Operations of finding the bounds of a loop from the place of its terms, and of a border."""
ORIGIN = At(*(np.zeros((1, 1, 1), int),) * 3)


class Contraction(Terms, PixelFunction):
    """The base of the Functions over the terms of a contraction."""

    @cached_property
    def product(self) -> bool:
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
    def term_operations(self) -> float:
        """Operations of one term and its addition, for one component."""
        return self.body.operations / self.output.vtype.components + 2.0

    @property
    def operations(self) -> float:
        if self.place is None:
            return self.term_operations * (self.terms if self.writes_out else 1)
        if not self.iterations:
            return self.term_operations * self.fetches
        leaving = sum(map(self.readers.leaves, range(4)))
        return self.term_operations + BOUNDS * (1.5 + leaving)

    @cached_property
    def iterations(self) -> int:
        if self.place is None:
            return 0 if self.writes_out else self.terms
        known = dict.fromkeys(range(len(self.extents)), "")
        few = self.readers.unrolled(known)
        return 0 if few is not None and not few[0] else self.readers.iterations

    def reads(self, k):
        if self.place is not None:
            return min(max(self.readers.average, 1.0), float(self.readers.iterations or 1))
        return self._reads_inside[k]

    @cached_property
    def _reads_inside(self) -> tuple[float, ...]:
        """Texels of each input along the reduced axes."""
        reduced = {*self.reduced_axes}
        return tuple(float(math.prod(self.extents[a] for a in {*m.axes} & reduced)) for m in self.maps)

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
        """Chunks of (numbers of terms, counted with the last reduced axis fastest; their values at the
        texels, of shape (terms, tiles, H, W) + vtype.shape)."""
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
        """The values of the body at these values of the axes; the neutral value where a guard is not met."""
        flat = (shape[0] * shape[1], *shape[2:])
        read = []
        for x, values, m in zip(self.inputs, inputs, self.maps, strict=True):
            index, inside = [], np.ones(shape, bool)
            for affine, extent in zip(m.affines, shape_of(x), strict=True):
                place = np.broadcast_to(affine.values(at), shape)
                index.append(wrapped(place, extent, m.border))
                if m.border == "zero":
                    inside &= met((affine, extent), at)
            n, c, row, column = index
            texels = values[n * shape_of(x)[1] + c, row, column]
            texels[~inside] = 0
            read.append(texels.reshape(flat + x.vtype.shape))
        read += [np.broadcast_to(affine.values(at), shape).reshape(flat) for affine in self.indices]
        vtype = self.body.root.vtype
        given = dict(zip(self.body.formals, read, strict=True))
        (terms,) = self.body.evaluate(ORIGIN, lambda v, _: given[v])
        terms = np.broadcast_to(terms, flat + vtype.shape)
        terms = np.array(terms.reshape(shape + vtype.shape))
        for guard in self.guards:
            terms[np.broadcast_to(~met(guard, at), shape)] = nothing(self.combine, vtype)
        return terms


class ContractFunction(Contraction):
    """Each texel of the output combines the values of a body over all indices of the reduced axes:

        out[i] = sum over r of body(input 0 [map 0 (i, r)], input 1 [map 1 (i, r)], ...)

    Axes are numbered: first the *parallel* ones, then the ``reduced`` ones. ``parallel[k]`` are the extents
    of those that make up axis k of the output (n, c, y, x), the slowest first. maps: which texel of each
    input is read; beyond the image its border says which, or it is 0. guards: terms whose guard is not met do
    not count. combine: "add", "max" or "min". body: over one formal for each input, then one INT formal for
    each of ``indices``. No terms give 0 for "add", else -inf or inf.

    place: None, or the texel of the output that a term adds to, over the reduced axes (and those behind the
    first of a parallel group). The maps then do not depend on the texel, and loops run over the terms that
    add to it:

        out[place(r)] += body(input 0 [map 0 (r)], input 1 [map 1 (r)], ...)
    """

    @cached_property
    def decides_on(self):
        return () if self.sums else None

    @cached_property
    def glsl(self):
        return contraction_glsl(self)

    def evaluate(self, at, *inputs):
        if self.place is not None:
            return self._scattered(self.place, inputs)[at.tile, at.y, at.x]
        combine, total = COMBINE[self.combine], None
        for _, terms in self._terms(at, inputs):
            terms = combine.reduce(terms, axis=0)
            total = terms if total is None else combine(total, terms)
        return total

    def _scattered(self, place: IndexMap, inputs: Sequence[np.ndarray]) -> np.ndarray:
        """All texels of a contraction with a ``place``."""
        own = [axes[0] for axes in self.axes]
        axes = [a for a in range(len(self.extents)) if a not in own]
        extents, vtype = [self.extents[a] for a in axes], self.output.vtype
        total = np.zeros((math.prod(self.shape), *vtype.shape))
        for first in range(0, math.prod(extents), CHUNK):
            number = np.arange(first, min(first + CHUNK, math.prod(extents)))
            index = np.unravel_index(number, extents) if extents else ()
            at = {a: i.reshape(-1, 1, 1, 1) for a, i in zip(axes, index, strict=True)}
            inside, texel = np.ones(number.shape, bool), np.zeros(number.shape, int)
            for affine, several in zip(place.affines, self.axes, strict=True):
                there = np.broadcast_to(affine.values(at), (len(number), 1, 1, 1)).ravel()
                extent = self.extents[several[0]]
                inside &= np.broadcast_to(affine.whole_at(at), (len(number), 1, 1, 1)).ravel()
                if place.border == "zero":
                    inside &= (there >= 0) & (there < extent)
                texel = texel * extent + wrapped(there, extent, place.border)
                for a in several[1:]:
                    texel = texel * self.extents[a] + at[a].ravel()
            terms = self._values(at, inputs, (len(number), 1, 1, 1)).reshape(-1, *vtype.shape)
            np.add.at(total, texel[inside], terms[inside])
        return total.reshape(self.output.tiled)

    def known_value(self, known):
        """Zero where all inputs are zero and the body keeps zero."""
        if len(known) < len(self.inputs) or self.combine != "add" or any(map(np.any, known.values())):
            return None
        return np.zeros(self.output.vtype.shape) if self._keeps_zero else None

    @property
    def own_tile(self) -> bool:
        """Whether it has one input and makes each tile from the same tile of it."""
        if self.place is not None or len(self.inputs) != 1 or self.shape[:2] != shape_of(self.inputs[0])[:2]:
            return False
        (m,) = self.maps
        other = (*(a for a, _ in self.guards), *self.indices, m.y, m.x)
        return m[:2] == (Affine.axis(0), Affine.axis(1)) and not any({0, 1} & {*a.axes} for a in other)

    def over_tiles(self, x: Variable) -> Function:
        """The same contraction of an image with other tiles, where ``own_tile`` holds."""
        if "parallel" not in self.fields:  # it follows from the input
            return self.rebuild(x)
        return ContractFunction(
            x, **self.form | {"parallel": ((x.batch,), (x.channels,), *self.parallel[2:])}
        )

    @property
    def empty(self) -> bool:
        """Whether all terms are zero, because there are none or they read beyond an image."""
        if self.combine != "add":
            return False
        inside = [*self.guards]
        if self.place is not None and self.place.border == "zero":
            inside += zip(self.place.affines, self.shape, strict=True)
        if len(self.inputs) == 1 and self.maps[0].border == "zero" and self._keeps_zero:
            inside += zip(self.maps[0].affines, shape_of(self.inputs[0]), strict=True)
        return any(high < 0 or low >= e for a, e in inside for low, high in (a.bounds(self.extents),))

    @cached_property
    def _keeps_zero(self) -> bool:
        if self.indices:
            return False
        zeros = {v: np.zeros((1, 1, 1, *v.vtype.shape)) for v in self.body.formals}
        (value,) = self.body.evaluate(ORIGIN, lambda v, _: zeros[v])
        return not np.any(value)

    def shortened(self, most):
        parts = split(self, most)
        if parts is None:
            return None
        partial, combined = parts
        return ContractFunction(self._made(partial), **combined).output

    def vjp(self, gy, i):
        if self.output.vtype.is_int or self.inputs[i].vtype.is_int:
            return None
        around = derivative.margins(self, i) if self.reduced else ()
        wide = self._made(derivative.transposed(self, gy, i, self._chosen(), around))
        if wide is None or not any(map(any, around)):
            return wide
        return self._made(derivative.folded(wide, self.inputs[i], around, self.maps[i].border))

    def jvp(self, tangents):
        if self.output.vtype.is_int:
            return None
        if self.sums and tangents[0] is not None:
            return self.rebuild(tangents[0]).output
        return self._made(derivative.pushed(self, tangents, self._chosen()))

    def _chosen(self) -> Variable | None:
        """The number of the largest or smallest term; None for sums."""
        return None if self.combine == "add" else ContractIndex(*self.inputs, **self.form).output

    def _made(self, made: derivative.Made | None) -> Variable | None:
        return None if made is None else ContractFunction(*made.inputs, **made.fields).output


class ContractIndex(Contraction):
    """INT (IVECn), by components: the number of the first of the largest (smallest) terms, counted over the
    reduced axes, the last one fastest; -1 where there is none."""

    zero_derivative = True

    @property
    def writes_out(self):
        return False

    def infer(self):
        vtype, domain = super().infer()
        if self.combine == "add":
            raise self.fail("the index is that of the largest or smallest term")
        return vector_type(vtype.components, integer=True), domain

    @cached_property
    def glsl(self):
        return index_glsl(self)

    def shortened(self, most):
        """The smallest number of a best term. Inputs are stored: recomputed, terms may differ in a bit."""
        if self.terms <= most:
            return None
        stored = [store(x) for x in self.inputs]
        fields = self.form
        best = ContractFunction(*stored, **fields).output
        term, number = Variable(self.body.root.vtype), Variable(INT)
        own = derivative.output_map(self, {a: Affine.axis(a) for a in range(len(self.extents))})
        formals, none = self.body.formals, int(nothing("min", INT))
        places, n = formals[len(self.inputs) :], len(self.inputs)
        body = select(equal(self.body.root, term), fill(number, self.output.vtype), none)
        fields |= {
            "maps": (*self.maps, own),
            "combine": "min",
            "indices": (*self.indices, derivative.term_number(self)),
            "body": SubGraph((*formals[:n], term, *places, number), (body,)),
        }
        first = ContractFunction(*stored, best, **fields).output
        return select(equal(first, none), -1, first)

    def evaluate(self, at, *inputs):
        sign, best, place = 1 if self.combine == "max" else -1, None, None
        none = sign * nothing(self.combine, self.body.root.vtype)
        for numbers, terms in self._terms(at, inputs):
            terms = sign * terms
            first = np.argmax(terms, axis=0)
            value = np.take_along_axis(terms, first[None], 0)[0]
            number = np.where(value > none, numbers[first], -1) if self.guards else numbers[first]
            if best is None or place is None:
                best, place = value, number
            else:
                better = value > best
                best, place = np.where(better, value, best), np.where(better, number, place)
        return place


class SumOfParts(ContractFunction):
    """Sums every ``parts`` consecutive tiles: the last step of sums too long for one loop."""

    fields = ("parts", "channels")
    parts: int
    channels: int = 1

    @property
    def parallel(self):
        (width, height), tiles, _ = self.inputs[0].domain
        return (tiles // self.parts // self.channels,), (self.channels,), (height,), (width,)

    @property
    def reduced(self):
        return (self.parts,)

    @property
    def maps(self):
        tile = Affine.of({0: self.channels * self.parts, 1: self.parts, 4: 1})
        return (IndexMap.of(n=tile, c=Affine()),)


def reduced(
    x: Variable,
    shape: Sequence[int],
    extent: int,
    places: Sequence[Affine],
    combine: str,
    guards: tuple[Guard, ...] = (),
) -> ContractFunction:
    """An image reduced along one axis, the axis 4. shape: of the output, axes 0 to 3. places: of the texels
    read."""
    parallel = tuple((n,) for n in shape)
    return ContractFunction(x, parallel, (extent,), (IndexMap.to(places),), guards, combine)


def contraction_of(f: ReduceFunction) -> ContractFunction:
    """The same reduction as a contraction."""
    (x,), axis = f.inputs, IMAGE_AXES.index(f.axis)
    shape = [1 if a == axis else n for a, n in enumerate(shape_of(x))]
    return reduced(x, shape, f.extent, [Affine.axis(4 if a == axis else a) for a in range(4)], f.combine)


def met(guard: Guard, at: dict[int, Any]) -> np.ndarray:
    """Whether an index is whole and in its extent."""
    affine, extent = guard
    value = np.asarray(affine.values(at))
    return (value >= 0) & (value < extent) & affine.whole_at(at)
