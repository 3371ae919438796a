"""GLSL of a draw: vertex pulling, the fragment sub-graph of ``F.rasterize``, and values that fragments write beside the face.

What these compute from the face alone (its corners, say) is passed on flat by the vertex shader.
"""

from __future__ import annotations

from ....ad.graph import RasterFunction, Variable
from ....ad.traversal import topological_order
from ..limits import DeviceLimits
from ..lists import FaceList
from ..lowering.fragment_value import FragmentValue
from ..substage import Binding, Raster, SubStage
from .flat import FACE, Flat, find_flat, needed
from .lists import declare_list, find_vertex
from .shaders import Resource, Shaders, ShaderText
from .writer import Writer, color_outputs


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


def _vertex(
    work: Raster,
    s: SubStage,
    f: RasterFunction,
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


def pull(w: Writer, f: RasterFunction, listed: FaceList | None) -> list[str]:
    """Statements of a vertex shader that fetch the corner of gl_VertexIndex; ``face`` and ``tile`` are set."""
    position = f.inputs[0]
    main = [*find_vertex(listed), "int triangle = number / 3;"]
    if f.indexed:
        faces = f.inputs[1]
        main.append(f"ivec3 corners = {w.fetch(faces)}({_texel('triangle', faces)}, tile);")
        main.append("int corner = number - 3 * triangle;")
        main.append("int vertex = corner == 0 ? corners.x : corner == 1 ? corners.y : corners.z;")
    else:
        main.append("int vertex = number;")
    main += [
        f"gl_Position = {w.fetch(position)}({_texel('vertex', position)}, tile);",
        f"int {FACE} = triangle / {f.triangles_per_face};",
    ]
    if f.covering:
        # What a depth test would leave out: depths that are 1 when rounded.
        main.append("gl_Position.z *= 1.00000012;")
    if f.live is not None and listed is None:
        dead = f"{w.fetch(f.live)}({_texel(FACE, f.live)}, tile) == 0"
        main.append(f"if ({dead}) gl_Position = vec4(0.0, 0.0, 0.5, 1.0);  // a point inside of the view")
    return main


def _fragment(
    work: Raster,
    s: SubStage,
    f: RasterFunction,
    limits: DeviceLimits,
    shader_text: ShaderText,
    actual: dict[Variable, Variable],
    flat: Flat,
) -> tuple[Writer, str]:
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    pulled = {r.variable for r in s.reads if r.binding is Binding.VERTEX}
    w.leave_out(lambda r: r.variable in pulled)
    w.resources += [Resource("list")] * (work.faces is not None)
    start = flat.receive(w, actual)
    graph = f.fragment
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


def _texel(index: str, table: Variable) -> str:
    width, height = table.size
    return f"ivec2({index}, 0)" if height == 1 else f"ivec2({index} % {width}, {index} / {width})"
