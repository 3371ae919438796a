"""GLSL of draws: vertex pulling, the fragment sub-graphs of ``F.rasterize`` and ``F.accumulate``, and values
that fragments of rasters write beside the face.

What these compute from the face alone (its corners, say) the vertex shader computes and passes on as *flat
varyings*. At the end, GLSL of lists of live faces: what makes one, and how a vertex shader finds its face
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ....ad.graph import AccumulateFunction, DrawFunction, Function, RasterFunction, Variable
from ....ad.graph.traversal import reached, topological_order
from ....ad.graph.types import Access
from ....ad.ops.image.draws import FragmentGraph
from ..core.lists import LISTING, FaceList
from ..core.substage import Accumulate, Binding, ListFaces, PrimitiveWork, Raster
from ..lowering.fragment_value import FragmentValue
from .pixel import write_work
from .writer import Resource, Shaders, Writer, component, workgroup_number

Actual = Mapping[Variable, Variable]
"""The image that each formal input of a sub-graph stands for."""


def raster_shaders(work: Raster, w: Writer) -> Shaders:
    """A vertex shader that pulls corners by gl_VertexIndex, tile = gl_InstanceIndex or from a list; a
    fragment shader that writes the number of the face, with the depth and discard of its sub-graph."""
    s = w.s
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

    return _draw(work, w, f, actual, flat, write)


def accumulate_shaders(work: Accumulate, w: Writer) -> Shaders:
    """A vertex shader as above; a fragment shader that writes the value of the sub-graph, to be blended."""
    (f,) = w.s.functions
    assert isinstance(f, AccumulateFunction)
    actual, flat = inside(f)

    def write(w: Writer) -> None:
        value, *keep = write_fragment(w, f, actual, flat)
        w.lines += [f"if ({k} == 0.0) discard;" for k in keep]
        w.names[f.output] = value

    return _draw(work, w, f, actual, flat, write)


def inside(f: DrawFunction, values: Sequence[FragmentValue] = ()) -> tuple[dict[Variable, Variable], Flat]:
    """The image of each formal of a sub-graph; what fragments share with vertices. values: written too."""
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
    w: Writer,
    f: DrawFunction,
    actual: dict[Variable, Variable],
    flat: Flat,
    write: Callable[[Writer], None],
) -> Shaders:
    """The shaders of a draw. write: what a fragment computes."""
    vertex = w.beside()
    vertex.declare_reads()
    vertex.leave_out(lambda r: r.kind == "attachment")
    face = None if f.fragment is None else f.fragment.face
    sources = {"vertex": vertex_shader(vertex, work, f, face, flat, actual)}
    w.declare_reads()
    only_pulled = {r.variable for r in w.s.reads if r.binding is Binding.VERTEX}
    w.leave_out(lambda r: r.variable in only_pulled)
    start = flat.receive(w, actual)
    write(w)
    layouts, stores = w.colors(w.s)
    main = [*start, *fragment_place(w), *w.lines, *stores]
    sources["fragment"] = w.text(main, layouts + flat.layouts("in"))
    return Shaders(tuple(vertex.resources), sources)


def vertex_shader(
    w: Writer, work: PrimitiveWork, f: DrawFunction, face: Variable | None, flat: Flat, actual: Actual
) -> str:
    """A shader that pulls corners and passes on what fragments share. face: their Variable of its number."""
    if face is not None:
        w.names[face] = FACE
    if work.faces is not None:
        declare_list(w)
    main, ends = _pull(w, f, work.faces), flat.send(w, FACE, "tile", actual)
    return w.text([*main, *w.lines, *ends], flat.layouts("out"))


def _pull(w: Writer, f: DrawFunction, listed: FaceList | None) -> list[str]:
    """Statements that fetch the corner of gl_VertexIndex; they set the face and ``tile``."""
    position = f.inputs[0]
    main = [*_find_vertex(listed), "int triangle = number / 3;"]
    if f.indexed:
        faces = f.inputs[1]
        main += [
            f"ivec3 corners = {w.fetch(faces)}({texel_of_list('triangle', faces)}, tile);",
            "int corner = number - 3 * triangle;",
            "int vertex = corner == 0 ? corners.x : corner == 1 ? corners.y : corners.z;",
        ]
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
    return ["ivec2 place = ivec2(gl_FragCoord.xy);", f"ivec2 pixel = place - {w.corner(w.s.domain)};"]


def texel_of_list(index: str, table: Variable) -> str:
    """GLSL of the texel of an entry of a list."""
    width, height = table.size
    return f"ivec2({index}, 0)" if height == 1 else f"ivec2({index} % {width}, {index} / {width})"


# ---- flat varyings
FLAT_COMPONENTS = 60  # 15 of the 16 locations that Vulkan guarantees
FACE = "dressi_face"  # the name of the number of the face in shaders of draws
_FIXED = (FACE, "tile")


@dataclass(frozen=True)
class Flat:
    """functions: those that the vertex shader runs, producers first.  values: what it passes on.

    They travel as bits in as few locations as can be, after the face and the tile: CPU drivers load every
    location for every block of pixels, whether it is shaded or not.
    """

    functions: tuple[Function, ...] = ()
    values: tuple[Variable, ...] = ()

    @property
    def locations(self) -> int:
        return -(-(len(_FIXED) + sum(v.vtype.components for v in self.values)) // 4)

    def layouts(self, direction: str) -> list[str]:
        """Declarations; direction: "out" or "in"."""
        return [f"layout(location={k}) flat {direction} ivec4 dressi_flat{k};" for k in range(self.locations)]

    def send(self, w: Writer, face: str, tile: str, actual: Actual) -> list[str]:
        """Writes the Functions into a vertex shader. Returns the statements that pass the values on."""
        for g in self.functions:
            w.emit(g, actual)
        parts = [face, tile]
        for v in self.values:
            name = w.names.get(v) or w.value(actual.get(v, v))
            bits = "{}" if v.vtype.is_int else "floatBitsToInt({})"
            parts += [bits.format(component(name, v.vtype, k)) for k in range(v.vtype.components)]
        parts += ["0"] * (-len(parts) % 4)
        return [
            f"dressi_flat{k} = ivec4({', '.join(parts[4 * k : 4 * k + 4])});" for k in range(self.locations)
        ]

    def receive(self, w: Writer, actual: Actual) -> list[str]:
        """Statements of a fragment shader that unpack the values; names them in its writer."""
        parts = iter([f"dressi_flat{k}.{c}" for k in range(self.locations) for c in "xyzw"])
        lines = [f"int {name} = {next(parts)};" for name in _FIXED]
        for k, v in enumerate(self.values):
            bits = "{}" if v.vtype.is_int else "intBitsToFloat({})"
            own = [bits.format(next(parts)) for _ in range(v.vtype.components)]
            w.names[v] = w.names[actual.get(v, v)] = f"dressi_passed{k}"
            lines.append(f"{v.vtype.glsl} dressi_passed{k} = {v.vtype.glsl}({', '.join(own)});")
        return lines


def find_flat(
    functions: Sequence[Function], face: Variable, uniform: Iterable[Variable], roots: Iterable[Variable]
) -> Flat:
    """The Functions of a fragment that depend on the number of the face and on ``uniform`` Variables alone.

    What was fetched is passed on. What follows from it without another fetch is recomputed in the fragments.
    """
    hoisted, constant = hoist(functions, face, uniform)
    known = {face, *uniform, *(g.output for g in hoisted)}
    inside = set(hoisted)
    read = dict.fromkeys(x for g in functions if g not in inside for x in _at_pixel(g))
    read.update(dict.fromkeys(roots))
    values = [x for x in read if x in known and x is not face]
    for v in reversed(values[:]):
        given = {face, *constant, *values} - {v}
        for g in hoisted:
            if _fetches(g) == 0 and given.issuperset(g.inputs):
                given.add(g.output)
        if v in given:
            values.remove(v)
    while sum(v.vtype.components for v in values) > FLAT_COMPONENTS - len(_FIXED):
        passed = set(values)

        def makers(g: Function, passed: set[Variable] = passed) -> list[Function]:
            return [x.creator for x in g.inputs if x.creator in inside and x not in passed]

        def saved(v: Variable) -> float:
            """Fetches that make a component from the other values."""
            cone = reached([v.creator] if v.creator in inside else [], makers)
            return sum(map(_fetches, cone)) / v.vtype.components

        values.remove(min(values, key=saved))
    return Flat(tuple(needed(functions, [v for v in values if v.creator in inside])), tuple(values))


def hoist(
    functions: Sequence[Function], face: Variable, uniform: Iterable[Variable]
) -> tuple[list[Function], set[Variable]]:
    """The Functions that all fragments of a face compute alike, and the values that need no input."""
    known, constant = {face, *uniform}, set()
    hoisted: list[Function] = []
    for g in functions:
        if "pixel" in g.places or not all(x in known or x in constant for x in _at_pixel(g)):
            continue
        if all(x in constant for x in g.inputs):
            constant.add(g.output)
        else:
            known.add(g.output)
            hoisted.append(g)
    return hoisted, constant


def needed(
    functions: Sequence[Function], roots: Iterable[Variable], given: Iterable[Variable] = ()
) -> list[Function]:
    """The Functions (producers first) that are needed to make the roots from what is given."""
    given = frozenset(given)
    wanted = set(roots) - given
    kept = []
    for g in reversed(functions):
        if g.output in wanted:
            kept.append(g)
            wanted.update(x for x in g.inputs if x not in given)
    return kept[::-1]


def _at_pixel(g: Function) -> list[Variable]:
    return [x for x, access in zip(g.inputs, g.access, strict=True) if access is Access.SAME_PIXEL]


def _fetches(g: Function) -> int:
    return len(g.inputs) - len(_at_pixel(g))


# ---- lists of live faces
def declare_list(w: Writer, access: str = "readonly") -> None:
    """The buffer of a list: arguments of its draws, then the numbers of faces."""
    w.declare_buffer(Resource("list"), "dressi_List", "uint dressi_list[];", access)


def list_shaders(work: ListFaces, w: Writer) -> Shaders:
    """``compute`` makes the images of the SubStage and lists the faces; one workgroup a segment of a tile."""
    listed, lanes = work.faces, work.faces.invocations
    names = w.declare()
    declare_list(w, "")
    w.head.append(f"shared uint dressi_counts[{lanes}];")
    write_work(w, w.s, names)
    live = w.value(listed.live)
    wide, high = w.s.domain.size
    # The count of the faces that are listed before those of an invocation, with a tree or one after the
    # other.
    scan, count = [], "for (int k = 0; k < own; ++k) count += dressi_counts[k];"
    if lanes > LISTING:
        scan, count = _scan(lanes), "count = dressi_counts[own] - bitCount(found);"
    main = [
        f"ivec2 group = {workgroup_number(w.limits)};",
        "int segment = group.x, tile = group.y, own = int(gl_LocalInvocationIndex);",
        f"int begin = segment * {listed.segment} + own * {listed.run};",
        "uint found = 0u;",
        f"for (int k = 0; k < {listed.run} && begin + k < {wide * high}; ++k) {{",
        f"ivec2 pixel = ivec2((begin + k) % {wide}, (begin + k) / {wide});",
        f"ivec2 place = pixel + {w.corner(w.s.domain)};",
        *w.lines,
        f"if (begin + k < {listed.faces} && {live} != 0) found |= 1u << k;",
        "}",
        "dressi_counts[own] = bitCount(found);",
        "barrier();",
        *scan,
        f"uint first = uint(tile * {listed.entries} + segment * {listed.segment}), count = 0u;",
        count,
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


def _find_vertex(listed: FaceList | None) -> list[str]:
    """Statements that set ``tile``, and ``number``: of the vertex among those of all faces."""
    if listed is None:
        return ["int number = gl_VertexIndex, tile = gl_InstanceIndex;"]
    return [
        f"int entry = gl_VertexIndex / {listed.vertices}, tile = entry / {listed.entries};",
        f"int number = gl_VertexIndex + (int(dressi_list[{listed.header} + entry]) - entry) * {listed.vertices};",
    ]
