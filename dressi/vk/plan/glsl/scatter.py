"""GLSL of a scatter: each texel of the source adds into accumulators, which are then resolved into the table.

Where one buffer cannot hold the accumulators of the table both are done for one *band* of its cells after the other,
by the same shaders; ``dressi_band`` is the first cell of the band. A sum has the same bits in any number of bands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ....ad.graph import DrawFunction, FragmentScatterFunction, ScatterFunction, Variable
from ..accumulators import accumulators_of
from ..limits import DeviceLimits
from ..lists import vertices_expected
from ..substage import GROUP, FragmentScatter, PrimitiveWork, Scatter, ScatterDispatch, ScatterDraw, SubStage
from .blocks import invocation
from .fixed_point import ATOMIC_EXTENSIONS, buffer_text, far_totals, put_text, total_text
from .flat import FACE, Flat, find_flat, needed
from .pixel import FULL_SCREEN, write_work
from .raster import declare_list, fragment_place, inside, pull, write_fragment
from .text.outputs import declare_outputs
from .text.shaders import Resource, Shaders, ShaderText
from .text.source import constants, invocation_number
from .text.writer import Writer, component

EARLY = "layout(early_fragment_tests) in;"  # where the raster hit nothing no shader is started


FLAT_PIXELS = 32
"""From so many pixels a vertex on, vertex shaders fetch what the fragments share. Measured on CPU drivers, with all
edges of a mesh as vertices and a band of pixels around a few of them shaded."""


def scatter_dispatch_shaders(
    work: ScatterDispatch, s: SubStage, limits: DeviceLimits, shader_text: ShaderText
) -> Shaders:
    """``compute`` makes the values of a source texel and adds them into the buffer, ``resolve`` writes the table
    from it."""
    adding = _Adding(work, s, limits, shader_text)
    w, _ = adding.writer(s)
    lines = adding.accumulated(w, Flat())
    layout, start = invocation(w, work.sparse)
    source = w.text([*start, *w.place(), *lines], [*adding.buffers, f"layout({layout}) in;"])
    return adding.shaders(w, {"compute": source})


def scatter_draw_shaders(
    work: ScatterDraw, s: SubStage, limits: DeviceLimits, shader_text: ShaderText
) -> Shaders:
    """``vertex`` and ``fragment`` draw the primitives of a raster again; a fragment adds its values if its primitive has
    won the pixel. ``resolve`` writes the table."""
    adding = _Adding(work, s, limits, shader_text)
    w, _ = adding.writer(s)
    flat = _flat(work, s)
    winner = f"if ({w.fetch(work.raster.output)}(pixel, tile) != {FACE}) discard;"
    w.names[work.raster.output] = FACE
    received = flat.receive(w)
    lines = adding.accumulated(w, flat)
    # Every pixel is worked on once: by the fragment of its winner.
    w.leave_out(adding.stored)
    main = [*received, *fragment_place(w), winner, *lines]
    source = w.text(main, [*adding.buffers, *flat.layouts("in"), EARLY])
    pulled = adding.pulled(w, work.raster, work.raster.output, flat)
    return adding.shaders(w, {"vertex": pulled, "fragment": source})


def fragment_scatter_shaders(
    work: FragmentScatter, s: SubStage, limits: DeviceLimits, shader_text: ShaderText
) -> Shaders:
    """``vertex`` and ``fragment`` draw triangles; every fragment adds its values. ``resolve`` writes the table."""
    f = s.scatter
    assert isinstance(f, FragmentScatterFunction)
    adding = _Adding(work, s, limits, shader_text)
    actual, flat = inside(f)
    w, _ = adding.writer(s)
    w.leave_out(lambda r: adding.stored(r) or r.kind == "attachment")
    pulled = adding.pulled(w, f, f.fragment.face, flat, actual)
    received = flat.receive(w, actual)
    roots = write_fragment(w, f, actual, flat)
    names = zip(f.pairs, roots[0::2], roots[1::2], strict=True)
    lines = adding.puts(w, [(v, i, value, index) for (v, i), value, index in names])
    main = [*received, *fragment_place(w), *w.lines, *lines]
    source = w.text(main, [*adding.buffers, *flat.layouts("in")])
    return adding.shaders(w, {"vertex": pulled, "fragment": source})


def _flat(work: ScatterDraw, s: SubStage) -> Flat:
    """What the vertex shader passes on: a fragment that adds anything is of the raster's face at its pixel."""
    if s.scatter is None or vertices_expected(work.raster, work.faces) * FLAT_PIXELS > s.domain.area:
        return Flat()
    single = [r.variable for r in s.reads if r.variable.size == (1, 1)]
    functions = [g for g in s.body if g is not s.scatter]
    return find_flat(functions, work.raster.output, single, s.scatter.inputs)


class _Adding:
    """A SubStage that scatters, the accumulators of its table, and the bands of this."""

    def __init__(self, work: Scatter, s: SubStage, limits: DeviceLimits, shader_text: ShaderText):
        assert s.scatter is not None, "a scatter has a scatter"
        self.work, self.s, self.f, self.limits, self.shader_text = work, s, s.scatter, limits, shader_text
        self.sums = accumulators_of(self.f)
        self.bands = self.sums.bands(limits.max_storage_buffer_bytes)
        self.numbers = self.sums.buffer_numbers(limits.max_storage_buffer_bytes)
        self.long = self.sums.adding and limits.int64_atomics

    def writer(self, s: SubStage) -> tuple[Writer, dict[Variable, str]]:
        """A writer with reads, outputs and buffers declared, and the names of outputs."""
        w = Writer(s, self.limits, self.shader_text)
        w.declare_reads()
        names = declare_outputs(w, s)
        self.binding = len(w.resources)
        w.resources += [Resource("buffer"), Resource("status")]
        return w, names

    def shaders(self, w: Writer, sources: dict[str, str]) -> Shaders:
        """These and what resolves the accumulators, with the resources of a writer."""
        based = not self.limits.dispatch_base
        return Shaders(tuple(w.resources), sources | self._resolve(), self.bands, based=based)

    def stored(self, r: Resource) -> bool:
        """Whether the SubStage writes an image or a range of a buffer."""
        return r.kind == "storage" or (r.kind == "range" and r.variable in self.s.outputs)

    @property
    def buffers(self) -> list[str]:
        """Layouts."""
        return [
            *([ATOMIC_EXTENSIONS] if self.long else []),
            buffer_text(self.binding, long=self.long),
            f"layout(set=0, binding={self.binding + 1}, std430) buffer dressi_Status {{ int dressi_saturated; }};",
            *constants(self.limits, self.bands),
        ]

    def pulled(
        self,
        w: Writer,
        drawn: DrawFunction,
        face: Variable,
        flat: Flat,
        actual: dict[Variable, Variable] | None = None,
    ) -> str:
        """The vertex shader beside the fragment shader of a writer."""
        assert isinstance(self.work, PrimitiveWork)
        vertex, _ = self.writer(self.s)
        vertex.leave_out(lambda r: self.stored(r) or r.kind == "attachment")
        vertex.names[face] = FACE
        if self.work.faces is not None:
            declare_list(vertex)
            w.resources.append(Resource("list"))
        main, ends = pull(vertex, drawn, self.work.faces), flat.send(vertex, FACE, "tile", actual)
        return vertex.text([*main, *vertex.lines, *ends], flat.layouts("out"))

    def accumulated(self, w: Writer, flat: Flat) -> list[str]:
        """Statements that make the values of a source texel and add them."""
        s, f, epilogue = self.s, self.f, self.work.epilogue
        w.leave_out(lambda r: r.kind == "attachment")  # of the epilogue
        later = set() if epilogue is None else set(epilogue.outputs)
        made = [v for v in s.outputs if v is not f.output and v not in later]
        for g in needed([g for g in s.body if g is not f], {*f.inputs, *made}, flat.values):
            w.emit(g)
        bound = f", {w.value(f.inputs[0])}" if self.sums.bits else ""
        pairs = [(value, index, w.value(value), w.value(index)) for value, index in f.pairs]
        lines = self.puts(w, pairs, bound)
        for v in made:
            lines += w.stores(v, f"dressi_output{s.outputs.index(v)}")
        return [*w.lines, *lines]

    def puts(
        self, w: Writer, pairs: Iterable[tuple[Variable, Variable, str, str]], bound: str = ""
    ) -> list[str]:
        """Statements that add values at indices, each with its name."""
        f, sums, bands = self.f, self.sums, self.bands
        lines = []
        if sums.adding:
            w.includes["fixed_point.glsl"] = None
            w.head.append(put_text(sums, self.numbers, long=self.long))
        wide, high = f.table.size
        for value, index, v, i in pairs:
            if index.vtype.components == 2:
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
            if sums.adding and sums.components > 1 and not value.vtype.is_matrix:
                # A loop up to the last component that is not zero: CPU drivers skip nothing inside of a branch.
                held = " : ".join(f"{v}[{k}] != 0.0 ? {k + 1}" for k in reversed(range(sums.components)))
                lines.append(f"  int held = {held} : 0;")
                lines.append(f"  for (int k = 0; k < held; ++k) dressi_put(number + k, {v}[k]{bound});")
            else:
                for k in range(sums.components):
                    part, one = component(v, value.vtype, k), f"number + {k}"
                    if sums.adding:
                        lines.append(f"  dressi_put({one}, {part}{bound});")
                    else:
                        lines.append(f"  atomicMin(dressi_totals[{one}], ~{part});")
            lines.append("}")
        return lines

    def _resolve(self) -> dict[str, str]:
        """The table from its accumulators, or what the epilogue does with each texel of it."""
        f, sums, bands, epilogue = self.f, self.sums, self.bands, self.work.epilogue
        w, names = self.writer(replace(self.s, domain=f.output.domain))
        wide, high = f.table.size
        draws = epilogue is not None and epilogue.draws
        t = w.tiling
        totals = [f"dressi_total(number + {k})" for k in range(sums.components)]
        if sums.far:
            totals = [f"{total} + dressi_far[{k}]" for k, total in enumerate(totals)]
        cell = f"tile * {wide * high} + place.y % {high} * {wide} + place.x % {wide}"
        banded = len(bands) > 1
        here = "cell - dressi_band" if banded else cell
        w.head.append(total_text(sums, self.numbers, long=self.long))
        main = [
            f"ivec2 place = {'ivec2(gl_FragCoord.xy)' if draws else invocation_number(self.limits)};",
            f"if (place.x >= {t.width} || place.y >= {t.height}) return;",
            f"int tile = place.y / {high} + place.x / {wide} * {t.rows};",
            f"if (tile >= {f.table.tiles}) return;",
            *(
                [f"int cell = {cell};", f"if (uint(cell - dressi_band) >= {bands.step}u) return;"]
                if banded
                else []
            ),
            f"int number = ({here}) * {sums.components};",
            *(far_totals(sums, self.numbers, here, long=self.long) if sums.far else []),
            f"{f.output.vtype.glsl} dressi_texel = {f.output.vtype.glsl}({', '.join(totals)});",
            *(_unit(w, f) if sums.bits else []),
        ]
        w.names[f.output], w.lines = "dressi_texel", []
        layouts = self.buffers
        if epilogue is None:
            main += w.stores(f.output, names[f.output])
        else:
            layouts += write_work(w, epilogue, names)
            main += [f"ivec2 pixel = ivec2(place.x % {wide}, place.y % {high});", *w.lines]
        if draws:
            return {"resolve.vertex": FULL_SCREEN, "resolve.fragment": w.text(main, layouts)}
        return {"resolve": w.text(main, [*layouts, f"layout(local_size_x={GROUP}) in;"])}


def _unit(w: Writer, f: ScatterFunction | FragmentScatterFunction) -> list[str]:
    """Statements that multiply by the power of two above the bound. An undefined bound gives NaN, not a sum."""
    w.includes["fixed_point.glsl"] = None
    return [
        f"int exponent = dressi_last_bit({w.fetch(f.inputs[0])}(ivec2(0), 0)) + 24;",
        "if (exponent > 127) atomicMax(dressi_saturated, 1);",
        "dressi_texel *= intBitsToFloat(exponent > 127 ? 0x7fc00000 : exponent + 127 << 23);",
    ]
