"""GLSL of a draw: vertex pulling, and the fragment sub-graph of ``F.rasterize``."""

from __future__ import annotations

from ...ad.graph import RasterFunction, Variable
from ...ad.types import Access
from .limits import DeviceLimits
from .substage import Binding, SubStage
from .writer import Shaders, ShaderText, Writer, color_outputs


def raster_shaders(s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """A vertex shader that pulls corners by gl_VertexIndex, tile = gl_InstanceIndex; a fragment shader that
    writes the number of the face, with the depth and the discard of the sub-graph where there is one."""
    (f,) = s.functions
    assert isinstance(f, RasterFunction)
    vertex = Writer(s, limits, shader_text)
    vertex.declare_reads()
    vertex.head = [line for line in vertex.head if "input_attachment_index" not in line]
    position, faces = f.inputs[0], f.inputs[1] if f.indexed else None
    main = ["int triangle = gl_VertexIndex / 3;", "int tile = gl_InstanceIndex;"]
    if faces is not None:
        main.append(f"ivec3 corners = {vertex.fetch(faces)}({_texel('triangle', faces)}, tile);")
        main.append("int corner = gl_VertexIndex - 3 * triangle;")
        main.append("int vertex = corner == 0 ? corners.x : corner == 1 ? corners.y : corners.z;")
    else:
        main.append("int vertex = gl_VertexIndex;")
    main += [
        f"gl_Position = {vertex.fetch(position)}({_texel('vertex', position)}, tile);",
        f"face_out = triangle / {f.triangles_per_face};",
        "tile_out = tile;",
    ]
    flat = ["layout(location=0) flat {0} int face_{0};", "layout(location=1) flat {0} int tile_{0};"]
    vertex_source = vertex.text(main, [line.format("out") for line in flat])

    fragment = Writer(s, limits, shader_text)
    fragment.declare_reads()
    pulled = {r.variable for r in s.reads if r.binding is Binding.VERTEX}
    fragment.head = [h for h in fragment.head if not any(_declares(fragment, v, h) for v in pulled)]
    width, height = s.domain.size
    t = fragment.tiling
    place = [
        "ivec2 place = ivec2(gl_FragCoord.xy);",
        "int tile = tile_in;",
        f"ivec2 pixel = place - ivec2(tile / {t.rows} * {width}, tile % {t.rows} * {height});"
        if t.columns > 1
        else f"ivec2 pixel = place - ivec2(0, tile * {height});",
    ]
    ends = []
    if f.fragment is not None:
        graph = f.fragment
        actual = dict(zip(graph.formals, f.inputs[len(f.inputs) - len(graph.formals) :], strict=True))
        fragment.names[graph.face] = "face_in"
        for g in s.body:
            if g is not f:
                fragment.emit(g)
        for g in graph.functions:
            fragment.emit(g, actual)
        if graph.keep is not None:
            ends.append(f"if ({fragment.names[graph.keep]} == 0.0) discard;")
        ends.append(f"gl_FragDepth = {fragment.names[graph.depth]};")
    fragment.names[f.output] = "face_in"
    layouts, stores = color_outputs(fragment, s)
    layouts += [line.format("in") for line in flat]
    fragment_source = fragment.text([*place, *fragment.lines, *ends, *stores], layouts)
    return Shaders(tuple(fragment.resources), {"vertex": vertex_source, "fragment": fragment_source})


def _texel(index: str, table: Variable) -> str:
    width, height = table.size
    return f"ivec2({index}, 0)" if height == 1 else f"ivec2({index} % {width}, {index} / {width})"


def _declares(w: Writer, v: Variable, line: str) -> bool:
    return f" {w.images[v]}_" in line


def pull_bindings(f: RasterFunction) -> list[Variable]:
    """The Variables that the vertex shader reads."""
    return [x for x, a in zip(f.inputs, f.access, strict=True) if a is Access.PULL]
