"""GLSL of lists of live faces: what makes one, and how a vertex shader finds its face there."""

from __future__ import annotations

from ..limits import DeviceLimits
from ..lists import FaceList
from ..substage import ListFaces, SubStage
from .pixel import declare_outputs, write_work
from .writer import Resource, Shaders, ShaderText, Writer

LISTING = 64  # invocations of a workgroup that lists faces


def declare_list(w: Writer, access: str = "readonly") -> None:
    """The buffer of a list: arguments of its draws, then the numbers of faces."""
    w.head.append(
        f"layout(set=0, binding={len(w.resources)}, std430) {access} buffer List {{ uint list[]; }};"
    )
    w.resources.append(Resource("list"))


def list_shaders(work: ListFaces, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """``compute`` makes the images of the SubStage and lists the faces; one workgroup a segment of a tile."""
    listed = work.faces
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    names = declare_outputs(w, s)
    declare_list(w, "")
    w.head.append(f"shared uint counts[{LISTING}];")
    write_work(w, s, names)
    live = w.value(listed.live)
    wide, high = s.domain.size
    run = -(-min(wide * high, listed.segment) // LISTING)
    main = [
        "int segment = int(gl_WorkGroupID.x), tile = int(gl_WorkGroupID.y), own = int(gl_LocalInvocationIndex);",
        f"int begin = segment * {listed.segment} + own * {run};",
        "uint found = 0u;",
        f"for (int k = 0; k < {run} && begin + k < {wide * high}; ++k) {{",
        f"ivec2 pixel = ivec2((begin + k) % {wide}, (begin + k) / {wide});",
        f"ivec2 place = pixel + {w.tile_corner()};",
        *w.lines,
        f"if (begin + k < {listed.faces} && {live} != 0) found |= 1u << k;",
        "}",
        "counts[own] = bitCount(found);",
        "barrier();",
        f"uint first = uint(tile * {listed.entries} + segment * {listed.segment}), count = 0u;",
        "for (int k = 0; k < own; ++k) count += counts[k];",
        "for (; found != 0u; found &= found - 1u, ++count)",
        f"  list[{listed.header}u + first + count] = uint(begin + findLSB(found));",
        f"if (own == {LISTING - 1}) {{",
        f"uint draw = uint(tile * {listed.segments} + segment) * 4u;",
        f"list[draw] = count * {listed.vertices}u; list[draw + 1u] = 1u;",
        f"list[draw + 2u] = first * {listed.vertices}u; list[draw + 3u] = 0u;",
        "}",
    ]
    return Shaders(tuple(w.resources), {"compute": w.text(main, [f"layout(local_size_x={LISTING}) in;"])})


def find_vertex(listed: FaceList | None) -> list[str]:
    """Statements of a vertex shader that set ``number``, that of the vertex when all faces are drawn, and ``tile``."""
    if listed is None:
        return ["int number = gl_VertexIndex, tile = gl_InstanceIndex;"]
    return [
        f"int entry = gl_VertexIndex / {listed.vertices}, tile = entry / {listed.entries};",
        f"int number = gl_VertexIndex + (int(list[{listed.header} + entry]) - entry) * {listed.vertices};",
    ]
