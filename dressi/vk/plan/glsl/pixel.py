"""GLSL of SubStages that work on each pixel by itself: subpasses over the whole framebuffer, and dispatches."""

from __future__ import annotations

from collections.abc import Iterable

from ....ad.graph import Variable
from ..limits import DeviceLimits
from ..substage import ONE, Compute, Fragment, SubStage
from .blocks import invocation
from .text.outputs import declare_outputs
from .text.shaders import Shaders, ShaderText
from .text.writer import Writer, color_outputs

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
    return w.dispatch([*start, *w.place(), *w.lines], layout)


def write_work(w: Writer, s: SubStage, names: dict[Variable, str]) -> list[str]:
    """Statements of a draw or a dispatch: its own work at ``place``, then that of what is fused to it. Returns layouts."""

    def store(outputs: Iterable[Variable], place: str = "place") -> list[str]:
        return [line for v in outputs for line in w.stores(v, names[v], place)]

    for f in s.body:
        w.emit(f)
    layouts, colors = color_outputs(w, s)
    w.lines += colors or store(s.own_outputs)
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
