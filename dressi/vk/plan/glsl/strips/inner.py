"""GLSL of the inner contractions of a chain: made by a workgroup in memory that it shares, or by each invocation in registers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from .....ad.contract.terms import shape_of
from .....ad.graph import Variable
from .....ad.graph.index_map import Affine
from ...lowering.tiling.chain import Link, RegionLayout, Staged, image_axes
from ...lowering.tiling.packed import PACKED
from ..text.writer import Writer
from .strip import Strip
from .texels import Point, Source, Texel, added, load_of, places, tile_text


class Last(Strip):
    """The last contraction of a chain whose workgroups hold what the others make, or what it reads."""

    def __init__(
        self, link: Link, w: Writer, number: int, *, ended: bool, sources: Mapping[Variable, Source]
    ):
        super().__init__(link.f, w, number, ended=ended, layout=link.layout, sources=sources)
        self.local = {link.layout.strips.lane: "dressi_lane"}

    def origins(self) -> Iterator[str]:
        """Statements that set the first entries of the workgroup along the parallel axes."""
        layout = self.layout
        for axis in layout.order:
            count, step = layout.blocks[axis], layout.step[axis]
            value = "0" if count == 1 else f"dressi_strip % {count}" + (f" * {step}" if step > 1 else "")
            yield f"int {first_of(axis)} = {value};"
            if count > 1:
                yield f"dressi_strip /= {count};"

    def _places(self) -> Iterator[str]:
        lane = self.layout.strips.lane
        yield "int dressi_lane = int(gl_LocalInvocationIndex);"
        for axis in self.layout.parallel:
            yield f"int {self.names[axis]} = {first_of(axis)}{' + dressi_lane' if axis == lane else ''};"


class Region(Strip):
    """An inner contraction: the invocations of a workgroup make its region, item after item, in an array ``shared``. after: the
    name of a GLSL function of what follows from its texels, if anything does."""

    layout: RegionLayout

    def __init__(
        self, link: Link, layout: RegionLayout, w: Writer, sources: Mapping[Variable, Source], after: str
    ):
        super().__init__(link.f, w, layout=layout, sources=sources)
        assert link.result is not None, "an inner contraction is read"
        self.result, self.after, self.region = link.result, after, layout
        self.first = {a: origin.constant for a, origin in layout.origin.items()}
        self.local = {a: f"dressi_l{a}" for a in layout.items}

    def items(self, array: str, lanes: int) -> list[str]:
        """The statements of the workgroup. lanes: its invocations."""
        head = f"for (int dressi_item = int(gl_LocalInvocationIndex); dressi_item < {self.region.count}; dressi_item += {lanes}) {{"
        return [head, *self.main(array), "}"]

    def _places(self) -> Iterator[str]:
        yield "int dressi_rest = dressi_item;"
        layout, lane = self.region, self.layout.strips.lane
        for a in sorted(layout.items, key=lambda a: (a != lane, -a)):
            count, by = layout.items[a], layout.tile.get(a, 1)
            yield f"int {self.local[a]} = {'0' if count == 1 else f'dressi_rest % {count}'}{f' * {by}' if by > 1 else ''};"
            if count > 1:
                yield f"dressi_rest /= {count};"
        for a in layout.parallel:
            if a not in layout.items:
                yield f"int {self.names[a]} = 0;"
                continue
            first = layout.origin[a]._replace(constant=0)
            text = first.glsl({b: first_of(b) for b in first.axes})
            yield f"int {self.names[a]} = {text} + {self.local[a]};"

    def _stored(self, value: str, point: Point, image: str) -> list[str]:
        f, layout = self.whole, self.region
        tests = []
        for a in layout.items:
            moved = self._moved(Affine.axis(a), point)
            tests += moved.inside_glsl(self.names, f.extents[a], moved.bounds(layout.bases))
        at = ["0"] * 4
        for a, s in layout.image_axes.items():
            shift = point.get(a, 0) - self.first.get(a, 0)
            at[s] = f"{self.local[a]} + {shift}" if shift else self.local[a]
        cell = f"{image}[{cell_text(at, layout.held)}]"
        n, c, y, x = (self._text(place, point) for place in places(f.axes, f.extents))
        made = (
            f"{self.after}(ivec2({x}, {y}), {tile_text(n, c, *f.shape[:2])}, {value})"
            if self.after
            else value
        )
        if not tests:
            return [f"{cell} = {made};"]
        zero = f"{self.result.vtype.glsl}(0)"
        return [f"if ({' && '.join(tests)}) {cell} = {made}; else {cell} = {zero};"]


def staged(v: Variable, layout: Staged, w: Writer, array: str, lanes: int) -> list[str]:
    """The statements of a workgroup that loads a region of an image into an array, zeros beyond the image."""
    names, lines = ("n", "c", "y", "x"), []
    shape, tests, at = shape_of(v), [], []
    for s in (3, 2, 1, 0):
        extent, origin = layout.held[s], layout.region.origin[s]
        text = origin.glsl({a: first_of(a) for a in origin.axes})
        if extent > 1:
            text += f" + dressi_rest % {extent}"
        lines.append(f"int dressi_{names[s]} = {text};")
        if extent > 1:
            lines.append(f"dressi_rest /= {extent};")
        if not layout.inside(s, shape[s]):
            tests.append(f"dressi_{names[s]} >= 0 && dressi_{names[s]} < {shape[s]}")
        at.append(f"dressi_{names[s]}")
    x, y, c, n = at
    value = load_of(w, v, tile_text(n, c, *shape[:2]), y, x)
    if tests:
        store = f"if ({' && '.join(tests)}) {array}[dressi_item] = {value}; else {array}[dressi_item] = {v.vtype.glsl}(0);"
    else:
        store = f"{array}[dressi_item] = {value};"
    head = f"for (int dressi_item = int(gl_LocalInvocationIndex); dressi_item < {layout.count}; dressi_item += {lanes}) {{"
    return [head, "int dressi_rest = dressi_item;", *lines, store, "}"]


class InWorkgroup:
    """A value that the workgroup holds, 0 outside of its image."""

    def __init__(self, v: Variable, layout: RegionLayout | Staged, array: str):
        self.v, self.layout, self.array = v, layout, array

    def texel(self, strip: Strip, index: Sequence[Affine], beyond: Sequence[bool]) -> Texel:
        first = strip.layout.f.reduced_axes.start
        names = {a: name for a, name in strip.names.items() if a >= first} | strip.local
        at, level = [], 0
        for s, (moved, origin) in enumerate(zip(index, self.layout.region.origin, strict=True)):
            terms = tuple((a, c) for a, c in moved.terms if a in names)
            level = max(level, strip.level_of(moved))
            if s == self.layout.packed:
                parts = [f"({names[a]} >> 2)" for a, _ in terms]
                at.append(" + ".join([*parts, str(moved.constant // PACKED - origin.constant)]))
            else:
                at.append(Affine(terms, moved.constant - origin.constant).glsl(names))
        cell = f"{self.array}[{cell_text(at, self.layout.held)}]"
        return Texel(strip.declare(self.v.vtype.glsl, cell, level), [], level)


class InRegisters:
    """A value that each invocation makes where its block reads it. number: of the contraction."""

    def __init__(self, link: Link, after: str, number: int):
        assert link.result is not None, "an inner contraction is read"
        self.link, self.after, self.number = link, after, number
        self.made: dict[tuple[Affine, ...], tuple[str, int]] = {}

    def texel(self, strip: Strip, index: Sequence[Affine], beyond: Sequence[bool]) -> Texel | None:
        tests: list[str] = []
        shape = shape_of(self.link.f.whole.output)
        for affine, extent, out in zip(index, shape, beyond, strict=True):
            found = strip.met(affine, extent) if out else []
            if found is None:
                return None
            tests += found
        key = tuple(index)
        if key not in self.made:
            level = max(map(strip.level_of, index))
            self.made[key] = self._make(strip, index, level), level
        name, level = self.made[key]
        return Texel(name, tests, level)

    def _make(self, strip: Strip, index: Sequence[Affine], level: int) -> str:
        f, name = self.link.f.whole, f"dressi_i{self.number}_{len(self.made)}"
        kind, axes = f.output.vtype.glsl, image_axes(f)
        assert axes is not None, "the pass asked for these"
        at = dict.fromkeys(range(len(f.extents)), Affine()) | {a: index[s] for a, s in axes.items()}
        total = f"{name}_sum"
        lines: list[str] = []
        for term, r in enumerate(itertools.product(*(range(e) for e in f.reduced))):
            at |= {a: Affine((), k) for a, k in zip(f.reduced_axes, r, strict=True)}
            lines += self._term(strip, at, total, f"{name}_{term}_")
        start = f"{kind} {total} = {kind}(0);"
        value = total
        if self.after:
            places = []
            for affine, extent in zip(index, shape_of(f.output), strict=True):
                low, high = affine.bounds(strip.layout.bases)
                text = affine.glsl(strip.names)
                places.append(text if low >= 0 and high < extent else f"clamp({text}, 0, {extent - 1})")
            n, c, y, x = places
            value = f"{self.after}(ivec2({x}, {y}), {tile_text(n, c, *f.shape[:2])}, {total})"
        made = self.link.result
        assert made is not None
        strip.state([start, *lines, f"{made.vtype.glsl} {name} = {value};"], level)
        return name

    def _term(self, strip: Strip, at: Mapping[int, Affine], total: str, prefix: str) -> list[str]:
        """Statements that add a term to the total."""
        f = self.link.f
        whole, tests = f.whole, list[str]()
        for affine, extent in whole.guards:
            found = strip.met(_at(affine, at), extent)
            if found is None:
                return []
            tests += found
        values: dict[Variable, str] = {}
        for k, (v, formal) in enumerate(zip(f.inputs, whole.body.formals, strict=False)):
            index = [_at(affine, at) for affine in whole.maps[k].affines]
            packed, shape = f.packed[k], shape_of(whole.inputs[k])
            found = strip.texel(v, shape, index, [True] * 4, packed, whole.maps[k].border)
            if found is None and whole.product:
                return []
            if found is None:
                values[formal] = f"{whole.inputs[k].vtype.glsl}(0)"
                continue
            own = list(dict.fromkeys(found.tests))
            name = strip.masked(v.vtype.glsl, found.name, own, found.level) if own else found.name
            values[formal] = name if packed is None else f"{name}.{'xyzw'[index[packed].constant % 4]}"
        if whole.product and whole.output.vtype.is_scalar:
            add = f"{total} = {added(list(values.values()), total)};"
            return [f"if ({' && '.join(dict.fromkeys(tests))}) {add}" if tests else add]
        for affine, formal in zip(whole.indices, whole.body.formals[len(f.inputs) :], strict=True):
            values[formal] = f"({_at(affine, at).glsl(strip.names)})"
        statements, root = whole.body.glsl(values, prefix)
        add = f"{total} += {root};"
        return [*statements, f"if ({' && '.join(dict.fromkeys(tests))}) {add}" if tests else add]


def first_of(axis: int) -> str:
    """The name of the first entry of a workgroup along an axis of the last contraction."""
    return f"dressi_w{axis}"


def cell_text(at: Sequence[str], held: Sequence[int]) -> str:
    """The number of a texel n, c, y, x in an array."""
    text = ""
    for place, extent in zip(at, held, strict=True):
        if extent > 1:
            text = f"({text}) * {extent} + ({place})" if text else f"({place})"
    return text or "0"


def _at(affine: Affine, at: Mapping[int, Affine]) -> Affine:
    found = affine.substituted(at)
    assert found is not None, "the pass asked for indices that are sums"
    return found
