"""GLSL of SubStages that work on each pixel by itself: subpasses over the whole framebuffer, and dispatches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ....ad.graph import Function, Variable
from ..limits import DeviceLimits
from ..substage import ONE, Compute, Fragment, SubStage
from .blocks import invocation
from .shaders import Shaders, ShaderText
from .source import constants
from .writer import Writer, color_outputs

FULL_SCREEN = """#version 450
void main() {
  // One triangle that covers the framebuffer.
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
}
"""


def fragment_shaders(work: Fragment, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """The shaders of a subpass: a triangle over the framebuffer, and the work on each pixel."""
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    layouts = write_work(w, s, declare_outputs(w, s))
    main = ["ivec2 place = ivec2(gl_FragCoord.xy);", *w.place(), *w.lines]
    return Shaders(tuple(w.resources), {"vertex": FULL_SCREEN, "fragment": w.text(main, layouts)})


def compute_shaders(work: Compute, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """The shader of a dispatch: the work on each pixel, of all pixels or of active blocks."""
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    write_work(w, s, declare_outputs(w, s))
    layout, start = invocation(w, work.sparse)
    pushed = constants(limits)
    source = w.text([*start, *w.place(), *w.lines], [*pushed, layout])
    return Shaders(tuple(w.resources), {"compute": source}, based=bool(pushed))


def declare_outputs(w: Writer, s: SubStage) -> dict[Variable, str]:
    """Storage images, or ranges of storage buffers, for what is not written as attachments; names of the images."""
    names = {}
    for k, v in enumerate(s.outputs):
        if v in s.colors:
            continue
        leaf = s.replaces.get(v)
        name = names[v] = w.images.get(leaf, f"dressi_output{k}") if leaf is not None else f"dressi_output{k}"
        w.declare_storage(v if leaf is None else leaf, name, "" if leaf in w.images else "writeonly")
    return names


def write_work(w: Writer, s: SubStage, names: dict[Variable, str]) -> list[str]:
    """Statements of a draw or a dispatch: its own work at ``place``, then that of what is fused to it. Returns layouts."""

    def store(outputs: Iterable[Variable], place: str = "place") -> list[str]:
        return [line for v in outputs for line in w.stores(v, names[v], place)]

    others = {v for fused in s.fused for v in fused.outputs}
    for f in s.body:
        w.emit(f)
    layouts, colors = color_outputs(w, s)
    w.lines += colors or store(v for v in s.outputs if v not in others)
    for fused in s.fused:
        outer = dict(w.names)
        one = fused.domain == ONE
        w.lines.append(f"if ({'place' if one else 'pixel'} == ivec2(0)) {{")
        for f in fused.body:
            if f.output not in w.names:
                w.emit(f)
        for v in fused.outputs:
            w.lines += store([v], w.texel(v, "tile", "ivec2(0)"))
        w.lines.append("}")
        w.names = outer
    return layouts


def following(w: Writer, v: Variable, others: list[Function], names: dict[Variable, str], k: int) -> str:
    """The name of a GLSL function (ivec2 pixel, int tile, value of ``v``) that does others at a texel, and stores what is made."""
    outer, w.names, w.lines = (w.s, w.tiling, w.domain, w.names, w.lines), {v: "dressi_texel"}, []
    w.s, w.tiling, w.domain = replace(w.s, domain=v.domain), w.limits.tiling(v), v.domain
    for f in others:
        w.emit(f)
    made = {v, *(f.output for f in others)}
    lines = [f"ivec2 place = {w.texel(v, 'tile', 'pixel')};", *w.lines]
    lines += [line for x in w.s.outputs if x in made for line in w.stores(x, names[x])]
    body, name = "\n".join("  " + line for line in lines), f"dressi_following{k}"
    w.head.append(f"void {name}(ivec2 pixel, int tile, {v.vtype.glsl} dressi_texel) {{\n{body}\n}}")
    w.s, w.tiling, w.domain, w.names, w.lines = outer
    return name
