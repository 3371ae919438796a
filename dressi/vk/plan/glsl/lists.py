"""GLSL of lists of live faces: what makes one, and how a vertex shader finds its face there."""

from __future__ import annotations

from ..limits import DeviceLimits
from ..lists import LISTING, FaceList
from ..substage import ListFaces, SubStage
from .pixel import declare_outputs, write_work
from .shaders import Resource, Shaders, ShaderText
from .source import constants, workgroup_number
from .writer import Writer


def declare_list(w: Writer, access: str = "readonly") -> None:
    """The buffer of a list: arguments of its draws, then the numbers of faces."""
    w.head.append(
        f"layout(set=0, binding={len(w.resources)}, std430) {access} buffer dressi_List {{ uint dressi_list[]; }};"
    )
    w.resources.append(Resource("list"))


def list_shaders(work: ListFaces, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """``compute`` makes the images of the SubStage and lists the faces; one workgroup a segment of a tile."""
    listed = work.faces
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    names = declare_outputs(w, s)
    declare_list(w, "")
    lanes, run = listed.invocations, listed.run
    w.head.append(f"shared uint dressi_counts[{lanes}];")
    write_work(w, s, names)
    live = w.value(listed.live)
    wide, high = s.domain.size
    main = [
        f"ivec2 group = {workgroup_number(limits)};",
        "int segment = group.x, tile = group.y, own = int(gl_LocalInvocationIndex);",
        f"int begin = segment * {listed.segment} + own * {run};",
        "uint found = 0u;",
        f"for (int k = 0; k < {run} && begin + k < {wide * high}; ++k) {{",
        f"ivec2 pixel = ivec2((begin + k) % {wide}, (begin + k) / {wide});",
        f"ivec2 place = pixel + {w.tile_corner()};",
        *w.lines,
        f"if (begin + k < {listed.faces} && {live} != 0) found |= 1u << k;",
        "}",
        "dressi_counts[own] = bitCount(found);",
        "barrier();",
        *(_scan(lanes) if lanes > LISTING else []),
        f"uint first = uint(tile * {listed.entries} + segment * {listed.segment}), count = 0u;",
        "count = dressi_counts[own] - bitCount(found);"
        if lanes > LISTING
        else "for (int k = 0; k < own; ++k) count += dressi_counts[k];",
        "for (; found != 0u; found &= found - 1u, ++count)",
        f"  dressi_list[{listed.header}u + first + count] = uint(begin + findLSB(found));",
        f"if (own == {lanes - 1}) {{",
        f"uint draw = uint(tile * {listed.segments} + segment) * 4u;",
        f"dressi_list[draw] = count * {listed.vertices}u; dressi_list[draw + 1u] = 1u;",
        f"dressi_list[draw + 2u] = first * {listed.vertices}u; dressi_list[draw + 3u] = 0u;",
        "}",
    ]
    pushed = constants(limits)
    source = w.text(main, [*pushed, f"layout(local_size_x={lanes}) in;"])
    return Shaders(tuple(w.resources), {"compute": source}, based=bool(pushed))


def _scan(lanes: int) -> list[str]:
    """Statements that add to the count of each invocation those of all before it (Hillis and Steele 1986):

    counts 2 0 1 3   step 1 -> 2 2 1 4   step 2 -> 2 2 3 6
    """
    return [
        f"for (int step = 1; step < {lanes}; step *= 2) {{",
        "  uint before = own < step ? 0u : dressi_counts[own - step];",
        "  barrier();",
        "  dressi_counts[own] += before;",
        "  barrier();",
        "}",
    ]


def find_vertex(listed: FaceList | None) -> list[str]:
    """Statements of a vertex shader that set ``number``, that of the vertex when all faces are drawn, and ``tile``."""
    if listed is None:
        return ["int number = gl_VertexIndex, tile = gl_InstanceIndex;"]
    return [
        f"int entry = gl_VertexIndex / {listed.vertices}, tile = entry / {listed.entries};",
        f"int number = gl_VertexIndex + (int(dressi_list[{listed.header} + entry]) - entry) * {listed.vertices};",
    ]
