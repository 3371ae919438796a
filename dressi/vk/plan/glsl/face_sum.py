"""GLSL of sums by faces: an invocation visits the pixels in the box around a face, and adds up those that the face covers."""

from __future__ import annotations

from ....ad.graph import Variable
from ..limits import DeviceLimits
from ..lowering.face_sum import FaceSum
from ..substage import GROUP, FaceSums, SubStage
from .flat import FACE, hoist, needed
from .raster import texel_of_list
from .text.outputs import declare_outputs
from .text.shaders import Shaders, ShaderText
from .text.source import invocation_number
from .text.writer import Writer, component

ROUND = 1 << 14
"""Iterations of a loop: some drivers end one after 65,535."""


def face_sum_shaders(work: FaceSums, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """``compute`` visits the pixels of one face and stores its sums."""
    (f,) = s.functions
    assert isinstance(f, FaceSum)
    graph = f.fragment
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    names = declare_outputs(w, s)
    w.includes["face_pixels.glsl"] = None
    width, height = f.size
    size = f"vec2({float(width)!r}, {float(height)!r})"
    actual: dict[Variable, Variable] = dict(zip(graph.formals, f.externals, strict=True))
    head = [
        f"ivec2 invocation = {invocation_number(limits)};",
        f"int {FACE} = invocation.x, tile = invocation.y;",
        f"if ({FACE} >= {f.faces}) return;",
        "ivec2 pixel = ivec2(0);",
        *_corners(w, f, size),
    ]
    if f.live is not None:
        head.append(f"if ({w.fetch(f.live)}({texel_of_list(FACE, f.live)}, tile) == 0) high = low;")
    # What all pixels of the face have in common.
    w.names[graph.face] = FACE
    single = [v for v, image in actual.items() if image.size == (1, 1)]
    shared, _ = hoist(graph.functions, graph.face, single)
    for g in shared:
        w.emit(g, actual)
    before, w.lines = w.lines, []
    if graph.z is not None:
        w.names[graph.z] = "depth0"
    known = {g.output for g in shared}
    for g in needed(graph.functions, graph.roots, known):
        w.emit(g, actual)
    sums, adds, cells = [], [], []
    roots: tuple[Variable, ...] = graph.roots
    for k, v in enumerate(roots):
        value = w.value(actual.get(v, v))
        sums.append(f"precise {v.vtype.glsl} dressi_sum{k} = {v.vtype.glsl}(0.0);")
        adds.append(f"dressi_sum{k} += count > 0.0 ? {value} * count : {v.vtype.glsl}(0.0);")
        cells += [component(f"dressi_sum{k}", v.vtype, c) for c in range(v.vtype.components)]
    inside, w.lines = w.lines, []
    triangles = range(f.triangles_per_face)
    loop = [
        "ivec2 extent = max(high - low, ivec2(0));",
        "int left = extent.x * extent.y;",
        "ivec2 at = low;",
        f"while (left > 0) {{ int steps = min(left, {ROUND}); left -= steps;",
        "for (int k = 0; k < steps; ++k) {",
        "pixel = at;",
        f"ivec2 place = pixel + {w.tile_corner()};",
        "vec2 centre = vec2(pixel - low) + 0.5;",
        *(f"float depth{t} = pixels_depth(edges{t}, centre, z{t}, w{t});" for t in triangles),
        f"float count = {' + '.join(f'float(depth{t} >= 0.0)' for t in triangles)};",
        *inside,
        *adds,
        "bool next = at.x + 1 >= high.x;",
        "at = next ? ivec2(low.x, at.y + 1) : at + ivec2(1, 0);",
        "} }",
    ]
    wide = f.output.size[0]
    stores = []
    for k, cell in enumerate(cells):
        w.names[f.output] = cell
        number = f"({FACE} + {k * f.faces})"
        place = w.texel(f.output, "tile", f"ivec2({number} % {wide}, {number} / {wide})")
        stores += w.stores(f.output, names[f.output], place)
    return w.dispatch([*head, *before, *sums, *loop, *stores], f"local_size_x={GROUP}")


def _corners(w: Writer, f: FaceSum, size: str) -> list[str]:
    """Statements that set ``low`` and ``high``, the pixels around a face, and the edges, z and w of each triangle."""
    position, per = f.inputs[0], f.triangles_per_face
    lines, ends = [f"vec4 box = vec4({size}, vec2(0.0));"], []
    for t in range(per):
        number = f"({per} * {FACE} + {t})"
        if f.indexed:
            lines.append(
                f"ivec3 numbers{t} = {w.fetch(f.inputs[1])}({texel_of_list(number, f.inputs[1])}, tile);"
            )
        clip = []
        for k in range(3):
            vertex = f"numbers{t}[{k}]" if f.indexed else f"(3 * {number} + {k})"
            name = f"clip{t}_{k}"
            clip.append(name)
            lines += [
                f"vec4 {name} = {w.fetch(position)}({texel_of_list(vertex, position)}, tile);",
                f"vec3 corner{t}_{k} = pixels_corner({name}, {size});",
                f"box = pixels_box(box, corner{t}_{k}, {size});",
            ]
        edges = ", ".join(f"corner{t}_{k}" for k in range(3))
        ends += [
            f"mat3 edges{t} = pixels_edges({edges}, vec2(low));",
            f"vec3 z{t} = vec3({', '.join(f'{c}.z' for c in clip)}), w{t} = vec3({', '.join(f'{c}.w' for c in clip)});",
        ]
    whole = f"ivec2({f.size[0]}, {f.size[1]})"
    lines += [
        "box = clamp(box, vec4(-1.0), vec4(1e5));",
        f"ivec2 low = clamp(ivec2(ceil(box.xy - 0.5)), ivec2(0), {whole});",
        f"ivec2 high = clamp(ivec2(floor(box.zw - 0.5)) + 1, ivec2(0), {whole});",
        *ends,
    ]
    return lines
