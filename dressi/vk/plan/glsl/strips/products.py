"""GLSL of products of two operands by workgroups, in registers or by the units for matrices (GL_KHR_cooperative_matrix)."""

from __future__ import annotations

from collections.abc import Iterator

from .....ad.contract.terms import shape_of
from .....ad.graph.index_map import Affine
from .....ad.graph.snippet import add_compensated
from ...lowering.tiling.packed import PACKED
from ...lowering.tiling.products import ProductLayout
from .strip import Strip
from .texels import load_of, places, tile_text

COOPERATIVE = "GL_KHR_cooperative_matrix"
_EXTENSIONS = (
    COOPERATIVE,
    "GL_KHR_memory_scope_semantics",
    "GL_KHR_shader_subgroup_basic",
    "GL_EXT_shader_explicit_arithmetic_types_float16",
)
"""Extensions of GLSL."""
_ORDER = "gl_CooperativeMatrixLayoutRowMajor"


class ProductStrip(Strip):
    """A product whose operands the invocations of a workgroup load together, block after block of the terms.

    left[depth][rows], of units for matrices [rows][depth]        right[depth][columns]
    """

    layout: ProductLayout

    def main(self, image: str) -> list[str]:
        layout, f, product = self.layout, self.whole, self.layout.product
        kind = "float16_t" if layout.half else "float"
        for name, count in zip(("left", "right"), layout.held, strict=True):
            self.w.head.append(f"shared {kind} dressi_{name}[{count}];")
        inside = _Units(self) if layout.half else _Registers(self)
        start, block, end = inside.start(), inside.block(), inside.end(image)
        return [
            *self._origins(),
            *start,
            f"for (int dressi_block = 0; dressi_block < {f.terms}; dressi_block += {product.depth}) {{",
            *self._loaded("dressi_left", layout.left, product.row, product.rows, not layout.half),
            *self._loaded("dressi_right", 1 - layout.left, product.column, product.columns, True),
            "barrier();",
            *block,
            "barrier();",
            "}",
            *end,
        ]

    def _origins(self) -> Iterator[str]:
        """Statements that set the parallel axes to the first entries of the workgroup."""
        for axis in self.layout.order:
            count, step = self.layout.blocks[axis], self.layout.step[axis]
            yield f"int {self.names[axis]} = {'0' if count == 1 else f'dressi_strip % {count}'}{f' * {step}' if step > 1 else ''};"
            if count > 1:
                yield f"dressi_strip /= {count};"

    def _loaded(self, array: str, k: int, side: int, entries: int, across: bool) -> Iterator[str]:
        """Statements that load a block of an operand, 0 beyond it. side: its parallel axis.  entries: of that, in the workgroup.
        across: whether neighbours in the array are neighbours along that axis, and not terms."""
        f, product, packed = self.whole, self.layout.product, self.f.packed[k]
        whole = self.layout.packs(k, packed)
        several = PACKED if whole else 1
        terms = product.depth // several
        # Neighbouring invocations load neighbours of the image.
        along = max(f.maps[k].affines[3].axes, default=-1) == side
        entry, term = (f"i % {entries}", f"i / {entries}") if along else (f"i / {terms}", f"i % {terms}")
        yield f"for (int i = int(gl_LocalInvocationIndex); i < {entries * terms}; i += {self.layout.strips.lanes}) {{"
        yield f"int dressi_e = {entry}, dressi_t = ({term}){f' * {several}' if several > 1 else ''};"
        yield f"int dressi_p = {self.names[side]} + dressi_e, dressi_q = dressi_block + dressi_t;"
        names = self.names | {side: "dressi_p"}
        yield from self._terms(names)
        tests = [f"dressi_p < {f.extents[side]}", f"dressi_q < {f.terms}"]
        extents = f.extents
        own = [(affine, extent) for affine, extent in f.guards if self._owner(affine) == k]
        m, shape = f.maps[k], shape_of(f.inputs[k])
        at = zip(m.affines, shape, strict=True) if m.border == "zero" else ()
        leaving = [(a, e) for a, e in at if not a.within(e, extents)]
        for affine, extent in (*own, *leaving):
            tests += affine.inside_glsl(names, extent, affine.bounds(extents))
        index = m.glsl(names, shape, extents)
        found, kind = self.f.inputs[k], self.f.inputs[k].vtype.glsl
        component = ""
        if packed is not None:
            component = "" if whole else f"[({index[packed]}) & 3]"
            index[packed] = f"({index[packed]}) >> 2"
        n, c, y, x = index
        tiles, channels, _, _ = shape_of(found)
        value = load_of(self.w, found, tile_text(n, c, tiles, channels), y, x)
        yield f"{kind if whole else 'float'} dressi_x = {kind if whole else 'float'}(0.0);"
        yield f"if ({' && '.join(dict.fromkeys(tests))}) dressi_x = {value}{component};"
        half = "float16_t" if self.layout.half else ""
        for j in range(several):
            own_term = f"dressi_t + {j}" if j else "dressi_t"
            cell = (
                f"({own_term}) * {entries} + dressi_e"
                if across
                else f"dressi_e * {product.depth} + {own_term}"
            )
            part = f"dressi_x.{'xyzw'[j]}" if whole else "dressi_x"
            yield f"{array}[{cell}] = {f'{half}({part})' if half else part};"
        yield "}"

    def _terms(self, names: dict[int, str]) -> Iterator[str]:
        """Statements that set the reduced axes to those of a term."""
        long = [a for a in reversed(self.whole.reduced_axes) if self.whole.extents[a] > 1]
        rest = "dressi_q"
        for a in self.whole.reduced_axes:
            names[a] = "0"
        for k, a in enumerate(long):
            extent = self.whole.extents[a]
            names[a] = f"dressi_r{a}"
            yield f"int dressi_r{a} = {rest if k + 1 == len(long) else f'{rest} % {extent}'};"
            rest = f"{rest} / {extent}"

    def _owner(self, affine: Affine) -> int:
        return next(k for k, m in enumerate(self.whole.maps) if m.axes.issuperset(affine.axes))

    def entry(self, value: str, row: str, column: str, image: str) -> list[str]:
        """Statements that write the entry of a row and a column of the workgroup, if there is one."""
        f, product = self.whole, self.layout.product
        names = self.names | {product.row: "dressi_p", product.column: "dressi_q"}
        at = [place.glsl(names) for place in places(f.axes, f.extents)]
        tests = [
            f"dressi_{name} < {f.extents[a]}"
            for name, a in (("p", product.row), ("q", product.column))
            if f.extents[a] % self.layout.step[a]
        ]
        return [
            f"{{ int dressi_p = {self.names[product.row]} + {row}, dressi_q = {self.names[product.column]} + {column};",
            *([f"if ({' && '.join(tests)}) {{"] if tests else []),
            *self.written(value, at, image),
            "}" * (1 + bool(tests)),
        ]


class _Registers:
    """Each invocation makes some neighbouring rows, and columns that are as far apart as there are invocations."""

    def __init__(self, strip: ProductStrip):
        self.strip, self.layout, self.product = strip, strip.layout, strip.layout.product
        shape = self.product.shape
        self.rows, self.columns = range(shape.rows), range(shape.columns)
        self.across = self.product.columns // shape.columns
        self.row = f"gl_LocalInvocationIndex / {self.across} * {shape.rows}"

    def start(self) -> list[str]:
        kind, totals = ("precise float", ("y", "lost")) if self.layout.compensated else ("float", ("y",))
        return [
            f"int dressi_row = int({self.row}), dressi_column = int(gl_LocalInvocationIndex % {self.across});",
            *(
                f"{kind} dressi_{name}{r}_{c} = 0.0;"
                for name in totals
                for r in self.rows
                for c in self.columns
            ),
        ]

    def block(self) -> list[str]:
        product = self.product
        sums = [(f"dressi_s{r}_{c}", r, c) for r in self.rows for c in self.columns]
        return [
            *(f"float {name} = 0.0;" for name, _, _ in sums),
            f"for (int k = 0; k < {product.depth}; k++) {{",
            *(f"float dressi_a{r}_ = dressi_left[k * {product.rows} + dressi_row + {r}];" for r in self.rows),
            *(
                f"float dressi_b{c}_ = dressi_right[k * {product.columns} + dressi_column + {c * self.across}];"
                for c in self.columns
            ),
            *(f"{name} = fma(dressi_a{r}_, dressi_b{c}_, {name});" for name, r, c in sums),
            "}",
            *(self._folded(name, f"{r}_{c}") for name, r, c in sums),
        ]

    def _folded(self, value: str, of: str) -> str:
        """A statement that adds the sum of a block."""
        total, lost = f"dressi_y{of}", f"dressi_lost{of}"
        if not self.layout.compensated:
            return f"{total} += {value};"
        return f"{{ {add_compensated(value, total, lost, 'float')} }}"

    def end(self, image: str) -> list[str]:
        return [
            line
            for r in self.rows
            for c in self.columns
            for line in self.strip.entry(
                f"dressi_y{r}_{c}", f"dressi_row + {r}", f"dressi_column + {c * self.across}", image
            )
        ]


class _Units:
    """Each subgroup makes some rows, by products of a fixed shape."""

    def __init__(self, strip: ProductStrip):
        self.strip, self.layout, self.product = strip, strip.layout, strip.layout.product
        strip.w.extensions.update(_EXTENSIONS)
        self.shape, lanes = self.product.shape, strip.layout.strips.lanes
        self.below, self.beside = strip.layout.parts
        self.texels = self.shape.rows * self.shape.columns
        strip.w.head.append(f"shared float {strip.shared}[{lanes // self.shape.lanes * self.texels}];")
        self.sums = [(f"dressi_s{r}_{c}", r, c) for r in range(self.below) for c in range(self.beside)]

    def _matrix(self, kind: str, rows: int, columns: int, use: str) -> str:
        return f"coopmat<{kind}, gl_ScopeSubgroup, {rows}, {columns}, gl_MatrixUse{use}>"

    def start(self) -> list[str]:
        matrix = self._matrix("float", self.shape.rows, self.shape.columns, "Accumulator")
        return [
            f"int dressi_row = int(gl_SubgroupID) * {self.below * self.shape.rows};",
            *(f"{matrix} {name} = {matrix}(0.0);" for name, _, _ in self.sums),
        ]

    def block(self) -> Iterator[str]:
        shape, depth, columns = self.shape, self.product.depth, self.product.columns
        yield f"for (int k = 0; k < {depth}; k += {shape.depth}) {{"
        left, right = (
            self._matrix("float16_t", shape.rows, shape.depth, "A"),
            self._matrix("float16_t", shape.depth, shape.columns, "B"),
        )
        for r in range(self.below):
            yield f"{left} dressi_a{r}_;"
            first = f"(dressi_row + {r * shape.rows}) * {depth} + k"
            yield f"coopMatLoad(dressi_a{r}_, dressi_left, {first}, {depth}, {_ORDER});"
        yield f"{right} dressi_b;"
        for c in range(self.beside):
            yield f"coopMatLoad(dressi_b, dressi_right, k * {columns} + {c * shape.columns}, {columns}, {_ORDER});"
            for r in range(self.below):
                yield f"dressi_s{r}_{c} = coopMatMulAdd(dressi_a{r}_, dressi_b, dressi_s{r}_{c});"
        yield "}"

    def end(self, image: str) -> Iterator[str]:
        shape, shared = self.shape, self.strip.shared
        for name, r, c in self.sums:
            yield f"coopMatStore({name}, {shared}, int(gl_SubgroupID) * {self.texels}, {shape.columns}, {_ORDER});"
            yield "barrier();"
            yield f"for (int i = int(gl_SubgroupInvocationID); i < {self.texels}; i += {shape.lanes}) {{"
            value = f"{shared}[int(gl_SubgroupID) * {self.texels} + i]"
            row, column = (
                f"dressi_row + {r * shape.rows} + i / {shape.columns}",
                f"{c * shape.columns} + i % {shape.columns}",
            )
            yield from self.strip.entry(value, row, column, image)
            yield "}"
            yield "barrier();"
