"""GLSL of a draw: vertex pulling, and the fragment sub-graph of ``F.rasterize``.

What the sub-graph computes from the face alone (its corners, say) is the same in all fragments of a triangle: the
vertex shader does it and passes it on flat.
"""

from __future__ import annotations

from ...ad.graph import Function, RasterFunction, Variable
from ...ad.types import Access
from .limits import DeviceLimits
from .substage import Binding, SubStage
from .writer import Shaders, ShaderText, Writer, color_outputs

FLAT_LOCATIONS = 14  # of the 16 that Vulkan guarantees; two carry the face and the tile


def raster_shaders(s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """A vertex shader that pulls corners by gl_VertexIndex, tile = gl_InstanceIndex; a fragment shader that
    writes the number of the face, with the depth and the discard of the sub-graph where there is one."""
    (f,) = s.functions
    assert isinstance(f, RasterFunction)
    actual = dict(zip(f.fragment.formals, f.externals, strict=True)) if f.fragment else {}
    hoisted, flat = _hoisted(f, actual)
    vertex_source = _vertex(s, f, limits, shader_text, actual, hoisted, flat)
    fragment, source = _fragment(s, f, limits, shader_text, actual, hoisted, flat)
    return Shaders(tuple(fragment.resources), {"vertex": vertex_source, "fragment": source})


def flat_layouts(flat: list[Variable], direction: str) -> list[str]:
    lines = [
        f"layout(location={k}) flat {direction} int {name}_{direction};" for k, name in enumerate(_FIXED)
    ]
    for k, v in enumerate(flat):
        lines.append(f"layout(location={k + 2}) flat {direction} {v.vtype.glsl} flat{k};")
    return lines


_FIXED = ("face", "tile")


def _hoisted(f: RasterFunction, actual: dict[Variable, Variable]) -> tuple[list[Function], list[Variable]]:
    """Functions of the sub-graph that the vertex shader computes, and the Variables it passes on."""
    graph = f.fragment
    if graph is None or f.size == (1, 1):
        return [], []
    per_face = {graph.face, *(v for v, image in actual.items() if image.size == (1, 1))}
    constant: set[Variable] = set()
    hoisted: list[Function] = []
    for g in graph.functions:
        same = [x for x, a in zip(g.inputs, g.access, strict=True) if a is Access.SAME_PIXEL]
        if "pixel" in g.places or g.output.vtype.is_matrix or not all(x in per_face | constant for x in same):
            continue
        if all(x in constant for x in g.inputs):
            constant.add(g.output)
        else:
            per_face.add(g.output)
            hoisted.append(g)
    inner = [g for g in graph.functions if g not in set(hoisted)]
    read = dict.fromkeys(
        x for g in inner for x, a in zip(g.inputs, g.access, strict=True) if a is Access.SAME_PIXEL
    )
    read.update(dict.fromkeys(graph.roots))
    flat = [x for x in read if x in per_face and x is not graph.face]
    return (hoisted, flat) if len(flat) <= FLAT_LOCATIONS else ([], [])


def _vertex(
    s: SubStage,
    f: RasterFunction,
    limits: DeviceLimits,
    shader_text: ShaderText,
    actual: dict[Variable, Variable],
    hoisted: list[Function],
    flat: list[Variable],
) -> str:
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    w.head = [line for line in w.head if "input_attachment_index" not in line]
    main = pull(w, f)
    ends = []
    if f.fragment is not None and hoisted:
        w.names[f.fragment.face] = "face_out"
        needed = _with_constants(hoisted)
        for g in f.fragment.functions:
            if g in needed:
                w.emit(g, actual)
    for k, v in enumerate(flat):
        ends.append(f"flat{k} = {w.names.get(v) or w.value(actual[v])};")
    return w.text([*main, *w.lines, *ends], flat_layouts(flat, "out"))


def pull(w: Writer, f: RasterFunction) -> list[str]:
    """Statements of a vertex shader that fetch the corner of gl_VertexIndex; face and tile are passed on."""
    position = f.inputs[0]
    main = ["int triangle = gl_VertexIndex / 3;", "int tile = gl_InstanceIndex;"]
    if f.indexed:
        faces = f.inputs[1]
        main.append(f"ivec3 corners = {w.fetch(faces)}({_texel('triangle', faces)}, tile);")
        main.append("int corner = gl_VertexIndex - 3 * triangle;")
        main.append("int vertex = corner == 0 ? corners.x : corner == 1 ? corners.y : corners.z;")
    else:
        main.append("int vertex = gl_VertexIndex;")
    main += [
        f"gl_Position = {w.fetch(position)}({_texel('vertex', position)}, tile);",
        f"face_out = triangle / {f.triangles_per_face};",
        "tile_out = tile;",
    ]
    return main


def _with_constants(functions: list[Function]) -> set[Function]:
    """The Functions and the constants that they are made of."""
    found: set[Function] = set()
    stack = list(functions)
    while stack:
        g = stack.pop()
        if g not in found:
            found.add(g)
            stack.extend(x.creator for x in g.inputs if x.creator is not None)
    return found


def _fragment(
    s: SubStage,
    f: RasterFunction,
    limits: DeviceLimits,
    shader_text: ShaderText,
    actual: dict[Variable, Variable],
    hoisted: list[Function],
    flat: list[Variable],
) -> tuple[Writer, str]:
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    pulled = {r.variable for r in s.reads if r.binding is Binding.VERTEX}
    w.head = [line for line in w.head if not any(f" {w.images[v]}_" in line for v in pulled)]
    ends = []
    graph = f.fragment
    if graph is not None:
        w.names[graph.face] = "face_in"
        for k, v in enumerate(flat):
            w.names[v] = w.names[actual.get(v, v)] = f"flat{k}"
        for g in s.body:
            if g is not f:
                w.emit(g)
        done = set(hoisted)
        for g in graph.functions:
            if g not in done:
                w.emit(g, actual)
        if graph.keep is not None:
            ends.append(f"if ({w.names[graph.keep]} == 0.0) discard;")
        ends.append(f"gl_FragDepth = {w.names[graph.depth]};")
    w.names[f.output] = "face_in"
    layouts, stores = color_outputs(w, s)
    return w, w.text([*fragment_place(w), *w.lines, *ends, *stores], layouts + flat_layouts(flat, "in"))


def fragment_place(w: Writer) -> list[str]:
    """Statements that set ``place``, ``tile`` and ``pixel`` of a fragment drawn in its own tile."""
    width, height = w.s.domain.size
    rows = w.tiling.rows
    corner = f"ivec2(tile / {rows} * {width}, tile % {rows} * {height})"
    return [
        "ivec2 place = ivec2(gl_FragCoord.xy);",
        "int tile = tile_in;",
        f"ivec2 pixel = place - {corner if w.tiling.columns > 1 else f'ivec2(0, tile * {height})'};",
    ]


def _texel(index: str, table: Variable) -> str:
    width, height = table.size
    return f"ivec2({index}, 0)" if height == 1 else f"ivec2({index} % {width}, {index} / {width})"
