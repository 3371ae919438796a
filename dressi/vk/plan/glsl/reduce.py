"""GLSL of reductions by workgroups, one for each texel of the output.

The snippet of the reduction runs twice: over the texels of an invocation's own run, then, level by level, over pairs of
results in shared memory. Each reads through a macro what it takes for the texels of an axis.
"""

from __future__ import annotations

from ....ad.includes import included_files
from ..limits import DeviceLimits
from ..lowering.workgroups import GroupReduction
from ..substage import Reduction, SubStage
from .pixel import declare_outputs
from .shaders import Shaders, ShaderText
from .writer import Writer


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
    w.head.append(f"shared {kind} results[{lanes}];")
    read = w.fetch(x)
    number = "tile" if axis == "n" else f"pixel.{axis}"
    moved = {"x": "(t) + ivec2(first, 0), n", "y": "(t) + ivec2(0, first), n", "n": "t, (n) + first"}[axis]
    index = {"x": "(t).x", "y": "(t).y", "n": "n"}[axis]
    w.names[f.output] = "results[0]"
    main = [
        "int own = int(gl_LocalInvocationIndex);",
        "ivec2 place = ivec2(gl_WorkGroupID.xy);",
        *w.place(),
        f"int texels = min({f.length}, {f.segments.whole.extent} - {number} * {f.length});",
        f"int first = {number} * {f.length} + own * {f.run}, count = min({f.run}, texels - own * {f.run});",
        f"int busy = (texels + {f.run - 1}) / {f.run};",
        "if (own < busy) {",
        f"\n#define segment_texel(t, n) {read}({moved})\n",
        *_reduced(f, "count"),
        "results[own] = value;",
        "\n#undef segment_texel\n",
        "}",
        f"for (int step = 1; step < {lanes}; step *= 2) {{",
        "barrier();",
        "if (own % (2 * step) == 0 && own + step < busy) {",
        f"\n#define segment_texel(t, n) results[own + step * ({index})]\n",
        *_reduced(f, "2"),
        "results[own] = value;",
        "\n#undef segment_texel\n",
        "}",
        "}",
        "if (own == 0) {",
        *(f"imageStore({names[f.output]}_{p}, place, {e});" for p, e in w.planes(f.output)),
        "}",
    ]
    return Shaders(tuple(w.resources), {"compute": w.text(main, [f"layout(local_size_x={lanes}) in;"])})


def _reduced(f: GroupReduction, count: str) -> list[str]:
    """Statements that set ``value`` to the reduction of ``count`` texels."""
    axis, ((width, height), batch) = f.whole.axis, f.inputs[0].domain
    size = {"x": f"{count}, {height}", "y": f"{width}, {count}", "n": f"{width}, {height}"}[axis]
    place = {"x": "0, pixel.y", "y": "pixel.x, 0", "n": "pixel"}[axis]
    return [
        f"precise {f.output.vtype.glsl} value;",
        f"ivec2 segment_pixel = ivec2({place}), segment_size = ivec2({size});",
        f"int segment_tile = {'0' if axis == 'n' else 'tile'}, segment_count = {count if axis == 'n' else batch};",
        "{",
        f.segments.snippet({"$y": "value", "$type": f.output.vtype.glsl, "$type0": f.inputs[0].vtype.glsl}),
        "}",
    ]
