"""The terms of a contraction: axes, reads and guards; the extents of images; which terms read a texel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..graph import Domain, Variable
from ..graph.evaluation import SubGraph
from ..graph.index_map import IMAGE_AXES, MIRRORED, Affine, IndexMap, wrapped, wrapped_glsl
from ..graph.types import VType
from ..ops.pixel.arithmetic import Mul

# Bounds of loops over the terms that add to a texel of the output, where their ``place`` is not solved for.
#
# A term adds to texel q where floor((a r_j + rest) / d) = q_k for every axis k of the output. Each equation is
# solved for its one unknown reduced axis r_j, which bounds the loop over r_j. Axes without an equation run over
# all their entries, and the remaining equations become tests.
#
#     out(x / 3) += in(x)     x from 3 q to 3 q + 2
#     out(x, x) += in(x)      x is q_x, where that is q_y
#     out(x) += in(x, y)      x is q_x, y runs

FEW = 16
"""Readers that are written one after the other, without a loop."""
Names = dict[int, str]
"""GLSL of axes, by their numbers."""


class Step(NamedTuple):
    """One reduced axis. source: the axis of the output that bounds it; None: all its entries count."""

    axis: int
    source: int | None


@lru_cache(4096)
def readers(place: IndexMap, own: tuple[int, ...], extents: tuple[int, ...], free: range) -> Readers:
    """Equal contractions share their Readers."""
    return Readers(place, own, extents, free)


class Readers:
    """Bounds of the loops over terms.

    taken: the extents n, c, y, x of the output; axis k of it is axis ``own[k]`` of the contraction. extents:
    of all axes. free: the reduced ones.
    """

    def __init__(self, place: IndexMap, own: Sequence[int], extents: Sequence[int], free: Sequence[int]):
        self.own, self.extents, self.free, self.border = own, extents, free, place.border
        self.taken = [extents[a] for a in own]
        self.affines = tuple(
            Affine.of({a: k for a, k in f.terms if extents[a] > 1}, f.constant, f.divisor, f.exact)
            for f in place.affines
        )
        open_axes, steps, left = {a for a in free if extents[a] > 1}, [], list(range(4))
        while open_axes:
            ready = [(k, a) for k in left if (a := self._bounded(k, open_axes)) is not None]
            axis = min(open_axes, key=lambda a: extents[a])
            step = min((Step(a, k) for k, a in ready), key=self.count, default=Step(axis, None))
            steps.append(step)
            open_axes.remove(step.axis)
            if step.source is not None:
                left.remove(step.source)
        self.steps: tuple[Step, ...] = tuple(steps)
        self.tests = tuple(k for k in left if self.affines[k].terms or self.taken[k] > 1 or self.leaves(k))

    def leaves(self, k: int) -> bool:
        """Whether the place of some term is outside of the output along axis k."""
        return not self.affines[k].within(self.taken[k], self.extents)

    def _reduced(self, k: int) -> list[int]:
        return [a for a in self.affines[k].axes if a in self.free]

    def _bounded(self, k: int, open_axes: set[int]) -> int | None:
        """The axis that the place along axis k bounds once the others are known; None if it bounds none."""
        axes = self._reduced(k)
        free = [a for a in axes if a in open_axes]
        simple = self.border == "zero" or len(axes) == 1 or not self.leaves(k)
        return free[0] if len(free) == 1 and simple else None

    def folds(self, k: int) -> range:
        """The copies of the image, side by side, that places reach into."""
        if self.border not in (*MIRRORED, "repeat") or not self.leaves(k) or self.taken[k] == 1:
            return range(1)
        (low, high), step, overlap = self.affines[k].bounds(self.extents), self._step(k), self._overlap
        return range((low - overlap) // step, high // step + 1)

    @property
    def _overlap(self) -> int:
        """The texels that neighbouring copies share: an even copy has both ends, an odd one neither."""
        return MIRRORED.get(self.border, 0)

    def _step(self, k: int) -> int:
        """The texels from one copy of the image to the next along an axis."""
        return self.taken[k] - self._overlap

    def count(self, step: Step) -> int:
        """The largest number of entries along the axis."""
        if step.source is None:
            return self.extents[step.axis]
        affine, extent = self.affines[step.source], self.taken[step.source]
        if len(self._reduced(step.source)) > 1:
            return 1 if affine.exact else (affine.divisor - 1) // abs(affine.coefficient(step.axis)) + 1
        # Which part of a split sum it is, in parallel axes.
        parts = [a for a in affine.axes if a != step.axis]
        axes = np.ix_(*(np.arange(self.extents[a]) for a in (*parts, step.axis)))
        at = dict(zip((*parts, step.axis), axes, strict=True))
        index = affine.values(at)
        whole = np.broadcast_to(affine.whole_at(at), index.shape)
        if self.border != "zero":
            index = wrapped(index, extent, self.border)
        texel = (index >= 0) & (index < extent) & whole
        part = np.arange(index.size // index.shape[-1]).reshape(*index.shape[:-1], 1)
        texels = (part * extent + index)[texel]
        return int(np.bincount(texels).max()) if len(texels) else 1

    @cached_property
    def loops(self) -> dict[Step, int]:
        """The steps that are loops, with the most entries of each."""
        counts = {s: max(self.count(s), len(self.folds(s.source or 0))) for s in self.steps}
        return {s: n for s, n in counts.items() if n > 1}

    @cached_property
    def iterations(self) -> int:
        """The most terms of a texel; 0 if no loop is needed."""
        return prod(self.loops.values()) if self.loops else 0

    @cached_property
    def average(self) -> float:
        """About how many terms a texel looks at: its own, and those that fail a test."""
        named = {axis for a in self.affines for axis in a.axes}
        every = [self.extents[s.axis] for s in self.steps if s.source is None and s.axis in named]
        return max(prod(every), prod(self.extents[a] for a in self.free) / prod(self.taken))

    def _numerators(self, step: Step) -> tuple[dict[int, int], int, int, int]:
        """(terms, c, c', a): a > 0 times the entry along the axis lies between terms + c and terms + c'."""
        k = step.source
        assert k is not None
        affine, a = self.affines[k], self.affines[k].coefficient(step.axis)
        v = self.own[k] if self.folds(k) == range(1) else self._folded(k)
        sign, spare = (1 if a > 0 else -1), 0 if affine.exact else affine.divisor - 1
        terms = {v: sign * affine.divisor, **{i: -sign * c for i, c in affine.terms if i != step.axis}}
        low, high = sorted((-sign * affine.constant, sign * (spare - affine.constant)))
        return terms, low, high, abs(a)

    def _folded(self, k: int) -> int:
        """The number of the axis that is the index in a copy of the image."""
        return len(self.extents) + k

    def bounds(self, step: Step) -> tuple[Affine, Affine]:
        """The first and the last entry along the axis, by the axes that are known."""
        terms, low, high, a = self._numerators(step)
        return Affine.of(terms, low + a - 1, a), Affine.of(terms, high, a)

    def single(self, step: Step) -> Affine | None:
        """The one entry along the axis, where there is at most one."""
        k = step.source
        if k is None or step in self.loops or (self.border in ("clamp", *MIRRORED) and self.leaves(k)):
            return None
        terms, low, high, a = self._numerators(step)
        return Affine.of(terms, low, a, exact=True) if low == high else None

    # ---- GLSL
    def glsl(self, names: Mapping[int, str], body: Callable[[Names], str]) -> str:
        """Statements that run the body for each term. names: of the axes that are known."""
        known = dict(names)
        tests, lines = list(self.tests), []
        for step in (None, *self.steps):
            if step is not None:
                lines += self._opened(step, known)
            ready = [k for k in tests if known.keys() >= {*self.affines[k].axes}]
            tests = [k for k in tests if k not in ready]
            if ready:
                lines.append(f"if ({' && '.join(self._test(k, known) for k in ready)}) {{")
        text = "\n".join([*lines, body(known)])
        return text + " }" * (text.count("{") - text.count("}"))

    def _opened(self, step: Step, names: Names) -> list[str]:
        """Opens a loop over an axis, or declares its one entry, and names it."""
        name, extent, k, lines = f"dressi_a{step.axis}", self.extents[step.axis], step.source, []
        low, high = "0", str(extent - 1)
        if k is not None:
            lines += self._fold(k, names)
            one = self.single(step)
            if one is not None:
                ends = self._bounds_of(one, k)
                inside = " && ".join(one.inside_glsl(names, extent, ends))
                names[step.axis], text = name, one.glsl(names, ends[0])
                return [*lines, f"{f'if ({inside}) ' if inside else ''}{{ int {name} = {text};"]
            low, high = self._range(step, names)
        names[step.axis] = name
        return [*lines, f"for (int {name} = {low}; {name} <= {high}; ++{name}) {{"]

    def _test(self, k: int, names: Names) -> str:
        """GLSL: whether the place of a term along axis k is that of the texel."""
        index, bounds = self.affines[k], self.affines[k].bounds(self.extents)
        text = index.glsl(names, bounds[0])
        if self.border != "zero":
            text = wrapped_glsl(text, self.taken[k], self.border, bounds)
        whole = index.inside_glsl(names, self.taken[k], bounds)[:1] if index.exact else []
        return " && ".join([*whole, f"{text} == {names[self.own[k]]}"])

    def unrolled(self, names: Mapping[int, str]) -> tuple[list[str], list[Names]] | None:
        """(tests, the names of the axes of each term) where all texels that pass the tests have one number of
        terms, at most ``FEW``; all but those at borders pass. None if there is no such number. names: of the
        axes that are known."""
        tests: list[str] = []
        terms_names = [dict(names)]
        for step in self.steps:
            k, extent = step.source, self.extents[step.axis]
            if k is None or self.folds(k) != range(1):
                return None
            terms, first, last, a = self._numerators(step)
            if a != 1 or len(terms) > 1 or (last - first + 1) * len(terms_names) > FEW:
                return None
            places = [Affine.of(terms, c) for c in range(first, last + 1)]
            low, high = places[0].bounds(self.extents)[0], places[-1].bounds(self.extents)[1]
            tests += places[0].inside_glsl(names, extent, (low, 0))
            tests += places[-1].inside_glsl(names, extent, (0, high))
            tests += [f"{names[self.own[k]]} != {end}" for end in self._ends(k)]
            terms_names = [r | {step.axis: f"({p.glsl(names)})"} for r in terms_names for p in places]
        return None if self.tests else (tests, terms_names)

    def _range(self, step: Step, names: Names) -> tuple[str, str]:
        """GLSL of the first and the last entry along an axis, up to its end at a clamped border."""
        k, extent = step.source, self.extents[step.axis]
        assert k is not None
        first, last = self.bounds(step)
        lowest, highest = self._bounds_of(first, k)[0], self._bounds_of(last, k)
        low, high = first.glsl(names, lowest), last.glsl(names, highest[0])
        low = f"max({low}, 0)" if lowest < 0 else low
        high = f"min({high}, {extent - 1})" if highest[1] >= extent else high
        ends, q = [0, self.taken[k] - 1], names[self.own[k]]
        before, behind = ends if self.affines[k].coefficient(step.axis) > 0 else ends[::-1]
        return (
            f"{q} == {before} ? 0 : {low}" if before in self._ends(k) else low,
            f"({q} == {behind} ? {extent - 1} : {high})" if behind in self._ends(k) else high,
        )

    def _ends(self, k: int) -> list[int]:
        """The texels along axis k that a clamped border reads from beyond."""
        (least, most), last = self.affines[k].bounds(self.extents), self.taken[k] - 1
        ends = [0] * (least < 0) + [last] * (most > last)
        return ends if self.border == "clamp" or (self.border != "zero" and self.taken[k] == 1) else []

    def _bounds_of(self, affine: Affine, k: int) -> tuple[int, int]:
        """The bounds of an Affine over the axes and the index in a copy of the image along axis k."""
        folds = self.folds(k)
        ends = []
        for index in (folds[0] * self._step(k), (folds[-1] + 1) * self._step(k) - 1 + self._overlap):
            known = affine.substituted({self._folded(k): Affine((), index)})
            assert known is not None
            ends += known.bounds(self.extents)
        return min(ends), max(ends)

    def _fold(self, k: int, names: Names) -> list[str]:
        """Opens a loop over the copies of the image beyond its border."""
        folds, step, q = self.folds(k), self._step(k), names[self.own[k]]
        if folds == range(1):
            return []
        copy, v = f"dressi_{IMAGE_AXES[k]}_copy", f"dressi_{IMAGE_AXES[k]}_index"
        index, skipped = f"{q} + {copy} * {step}", ""
        if self.border in MIRRORED:
            last = f"({copy} + 1) * {step}{'' if self._overlap else ' - 1'}"
            index = f"({copy} & 1) == 0 ? {index} : {last} - {q}"
        if self._overlap:
            skipped = f"if (({copy} & 1) == 1 && ({q} == 0 || {q} == {step})) continue; "
        names[self._folded(k)] = v
        loop = f"for (int {copy} = {folds[0]}; {copy} <= {folds[-1]}; ++{copy})"
        return [f"{loop} {{ {skipped}int {v} = {index};"]


COMBINE = {"add": np.add, "max": np.maximum, "min": np.minimum}

Guard = tuple[Affine, int]
"""An index that has to be whole and in [0, extent)."""


def shape_of(x: Variable) -> tuple[int, int, int, int]:
    """The extents n, c, y, x of an image."""
    return x.batch, x.channels, x.size[1], x.size[0]


def domain_of_shape(shape: Sequence[int]) -> Domain:
    n, c, y, x = shape
    return Domain((x, y), n * c, c)


def nothing(combine: str, vtype: VType) -> float:
    """The neutral value: the result of no terms."""
    if combine == "add":
        return 0
    numbers = np.iinfo(np.int32)
    low, high = (numbers.min, numbers.max) if vtype.is_int else (-np.inf, np.inf)
    return low if combine == "max" else high


def nothing_glsl(combine: str, vtype: VType) -> str:
    low, high = ("-2147483647 - 1", "2147483647") if vtype.is_int else ("-1.0 / 0.0", "1.0 / 0.0")
    return f"{vtype.glsl}({ {'add': '0', 'max': low, 'min': high}[combine] })"


@lru_cache(64)
def identity(vtype: VType) -> SubGraph:
    value = Variable(vtype)
    return SubGraph((value,), (value,))


def is_product(body: SubGraph) -> bool:
    """Whether a body is the product of its formals, each once."""
    factors: list[Variable] = []
    stack = [body.root]
    while stack:
        v = stack.pop()
        if isinstance(v.creator, Mul):
            stack.extend(v.creator.inputs)
        else:
            factors.append(v)
    return len(factors) == len(body.formals) and {*factors} == {*body.formals}


class Terms:
    """What the terms of a contraction are made of. Fields: see ``ContractFunction``; defaults: a plain
    sum."""

    fields = ("parallel", "reduced", "maps", "guards", "combine", "indices", "body", "place")
    parallel: tuple[tuple[int, ...], ...]
    reduced: tuple[int, ...]
    maps: tuple[IndexMap, ...]
    guards: tuple[Guard, ...] = ()
    combine: str = "add"
    indices: tuple[Affine, ...] = ()
    place: IndexMap | None = None
    long = 32
    """Terms of a loop from which on its sum is compensated (Kahan)."""

    @cached_property
    def body(self) -> SubGraph:
        return identity(self.inputs[0].vtype)

    @property
    def form(self) -> dict[str, Any]:
        """The fields of an equal contraction of other inputs."""
        return {name: getattr(self, name) for name in Terms.fields}

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """The extents of all axes, by number."""
        return (*itertools.chain(*self.parallel), *self.reduced)

    @cached_property
    def axes(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the parallel axes that make up each axis of the output."""
        numbers = itertools.count()
        return tuple(tuple(next(numbers) for _ in extents) for extents in self.parallel)

    @property
    def reduced_axes(self) -> range:
        return range(len(self.extents) - len(self.reduced), len(self.extents))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents n, c, y, x of the output."""
        return tuple(math.prod(extents) for extents in self.parallel)

    @cached_property
    def readers(self) -> Readers:
        """The terms of a texel, where these follow from their ``place``."""
        assert self.place is not None
        return readers(self.place, tuple(axes[0] for axes in self.axes), self.extents, self.reduced_axes)

    @property
    def sums(self) -> bool:
        """Whether it adds up what it reads of one input."""
        return self.combine == "add" and len(self.inputs) == 1 and self.body.root is self.body.formals[0]

    @property
    def selects(self) -> bool:
        """Whether each texel is one texel of the input, or zero."""
        return (
            self.sums
            and self.place is None
            and self.terms == 1
            and len(self.extents) == 4 + len(self.reduced)
        )

    @property
    def writes_out(self) -> bool:
        """Whether the terms are unrolled instead of nested loops."""
        loops = sum(extent > 1 for extent in self.reduced)
        return self.terms == 1 or (loops > 1 and self.terms <= FEW and len(self.inputs) == 1)

    if TYPE_CHECKING:
        inputs: Any
        output: Any
        fail: Any

    @property
    def terms(self) -> int:
        """The number of terms of one texel of the output."""
        return math.prod(self.reduced)
