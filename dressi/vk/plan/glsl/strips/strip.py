"""GLSL of contractions by strips: loops around a block in which every texel that is loaded serves several products.

A block holds all entries of the tile and of the straight axes. Each index, test and texel in it has one name, declared in
the outermost loop in which it is known; equal ones are equal texts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from .....ad.contract.terms import nothing_glsl, shape_of
from .....ad.graph import Variable
from .....ad.graph.index_map import Affine, wrapped_glsl
from .....ad.graph.snippet import add_compensated
from ...lowering.tiling.packed import PACKED
from ...lowering.tiling.strips import CHAIN, Layout, Loop, TiledContraction
from ..text.writer import Writer
from .texels import Point, Source, Texel, added, load_of, moved_by, places, tile_text


class Strip:
    """Writes the work of one invocation. number: of the contraction in its shader. ended: whether a GLSL function stores what
    follows from a texel. layout: its division, that of f by default. sources: what of its inputs the shader makes itself."""

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
        self.f, self.w, self.layout, self.whole = f, w, layout or f.layout, f.whole
        self.sources = {} if sources is None else sources
        self.first: Point = {}  # of the axes whose names do not stand for the first entries of a block
        self.local: dict[
            int, str
        ] = {}  # names of entries counted from the first one of the workgroup, where that is another
        self.kind, self.combine = f.output.vtype.glsl, f.whole.combine
        self.none = nothing_glsl(self.combine, f.output.vtype)
        self.outer, self.inner = self.layout.loops
        loops = [*self.outer, *self.inner]
        self.level = {loop.axis: k + 1 for k, loop in enumerate(loops)}
        self.declared: list[list[str]] = [[] for _ in range(len(loops) + 1)]
        self.known: dict[str, tuple[str, int]] = {}  # by declaration: name and level
        self.names = {a: f"dressi_a{a}" for a in range(len(self.whole.extents))}

    # ---- the whole
    def main(self, image: str) -> list[str]:
        """The statements of the shader. image: the name of what holds the output, or of the function that ends it."""
        entries = self._entries(self.layout.tile)
        points = [moved_by(self.first, dict(zip(self.layout.tile, p, strict=True))) for p in entries]
        block = [line for t, point in enumerate(points) for line in self._sums(t, point)]
        start = [f"{self.kind} dressi_s{t} = {self.none};" for t in range(len(points))]
        lines = [*self._places()]
        if self.outer:
            lines += [f"precise {self.kind} dressi_y{t} = {self.none};" for t in range(len(points))]
            if self._compensated:
                lines += [f"precise {self.kind} dressi_lost{t} = {self.kind}(0);" for t in range(len(points))]
        lines += self.declared[0]
        for k, loop in enumerate(self.outer, 1):
            lines += [self._loop(loop, split=loop.axis in {x.axis for x in self.inner}), *self.declared[k]]
        lines += start
        for k, loop in enumerate(self.inner, len(self.outer) + 1):
            lines += [self._loop(loop), *self.declared[k]]
        lines += [*block, *["}"] * len(self.inner)]
        if self.outer:
            lines += [self._folded(t) for t in range(len(points))]
            lines += ["}"] * len(self.outer)
        sums = [f"dressi_{'y' if self.outer else 's'}{t}" for t in range(len(points))]
        if not self.layout.strips.tree:
            return lines + [
                x for s, point in zip(sums, points, strict=True) for x in self._stored(s, point, image)
            ]
        lines += self._tree(sums)
        lanes, self.names[self.layout.strips.lane] = self.layout.strips.lanes, "dressi_part"
        for t, point in enumerate(points):
            lines += self._stored(f"{self.shared}[{t * lanes}]", point, image)
        return [*lines, "}"]

    def _tree(self, sums: list[str]) -> list[str]:
        """Statements that add up the sums of all invocations of a workgroup, level by level; what follows is done by the first."""
        layout, lane, lanes = self.layout, self.layout.strips.lane, self.layout.strips.lanes
        self.w.head.append(f"shared {self.kind} {self.shared}[{len(sums) * lanes}];")
        whole = layout.bases[lane] <= layout.f.extents[lane]
        test = "" if whole else f"{self.names[lane]} >= {layout.f.extents[lane]} ? {self.none} : "
        own = "int(gl_LocalInvocationIndex)"
        lines = [f"{self.shared}[{t * lanes} + {own}] = {test}{value};" for t, value in enumerate(sums)]
        return [
            *lines,
            f"for (int dressi_half = {lanes // 2}; dressi_half > 0; dressi_half /= 2) {{",
            "barrier();",
            f"if ({own} < dressi_half) {{",
            f"for (int k = {own}; k < {len(sums) * lanes}; k += {lanes}) {{",
            self._into(f"{self.shared}[k]", f"{self.shared}[k + dressi_half]"),
            "}",
            "}",
            "}",
            f"if ({own} == 0) {{",
        ]

    def _places(self) -> Iterator[str]:
        """Statements that set the parallel axes to the first entries of the invocation."""
        layout, lane = self.layout, self.layout.strips.lane
        for axis in layout.order:
            count, step = layout.blocks[axis], layout.step[axis]
            value = "0" if count == 1 else f"dressi_strip % {count}" + (f" * {step}" if step > 1 else "")
            if axis == lane and layout.strips.tree:
                yield f"int dressi_part = {'0' if count == 1 else f'dressi_strip % {count}'};"
            if axis == lane:
                value = "int(gl_LocalInvocationIndex)" + ("" if count == 1 else f" + {value}")
            yield f"int {self.names[axis]} = {value};"
            if count > 1:
                yield f"dressi_strip /= {count};"

    def _loop(self, loop: Loop, split: bool = False) -> str:
        """The head of a loop. split: whether another one over the same axis is inside."""
        extent, name = self.whole.extents[loop.axis], self.names[loop.axis]
        first, end = "0", str(extent)
        if split:
            name = f"dressi_o{loop.axis}"
        elif loop.of:
            first = f"dressi_o{loop.axis}"
            end = f"{first} + {loop.of}" if extent % loop.of == 0 else f"min({first} + {loop.of}, {extent})"
        return f"for (int {name} = {first}; {name} < {end}; {name} += {loop.step}) {{"

    @property
    def _compensated(self) -> bool:
        return self.layout.folds > CHAIN and self.combine == "add" and not self.f.output.vtype.is_int

    def _into(self, total: str, value: str) -> str:
        """A statement that combines a value with what there is."""
        return (
            f"{total} += {value};"
            if self.combine == "add"
            else f"{total} = {self.combine}({total}, {value});"
        )

    def _folded(self, t: int) -> str:
        """A statement that adds the sum of a block to that of all."""
        total, value = f"dressi_y{t}", f"dressi_s{t}"
        if not self._compensated:
            return self._into(total, value)
        return f"{{ {add_compensated(value, total, f'dressi_lost{t}', self.kind)} }}"

    def _stored(self, value: str, point: Point, image: str) -> list[str]:
        """Statements that write a texel of the output, if there is such a texel."""
        f, layout = self.whole, self.layout
        tests = [
            f"{self._text(Affine.axis(a), point)} < {f.extents[a]}"
            for a in layout.parallel
            if layout.bases[a] + point.get(a, 0) > f.extents[a]
            and not (layout.strips.tree and a == layout.strips.lane)
        ]
        at = [self._text(place, point) for place in places(f.axes, layout.extents)]
        stores = self.written(value, at, image)
        return [f"if ({' && '.join(tests)}) {{", *stores, "}"] if tests else stores

    def written(self, value: str, at: Sequence[str], image: str) -> list[str]:
        """Statements that write the texel n, c, y, x of the output."""
        v, (n, c, y, x) = self.f.output, at
        tile, texel = tile_text(n, c, *self.whole.shape[:2]), f"ivec2({x}, {y})"
        self.w.names[v] = value
        if self.ended:
            return [f"{image}({texel}, {tile}, {value});"]
        return self.w.stores(v, image, self.w.texel(v, tile, texel))

    # ---- the block
    def _entries(self, counts: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
        return itertools.product(*(self.layout.shifts(a) for a in counts))

    def _sums(self, t: int, tile: Point) -> list[str]:
        """Statements that add the terms of a block to the accumulator of an entry of the tile."""
        straight = self.layout.straight
        points = [tile | dict(zip(straight, p, strict=True)) for p in self._entries(straight)]
        if not (self.whole.product and self.whole.output.vtype.is_scalar and self.combine == "add"):
            return [line for point in points for line in self._term(t, point)]
        terms = [factors for point in points if (factors := self._factors(point)) is not None]
        total = f"dressi_s{t}"
        if len(terms) <= 1:
            return [f"{total} = {added(factors, total)};" for factors in terms]
        name = f"dressi_t{t}"
        first, *others = terms
        lines = [f"{self.kind} {name} = {' * '.join(first)};"]
        lines += [f"{name} = {added(factors, name)};" for factors in others]
        return [*lines, f"{total} += {name};"]

    def _factors(self, point: Point) -> list[str] | None:
        """The names of the factors of a product, None where it is zero. Guards join the factor that knows their axes."""
        f = self.whole
        tests: list[list[str]] = [[] for _ in f.inputs]
        rest: list[str] = []
        for affine, extent in f.guards:
            found = self._tests(affine, extent, point)
            if found is None:
                return None
            owner = next((k for k, m in enumerate(f.maps) if m.axes.issuperset(affine.axes)), None)
            (rest if owner is None else tests[owner]).extend(found)
        factors = [self._operand(k, point, tests[k]) for k in range(len(f.inputs))]
        known = [name for name in factors if name is not None]
        if len(known) < len(factors):
            return None
        if rest:
            known[0] = self.masked(
                f.inputs[0].vtype.glsl, known[0], rest, max(self.level.values(), default=0)
            )
        return known

    def _term(self, t: int, point: Point) -> list[str]:
        """Statements that add the value of a body at an entry of the block."""
        f = self.whole
        tests: list[str] = []
        for affine, extent in f.guards:
            found = self._tests(affine, extent, point)
            if found is None:
                return []
            tests += found
        values: dict[Variable, str] = {}
        for k, (x, formal) in enumerate(zip(f.inputs, f.body.formals, strict=False)):
            values[formal] = self._operand(k, point, []) or f"{x.vtype.glsl}(0)"
        for affine, formal in zip(f.indices, f.body.formals[len(f.inputs) :], strict=True):
            values[formal] = f"({self._text(affine, point)})"
        prefix = f"dressi_b{t}_{'_'.join(map(str, point.values())).replace('-', 'm')}_"
        statements, root = f.body.glsl(values, prefix)
        add = self._into(f"dressi_s{t}", root)
        return [*statements, f"if ({' && '.join(dict.fromkeys(tests))}) {add}" if tests else add]

    def _operand(self, k: int, point: Point, tests: list[str]) -> str | None:
        """The name of a texel of an input, 0 where a test is not met; None where it is 0 in any case."""
        f, v, packed = self.whole, self.f.inputs[k], self.f.packed[k]
        index, shape = [self._moved(affine, point) for affine in f.maps[k].affines], shape_of(f.inputs[k])
        beyond = [
            not affine.within(extent, f.extents)
            for affine, extent in zip(f.maps[k].affines, shape, strict=True)
        ]
        texel = self.texel(v, shape, index, beyond, packed, f.maps[k].border)
        if texel is None:
            return None
        tests = list(dict.fromkeys([*tests, *texel.tests]))
        name = self.masked(v.vtype.glsl, texel.name, tests, texel.level) if tests else texel.name
        if packed is None:
            return name
        return f"{name}.{'xyzw'[index[packed].constant % PACKED]}"

    def texel(
        self,
        v: Variable,
        shape: Sequence[int],
        index: Sequence[Affine],
        beyond: Sequence[bool],
        packed: int | None = None,
        border: str = "zero",
    ) -> Texel | None:
        """The texel n, c, y, x of a Variable, over the names. shape: of it before it was packed along an axis. beyond: along which
        axes it may lie outside, where the border says what it is. None where it is 0 in any case."""
        if v in self.sources:
            return self.sources[v].texel(self, index, beyond)
        indices, level, tests = list[str](), 0, list[str]()
        for s, (moved, extent) in enumerate(zip(index, shape, strict=True)):
            if beyond[s] and border == "zero":
                found = self.met(moved, extent)
                if found is None:
                    return None
                tests += found
            text, (low, high) = moved.glsl(self.names), moved.bounds(self.layout.bases)
            if s == packed:
                base = " + ".join(f"({self.names[a]} >> 2)" for a in moved.axes)
                text = f"{base} + {moved.constant // PACKED}" if base else str(moved.constant // PACKED)
                low, high, extent = low // PACKED, high // PACKED, -(-extent // PACKED)
            text = wrapped_glsl(text, extent, border if beyond[s] else "zero", (low, high))
            level = max(level, self.level_of(moved))
            indices.append(self.declare("int", text, self.level_of(moved)) if moved.terms else text)
        n, c, y, x = indices
        tiles, channels, _, _ = shape_of(v)
        name = self.declare(v.vtype.glsl, load_of(self.w, v, tile_text(n, c, tiles, channels), y, x), level)
        return Texel(name, tests, level)

    def masked(self, kind: str, name: str, tests: list[str], level: int) -> str:
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
        """The index of an entry of a block over the axes that have more than one first entry. Entries that a division makes
        equal, wherever blocks start, have equal indices."""
        layout = self.layout
        constant = affine.constant + sum(c * point.get(a, 0) for a, c in affine.terms)
        terms = tuple((a, c) for a, c in affine.terms if layout.bases[a] > 1)
        if not (affine.whole or affine.exact):
            steps = (c * (1 if a == layout.strips.lane else layout.step[a]) for a, c in terms)
            constant -= constant % math.gcd(affine.divisor, *steps)
        return affine._replace(terms=terms, constant=constant)

    def _text(self, affine: Affine, point: Point) -> str:
        return self._moved(affine, point).glsl(self.names)

    def level_of(self, affine: Affine) -> int:
        return max((self.level.get(a, 0) for a in affine.axes), default=0)

    def _tests(self, affine: Affine, extent: int, point: Point) -> list[str] | None:
        """The names of tests that the index of an entry is whole and in its extent; None where it never is."""
        return self.met(self._moved(affine, point), extent)

    def met(self, moved: Affine, extent: int) -> list[str] | None:
        """The same of an index over the names."""
        layout = self.layout
        low, high = moved.bounds(layout.bases)
        if high < 0 or low >= extent:
            return None
        found = moved.inside_glsl(self.names, extent, (low, high))
        if moved.exact:
            lane = layout.strips.lane
            steps = (c * (1 if a == lane else layout.step[a]) for a, c in moved.terms)
            if all(step % moved.divisor == 0 for step in steps):
                if moved.constant % moved.divisor:
                    return None
                found = found[1:]
        return [self.declare("bool", test, self.level_of(moved)) for test in found]

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
