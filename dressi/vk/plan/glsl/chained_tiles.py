"""GLSL of dispatches of register tiles: contractions side by side, chains of contractions that read each
other, and products of two operands that workgroups stage in shared memory, in registers or by units for
matrices (GL_KHR_cooperative_matrix).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ....ad.contract.terms import shape_of
from ....ad.graph import Function, Variable
from ....ad.graph.index_map import Affine
from ..core.substage import TiledCompute
from ..lowering import chains
from ..lowering.register_tiles import PACKED, ProductLayout, TiledContraction, tiled_in
from ..model.schedules import Tensorize
from .register_tiles import (
    GROUP_NUMBER,
    LANE,
    Index,
    Point,
    RegisterTile,
    Source,
    Texel,
    added,
    load_of,
    outside,
    places,
    shuffled,
    taken,
    tile_text,
    under,
)
from .writer import Shaders, Writer, workgroup_number

COOPERATIVE = "GL_KHR_cooperative_matrix"
_EXTENSIONS = (
    COOPERATIVE,
    "GL_KHR_memory_scope_semantics",
    "GL_KHR_shader_subgroup_basic",
    "GL_EXT_shader_explicit_arithmetic_types_float16",
)  # of GLSL
_ORDER = "gl_CooperativeMatrixLayoutRowMajor"


def contract_shaders(work: TiledCompute, w: Writer) -> Shaders:
    """``compute``: each invocation makes a register tile of its workgroup's contraction, or of a chain's
    last."""
    s = w.s
    fs = tiled_in(s)
    names = w.declare()
    width, rows = chains.grid_of(s)
    links = chains.links_of(s) if chains.is_chain(s) else []
    layouts = [links[-1].layout] if links else [f.layout for f in fs]
    groups = sum(layout.groups for layout in layouts)
    number = "dressi_group.y" if width == 1 else f"dressi_group.y * {width} + dressi_group.x"
    main = [f"ivec2 dressi_group = {workgroup_number(w.limits)};", f"int {GROUP_NUMBER} = {number};"]
    for f in fs:
        w.include(f.part)
    if width * rows > groups:
        main.append(f"if ({GROUP_NUMBER} >= {groups}) return;")
    main += _chained(links, w, names) if links else _side_by_side(fs, w, names)
    made = w.dispatch(main, f"local_size_x={layouts[0].lanes}")
    return replace(made, matrices=COOPERATIVE in w.extensions)


def following(
    w: Writer,
    v: Variable,
    others: list[Function],
    names: Mapping[Variable, str],
    k: int,
    result: Variable | None = None,
) -> str:
    """The name of a GLSL function (ivec2 pixel, int tile, value of ``v``) that does others at a texel. It
    returns ``result``, or stores what is made into ``names``."""
    outer, w.names, w.lines = (w.s, w.tiling, w.domain, w.names, w.lines), {v: "dressi_texel"}, []
    w.s, w.tiling, w.domain = replace(w.s, domain=v.domain), w.limits.tiling(v), v.domain
    for g in others:
        w.emit(g)
    lines = [f"ivec2 place = {w.texel(v, 'tile', 'pixel')};", *w.lines]
    if result is None:
        made = {v, *(g.output for g in others)}
        kind, name = "void", f"dressi_following{k}"
        lines += [line for x in w.s.outputs if x in made for line in w.stores(x, names[x])]
    else:
        kind, name = result.vtype.glsl, f"dressi_after{k}"
        lines.append(f"return {w.names[result]};")
    w.function(kind, name, f"ivec2 pixel, int tile, {v.vtype.glsl} dressi_texel", lines)
    w.s, w.tiling, w.domain, w.names, w.lines = outer
    return name


def _side_by_side(fs: dict[TiledContraction, list], w: Writer, names: dict[Variable, str]) -> list[str]:
    """Contractions that do not read each other: each has workgroups of its own."""
    main: list[str] = []
    for k, (f, others) in enumerate(fs.items()):
        image = following(w, f.output, others, names, k) if others else names[f.output]
        own = RegisterTile(f, w, k, ended=bool(others), sources=shuffled(f)).main(image)
        if k + 1 == len(fs):
            main += [*own, "}" * k]
        else:
            main += [f"if ({GROUP_NUMBER} < {f.layout.groups}) {{", *own]
            main.append(f"}} else {{ {GROUP_NUMBER} -= {f.layout.groups};")
    return main


def _chained(links: list[chains.Link], w: Writer, names: dict[Variable, str]) -> list[str]:
    """A chain: all workgroups make the last contraction, from what they stage or make of the others."""
    *inner, last = links
    sources: dict[Variable, Source] = {}
    number, lanes = len(links) - 1, last.layout.lanes
    v, ended = last.f.output, bool(last.others)
    image = following(w, v, last.others, names, number) if ended else names[v]
    if isinstance(last.layout, ProductLayout):
        kind = _Units if last.layout.half else _Registers
        return kind(last.f, w, number, ended=ended, layout=last.layout).main(image)
    staging = chains.staging_of(links)
    assert staging is not None, "the pass asked for these"
    kind = LastTile if staging else RegisterTile
    tile = kind(last.f, w, number, ended=ended, layout=last.layout, sources=sources)
    main = [*tile.origins()] if isinstance(tile, LastTile) else []
    arrays = {v: f"dressi_region{k}" for k, v in enumerate(staging)}
    for v, layout in staging.items():
        w.head.append(f"shared {v.vtype.glsl} {arrays[v]}[{math.prod(layout.kept)}];")
        if isinstance(layout, chains.StagedImage):
            main += staged(v, layout, w, arrays[v], lanes)
            sources[v] = InWorkgroup(v, layout, arrays[v])
    main += ["barrier();"] if sources else []
    for k, link in enumerate(inner):
        v = link.inner
        after = "" if v is link.f.output else following(w, link.f.output, link.others, names, k, v)
        layout = staging.get(v)
        if not isinstance(layout, chains.RegionLayout):
            sources[v] = InRegisters(link, after, k)
            continue
        items = RegionTile(link, layout, w, sources, after).items(arrays[v], lanes)
        main += ["{", *items, "}", "barrier();"]
        sources[v] = InWorkgroup(v, layout, arrays[v])
    return [*main, *tile.main(image)]


# ---- chains whose workgroups stage values
class LastTile(RegisterTile):
    """The last contraction of a chain whose workgroups stage what the others make, or what it reads."""

    def origins(self) -> Iterator[str]:
        """Statements that set the first entries of the workgroup along the parallel axes."""
        layout = self.layout
        self.local = {layout.lane: "dressi_lane"}
        for axis in layout.order:
            yield from taken(first_of(axis), GROUP_NUMBER, layout.blocks[axis], layout.step[axis])

    def _places(self) -> Iterator[str]:
        yield f"int dressi_lane = {LANE};"
        for axis in self.layout.parallel:
            lane = " + dressi_lane" if axis == self.layout.lane else ""
            yield f"int {self.names[axis]} = {first_of(axis)}{lane};"


class RegionTile(RegisterTile):
    """An inner contraction: the invocations of a workgroup make its region, item after item, in an array in
    shared memory. after: the name of a GLSL function of what follows from its texels, if anything does."""

    layout: chains.RegionLayout

    def __init__(
        self,
        link: chains.Link,
        layout: chains.RegionLayout,
        w: Writer,
        sources: Mapping[Variable, Source],
        after: str,
    ):
        super().__init__(link.f, w, layout=layout, sources=sources)
        self.result, self.after = link.inner, after
        self.first = {a: origin.constant for a, origin in layout.origin.items()}
        self.local = {a: f"dressi_l{a}" for a in layout.items}

    def items(self, array: str, lanes: int) -> list[str]:
        """The statements of the workgroup. lanes: its invocations."""
        return each_item(self.layout.count, lanes, self.main(array))

    def _places(self) -> Iterator[str]:
        layout = self.layout
        for a in sorted(layout.items, key=lambda a: (a != layout.lane, -a)):
            yield from taken(self.local[a], "dressi_rest", layout.items[a], layout.tile.get(a, 1))
        for a in layout.parallel:
            if a not in layout.items:
                yield f"int {self.names[a]} = 0;"
                continue
            first = layout.origin[a]._replace(constant=0)
            text = first.glsl({b: first_of(b) for b in first.axes})
            yield f"int {self.names[a]} = {text} + {self.local[a]};"

    def _stored(self, value: str, point: Point, image: str) -> list[str]:
        f, layout = self.part, self.layout
        tests = []
        for a in layout.items:
            moved = self._moved(Affine.axis(a), point)
            tests += moved.inside_glsl(self.names, f.extents[a], moved.bounds(layout.bases))
        at = ["0"] * 4
        for a, s in layout.image_axes.items():
            shift = point.get(a, 0) - self.first.get(a, 0)
            at[s] = f"{self.local[a]} + {shift}" if shift else self.local[a]
        if self.after:
            n, c, y, x = (self._text(place, point) for place in places(f.axes, f.extents))
            value = f"{self.after}(ivec2({x}, {y}), {tile_text(n, c, *f.shape[:2])}, {value})"
        return kept(f"{image}[{cell_text(at, layout.kept)}]", value, self.result, tests)


def staged(v: Variable, layout: chains.StagedImage, w: Writer, array: str, lanes: int) -> list[str]:
    """The statements of a workgroup that loads a region of an image into an array, zeros beyond the image."""
    shape, tests, lines = shape_of(v), [], []
    at = [f"dressi_{name}" for name in "ncyx"]
    for s in (3, 2, 1, 0):
        origin = layout.region.origin[s]
        first = origin.glsl({a: first_of(a) for a in origin.axes})
        lines += taken(at[s], "dressi_rest", layout.kept[s], first=first)
        if not layout.inside(s, shape[s]):
            tests.append(f"{at[s]} >= 0 && {at[s]} < {shape[s]}")
    lines += kept(f"{array}[dressi_item]", load_of(w, v, at), v, tests)
    return each_item(layout.count, lanes, lines)


def each_item(count: int, lanes: int, lines: Sequence[str]) -> list[str]:
    """A loop in which a workgroup shares ``count`` items; the statements take axes from ``dressi_rest``."""
    head = f"for (int dressi_item = {LANE}; dressi_item < {count}; dressi_item += {lanes}) {{"
    return [head, "int dressi_rest = dressi_item;", *lines, "}"]


def kept(cell: str, value: str, v: Variable, tests: Sequence[str]) -> list[str]:
    """Statements that keep a value in shared memory, 0 where a test is not met."""
    if not tests:
        return [f"{cell} = {value};"]
    return [f"if ({' && '.join(tests)}) {cell} = {value}; else {cell} = {v.vtype.glsl}(0);"]


class InWorkgroup:
    """A value that the workgroup stages, 0 outside of its image."""

    def __init__(self, v: Variable, layout: chains.RegionLayout | chains.StagedImage, array: str):
        self.v, self.layout, self.array = v, layout, array

    def texel(self, tile: RegisterTile, index: Sequence[Affine], beyond: Sequence[bool]) -> Texel:
        first = tile.part.reduced_axes.start
        names = {a: name for a, name in tile.names.items() if a >= first} | tile.local
        at, level = [], 0
        for s, (moved, origin) in enumerate(zip(index, self.layout.region.origin, strict=True)):
            terms = tuple((a, c) for a, c in moved.terms if a in names)
            level = max(level, tile.level_of(moved))
            if s == self.layout.packed:
                first = f" - {origin.constant}" if origin.constant else ""
                at.append(tile.packed_place(Affine(terms, moved.constant), names) + first)
            else:
                at.append(Affine(terms, moved.constant - origin.constant).glsl(names))
        cell = f"{self.array}[{cell_text(at, self.layout.kept)}]"
        return Texel(tile.declare(self.v.vtype.glsl, cell, level), [], level)


def first_of(axis: int) -> str:
    """The name of the first entry of a workgroup along an axis of the last contraction."""
    return f"dressi_w{axis}"


def cell_text(at: Sequence[str], extents: Sequence[int]) -> str:
    """The number of a texel n, c, y, x in an array."""
    text = ""
    for place, extent in zip(at, extents, strict=True):
        if extent > 1:
            text = f"({text}) * {extent} + ({place})" if text else f"({place})"
    return text or "0"


# ---- chains in registers
class InRegisters:
    """A value that each invocation makes where its block reads it. number: of the contraction."""

    def __init__(self, link: chains.Link, after: str, number: int):
        self.link, self.after, self.number = link, after, number
        self.made: dict[tuple[Affine, ...], tuple[str, int]] = {}

    def texel(self, tile: RegisterTile, index: Sequence[Affine], beyond: Sequence[bool]) -> Texel | None:
        tests = tile.met(outside(index, shape_of(self.link.f.part.output), beyond))
        if tests is None:
            return None
        key = tuple(index)
        if key not in self.made:
            level = max(map(tile.level_of, index))
            self.made[key] = self._make(tile, index, level), level
        name, level = self.made[key]
        return Texel(name, tests, level)

    def _make(self, tile: RegisterTile, index: Sequence[Affine], level: int) -> str:
        f, name = self.link.f.part, f"dressi_i{self.number}_{len(self.made)}"
        kind, axes = f.output.vtype.glsl, chains.image_axes(f)
        assert axes is not None, "the pass asked for these"
        at = dict.fromkeys(range(len(f.extents)), Affine()) | {a: index[s] for a, s in axes.items()}
        total = f"{name}_sum"
        lines: list[str] = []
        for term, r in enumerate(itertools.product(*(range(e) for e in f.reduced))):
            at |= {a: Affine((), k) for a, k in zip(f.reduced_axes, r, strict=True)}
            lines += self._term(tile, _index_at(at), total, f"{name}_{term}_")
        value = total
        if self.after:
            texts = []
            for affine, extent in zip(index, shape_of(f.output), strict=True):
                low, high = affine.bounds(tile.layout.bases)
                text = affine.glsl(tile.names)
                texts.append(text if low >= 0 and high < extent else f"clamp({text}, 0, {extent - 1})")
            n, c, y, x = texts
            value = f"{self.after}(ivec2({x}, {y}), {tile_text(n, c, *f.shape[:2])}, {total})"
        made = f"{self.link.inner.vtype.glsl} {name} = {value};"
        tile.state([f"{kind} {total} = {kind}(0);", *lines, made], level)
        return name

    def _term(self, tile: RegisterTile, index: Index, total: str, prefix: str) -> list[str]:
        """Statements that add a term to the total."""
        f = self.link.f
        if not (f.part.product and f.part.output.vtype.is_scalar):
            return tile.term(f, index, prefix, lambda value: f"{total} += {value};")
        tests = tile.guards(f.part, index)
        factors = None if tests is None else tile.operands(f, index)
        return [] if tests is None or factors is None else under(tests, f"{total} = {added(factors, total)};")


def _index_at(at: Mapping[int, Affine]) -> Index:
    def index(affine: Affine) -> Affine:
        moved = affine.substituted(at)
        assert moved is not None, "the pass asked for indices that are sums"
        return moved

    return index


# ---- products by workgroups
class ProductTile(RegisterTile):
    """A product whose operands the invocations of a workgroup load together, block after block of the terms.

    left[depth][rows], of units for matrices [rows][depth]        right[depth][columns]
    """

    layout: ProductLayout

    @property
    def product(self) -> Tensorize:
        return self.layout.product

    @property
    def compensated(self) -> bool:
        return self.layout.compensated

    def start(self) -> Iterable[str]:
        """Statements before the loop over blocks, of the accumulators."""
        raise NotImplementedError

    def block(self) -> Iterable[str]:
        """Statements that add the products of a block."""
        raise NotImplementedError

    def end(self, image: str) -> Iterable[str]:
        """Statements that write what was made."""
        raise NotImplementedError

    def main(self, image: str) -> list[str]:
        layout, product = self.layout, self.product
        kind = "float16_t" if layout.half else "float"
        for name, count in zip(("left", "right"), layout.staged, strict=True):
            self.w.head.append(f"shared {kind} dressi_{name}[{count}];")
        left, right = layout.left, 1 - layout.left
        return [
            *(
                line
                for axis in layout.order
                for line in taken(self.names[axis], GROUP_NUMBER, layout.blocks[axis], layout.step[axis])
            ),
            *self.start(),
            f"for (int dressi_block = 0; dressi_block < {self.part.terms}; dressi_block += {product.depth}) {{",
            *self._staged("dressi_left", left, layout.row, product.rows, not layout.half),
            *self._staged("dressi_right", right, layout.column, product.columns, True),
            "barrier();",
            *self.block(),
            "barrier();",
            "}",
            *self.end(image),
        ]

    def _staged(self, array: str, k: int, side: int, entries: int, across: bool) -> Iterator[str]:
        """Statements that load a block of an operand, 0 beyond it. side: its parallel axis, with so many
        entries. across: whether neighbours in the array are neighbours along that axis, and not terms."""
        f, depth, packed = self.part, self.product.depth, self.f.packed[k]
        whole = self.layout.packs(k, packed)
        several = PACKED if whole else 1
        terms = depth // several
        # Neighbouring invocations load neighbours of the image.
        along = max(f.maps[k].affines[3].axes, default=-1) == side
        entry, term = (f"i % {entries}", f"i / {entries}") if along else (f"i / {terms}", f"i % {terms}")
        yield f"for (int i = {LANE}; i < {entries * terms}; i += {self.layout.lanes}) {{"
        yield f"int dressi_e = {entry}, dressi_t = ({term}){f' * {several}' if several > 1 else ''};"
        yield f"int dressi_p = {self.names[side]} + dressi_e, dressi_q = dressi_block + dressi_t;"
        names = self.names | {side: "dressi_p"}
        yield from self._terms(names)
        m, shape, extents = f.maps[k], shape_of(f.inputs[k]), f.extents
        tests = [f"dressi_p < {extents[side]}", f"dressi_q < {f.terms}"]
        own = [(affine, extent) for affine, extent in f.guards if self._owner(affine) == k]
        at = zip(m.affines, shape, strict=True) if m.border == "zero" else ()
        leaving = [(a, e) for a, e in at if not a.within(e, extents)]
        for affine, extent in (*own, *leaving):
            tests += affine.inside_glsl(names, extent, affine.bounds(extents))
        index = m.glsl(names, shape, extents)
        operand, component = self.f.inputs[k], ""
        if packed is not None:
            component = "" if whole else f"[({index[packed]}) & 3]"
            index[packed] = f"({index[packed]}) >> 2"
        kind = operand.vtype.glsl if whole else "float"
        yield f"{kind} dressi_x = {kind}(0.0);"
        yield f"if ({' && '.join(dict.fromkeys(tests))}) dressi_x = {load_of(self.w, operand, index)}{component};"
        for j in range(several):
            own_term = f"dressi_t + {j}" if j else "dressi_t"
            cell = f"({own_term}) * {entries} + dressi_e" if across else f"dressi_e * {depth} + {own_term}"
            value = f"dressi_x.{'xyzw'[j]}" if whole else "dressi_x"
            yield f"{array}[{cell}] = {f'float16_t({value})' if self.layout.half else value};"
        yield "}"

    def _terms(self, names: dict[int, str]) -> Iterator[str]:
        """Statements that set the reduced axes to those of a term."""
        long = [a for a in reversed(self.part.reduced_axes) if self.part.extents[a] > 1]
        rest = "dressi_q"
        for a in self.part.reduced_axes:
            names[a] = "0"
        for k, a in enumerate(long):
            extent = self.part.extents[a]
            names[a] = f"dressi_r{a}"
            yield f"int dressi_r{a} = {rest if k + 1 == len(long) else f'{rest} % {extent}'};"
            rest = f"{rest} / {extent}"

    def _owner(self, affine: Affine) -> int:
        return next(k for k, m in enumerate(self.part.maps) if m.axes.issuperset(affine.axes))

    def entry(self, value: str, row: str, column: str, image: str) -> list[str]:
        """Statements that write the entry of a row and a column of the workgroup, if there is one."""
        f, layout = self.part, self.layout
        names = self.names | {layout.row: "dressi_p", layout.column: "dressi_q"}
        at = [place.glsl(names) for place in places(f.axes, f.extents)]
        tests = [
            f"{names[a]} < {f.extents[a]}"
            for a in (layout.row, layout.column)
            if f.extents[a] % layout.step[a]
        ]
        first = f"int dressi_p = {self.names[layout.row]} + {row}, dressi_q = {self.names[layout.column]} + {column};"
        return [f"{{ {first}", *under(tests, *self.written(value, at, image)), "}"]


class _Registers(ProductTile):
    """Each invocation makes neighbouring rows, and columns as far apart as there are invocations."""

    def start(self) -> list[str]:
        shape = self.product.shape
        self.across = self.product.columns // shape.columns
        self.rows, self.columns = range(shape.rows), range(shape.columns)
        self.entries = [*itertools.product(self.rows, self.columns)]
        kind, totals = ("precise float", ("y", "lost")) if self.compensated else ("float", ("y",))
        return [
            f"int dressi_row = int(gl_LocalInvocationIndex / {self.across} * {shape.rows});",
            f"int dressi_column = int(gl_LocalInvocationIndex % {self.across});",
            *(f"{kind} dressi_{name}{r}_{c} = 0.0;" for name in totals for r, c in self.entries),
        ]

    def block(self) -> list[str]:
        rows, columns, depth = self.product.rows, self.product.columns, self.product.depth
        return [
            *(f"float dressi_s{r}_{c} = 0.0;" for r, c in self.entries),
            f"for (int k = 0; k < {depth}; k++) {{",
            *(f"float dressi_a{r}_ = dressi_left[k * {rows} + dressi_row + {r}];" for r in self.rows),
            *(
                f"float dressi_b{c}_ = dressi_right[k * {columns} + dressi_column + {c * self.across}];"
                for c in self.columns
            ),
            *(
                f"dressi_s{r}_{c} = fma(dressi_a{r}_, dressi_b{c}_, dressi_s{r}_{c});"
                for r, c in self.entries
            ),
            "}",
            *(self.folded(f"{r}_{c}") for r, c in self.entries),
        ]

    def end(self, image: str) -> Iterator[str]:
        for r, c in self.entries:
            column = f"dressi_column + {c * self.across}"
            yield from self.entry(f"dressi_y{r}_{c}", f"dressi_row + {r}", column, image)


class _Units(ProductTile):
    """Each subgroup makes some rows, by products of a fixed shape."""

    def _matrix(self, kind: str, rows: int, columns: int, use: str) -> str:
        return f"coopmat<{kind}, gl_ScopeSubgroup, {rows}, {columns}, gl_MatrixUse{use}>"

    def start(self) -> list[str]:
        self.w.extensions.update(_EXTENSIONS)
        shape = self.product.shape
        self.below, self.beside = self.layout.parts
        self.texels = shape.rows * shape.columns
        self.w.head.append(f"shared float {self.shared}[{self.layout.lanes // shape.lanes * self.texels}];")
        self.sums = [(f"dressi_s{r}_{c}", r, c) for r in range(self.below) for c in range(self.beside)]
        matrix = self._matrix("float", shape.rows, shape.columns, "Accumulator")
        return [
            f"int dressi_row = int(gl_SubgroupID) * {self.below * shape.rows};",
            *(f"{matrix} {name} = {matrix}(0.0);" for name, _, _ in self.sums),
        ]

    def block(self) -> Iterator[str]:
        shape, depth, columns = self.product.shape, self.product.depth, self.product.columns
        left = self._matrix("float16_t", shape.rows, shape.depth, "A")
        right = self._matrix("float16_t", shape.depth, shape.columns, "B")
        yield f"for (int k = 0; k < {depth}; k += {shape.depth}) {{"
        for r in range(self.below):
            yield f"{left} dressi_a{r}_;"
            first = f"(dressi_row + {r * shape.rows}) * {depth} + k"
            yield f"coopMatLoad(dressi_a{r}_, dressi_left, {first}, {depth}, {_ORDER});"
        yield f"{right} dressi_b;"
        for c in range(self.beside):
            first = f"k * {columns} + {c * shape.columns}"
            yield f"coopMatLoad(dressi_b, dressi_right, {first}, {columns}, {_ORDER});"
            for r in range(self.below):
                yield f"dressi_s{r}_{c} = coopMatMulAdd(dressi_a{r}_, dressi_b, dressi_s{r}_{c});"
        yield "}"

    def end(self, image: str) -> Iterator[str]:
        shape, shared = self.product.shape, self.shared
        first = f"int(gl_SubgroupID) * {self.texels}"
        for name, r, c in self.sums:
            yield f"coopMatStore({name}, {shared}, {first}, {shape.columns}, {_ORDER});"
            yield "barrier();"
            yield f"for (int i = int(gl_SubgroupInvocationID); i < {self.texels}; i += {shape.lanes}) {{"
            row = f"dressi_row + {r * shape.rows} + i / {shape.columns}"
            column = f"{c * shape.columns} + i % {shape.columns}"
            yield from self.entry(f"{shared}[{first} + i]", row, column, image)
            yield "}"
            yield "barrier();"
