"""GLSL of draws: vertex pulling, the fragment sub-graphs of ``F.rasterize`` and ``F.accumulate``, and values that fragments
of rasters write beside the face.

What these compute from the face alone (its corners, say) is passed on flat by the vertex shader. At the end, GLSL of lists
of live faces: what makes one, and how a vertex shader finds its face there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ad.graph import AccumulateFunction, DrawFunction, RasterFunction, Variable
from ....ad.ops.image.draws import FragmentGraph
from ....ad.traversal import topological_order
from ..limits import DeviceLimits
from ..lists import LISTING, FaceList
from ..lowering.fragment_value import FragmentValue
from ..substage import Accumulate, Binding, ListFaces, PrimitiveWork, Raster, SubStage
from .flat import FACE, Flat, find_flat, needed
from .pixel import write_work
from .text.outputs import declare_outputs
from .text.shaders import Resource, Shaders, ShaderText
from .text.source import workgroup_number
from .text.writer import Writer, color_outputs


def raster_shaders(work: Raster, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """A vertex shader that pulls corners by gl_VertexIndex, tile = gl_InstanceIndex or from a list; a fragment shader
    that writes the number of the face, with the depth and the discard of the sub-graph where there is one."""
    f, *values = s.functions
    assert isinstance(f, RasterFunction)
    graph: FragmentGraph | None = f.fragment
    actual, flat = inside(f, [v for v in values if isinstance(v, FragmentValue)])

    def write(w: Writer) -> None:
        if graph is not None:
            for g in s.body:
                if g not in s.functions:
                    w.emit(g)
            depth, *keep = write_fragment(w, f, actual, flat)
            w.lines += [*(f"if ({k} == 0.0) discard;" for k in keep), f"gl_FragDepth = {depth};"]
        w.names[f.output] = "0" if f.covering else FACE
        for v in values:
            assert isinstance(v, FragmentValue)
            w.names[v.graph.face] = w.names[f.output]
            for g in needed(v.graph.functions, [v.root], w.names):
                w.emit(g, actual)
            w.names[v.output] = w.value(actual.get(v.root, v.root))

    return _draw(work, s, f, limits, shader_text, actual, flat, write)


def accumulate_shaders(
    work: Accumulate, s: SubStage, limits: DeviceLimits, shader_text: ShaderText
) -> Shaders:
    """A vertex shader as above; a fragment shader that writes the value of the sub-graph, which is blended."""
    (f,) = s.functions
    assert isinstance(f, AccumulateFunction)
    actual, flat = inside(f)

    def write(w: Writer) -> None:
        value, *keep = write_fragment(w, f, actual, flat)
        w.lines += [f"if ({k} == 0.0) discard;" for k in keep]
        w.names[f.output] = value

    return _draw(work, s, f, limits, shader_text, actual, flat, write)


def inside(f: DrawFunction, values: Sequence[FragmentValue] = ()) -> tuple[dict[Variable, Variable], Flat]:
    """The image that each formal of a sub-graph stands for, and what its fragments share with the vertices. values: what they
    write as well."""
    graph = f.fragment
    if graph is None:
        return {}, Flat()
    actual: dict[Variable, Variable] = dict(zip(graph.formals, f.externals, strict=True))
    for v in values:
        actual |= v.actual
    if f.size == (1, 1):
        return actual, Flat()
    single = [v for v, image in actual.items() if image.size == (1, 1)]
    roots = [*graph.roots, *(v.root for v in values)]
    functions = topological_order(roots) if values else graph.functions
    return actual, find_flat(functions, graph.face, single, roots)


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


def _draw(
    work: PrimitiveWork,
    s: SubStage,
    f: DrawFunction,
    limits: DeviceLimits,
    shader_text: ShaderText,
    actual: dict[Variable, Variable],
    flat: Flat,
    write: Callable[[Writer], None],
) -> Shaders:
    """The shaders of a draw. write: what a fragment computes."""
    vertex = Writer(s, limits, shader_text)
    vertex.declare_reads()
    vertex.leave_out(lambda r: r.kind == "attachment")
    if work.faces is not None:
        declare_list(vertex)
    if f.fragment is not None:
        vertex.names[f.fragment.face] = FACE
    main, ends = pull(vertex, f, work.faces), flat.send(vertex, FACE, "tile", actual)
    sources = {"vertex": vertex.text([*main, *vertex.lines, *ends], flat.layouts("out"))}
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    only_pulled = {r.variable for r in s.reads if r.binding is Binding.VERTEX}
    w.leave_out(lambda r: r.variable in only_pulled)
    w.resources += [Resource("list")] * (work.faces is not None)
    start = flat.receive(w, actual)
    write(w)
    layouts, stores = color_outputs(w, s)
    main = [*start, *fragment_place(w), *w.lines, *stores]
    sources["fragment"] = w.text(main, layouts + flat.layouts("in"))
    return Shaders(tuple(w.resources), sources)


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
    return w.dispatch(main, f"local_size_x={lanes}")


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
