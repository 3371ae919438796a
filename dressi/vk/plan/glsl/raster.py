"""GLSL of draws: vertex pulling, the fragment sub-graphs of ``F.rasterize`` and ``F.accumulate``, and values that fragments
of rasters write beside the face.

What these compute from the face alone (its corners, say) is passed on flat by the vertex shader. At the end, GLSL of lists
of live faces: what makes one, and how a vertex shader finds its face there.
"""

from __future__ import annotations

from ....ad.graph import AccumulateFunction, DrawFunction, RasterFunction, Variable
from ....ad.ops.draws.fragment import FragmentGraph
from ....ad.traversal import topological_order
from ..limits import DeviceLimits
from ..lists import LISTING, FaceList
from ..lowering.fragment_value import FragmentValue
from ..substage import Accumulate, Binding, ListFaces, PrimitiveWork, Raster, SubStage
from .flat import FACE, Flat, find_flat, needed
from .pixel import write_work
from .text.outputs import declare_outputs
from .text.shaders import Resource, Shaders, ShaderText
from .text.source import constants, workgroup_number
from .text.writer import Writer, color_outputs


def raster_shaders(work: Raster, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """A vertex shader that pulls corners by gl_VertexIndex, tile = gl_InstanceIndex or from a list; a fragment shader
    that writes the number of the face, with the depth and the discard of the sub-graph where there is one."""
    f, *values = s.functions
    assert isinstance(f, RasterFunction)
    graph, flat = f.fragment, Flat()
    actual = dict(zip(graph.formals, f.externals, strict=True)) if graph else {}
    for v in values:
        assert isinstance(v, FragmentValue)
        actual |= v.actual
    if graph is not None and f.size != (1, 1):
        single = [v for v, image in actual.items() if image.size == (1, 1)]
        roots = _roots(f, s)
        flat = find_flat(topological_order(roots), graph.face, single, roots)
    vertex_source = _vertex(work, s, f, limits, shader_text, actual, flat)
    fragment, source = _fragment(work, s, f, limits, shader_text, actual, flat)
    return Shaders(tuple(fragment.resources), {"vertex": vertex_source, "fragment": source})


def accumulate_shaders(
    work: Accumulate, s: SubStage, limits: DeviceLimits, shader_text: ShaderText
) -> Shaders:
    """A vertex shader as above; a fragment shader that writes the value of the sub-graph, which is blended."""
    (f,) = s.functions
    assert isinstance(f, AccumulateFunction)
    actual, flat = inside(f)
    vertex = _vertex(work, s, f, limits, shader_text, actual, flat)
    w, start = _fragment_writer(work, s, limits, shader_text, actual, flat)
    value, *keep = write_fragment(w, f, actual, flat)
    w.lines += [f"if ({k} == 0.0) discard;" for k in keep]
    w.names[f.output] = value
    layouts, stores = color_outputs(w, s)
    source = w.text([*start, *fragment_place(w), *w.lines, *stores], layouts + flat.layouts("in"))
    return Shaders(tuple(w.resources), {"vertex": vertex, "fragment": source})


def inside(f: DrawFunction) -> tuple[dict[Variable, Variable], Flat]:
    """The image that each formal of a sub-graph stands for, and what its fragments share with the vertices."""
    graph = f.fragment
    actual: dict[Variable, Variable] = dict(zip(graph.formals, f.externals, strict=True))
    if f.size == (1, 1):
        return actual, Flat()
    single = [v for v, image in actual.items() if image.size == (1, 1)]
    return actual, find_flat(graph.functions, graph.face, single, graph.roots)


def write_fragment(w: Writer, f: DrawFunction, actual: dict[Variable, Variable], flat: Flat) -> list[str]:
    """Writes the sub-graph of a draw into a fragment shader. Returns the names of its roots."""
    graph = f.fragment
    w.names[graph.face] = FACE
    if graph.z is not None:
        w.names[graph.z] = "gl_FragCoord.z"
    for g in needed(graph.functions, graph.roots, flat.values):
        w.emit(g, actual)
    roots: tuple[Variable, ...] = graph.roots
    return [w.value(actual.get(v, v)) for v in roots]


def _vertex(
    work: PrimitiveWork,
    s: SubStage,
    f: DrawFunction,
    limits: DeviceLimits,
    shader_text: ShaderText,
    actual: dict[Variable, Variable],
    flat: Flat,
) -> str:
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    w.leave_out(lambda r: r.kind == "attachment")
    if work.faces is not None:
        declare_list(w)
    if f.fragment is not None:
        w.names[f.fragment.face] = FACE
    main, ends = pull(w, f, work.faces), flat.send(w, FACE, "tile", actual)
    return w.text([*main, *w.lines, *ends], flat.layouts("out"))


def pull(w: Writer, f: DrawFunction, listed: FaceList | None) -> list[str]:
    """Statements of a vertex shader that fetch the corner of gl_VertexIndex; ``face`` and ``tile`` are set."""
    position = f.inputs[0]
    main = [*find_vertex(listed), "int triangle = number / 3;"]
    if f.indexed:
        faces = f.inputs[1]
        main.append(f"ivec3 corners = {w.fetch(faces)}({texel_of_list('triangle', faces)}, tile);")
        main.append("int corner = number - 3 * triangle;")
        main.append("int vertex = corner == 0 ? corners.x : corner == 1 ? corners.y : corners.z;")
    else:
        main.append("int vertex = number;")
    main += [
        f"gl_Position = {w.fetch(position)}({texel_of_list('vertex', position)}, tile);",
        f"int {FACE} = triangle / {f.triangles_per_face};",
    ]
    if f.covering:
        # What a depth test would leave out: depths that are 1 when rounded.
        main.append("gl_Position.z *= 1.00000012;")
    if f.live is not None and listed is None:
        dead = f"{w.fetch(f.live)}({texel_of_list(FACE, f.live)}, tile) == 0"
        main.append(f"if ({dead}) gl_Position = vec4(0.0, 0.0, 0.5, 1.0);  // a point inside of the view")
    return main


def _fragment_writer(
    work: PrimitiveWork,
    s: SubStage,
    limits: DeviceLimits,
    shader_text: ShaderText,
    actual: dict[Variable, Variable],
    flat: Flat,
) -> tuple[Writer, list[str]]:
    """A writer with what a fragment shader of a subpass reads, and statements that unpack what vertices pass on."""
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    pulled = {r.variable for r in s.reads if r.binding is Binding.VERTEX}
    w.leave_out(lambda r: r.variable in pulled)
    w.resources += [Resource("list")] * (work.faces is not None)
    return w, flat.receive(w, actual)


def _fragment(
    work: Raster,
    s: SubStage,
    f: RasterFunction,
    limits: DeviceLimits,
    shader_text: ShaderText,
    actual: dict[Variable, Variable],
    flat: Flat,
) -> tuple[Writer, str]:
    w, start = _fragment_writer(work, s, limits, shader_text, actual, flat)
    graph: FragmentGraph | None = f.fragment
    if graph is not None:
        w.names[graph.face] = FACE
        for g in s.body:
            if g not in s.functions:
                w.emit(g)
        for g in needed(graph.functions, graph.roots, flat.values):
            w.emit(g, actual)
        if graph.keep is not None:
            w.lines.append(f"if ({w.value(actual.get(graph.keep, graph.keep))} == 0.0) discard;")
        w.lines.append(f"gl_FragDepth = {w.value(actual.get(graph.depth, graph.depth))};")
    w.names[f.output] = "0" if f.covering else FACE
    for v in s.functions[1:]:
        assert isinstance(v, FragmentValue)
        w.names[v.graph.face] = w.names[f.output]
        for g in needed(v.graph.functions, [v.root], w.names):
            w.emit(g, actual)
        w.names[v.output] = w.value(actual.get(v.root, v.root))
    layouts, stores = color_outputs(w, s)
    return w, w.text([*start, *fragment_place(w), *w.lines, *stores], layouts + flat.layouts("in"))


def _roots(f: RasterFunction, s: SubStage) -> list[Variable]:
    """What a fragment computes: depth and mask, then what it writes beside the face."""
    values = [v.root for v in s.functions[1:] if isinstance(v, FragmentValue)]
    return [*(f.fragment.roots if f.fragment is not None else ()), *values]


def fragment_place(w: Writer) -> list[str]:
    """Statements that set ``place`` and ``pixel`` of a fragment drawn in its own tile."""
    return ["ivec2 place = ivec2(gl_FragCoord.xy);", f"ivec2 pixel = place - {w.tile_corner()};"]


def texel_of_list(index: str, table: Variable) -> str:
    """GLSL of the texel of an entry of a list."""
    width, height = table.size
    return f"ivec2({index}, 0)" if height == 1 else f"ivec2({index} % {width}, {index} / {width})"


# ---- lists of live faces
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
