"""GLSL of reductions by workgroups, one for each texel of the output.

The snippet of the reduction runs twice: over the texels of an invocation's own run, then, level by level, over pairs of
results in shared memory. Each reads through a GLSL function what it takes for the texels of an axis.
"""

from __future__ import annotations

from ....ad.includes import included_files
from ..limits import DeviceLimits
from ..lowering.workgroups import GroupReduction
from ..substage import Reduction, SubStage
from .text.outputs import declare_outputs
from .text.shaders import Shaders, ShaderText
from .text.source import constants, workgroup_number
from .text.writer import Writer


def reduce_shaders(work: Reduction, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """``compute`` reduces one segment in each workgroup."""
    (f,) = s.functions
    assert isinstance(f, GroupReduction)
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    names = declare_outputs(w, s)
    w.includes.update(dict.fromkeys(included_files(f)))
    axis = f.whole.axis
    x, kind, lanes = f.inputs[0], f.output.vtype.glsl, f.invocations
    w.head.append(f"shared {kind} dressi_results[{lanes}];\nint dressi_own, dressi_first, dressi_step;")
    number = "tile" if axis == "n" else f"pixel.{axis}"
    moved = {
        "x": "texel + ivec2(dressi_first, 0), n",
        "y": "texel + ivec2(0, dressi_first), n",
        "n": "texel, n + dressi_first",
    }[axis]
    index = {"x": "texel.x", "y": "texel.y", "n": "n"}[axis]
    read = w.fetch(x)
    w.head.append(f"{kind} dressi_run(ivec2 texel, int n) {{ return {read}({moved}); }}")
    w.head.append(
        f"{kind} dressi_pair(ivec2 texel, int n) {{ return dressi_results[dressi_own + dressi_step * ({index})]; }}"
    )
    w.names[f.output] = "dressi_results[0]"
    main = [
        "dressi_own = int(gl_LocalInvocationIndex);",
        f"ivec2 place = {workgroup_number(w.limits)};",
        *w.place(),
        f"int texels = min({f.length}, {f.segments.whole.extent} - {number} * {f.length});",
        f"dressi_first = {number} * {f.length} + dressi_own * {f.run};",
        f"int dressi_left = min({f.run}, texels - dressi_own * {f.run});",
        f"int busy = (texels + {f.run - 1}) / {f.run};",
        "if (dressi_own < busy) {",
        *_reduced(f, "dressi_run", "dressi_left"),
        "dressi_results[dressi_own] = dressi_value;",
        "}",
        f"for (dressi_step = 1; dressi_step < {lanes}; dressi_step *= 2) {{",
        "barrier();",
        "if (dressi_own % (2 * dressi_step) == 0 && dressi_own + dressi_step < busy) {",
        *_reduced(f, "dressi_pair", "2"),
        "dressi_results[dressi_own] = dressi_value;",
        "}",
        "}",
        "if (dressi_own == 0) {",
        *w.stores(f.output, names[f.output]),
        "}",
    ]
    pushed = constants(limits)
    source = w.text(main, [*pushed, f"layout(local_size_x={lanes}) in;"])
    return Shaders(tuple(w.resources), {"compute": source}, based=bool(pushed))


def _reduced(f: GroupReduction, read: str, count: str) -> list[str]:
    """Statements that set ``dressi_value`` to the reduction of ``count`` texels, which the GLSL function ``read`` reads."""
    axis, ((width, height), batch, _) = f.whole.axis, f.inputs[0].domain
    size = {"x": f"{count}, {height}", "y": f"{width}, {count}", "n": f"{width}, {height}"}[axis]
    place = {"x": "0, pixel.y", "y": "pixel.x, 0", "n": "pixel"}[axis]
    return [
        f"precise {f.output.vtype.glsl} dressi_value;",
        f"ivec2 dressi_pixel = ivec2({place}), dressi_size = ivec2({size});",
        f"int dressi_tile = {'0' if axis == 'n' else 'tile'}, dressi_count = {count if axis == 'n' else batch};",
        "{",
        f.segments.snippet(
            {
                "$0": read,
                "$y": "dressi_value",
                "$type": f.output.vtype.glsl,
                "$type0": f.inputs[0].vtype.glsl,
            }
        ),
        "}",
    ]
