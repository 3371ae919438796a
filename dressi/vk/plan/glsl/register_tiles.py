"""GLSL of contractions by register tiles: loops around a block in which every texel that is loaded serves
several products.

A block holds all entries of the register tile and of the unrolled axes. Each index, test and texel in it has
one name, declared in the outermost loop in which it is known; equal ones are equal texts. Where a texel comes
from is up to its ``Source``: an image, another invocation of the subgroup, or (``chained_tiles``) what the
shader made itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from ....ad.contract.contraction import ContractFunction
from ....ad.contract.terms import nothing_glsl, shape_of
from ....ad.graph import Variable
from ....ad.graph.index_map import Affine, wrapped_glsl
from ....ad.graph.snippet import add_compensated
from ..lowering.register_tiles import CHAIN, PACKED, Layout, Loop, TiledContraction
from .writer import Writer

SHUFFLES = ("GL_KHR_shader_subgroup_basic", "GL_KHR_shader_subgroup_shuffle")  # extensions of GLSL
LANE = "int(gl_LocalInvocationIndex)"
GROUP_NUMBER = "dressi_number"
"""The variable with the number of the workgroup; each axis taken from it leaves the rest to the next."""

Point = dict[int, int]
"""Distances of the axes of an entry of a block from the first one."""
Index = Callable[[Affine], Affine]
"""Gives an index over the names of a register tile for one over the axes of a contraction."""


class Texel(NamedTuple):
    """name: of its value.  tests: names; it is 0 unless all hold.  level: the loop in which it is known."""

    name: str
    tests: list[str]
    level: int


class Source(Protocol):
    """A value that the shader makes."""

    def texel(self, tile: RegisterTile, index: Sequence[Affine], beyond: Sequence[bool]) -> Texel | None:
        """The texel n, c, y, x, over the names of the axes of what reads it. beyond: along which axes it may
        lie outside of the image. None where it always does."""
        ...


# ---- texts
def taken(name: str, rest: str, count: int, step: int = 1, first: str = "") -> list[str]:
    """Statements that set an axis to ``first`` and the entry, of ``count`` that are ``step`` apart, that a
    number says, and leave the rest of the number to the next axis."""
    entry = f"{rest} % {count}" + (f" * {step}" if step > 1 else "") if count > 1 else ""
    value = " + ".join(filter(None, (first, entry))) or "0"
    return [f"int {name} = {value};", *([f"{rest} /= {count};"] if count > 1 else [])]


def under(tests: Sequence[str], *statements: str) -> list[str]:
    """Statements that are run where all tests hold."""
    met = " && ".join(dict.fromkeys(tests))
    return [f"if ({met}) {{", *statements, "}"] if met else [*statements]


def added(factors: list[str], total: str) -> str:
    """An expression of a sum and a product more."""
    *first, last = factors
    return f"fma({' * '.join(first)}, {last}, {total})" if first else f"{total} + {last}"


def tile_text(n: str, c: str, tiles: int, channels: int) -> str:
    """The number of a tile, as an expression that stands beside others."""
    return f"({n})" if channels == 1 else f"({c})" if tiles == 1 else f"(({n}) * {channels} + {c})"


def places(axes: tuple[tuple[int, ...], ...], extents: tuple[int, ...]) -> Iterator[Affine]:
    """The indices n, c, y, x of the output, each of one axis or several."""
    for own in axes:
        terms, radix = {}, 1
        for axis in reversed(own):
            terms[axis], radix = radix, radix * extents[axis]
        yield Affine.of(terms)


def outside(
    index: Sequence[Affine], shape: Sequence[int], beyond: Sequence[bool]
) -> Iterator[tuple[Affine, int]]:
    """The indices n, c, y, x that may lie outside of an image, each with its extent."""
    return ((affine, extent) for affine, extent, out in zip(index, shape, beyond, strict=True) if out)


def load_of(w: Writer, v: Variable, at: Sequence[str]) -> str:
    """An expression of the texel n, c, y, x, from where it is stored."""
    n, c, y, x = at
    tile = tile_text(n, c, *shape_of(v)[:2])
    if v in w.images and v not in w.s.channels:
        return w.load(v, w.texel(v, tile, f"ivec2({x}, {y})"))
    return f"{w.fetch(v)}(ivec2({x}, {y}), {tile})"


class RegisterTile:
    """Writes the work of one invocation. number: of the contraction in its shader. ended: whether a GLSL
    function stores what follows from a texel. layout: that of f by default. sources: inputs made by the
    shader."""

    def __init__(
        self,
        f: TiledContraction,
        w: Writer,
        number: int = 0,
        *,
        ended: bool = False,
        layout: Layout | None = None,
        sources: Mapping[Variable, Source] | None = None,
    ):
        self.shared, self.ended = f"dressi_results{number}", ended
        self.f, self.w, self.layout, self.part = f, w, layout or f.layout, f.part
        self.sources = {} if sources is None else sources
        self.first: Point = {}  # of the axes whose names do not stand for the first entries of a block
        # Names of entries counted from the first one of the workgroup, where that is another.
        self.local: dict[int, str] = {}
        self.kind, self.combine = f.output.vtype.glsl, f.part.combine
        self.none = nothing_glsl(self.combine, f.output.vtype)
        self.outer, self.inner = self.layout.loops
        loops = [*self.outer, *self.inner]
        self.level = {loop.axis: k + 1 for k, loop in enumerate(loops)}
        self.declared: list[list[str]] = [[] for _ in range(len(loops) + 1)]
        self.known: dict[str, tuple[str, int]] = {}  # by declaration: name and level
        self.names = {a: f"dressi_a{a}" for a in range(len(self.part.extents))}

    # ---- the whole
    def main(self, image: str) -> list[str]:
        """The statements of the shader. image: the name of the output's image, or of the function that ends
        it."""
        layout = self.layout
        points = [
            self.first | {a: self.first.get(a, 0) + d for a, d in point.items()}
            for point in self._entries(layout.tile)
        ]
        numbers = range(len(points))
        block = [line for t, point in enumerate(points) for line in self._sums(t, point)]
        lines = [*self._places()]
        if self.outer:
            lines += [f"precise {self.kind} dressi_y{t} = {self.none};" for t in numbers]
            if self.compensated:
                lines += [f"precise {self.kind} dressi_lost{t} = {self.kind}(0);" for t in numbers]
        lines += self.declared[0]
        for k, loop in enumerate(self.outer, 1):
            lines += [self._loop(loop, split=loop.axis in {x.axis for x in self.inner}), *self.declared[k]]
        lines += [f"{self.kind} dressi_s{t} = {self.none};" for t in numbers]
        for k, loop in enumerate(self.inner, len(self.outer) + 1):
            lines += [self._loop(loop), *self.declared[k]]
        lines += [*block, *["}"] * len(self.inner)]
        if self.outer:
            lines += [*map(self.folded, numbers), *["}"] * len(self.outer)]
        sums = [f"dressi_{'y' if self.outer else 's'}{t}" for t in numbers]
        if not layout.tree:
            stores = zip(sums, points, strict=True)
            return lines + [line for s, point in stores for line in self._stored(s, point, image)]
        lines += self._tree(sums)
        self.names[layout.lane] = "dressi_part"
        for t, point in enumerate(points):
            lines += self._stored(f"{self.shared}[{t * layout.lanes}]", point, image)
        return [*lines, "}"]

    def _tree(self, sums: list[str]) -> list[str]:
        """Statements that add up the sums of a workgroup level by level; its first lane does the rest."""
        lane, lanes = self.layout.lane, self.layout.lanes
        self.w.head.append(f"shared {self.kind} {self.shared}[{len(sums) * lanes}];")
        inside = self.layout.bases[lane] <= self.part.extents[lane]
        test = "" if inside else f"{self.names[lane]} >= {self.part.extents[lane]} ? {self.none} : "
        return [
            *(f"{self.shared}[{t * lanes} + {LANE}] = {test}{value};" for t, value in enumerate(sums)),
            f"for (int dressi_half = {lanes // 2}; dressi_half > 0; dressi_half /= 2) {{",
            "barrier();",
            f"if ({LANE} < dressi_half) {{",
            f"for (int k = {LANE}; k < {len(sums) * lanes}; k += {lanes}) {{",
            self._into(f"{self.shared}[k]", f"{self.shared}[k + dressi_half]"),
            "}",
            "}",
            "}",
            f"if ({LANE} == 0) {{",
        ]

    def _places(self) -> Iterator[str]:
        """Statements that set the parallel axes to the first entries of the invocation."""
        layout = self.layout
        for axis in layout.order:
            count, first = layout.blocks[axis], LANE if axis == layout.lane else ""
            if first and layout.tree:
                yield f"int dressi_part = {'0' if count == 1 else f'{GROUP_NUMBER} % {count}'};"
            yield from taken(self.names[axis], GROUP_NUMBER, count, layout.step[axis], first)

    def _loop(self, loop: Loop, split: bool = False) -> str:
        """The head of a loop. split: whether another one over the same axis is inside."""
        extent, name = self.part.extents[loop.axis], self.names[loop.axis]
        first, end = "0", str(extent)
        if split:
            name = f"dressi_o{loop.axis}"
        elif loop.of:
            first = f"dressi_o{loop.axis}"
            end = f"{first} + {loop.of}" if extent % loop.of == 0 else f"min({first} + {loop.of}, {extent})"
        return f"for (int {name} = {first}; {name} < {end}; {name} += {loop.step}) {{"

    @property
    def compensated(self) -> bool:
        """Whether what roundings lose is kept."""
        return self.layout.folds > CHAIN and self.combine == "add" and not self.f.output.vtype.is_int

    def _into(self, total: str, value: str) -> str:
        """A statement that combines a value with what there is."""
        if self.combine == "add":
            return f"{total} += {value};"
        return f"{total} = {self.combine}({total}, {value});"

    def folded(self, name: int | str) -> str:
        """A statement that adds the sum of a block to that of all."""
        total, value = f"dressi_y{name}", f"dressi_s{name}"
        if not self.compensated:
            return self._into(total, value)
        return f"{{ {add_compensated(value, total, f'dressi_lost{name}', self.kind)} }}"

    def _stored(self, value: str, point: Point, image: str) -> list[str]:
        """Statements that write a texel of the output, if there is such a texel."""
        f, layout = self.part, self.layout
        tests = [
            f"{self._text(Affine.axis(a), point)} < {f.extents[a]}"
            for a in layout.parallel
            if layout.bases[a] + point.get(a, 0) > f.extents[a] and not (layout.tree and a == layout.lane)
        ]
        at = [self._text(place, point) for place in places(f.axes, layout.extents)]
        return under(tests, *self.written(value, at, image))

    def written(self, value: str, at: Sequence[str], image: str) -> list[str]:
        """Statements that write the texel n, c, y, x of the output."""
        v, (n, c, y, x) = self.f.output, at
        tile, texel = tile_text(n, c, *self.part.shape[:2]), f"ivec2({x}, {y})"
        self.w.names[v] = value
        if self.ended:
            return [f"{image}({texel}, {tile}, {value});"]
        return self.w.stores(v, image, self.w.texel(v, tile, texel))

    # ---- the block
    def _entries(self, axes: Mapping[int, int]) -> Iterator[Point]:
        """The entries of a block along some of its axes."""
        for shifts in itertools.product(*map(self.layout.shifts, axes)):
            yield dict(zip(axes, shifts, strict=True))

    def _sums(self, t: int, entry: Point) -> list[str]:
        """Statements that add the terms of a block to the accumulator of an entry of the register tile."""
        points = [entry | point for point in self._entries(self.layout.unrolled)]
        total = f"dressi_s{t}"
        if not (self.part.product and self.part.output.vtype.is_scalar and self.combine == "add"):
            return [
                line
                for point in points
                for line in self.term(
                    self.f,
                    partial(self._moved, point=point),
                    f"dressi_b{t}_{'_'.join(map(str, point.values())).replace('-', 'm')}_",
                    partial(self._into, total),
                )
            ]
        terms = [factors for point in points if (factors := self._factors(point)) is not None]
        if len(terms) <= 1:
            return [f"{total} = {added(factors, total)};" for factors in terms]
        name = f"dressi_t{t}"
        first, *others = terms
        lines = [f"{self.kind} {name} = {' * '.join(first)};"]
        lines += [f"{name} = {added(factors, name)};" for factors in others]
        return [*lines, f"{total} += {name};"]

    def _factors(self, point: Point) -> list[str] | None:
        """The names of a product's factors, None where it is 0. Guards join the factor with their axes."""
        f, index = self.part, partial(self._moved, point=point)
        tests: list[list[str]] = [[] for _ in f.inputs]
        rest: list[str] = []
        for affine, extent in f.guards:
            met = self.met([(index(affine), extent)])
            if met is None:
                return None
            owner = next((k for k, m in enumerate(f.maps) if m.axes.issuperset(affine.axes)), None)
            (rest if owner is None else tests[owner]).extend(met)
        factors = self.operands(self.f, index, tests)
        if factors and rest:
            level = max(self.level.values(), default=0)
            factors[0] = self.masked(f.inputs[0].vtype.glsl, factors[0], rest, level)
        return factors

    def guards(self, f: ContractFunction, index: Index) -> list[str] | None:
        """The names of tests that a contraction's guards hold at an entry; None where one never does."""
        return self.met((index(affine), extent) for affine, extent in f.guards)

    def term(self, f: TiledContraction, index: Index, prefix: str, add: Callable[[str], str]) -> list[str]:
        """Statements that add the value of the body of a contraction at an entry. prefix: of their names."""
        part = f.part
        tests = self.guards(part, index)
        if tests is None:
            return []
        values: dict[Variable, str] = {}
        for k, (x, formal) in enumerate(zip(part.inputs, part.body.formals, strict=False)):
            values[formal] = self.operand(f, k, index) or f"{x.vtype.glsl}(0)"
        for affine, formal in zip(part.indices, part.body.formals[len(f.inputs) :], strict=True):
            values[formal] = f"({index(affine).glsl(self.names)})"
        statements, root = part.body.glsl(values, prefix)
        return [*statements, *under(tests, add(root))]

    def operands(
        self, f: TiledContraction, index: Index, tests: Sequence[Sequence[str]] = ()
    ) -> list[str] | None:
        """The names of the texels of all inputs, None where one is 0 in any case. tests: of each input."""
        names = [self.operand(f, k, index, tests[k] if tests else ()) for k in range(len(f.inputs))]
        known = [name for name in names if name is not None]
        return known if len(known) == len(names) else None

    def operand(self, f: TiledContraction, k: int, index: Index, tests: Sequence[str] = ()) -> str | None:
        """The name of a texel of an input, 0 where a test fails; None where it is 0 in any case."""
        v, packed, affines = f.inputs[k], f.packed[k], f.part.maps[k].affines
        at = [index(affine) for affine in affines]
        beyond = [
            f is not self.f or not affine.within(extent, self.part.extents)
            for affine, extent in zip(affines, shape_of(f.part.inputs[k]), strict=True)
        ]
        source = self.sources.get(v)
        texel = self._stored_texel(f, k, at, beyond) if source is None else source.texel(self, at, beyond)
        if texel is None:
            return None
        tests = list(dict.fromkeys([*tests, *texel.tests]))
        name = self.masked(v.vtype.glsl, texel.name, tests, texel.level) if tests else texel.name
        return name if packed is None else f"{name}{self.component(at[packed])}"

    def _stored_texel(
        self, f: TiledContraction, k: int, index: Sequence[Affine], beyond: Sequence[bool]
    ) -> Texel | None:
        """The texel n, c, y, x of an input that is stored. beyond: along which axes it may lie outside, where
        the border says what it is. None where it is 0 in any case."""
        v, packed, border = f.inputs[k], f.packed[k], f.part.maps[k].border
        indices, level, tests = list[str](), 0, list[str]()
        for s, (moved, extent) in enumerate(zip(index, shape_of(f.part.inputs[k]), strict=True)):
            if beyond[s] and border == "zero":
                met = self.met([(moved, extent)])
                if met is None:
                    return None
                tests += met
            text, (low, high) = moved.glsl(self.names), moved.bounds(self.layout.bases)
            if s == packed:
                text = self.packed_place(moved, self.names)
                low, high, extent = low // PACKED, high // PACKED, -(-extent // PACKED)
            text = wrapped_glsl(text, extent, border if beyond[s] else "zero", (low, high))
            level = max(level, self.level_of(moved))
            indices.append(self.declare("int", text, self.level_of(moved)) if moved.terms else text)
        return Texel(self.declare(v.vtype.glsl, load_of(self.w, v, indices), level), tests, level)

    def masked(self, kind: str, name: str, tests: Sequence[str], level: int) -> str:
        """The name of a value, or of 0 where a test is not met."""
        level = max(
            level, max((self.known[t][1] for t in self.known if self.known[t][0] in tests), default=0)
        )
        met = " && ".join(tests)
        met = self.declare("bool", met, level) if len(tests) > 1 else met
        if kind.startswith("mat"):
            return self.declare(kind, f"{met} ? {name} : {kind}(0)", level)
        met = met if kind in ("float", "int") else f"bvec{kind[-1]}({met})"
        return self.declare(kind, f"mix({kind}(0), {name}, {met})", level)

    # ---- indices
    def _moved(self, affine: Affine, point: Point) -> Affine:
        """The index of an entry of a block over the axes that have more than one first entry. Entries that a
        division makes equal, wherever blocks start, have equal indices."""
        layout = self.layout
        constant = affine.constant + sum(c * point.get(a, 0) for a, c in affine.terms)
        terms = tuple((a, c) for a, c in affine.terms if layout.bases[a] > 1)
        if not (affine.whole or affine.exact):
            constant -= constant % math.gcd(affine.divisor, *self._steps(terms))
        return affine._replace(terms=terms, constant=constant)

    def _steps(self, terms: Sequence[tuple[int, int]]) -> Iterator[int]:
        """By how much the first entries of blocks differ in an index, for each of its axes."""
        return (c * (1 if a == self.layout.lane else self.layout.step[a]) for a, c in terms)

    def _aligned(self, moved: Affine) -> bool:
        """Whether an index along which operands are packed starts at a multiple of PACKED in every block."""
        return all(step % PACKED == 0 for step in self._steps(moved.terms))

    def packed_place(self, moved: Affine, names: Mapping[int, str]) -> str:
        """The texel in which an index along a packed axis lies."""
        if not self._aligned(moved):
            return f"(({moved.glsl(names)}) >> 2)"
        base = " + ".join(f"({names[a]} >> 2)" for a in moved.axes)
        return f"{base} + {moved.constant // PACKED}" if base else str(moved.constant // PACKED)

    def component(self, moved: Affine) -> str:
        """The component of that texel."""
        if self._aligned(moved):
            return f".{'xyzw'[moved.constant % PACKED]}"
        return f"[({moved.glsl(self.names)}) & {PACKED - 1}]"

    def _text(self, affine: Affine, point: Point) -> str:
        return self._moved(affine, point).glsl(self.names)

    def level_of(self, affine: Affine) -> int:
        return max((self.level.get(a, 0) for a in affine.axes), default=0)

    def met(self, indices: Iterable[tuple[Affine, int]]) -> list[str] | None:
        """The names of tests that indices are whole and in their extents; None where one never is."""
        names: list[str] = []
        for moved, extent in indices:
            low, high = moved.bounds(self.layout.bases)
            if high < 0 or low >= extent:
                return None
            tests = moved.inside_glsl(self.names, extent, (low, high))
            if moved.exact and all(step % moved.divisor == 0 for step in self._steps(moved.terms)):
                if moved.constant % moved.divisor:
                    return None
                tests = tests[1:]
            names += [self.declare("bool", test, self.level_of(moved)) for test in tests]
        return names

    def declare(self, kind: str, value: str, level: int) -> str:
        """The name of a value that is declared in a loop, the same for equal ones."""
        if value not in self.known:
            name = f"dressi_v{len(self.known)}"
            self.known[value] = name, level
            self.state([f"{kind} {name} = {value};"], level)
        return self.known[value][0]

    def state(self, lines: Sequence[str], level: int) -> None:
        """Statements of a loop, before its block."""
        self.declared[level] += lines


# ---- texels that invocations of a subgroup load together
def shuffled(f: TiledContraction) -> dict[Variable, Source]:
    """The inputs of a contraction that invocations of a subgroup load together."""
    return {
        x: InSubgroup(f, k)
        for k, x in enumerate(f.inputs)
        if f.layout.loads_together(k) and f.inputs.count(x) == 1 and f.layout.distinct(k, f.packed[k]) > 1
    }


class InSubgroup:
    """An input of which each invocation of a subgroup loads another texel; shuffles distribute these. k: its
    number.

    weights of a 3 x 3 convolution, 72 in a block:   9 loads of each of eight invocations, and 72 shuffles
    """

    def __init__(self, f: TiledContraction, k: int):
        self.v, self.packed, self.size = f.inputs[k], f.packed[k], f.layout.subgroup
        self.shape = shape_of(f.part.inputs[k])
        self.offsets = list(_offsets(f, k))
        self.count = math.prod(map(len, self.offsets))

    def texel(self, tile: RegisterTile, index: Sequence[Affine], beyond: Sequence[bool]) -> Texel | None:
        tests = tile.met(outside(index, self.shape, beyond))
        if tests is None:
            return None
        number = 0
        for s, (moved, offsets) in enumerate(zip(index, self.offsets, strict=True)):
            constant = moved.constant // PACKED if s == self.packed else moved.constant
            number = number * len(offsets) + offsets.index(constant)
        level = max(map(tile.level_of, index))
        load, lane = divmod(number, self.size)
        tile.w.extensions.update(SHUFFLES)
        text = f"subgroupShuffle({self._loaded(tile, index, load, level)}, {lane}u)"
        return Texel(tile.declare(self.v.vtype.glsl, text, level), tests, level)

    def _loaded(self, tile: RegisterTile, index: Sequence[Affine], load: int, level: int) -> str:
        """The name of the texel that an invocation loads, one of each ``size`` in a row."""
        number = "int(gl_SubgroupInvocationID)" + (f" + {load * self.size}" if load else "")
        if (load + 1) * self.size > self.count:
            number = f"min({number}, {self.count - 1})"
        number = tile.declare("int", number, 0)
        at, stride = list[str](), self.count
        for s, (moved, offsets) in enumerate(zip(index, self.offsets, strict=True)):
            stride //= len(offsets)
            first, divisor = moved._replace(constant=0), PACKED if s == self.packed else 1
            low, high = (x // divisor for x in first.bounds(tile.layout.bases))
            text = first.glsl(tile.names) + (" >> 2" if divisor > 1 else "")
            text = f"({text}) + {offsets[0]}"
            if len(offsets) > 1:
                own = tile.declare("int", f"{number} / {stride} % {len(offsets)} * {offsets.step}", 0)
                text = f"{text} + {own}"
            extent = -(-self.shape[s] // divisor)
            if low + offsets[0] < 0 or high + offsets[-1] >= extent:
                text = f"clamp({text}, 0, {extent - 1})"
            at.append(tile.declare("int", text, tile.level_of(moved)))
        return tile.declare(self.v.vtype.glsl, load_of(tile.w, self.v, at), level)


def _offsets(f: TiledContraction, k: int) -> Iterator[range]:
    """Along n, c, y, x the distances of an input's texels in a block from that of its first entries."""
    for s, affine in enumerate(f.part.maps[k].affines):
        values = range(affine.constant, affine.constant + 1)
        for axis, c in affine.terms:
            if (count := f.layout.entries(axis)) > 1:
                ends = affine.constant, affine.constant + c * (count - 1)
                values = range(min(ends), max(ends) + 1, abs(c))
        yield range(values[0] // PACKED, values[-1] // PACKED + 1) if s == f.packed[k] else values
