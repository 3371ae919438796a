"""An index map backwards: which texels of an output read one texel q of the input.

Texel p reads texel q where floor((a p_j + rest) / d) = q_k for every axis k of the input. An axis j of p that is the only one
still open in such an equation is between two bounds; an axis that no equation bounds runs over all its texels; equations that
are left are tests.

    out(x) = in(x / 3)     x from 3 q to 3 q + 2
    out(x) = in(x, x)      x is q_x, where that is q_y
    out(x, y) = in(x)      x is q_x, y runs
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from .index_map import MIRRORED, Affine, IndexMap, wrapped, wrapped_glsl

SOUGHT = 4
"""Axis 4 + k is axis k of the texel of the input whose readers are sought."""
FOLDED = 8
"""Axis 8 + k is the index that it has in one of the copies of the image beyond its border."""
FEW = 16
"""Readers that are written one after the other, without a loop."""
NAMES = {0: "n", 1: "c", 2: "y", 3: "x"}


class Step(NamedTuple):
    """One axis of the readers. source: the axis of the input that bounds it; None: all its texels read."""

    axis: int
    source: int | None


@lru_cache(4096)
def preimage(index: IndexMap, taken: tuple[int, ...], shape: tuple[int, ...]) -> Preimage:
    """The Preimage of a map, which equal Gathers share."""
    return Preimage(index, taken, shape)


class Preimage:
    """The readers of a texel. taken, shape: the extents (n, c, y, x) of the input and of the output."""

    def __init__(self, index: IndexMap, taken: Sequence[int], shape: Sequence[int]):
        self.taken, self.shape, self.border = taken, shape, index.border
        self.own_tile = index[:2] == (Affine.axis(0), Affine.axis(1))
        self.affines = tuple(
            Affine.of({a: k for a, k in f.terms if shape[a] > 1}, f.constant, f.divisor, f.exact)
            for f in index.affines
        )
        bound, steps, left = {a for a in range(4) if shape[a] == 1}, [], list(range(4))
        while len(bound) < 4:
            ready = [(k, free) for k in left if (free := self._bounded(k, bound)) is not None]
            axis = min({0, 1, 2, 3} - bound, key=lambda a: shape[a])
            step = min((Step(a, k) for k, a in ready), key=self.count, default=Step(axis, None))
            steps.append(step)
            bound.add(step.axis)
            if step.source is not None:
                left.remove(step.source)
        self.steps: tuple[Step, ...] = tuple(steps)
        self.tests = tuple(k for k in left if self.affines[k].terms or taken[k] > 1 or self.leaves(k))

    def leaves(self, k: int) -> bool:
        """Whether the index along an axis of the input is outside of it for some reader."""
        return not self.affines[k].within(self.taken[k], self.shape)

    def _bounded(self, k: int, bound: set[int]) -> int | None:
        """The axis of the readers that the index along axis k bounds, once others are known; None if it bounds none."""
        axes = self.affines[k].axes
        free = [a for a in axes if a not in bound]
        simple = self.border == "zero" or len(axes) == 1 or not self.leaves(k)
        return free[0] if len(free) == 1 and simple else None

    def folds(self, k: int) -> range:
        """The copies of the image beside each other that readers reach into."""
        if self.border not in (*MIRRORED, "repeat") or not self.leaves(k) or self.taken[k] == 1:
            return range(1)
        (low, high), step, overlap = self.affines[k].bounds(self.shape), self._step(k), self._overlap
        return range((low - overlap) // step, high // step + 1)

    @property
    def _overlap(self) -> int:
        """The texels that two neighbouring copies share: an even copy has both of its ends, an odd one neither."""
        return MIRRORED.get(self.border, 0)

    def _step(self, k: int) -> int:
        """The texels from one copy of the image to the next along an axis."""
        return self.taken[k] - self._overlap

    def count(self, step: Step) -> int:
        """The largest number of texels along the axis."""
        if step.source is None:
            return self.shape[step.axis]
        affine, extent = self.affines[step.source], self.taken[step.source]
        if len(affine.terms) > 1:
            return 1 if affine.exact else (affine.divisor - 1) // abs(affine.coefficient(step.axis)) + 1
        at = {step.axis: np.arange(self.shape[step.axis])}
        index, whole = affine.values(at), affine.whole_at(at)
        if self.border != "zero":
            index = wrapped(index, extent, self.border)
        index = index[(index >= 0) & (index < extent) & whole]
        return max(int(np.bincount(index).max()), 1) if len(index) else 1

    @cached_property
    def loops(self) -> dict[Step, int]:
        """The steps that are loops, with the most texels of each."""
        counts = {s: max(self.count(s), len(self.folds(s.source or 0))) for s in self.steps}
        return {s: n for s, n in counts.items() if n > 1}

    @cached_property
    def iterations(self) -> int:
        """The most readers of a texel; 0 if no loop is needed."""
        return prod(self.loops.values()) if self.loops else 0

    @cached_property
    def average(self) -> float:
        """About how many texels are looked at for each texel of the input: its readers, and those that fail a test."""
        named = {axis for a in self.affines for axis in a.axes}
        every = [self.shape[s.axis] for s in self.steps if s.source is None and s.axis in named]
        return max(prod(every), prod(self.shape) / prod(self.taken))

    def _numerators(self, step: Step) -> tuple[dict[int, int], int, int, int]:
        """(terms, c, c', a): a > 0 times the texel along the axis is between the sum of the terms and c, and that and c'."""
        k = step.source
        assert k is not None
        affine, a = self.affines[k], self.affines[k].coefficient(step.axis)
        v = (SOUGHT if self.folds(k) == range(1) else FOLDED) + k
        sign, spare = (1 if a > 0 else -1), 0 if affine.exact else affine.divisor - 1
        terms = {v: sign * affine.divisor, **{i: -sign * c for i, c in affine.terms if i != step.axis}}
        low, high = sorted((-sign * affine.constant, sign * (spare - affine.constant)))
        return terms, low, high, abs(a)

    def bounds(self, step: Step) -> tuple[Affine, Affine]:
        """The first and the last texel along the axis that read index v, by the axes that are known."""
        terms, low, high, a = self._numerators(step)
        return Affine.of(terms, low + a - 1, a), Affine.of(terms, high, a)

    def single(self, step: Step) -> Affine | None:
        """The one texel along the axis, if it is one, or one at the most."""
        k = step.source
        if k is None or step in self.loops or (self.border in ("clamp", *MIRRORED) and self.leaves(k)):
            return None
        terms, low, high, a = self._numerators(step)
        return Affine.of(terms, low, a, exact=True) if low == high else None

    def inverse(self) -> IndexMap | None:
        """The map that reads the one reader of each texel, if there is one at most; None otherwise."""
        found: dict[int, Affine] = {}
        turned = self.border == "repeat" and any(map(self.leaves, range(4)))
        for step in self.steps:
            k, axis = step.source, step.axis
            if turned:  # readers as many as texels, one a texel
                affine = self.affines[k or 0]
                a = affine.coefficient(axis)
                full = self.taken[k or 0] == self.shape[axis] and affine.whole and abs(a) == 1
                one = Affine.of({SOUGHT + (k or 0): a}, -a * affine.constant) if full else None
            else:
                one = self.single(step)
            one = None if one is None else one.substituted(found)
            if one is None:
                return None
            found[axis] = one
        # Axes that may be any index: who reads a tile in that tile leaves n and c alone.
        spare = [a for a in range(2 if self.own_tile else 0, 4) if self.shape[a] == 1]
        for k in self.tests:  # an index that is a number: the reader at q_k - number, of one in all
            axis = k if k in spare else next(iter(spare), None)
            if self.affines[k].terms or axis is None or (self.border != "zero" and self.leaves(k)):
                return None
            spare.remove(axis)
            found[axis] = Affine.axis(SOUGHT + k, 1, -self.affines[k].constant)
        renamed = {SOUGHT + k: Affine.axis(k) for k in range(4)}
        affines = [found.get(a, Affine()).substituted(renamed) for a in range(4)]
        return IndexMap.to([a for a in affines if a is not None], "repeat" if turned else "zero")

    # ---- GLSL
    @property
    def extents(self) -> dict[int, int]:
        """Of the axes of the readers and of the texel."""
        return dict(enumerate((*self.shape, *self.taken)))

    def glsl(
        self, names: dict[int, str], body: str, fixed: dict[int, str], block: str = "", length: int = 0
    ) -> str:
        """Statements that run ``body`` for each reader, whose texel has the names ``n c y x``, but for axes that have other
        names: those ``fixed``. names: of the axes of the texel that is read. block, length: only every ``parts(length)``-th
        block of so many readers, from that number on."""
        names = {**{SOUGHT + k: name for k, name in names.items()}, **fixed}
        tests, lines = list(self.tests), []
        for step in (None, *self.steps):
            if step is not None and step.axis not in fixed:
                lines += self._opened(step, names, block, length)
            ready = [k for k in tests if names.keys() >= {*self.affines[k].axes}]
            tests = [k for k in tests if k not in ready]
            if ready:
                lines.append(f"if ({' && '.join(self._test(k, names) for k in ready)}) {{")
        text = "\n".join([*lines, body])
        return text + " }" * (text.count("{") - text.count("}"))

    def _opened(self, step: Step, names: dict[int, str], block: str, length: int) -> list[str]:
        """Lines that run what follows for each reader along an axis, and name it."""
        name, extent, k, lines = NAMES[step.axis], self.shape[step.axis], step.source, []
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
        if length and step in self.loops:
            count = self.parts(length)
            lines.append(f"int first = {low}, last = {high}, block = first / {length};")
            lines.append(f"block += ({block} - block % {count} + {count}) % {count};")
            low, high = f"max(first, block * {length})", f"min(last, block * {length} + {length - 1})"
        names[step.axis] = name
        return [*lines, f"for (int {name} = {low}; {name} <= {high}; ++{name}) {{"]

    def _test(self, k: int, names: dict[int, str]) -> str:
        """GLSL of whether a reader reads the index along axis k."""
        index, bounds = self.affines[k], self.affines[k].bounds(self.shape)
        text = index.glsl(names, bounds[0])
        if self.border != "zero":
            text = wrapped_glsl(text, self.taken[k], self.border, bounds)
        whole = index.inside_glsl(names, self.taken[k], bounds)[:1] if index.exact else []
        return " && ".join([*whole, f"{text} == {names[SOUGHT + k]}"])

    def straight(
        self, names: dict[int, str], fixed: dict[int, str]
    ) -> tuple[list[str], list[dict[int, str]]] | None:
        """(tests, the names of the axes of each reader) for texels that have one number of readers, ``FEW`` at most: those that
        pass the tests, as all but the ones at borders do. None if there is no such number. Arguments as for ``glsl``."""
        names = {SOUGHT + k: name for k, name in names.items()}
        tests: list[str] = []
        readers = [fixed]
        for step in self.steps:
            if step.axis in fixed:
                continue
            k, extent = step.source, self.shape[step.axis]
            if k is None or self.folds(k) != range(1):
                return None
            terms, first, last, a = self._numerators(step)
            if a != 1 or len(terms) > 1 or (last - first + 1) * len(readers) > FEW:
                return None
            places = [Affine.of(terms, c) for c in range(first, last + 1)]
            low, high = places[0].bounds(self.extents)[0], places[-1].bounds(self.extents)[1]
            tests += places[0].inside_glsl(names, extent, (low, 0))
            tests += places[-1].inside_glsl(names, extent, (0, high))
            tests += [f"{names[SOUGHT + k]} != {end}" for end in self._ends(k)]
            readers = [r | {step.axis: place.glsl(names)} for r in readers for place in places]
        return None if self.tests else (tests, readers)

    def parts(self, length: int) -> int:
        """The number of partial sums of at most ``length`` readers: so many blocks of that length may hold them."""
        return -(-max(self.loops.values()) // length) + 1

    def _range(self, step: Step, names: dict[int, str]) -> tuple[str, str]:
        """GLSL of the first and the last reader along an axis. At a clamped border the range goes to the end of the axis."""
        k, extent = step.source, self.shape[step.axis]
        assert k is not None
        first, last = self.bounds(step)
        lowest, highest = self._bounds_of(first, k)[0], self._bounds_of(last, k)
        low, high = first.glsl(names, lowest), last.glsl(names, highest[0])
        low = f"max({low}, 0)" if lowest < 0 else low
        high = f"min({high}, {extent - 1})" if highest[1] >= extent else high
        ends, q = [0, self.taken[k] - 1], names[SOUGHT + k]
        before, behind = ends if self.affines[k].coefficient(step.axis) > 0 else ends[::-1]
        return (
            f"{q} == {before} ? 0 : {low}" if before in self._ends(k) else low,
            f"({q} == {behind} ? {extent - 1} : {high})" if behind in self._ends(k) else high,
        )

    def _ends(self, k: int) -> list[int]:
        """The texels along axis k that are read for those beyond a clamped border."""
        (least, most), last = self.affines[k].bounds(self.shape), self.taken[k] - 1
        ends = [0] * (least < 0) + [last] * (most > last)
        return ends if self.border == "clamp" or (self.border != "zero" and self.taken[k] == 1) else []

    def _bounds_of(self, affine: Affine, k: int) -> tuple[int, int]:
        """The bounds of an Affine over readers, the texel, and the index in a copy of the image along axis k."""
        folds = self.folds(k)
        found = []
        for index in (folds[0] * self._step(k), (folds[-1] + 1) * self._step(k) - 1 + self._overlap):
            known = affine.substituted({FOLDED + k: Affine((), index)})
            assert known is not None
            found += known.bounds(self.extents)
        return min(found), max(found)

    def _fold(self, k: int, names: dict[int, str]) -> list[str]:
        """Lines that run what follows for each copy of the image beyond its border."""
        folds, step, q = self.folds(k), self._step(k), names[SOUGHT + k]
        if folds == range(1):
            return []
        copy, v = f"{NAMES[k]}_copy", f"{NAMES[k]}_index"
        index, skipped = f"{q} + {copy} * {step}", ""
        if self.border in MIRRORED:
            last = f"({copy} + 1) * {step}{'' if self._overlap else ' - 1'}"
            index = f"({copy} & 1) == 0 ? {index} : {last} - {q}"
        if self._overlap:
            skipped = f"if (({copy} & 1) == 1 && ({q} == 0 || {q} == {step})) continue; "
        names[FOLDED + k] = v
        loop = f"for (int {copy} = {folds[0]}; {copy} <= {folds[-1]}; ++{copy})"
        return [f"{loop} {{ {skipped}int {v} = {index};"]
