"""GLSL of draws by dispatches: faces visit the pixels that they cover. Those of rasters keep the nearest of each pixel by an atomic
maximum; fragments that are added up go into accumulators (``scatter``).

The key of a pixel has, from its highest bit on, how near the face is and the number of the face, so that of equal depths the
lower number wins. A second shader turns keys into numbers of faces, and computes what fragments would write beside them.
Where the device has no 64-bit atomics the faces are visited twice: for the depth, then for the number.
"""

from __future__ import annotations

from ....ad.graph import DrawFunction, RasterFunction, Variable
from ..core.lists import FaceList
from ..core.substage import GROUP, ComputeRaster, Visit
from ..lowering.fragment_value import FragmentValue
from .raster import FACE, declare_list, hoist, needed, texel_of_list
from .writer import LONG_ATOMICS, Resource, Shaders, Writer, constants, invocation_number, workgroup_number

SMALL = 32
"""Pixels of the box of a face that one invocation visits alone; workgroups visit larger ones together."""
ACROSS, DOWN = 8, GROUP // 8
"""Pixels that a workgroup visits at once."""
ONE = 0x3F800000
"""The bits of the depth 1.0, at which nothing wins."""
LAST = 0x7FFFFFFF
ROUND = 1 << 14
"""Iterations of a loop: some drivers end one after 65,535."""


def compute_raster_shaders(work: ComputeRaster, w: Writer) -> Shaders:
    """``compute`` visits the pixels of faces, ``resolve`` writes the numbers of those that won, and values of them."""
    f, *values = w.s.functions
    assert isinstance(f, RasterFunction)
    bands = range(1) if w.limits.int64_atomics else range(2)
    pushed = [*constants(w.limits, bands), f"layout(local_size_x={GROUP}) in;"]

    def declare(w: Writer) -> dict[Variable, str]:
        names = w.declare()
        w.declare_buffer(
            Resource("buffer"), "dressi_Keys", f"{'int64_t' if len(bands) == 1 else 'int'} dressi_keys[];"
        )
        if work.faces is not None:
            declare_list(w)
        if len(bands) == 1:
            w.extensions.update(LONG_ATOMICS)
        return names

    r = w.beside()
    declare(w)
    sources = {"compute": w.text(visit(w, work, f, *_of_pixel(w, f)), pushed)}
    names = declare(r)
    main = _resolve(r, f, [v for v in values if isinstance(v, FragmentValue)], names)
    sources["resolve"] = r.text(main, pushed)
    return Shaders(tuple(w.resources), sources, bands, based=not w.limits.dispatch_base)


def visit(
    w: Writer, work: Visit, f: DrawFunction, once: list[str], body: list[str], kept: str = "true"
) -> list[str]:
    """The statements of the shader that visits the pixels of faces: first the small faces, each by its invocation, then the large
    ones of the workgroup, each by all invocations. once: statements of a face.  body: of each pixel that it covers.  kept: a condition
    on the pixel.

    An invocation goes on to the next pixel that is covered before it does anything there, so that its neighbours do the body at
    the same time, whatever their faces look like.
    """
    size, whole = f"vec2({float(f.size[0])!r}, {float(f.size[1])!r})", f"ivec2({f.size[0]}, {f.size[1]})"
    w.includes["visit.glsl"] = None
    _declare_pull(w, f)
    w.head.append(f"shared int dressi_large[{GROUP}];\nshared int dressi_larges;")
    parts = f"for (int part = 0; part < {f.triangles_per_face}; ++part)"
    drawn_at = f"pixel + {w.corner(f.drawn)}" if f.drawn.tiles > 1 else "pixel"
    corners = ", ".join(f"visit_corner(p[{k}], {size})" for k in ("0", "third - 1", "third"))
    return [
        f"ivec2 group = {workgroup_number(w.limits)};",
        f"int lane = int(gl_LocalInvocationIndex), own = group.x * {GROUP} + lane;",
        f"int tile = group.y / {work.slices}, slice = group.y % {work.slices};",
        f"bool drawn = own < {f.faces} && tile < {f.batch};",
        *_live(w, f, work.faces),
        "if (lane == 0) dressi_larges = 0;",
        "barrier();",
        "vec4 p[5];",
        "int pixels = 0;",
        f"if (drawn) {parts}",
        "  for (int third = 2, n = dressi_pull(own, part, tile, p); third < n; ++third)",
        f"    pixels = max(pixels, visit_pixels(visit_box({corners}, {whole}), {SMALL}));",
        f"if (pixels > {SMALL}) dressi_large[atomicAdd(dressi_larges, 1)] = own;",
        "barrier();",
        f"bool alone = drawn && pixels <= {SMALL} && slice == 0;",
        "for (int turn = alone ? -1 : 0; turn < dressi_larges; ++turn) {",
        f"int {FACE} = turn < 0 ? own : dressi_large[turn];",
        f"ivec2 start = turn < 0 ? ivec2(0) : ivec2(lane % {ACROSS}, lane / {ACROSS} + {DOWN} * slice);",
        f"ivec2 stride = turn < 0 ? ivec2(1) : ivec2({ACROSS}, {DOWN * work.slices});",
        *once,
        f"{parts} {{",
        f"int n = dressi_pull({FACE}, part, tile, p);",
        "for (int third = 2; third < n; ++third) {",
        f"Visited face = visit_face(p[0], p[third - 1], p[third], {size});",
        "ivec2 visits = max(face.box.zw - face.box.xy - start + stride - 1, ivec2(0)) / stride;",
        f"for (int first = 0, left = visits.x * visits.y; first < left; first += {ROUND})",
        f"for (int visit = first, last = min(first + {ROUND}, left); visit < last; ++visit) {{",
        "ivec2 pixel;",
        "float depth;",
        "for (bool covered = false; visit < last && !covered; visit += int(!covered)) {",
        "  pixel = face.box.xy + start + stride * ivec2(visit % visits.x, visit / visits.x);",
        "  depth = visit_depth(face, pixel);",
        f"  covered = depth >= 0.0 && depth <= 1.0 && {kept};",
        "}",
        "if (visit >= last) break;",
        f"ivec2 place = {drawn_at};",
        *body,
        "} } } }",
    ]


def _declare_pull(w: Writer, f: DrawFunction) -> None:
    """A GLSL function that fetches the corners of a triangle of a face, and says how many there are after those behind the eye
    were cut off; 0 where a number of a corner is out of range."""
    position, lines = f.inputs[0], [f"int number = {f.triangles_per_face} * face + part;"]
    if f.indexed:
        faces = f.inputs[1]
        lines += [
            f"ivec3 corners = {w.fetch(faces)}({texel_of_list('number', faces)}, tile);",
            f"if (any(greaterThanEqual(uvec3(corners), uvec3({position.size[0] * position.size[1]})))) return 0;",
        ]
    else:
        lines.append("ivec3 corners = 3 * number + ivec3(0, 1, 2);")
    for k in range(3):
        lines.append(f"int corner{k} = corners[{k}];")
        lines.append(f"p[{k}] = {w.fetch(position)}({texel_of_list(f'corner{k}', position)}, tile);")
    pulled = "\n".join(["  " + line for line in lines])
    w.head.append(
        f"int dressi_pull(int face, int part, int tile, out vec4 p[5]) {{\n{pulled}\n  return visit_polygon(p);\n}}"
    )


def _live(w: Writer, f: DrawFunction, listed: FaceList | None) -> list[str]:
    """Statements that keep ``drawn`` for faces that the mask leaves; with a list ``own`` becomes the number that it names."""
    if listed is not None:
        count = f"int(dressi_list[(tile * {listed.segments} + segment) * 4]) / {listed.vertices}"
        return [
            f"int segment = own / {listed.segment};",
            f"drawn = drawn && own - segment * {listed.segment} < {count};",
            f"if (drawn) own = int(dressi_list[{listed.header} + tile * {listed.entries} + own]);",
        ]
    live = f.live
    if live is None:
        return []
    return [f"if (drawn) drawn = {w.fetch(live)}({texel_of_list('own', live)}, tile) != 0;"]


def fragments(w: Writer, f: DrawFunction, depth: str = "depth") -> tuple[list[str], list[str], list[str]]:
    """Statements of a face, what its fragments have in common, and of each fragment; the names of the roots of their sub-graph.
    depth: the name of that of a fragment."""
    graph = f.fragment
    actual: dict[Variable, Variable] = dict(zip(graph.formals, f.externals, strict=True))
    w.names[graph.face] = FACE
    shared, _ = hoist(graph.functions, graph.face, [v for v, x in actual.items() if x.size == (1, 1)])
    for g in shared:
        w.emit(g, actual)
    once, w.lines = w.lines, []
    if graph.z is not None:
        w.names[graph.z] = depth
    for g in w.s.body:
        if g not in w.s.functions:
            w.emit(g)
    for g in needed(graph.functions, graph.roots, {g.output for g in shared}):
        w.emit(g, actual)
    kept: tuple[Variable, ...] = graph.roots
    roots = [w.value(actual.get(v, v)) for v in kept]
    lines, w.lines = w.lines, []
    return once, lines, roots


def _of_pixel(w: Writer, f: RasterFunction) -> tuple[list[str], list[str]]:
    """Statements of a face, and of each of its pixels: they keep the face if it is the nearest."""
    depth = "depth"
    once: list[str] = []
    lines: list[str] = []
    w.names[f.output] = FACE
    if f.fragment is not None:
        once, lines, (own, *keep) = fragments(w, f)
        lines.append(
            f"float own_depth = {' || '.join(f'{k} == 0.0' for k in keep)} ? 1.0 : {own};"
            if keep
            else f"float own_depth = {own};"
        )
        depth = "own_depth"
    near, face = f"{ONE} - (floatBitsToInt(max({depth}, 0.0)) & {LAST})", FACE
    if f.covering:
        near, face = str(ONE), "0"
    cell = f"(tile * {f.size[1]} + pixel.y) * {f.size[0]} + pixel.x"
    keys = [f"atomicMax(dressi_keys[cell], packInt2x32(ivec2({LAST} - {face}, near)));"]
    if not w.limits.int64_atomics:
        keys = [
            "if (dressi_band == 0) atomicMax(dressi_keys[2 * cell], near);",
            f"else if (dressi_keys[2 * cell] == near) atomicMax(dressi_keys[2 * cell + 1], {LAST} - {face});",
        ]
    return once, [*lines, f"if ({depth} < 1.0) {{", f"int near = {near}, cell = {cell};", *keys, "}"]


def _resolve(
    w: Writer, f: RasterFunction, values: list[FragmentValue], names: dict[Variable, str]
) -> list[str]:
    """The statements of the shader that empties the keys, and writes the number of the face of each pixel and values of it."""
    (wide, high), t = f.size, w.tiling
    take = ["ivec2 key = unpackInt2x32(dressi_keys[cell]);", "dressi_keys[cell] = 0L;"]
    if not w.limits.int64_atomics:
        take = [
            "if (dressi_band == 0) return;",
            "ivec2 key = ivec2(dressi_keys[2 * cell + 1], dressi_keys[2 * cell]);",
            "dressi_keys[2 * cell] = dressi_keys[2 * cell + 1] = 0;",
        ]
    main = [
        f"ivec2 place = {invocation_number(w.limits)};",
        f"if (place.x >= {t.width} || place.y >= {t.height}) return;",
        f"int tile = place.y / {high} + place.x / {wide} * {t.rows};",
        f"if (tile >= {f.batch}) return;",
        f"ivec2 pixel = ivec2(place.x % {wide}, place.y % {high});",
        f"int cell = (tile * {high} + pixel.y) * {wide} + pixel.x;",
        *take,
        f"int {FACE} = key.y == 0 ? -1 : {LAST} - key.x;",
    ]
    w.names[f.output] = FACE
    for k, v in enumerate(values):
        vtype = v.output.vtype
        missed = ", ".join(str(int(x)) if vtype.is_int else repr(float(x)) for x in v.background)
        main.append(f"{vtype.glsl} dressi_value{k} = {vtype.glsl}({missed});")
        w.names[v.graph.face] = FACE
        for g in needed(v.graph.functions, [v.root], w.names):
            w.emit(g, v.actual)
        w.lines.append(f"dressi_value{k} = {w.value(v.actual.get(v.root, v.root))};")
    main += [f"if ({FACE} >= 0) {{", *w.lines, "}"] if values else []
    w.names |= {v.output: f"dressi_value{k}" for k, v in enumerate(values)}
    w.lines = []
    return [*main, *(line for v in w.s.outputs for line in w.stores(v, names[v]))]
