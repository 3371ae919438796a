"""GLSL of a scatter: each texel of the source adds into accumulators, which are then resolved into the table.

Where one buffer cannot hold the accumulators of the table, the same shaders do both for one *band* of its
cells after the other; ``dressi_band`` is the first cell of the band. A sum has the same bits in any number of
bands.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ....ad.graph import (
    AccumulateFunction,
    FragmentScatterFunction,
    ScatterFunction,
    Variable,
)
from ....ad.graph.types import INT, VType
from ..core.accumulators import HIGHEST, LOWEST, MANTISSA, Accumulators, accumulators_of
from ..core.substage import (
    GROUP,
    ComputeSum,
    FaceSums,
    FragmentScatter,
    PrimitiveWork,
    Scatter,
    ScatterDispatch,
)
from ..lowering.scatter import FaceSum
from . import compute_raster, raster
from .compute_raster import ROUND
from .pixel import FULL_SCREEN, invocation, write_work
from .raster import FACE, Flat
from .writer import LONG_ATOMICS, Resource, Shaders, Writer, component, constants, invocation_number

Adding = ScatterFunction | FragmentScatterFunction | AccumulateFunction


def scatter_dispatch_shaders(work: ScatterDispatch, w: Writer) -> Shaders:
    """``compute`` adds the values of a source texel into the buffer, ``resolve`` writes the table from it."""
    adding = _Adding(work, w)
    lines = adding.accumulated()
    layout, start = invocation(w, work.sparse)
    source = w.text([*start, *w.place(), *lines], [*adding.buffers, f"layout({layout}) in;"])
    return adding.shaders({"compute": source})


def fragment_scatter_shaders(work: FragmentScatter, w: Writer) -> Shaders:
    """``vertex`` and ``fragment`` draw triangles; every fragment adds. ``resolve`` writes the table."""
    adding = _Adding(work, w)
    f = adding.f
    assert isinstance(f, FragmentScatterFunction)
    actual, flat = raster.inside(f)
    w.leave_out(lambda r: adding.stored(r) or r.kind == "attachment")
    pulled = adding.pulled(f, flat, actual)
    received = flat.receive(w, actual)
    roots = raster.write_fragment(w, f, actual, flat)
    lines = adding.fragment(f, roots)
    main = [*received, *raster.fragment_place(w), *w.lines, *lines]
    source = w.text(main, [*adding.buffers, *flat.layouts("in")])
    return adding.shaders({"vertex": pulled, "fragment": source})


def compute_sum_shaders(work: ComputeSum, w: Writer) -> Shaders:
    """``compute`` visits the pixels of faces, each of which adds; ``resolve`` writes the sums."""
    adding = _Adding(work, w)
    f = adding.f
    assert isinstance(f, AccumulateFunction | FragmentScatterFunction)
    if work.faces is not None:
        raster.declare_list(w)
    w.leave_out(adding.stored)
    once, lines, roots = compute_raster.fragments(w, f)
    body, kept = [*lines, *adding.fragment(f, roots)], "true"
    if len(adding.bands) > 1:
        cell = f"(tile * {f.size[1]} + pixel.y) * {f.size[0]} + pixel.x - dressi_band"
        kept = f"uint({cell}) < {adding.bands.step}u"
    main = compute_raster.visit(w, work, f, once, body, kept)
    return adding.shaders({"compute": w.text(main, [*adding.buffers, f"layout(local_size_x={GROUP}) in;"])})


class _Adding:
    """A SubStage that scatters: the writer of what adds, its table's accumulators, and the table's bands."""

    def __init__(self, work: Scatter, w: Writer):
        f = w.s.kept
        assert isinstance(f, Adding), "a scatter has a scatter"
        self.work, self.w, self.f, limits = work, w, f, w.limits
        self.sums = accumulators_of(self.f)
        self.bands = self.sums.bands(limits.max_storage_buffer_bytes)
        self.numbers = self.sums.buffer_numbers(limits.max_storage_buffer_bytes)
        self.long = self.sums.adding and limits.int64_atomics
        self._declare(w)

    def _declare(self, w: Writer) -> dict[Variable, str]:
        """Declares reads, outputs and buffers. Returns the names of outputs."""
        names = w.declare()
        self.binding = len(w.resources)
        w.resources += [Resource("buffer"), Resource("status")]
        return names

    def shaders(self, sources: dict[str, str]) -> Shaders:
        """These and what resolves the accumulators."""
        based = not self.w.limits.dispatch_base
        return Shaders(tuple(self.w.resources), sources | self._resolve(), self.bands, based=based)

    def stored(self, r: Resource) -> bool:
        """Whether the SubStage writes an image or a range of a buffer."""
        return r.kind == "storage" or (r.kind == "range" and r.variable in self.w.s.outputs)

    @property
    def buffers(self) -> list[str]:
        """Layouts."""
        return [
            *accumulators_text(self.sums, self.numbers, self.binding, long=self.long),
            f"layout(set=0, binding={self.binding + 1}, std430) buffer dressi_Status {{ int dressi_saturated; }};",
            *constants(self.w.limits, self.bands),
        ]

    def pulled(self, f: FragmentScatterFunction, flat: Flat, actual: raster.Actual) -> str:
        """The vertex shader beside the fragment shader."""
        assert isinstance(self.work, PrimitiveWork)
        vertex = self.w.beside()
        self._declare(vertex)
        vertex.leave_out(lambda r: self.stored(r) or r.kind == "attachment")
        source = raster.vertex_shader(vertex, self.work, f, f.fragment.face, flat, actual)
        self.w.resources = vertex.resources
        return source

    def accumulated(self) -> list[str]:
        """Statements that make the values of a source texel and add them."""
        w, s, f, epilogue = self.w, self.w.s, self.f, self.work.epilogue
        w.leave_out(lambda r: r.kind == "attachment")  # of the epilogue
        later = set() if epilogue is None else set(epilogue.outputs)
        made = [v for v in s.outputs if v is not f.output and v not in later]
        for g in raster.needed([g for g in s.body if g is not f], {*f.inputs, *made}):
            w.emit(g)
        assert isinstance(f, ScatterFunction)
        bound = f", {w.value(f.inputs[0])}" if self.sums.bits else ""
        pairs = [(value.vtype, index.vtype, w.value(value), w.value(index)) for value, index in f.pairs]
        lines = self.puts(pairs, bound)
        for v in made:
            lines += w.stores(v, f"dressi_output{s.outputs.index(v)}")
        return [*w.lines, *lines]

    def fragment(self, f: AccumulateFunction | FragmentScatterFunction, roots: list[str]) -> list[str]:
        """Statements that add what a fragment has. roots: the names of those of its sub-graph."""
        if isinstance(f, FragmentScatterFunction):
            types = [(value.vtype, index.vtype) for value, index in f.pairs]
            return self.puts([(*t, v, i) for t, v, i in zip(types, roots[0::2], roots[1::2], strict=True)])
        value, *keep = roots
        puts = self.puts([(f.output.vtype, INT, value, "dressi_cell")])
        kept = " && ".join(f"{k} != 0.0" for k in keep)
        cell = f"int dressi_cell = pixel.y * {f.size[0]} + pixel.x;"
        return [cell, *([f"if ({kept}) {{", *puts, "}"] if keep else puts)]

    def puts(self, pairs: Iterable[tuple[VType, VType, str, str]], bound: str = "") -> list[str]:
        """Statements that add values at indices: the types of both, and their names."""
        f, sums, bands = self.f, self.sums, self.bands
        lines = []
        if sums.adding:
            self.w.includes["fixed_point.glsl"] = None
        wide, high = f.table.size
        for value, index, v, i in pairs:
            if index.components == 2:
                cell = f"{i}.y * {wide} + {i}.x"
                inside = f"uint({i}.x) < {wide}u && uint({i}.y) < {high}u"
            else:
                cell, inside = i, f"uint({i}) < {wide * high}u"
            if f.table.tiles > 1:
                cell += f" + tile * {wide * high}"
            if len(bands) > 1:
                cell = f"{cell} - dressi_band"
                inside += f" && uint({cell}) < {bands.step}u"
            lines.append(f"if ({inside}) {{ int number = ({cell}) * {sums.components};")
            if sums.adding and sums.components > 1 and not value.is_matrix:
                # A loop up to the last component that is not zero: CPU drivers skip nothing inside of a
                # branch.
                held = " : ".join(f"{v}[{k}] != 0.0 ? {k + 1}" for k in reversed(range(sums.components)))
                lines.append(f"  int held = {held} : 0;")
                lines.append(f"  for (int k = 0; k < held; ++k) dressi_put(number + k, {v}[k]{bound});")
            else:
                for k in range(sums.components):
                    part = component(v, value, k)
                    put = f"dressi_put(number + {k}, {part}{bound})"
                    lines.append(
                        f"  {put if sums.adding else f'atomicMin(dressi_totals[number + {k}], ~{part})'};"
                    )
            lines.append("}")
        return lines

    def _resolve(self) -> dict[str, str]:
        """The table from its accumulators, or what the epilogue does with each texel of it."""
        f, sums, bands, epilogue = self.f, self.sums, self.bands, self.work.epilogue
        w = self.w.beside(f.output.domain)
        names = self._declare(w)
        wide, high = f.table.size
        draws = epilogue is not None and epilogue.draws
        totals, kind = [f"dressi_total(number + {k})" for k in range(sums.components)], f.output.vtype.glsl
        if sums.far:
            totals = [f"{total} + dressi_far[{k}]" for k, total in enumerate(totals)]
        if sums.adding:
            w.includes["fixed_point.glsl"] = None
        w.head.append(total_text(sums))
        main = [
            f"ivec2 place = {'ivec2(gl_FragCoord.xy)' if draws else invocation_number(w.limits)};",
            f"if (place.x >= {w.tiling.width} || place.y >= {w.tiling.height}) return;",
            f"int tile = place.y / {high} + place.x / {wide} * {w.tiling.rows};",
            f"if (tile >= {f.table.tiles}) return;",
            f"int cell = tile * {wide * high} + place.y % {high} * {wide} + place.x % {wide};",
        ]
        if len(bands) > 1:
            main += ["cell -= dressi_band;", f"if (uint(cell) >= {bands.step}u) return;"]
        main.append(f"int number = cell * {sums.components};")
        if sums.far:
            main += [f"float dressi_far[{sums.components}];", "dressi_far_totals(number, dressi_far);"]
        main.append(f"{kind} dressi_texel = {kind}({', '.join(totals)});")
        if sums.bits:
            # The unit is the power of two above the bound. An undefined bound gives NaN, not a sum.
            main += [
                f"int exponent = dressi_last_bit({w.fetch(f.inputs[0])}(ivec2(0), 0)) + 24;",
                "if (exponent > 127) atomicMax(dressi_saturated, 1);",
                "dressi_texel *= intBitsToFloat(exponent > 127 ? 0x7fc00000 : exponent + 127 << 23);",
            ]
        w.names[f.output] = "dressi_texel"
        layouts = self.buffers
        if epilogue is None:
            main += w.stores(f.output, names[f.output])
        else:
            layouts += write_work(w, epilogue, names)
            main += [f"ivec2 pixel = ivec2(place.x % {wide}, place.y % {high});", *w.lines]
        if draws:
            return {"resolve.vertex": FULL_SCREEN, "resolve.fragment": w.text(main, layouts)}
        return {"resolve": w.text(main, [*layouts, f"layout(local_size_x={GROUP}) in;"])}


# The accumulators: ``fixed_point.glsl`` adds to them and reads those of large values, which seldom are any.

LONG = (*(f"#extension {name} : require" for name in LONG_ATOMICS), "#define DRESSI_LONG")


def accumulators_text(a: Accumulators, numbers: int, binding: int, *, long: bool) -> list[str]:
    """The declaration of the accumulators, an array ``dressi_totals``, and what ``fixed_point.glsl`` has to
    know of them. numbers: components in the buffer. long: of 64-bit integers, else of 32-bit integers."""

    def bits(x: float) -> int:
        return int(np.float32(x).view(np.int32))

    integer = "int64_t" if long else "int"
    buffer = (
        f"layout(set=0, binding={binding}, std430) buffer dressi_Totals {{ {integer} dressi_totals[]; }};"
    )
    if not a.adding:
        return [buffer]
    near = 2.0 ** (LOWEST + a.width * a.slots + MANTISSA - 1) if a.far else 2.0**HIGHEST
    skipped = " + ".join(f"int(last >= {a.width * k})" for k in range(1, a.slots)) or "0"
    known = {
        "BITS": a.bits,
        "WIDTH": a.width,
        "SLOTS": a.slots,
        "FAR": a.far,
        "COMPONENTS": a.components,
        "NUMBERS": numbers,
        "LOWEST": f"({LOWEST})",
        "MOST": bits(near) - 1,
        "LIMIT": 2.0 ** (HIGHEST - 1),
        "SKIPPED(last)": f"({skipped})",
    }
    defined = [f"#define DRESSI_{name} {value}" for name, value in known.items()]
    return [*(LONG if long else ()), *defined, buffer]


def total_text(a: Accumulators) -> str:
    """The GLSL function ``dressi_total(number)``. It returns the sum of a component and sets its slots to
    zero. With a bound the result is in units of the power of two above the bound.

    The slots overlap. The function first adds them as integers, in digits of ``width`` bits, and propagates
    carries. It makes the number positive, so that no digits cancel. Then it adds the digits as floats, the
    largest first.
    """
    if not a.adding:
        return (
            "int dressi_total(int number)"
            " { int least = dressi_totals[number]; dressi_totals[number] = 0; return ~least; }"
        )
    pieces = -(-64 // a.width)
    n = a.slots - 1 + pieces
    mask = (1 << a.width) - 1
    lines = ["float dressi_total(int number) {", f"  int digits[{n}];", "  int carry;"]
    lines.append(f"  for (int k = 0; k < {n}; ++k) digits[k] = 0;")
    for slot in range(a.slots):
        words = f"words{slot}"
        lines.append(f"  ivec2 {words} = dressi_take({a.slots} * number + {slot});")
        for k in range(pieces):
            start = a.width * k
            if start >= 32:
                piece = f"{words}.y >> {start - 32}"
            elif start + a.width <= 32:
                piece = f"int(uint({words}.x) >> {start})"
            else:
                piece = f"int(uint({words}.x) >> {start} | uint({words}.y) << {32 - start})"
            lines.append(f"  digits[{slot + k}] += {f'{piece} & {mask}' if k < pieces - 1 else piece};")
    carries = [
        f"  carry = digits[{k}] >> {a.width}; digits[{k}] &= {mask}; digits[{k + 1}] += carry;"
        for k in range(n - 1)
    ]
    lines += [*carries, f"  bool negative = digits[{n - 1}] < 0;", "  if (negative) {"]
    lines += [f"  for (int k = 0; k < {n}; ++k) digits[k] = -digits[k];", *carries, "  }"]
    lines.append("  precise float sum = 0.0;")
    unit = -a.bits if a.bits else LOWEST
    for k in reversed(range(n)):
        lines.append(f"  sum += float(digits[{k}]) * {2.0 ** (unit + a.width * k)!r};")
    return "\n".join([*lines, "  return negative ? -sum : sum;", "}"])


# GLSL of sums by faces: an invocation visits the pixels in the box around a face, and adds up those that the
# face covers.


def face_sum_shaders(work: FaceSums, w: Writer) -> Shaders:
    """``compute`` visits the pixels of one face and stores its sums."""
    (f,) = w.s.functions
    assert isinstance(f, FaceSum)
    names = w.declare()
    w.includes["face_pixels.glsl"] = None
    width, height = f.size
    size = f"vec2({float(width)!r}, {float(height)!r})"
    head = [
        f"ivec2 invocation = {invocation_number(w.limits)};",
        f"int {FACE} = invocation.x, tile = invocation.y;",
        f"if ({FACE} >= {f.faces}) return;",
        "ivec2 pixel = ivec2(0);",
        *_corners(w, f, size),
    ]
    if f.live is not None:
        head.append(f"if ({w.fetch(f.live)}({raster.texel_of_list(FACE, f.live)}, tile) == 0) high = low;")
    before, inside, roots = compute_raster.fragments(w, f, "depth0")
    sums, adds, cells = [], [], []
    for k, (v, value) in enumerate(zip(f.fragment.roots, roots, strict=True)):
        sums.append(f"precise {v.vtype.glsl} dressi_sum{k} = {v.vtype.glsl}(0.0);")
        adds.append(f"dressi_sum{k} += count > 0.0 ? {value} * count : {v.vtype.glsl}(0.0);")
        cells += [component(f"dressi_sum{k}", v.vtype, c) for c in range(v.vtype.components)]
    triangles = range(f.triangles_per_face)
    loop = [
        "ivec2 extent = max(high - low, ivec2(0));",
        "int left = extent.x * extent.y;",
        "ivec2 at = low;",
        f"while (left > 0) {{ int steps = min(left, {ROUND}); left -= steps;",
        "for (int k = 0; k < steps; ++k) {",
        "pixel = at;",
        f"ivec2 place = pixel + {w.corner(w.s.domain)};",
        "vec2 centre = vec2(pixel - low) + 0.5;",
        *(f"float depth{t} = pixels_depth(edges{t}, centre, z{t}, w{t});" for t in triangles),
        f"float count = {' + '.join(f'float(depth{t} >= 0.0)' for t in triangles)};",
        *inside,
        *adds,
        "bool next = at.x + 1 >= high.x;",
        "at = next ? ivec2(low.x, at.y + 1) : at + ivec2(1, 0);",
        "} }",
    ]
    wide = f.output.size[0]
    stores = []
    for k, cell in enumerate(cells):
        w.names[f.output] = cell
        number = f"({FACE} + {k * f.faces})"
        place = w.texel(f.output, "tile", f"ivec2({number} % {wide}, {number} / {wide})")
        stores += w.stores(f.output, names[f.output], place)
    return w.dispatch([*head, *before, *sums, *loop, *stores], f"local_size_x={GROUP}")


def _corners(w: Writer, f: FaceSum, size: str) -> list[str]:
    """Statements that set ``low`` and ``high``, the pixels around a face, and edges, z and w of its
    triangles."""
    position, per = f.inputs[0], f.triangles_per_face
    lines, ends = [f"vec4 box = vec4({size}, vec2(0.0));"], []
    for t in range(per):
        number = f"({per} * {FACE} + {t})"
        if f.indexed:
            lines.append(
                f"ivec3 numbers{t} = {w.fetch(f.inputs[1])}({raster.texel_of_list(number, f.inputs[1])}, tile);"
            )
        clip = []
        for k in range(3):
            vertex = f"numbers{t}[{k}]" if f.indexed else f"(3 * {number} + {k})"
            name = f"clip{t}_{k}"
            clip.append(name)
            lines += [
                f"vec4 {name} = {w.fetch(position)}({raster.texel_of_list(vertex, position)}, tile);",
                f"vec3 corner{t}_{k} = pixels_corner({name}, {size});",
                f"box = pixels_box(box, corner{t}_{k}, {size});",
            ]
        edges = ", ".join(f"corner{t}_{k}" for k in range(3))
        ends += [
            f"mat3 edges{t} = pixels_edges({edges}, vec2(low));",
            f"vec3 z{t} = vec3({', '.join(f'{c}.z' for c in clip)}), w{t} = vec3({', '.join(f'{c}.w' for c in clip)});",
        ]
    whole = f"ivec2({f.size[0]}, {f.size[1]})"
    lines += [
        "box = clamp(box, vec4(-1.0), vec4(1e5));",
        f"ivec2 low = clamp(ivec2(ceil(box.xy - 0.5)), ivec2(0), {whole});",
        f"ivec2 high = clamp(ivec2(floor(box.zw - 0.5)) + 1, ivec2(0), {whole});",
        *ends,
    ]
    return lines
