"""The shaders of one SubStage, and the writer of GLSL that all kinds of work share.

Temporaries are ``precise``: no sum or product of a value depends on which other Functions share the shader,
so on CPU drivers a packed plan gives the bits of the baseline. GPUs use the freedom that quotients and roots
still have. Functions in ``SubStage.contracted`` are not precise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ....ad.graph import Domain, Function, ReduceFunction, Variable
from ....ad.graph.includes import included_files
from ....ad.graph.snippet import template_of
from ....ad.graph.traversal import producers_first
from ....ad.graph.types import Access, Sampler, VType
from ..core.limits import DeviceLimits
from ..core.substage import ONE, Binding, Joined, Range, SubStage
from ..model.device import unrolls

# The shaders of one SubStage: their GLSL, their descriptors, and expressions that all kinds of work use.

ShaderText = Callable[[str], str]
"""Gives the text of a file: of ``shaders/`` by name, of any other by its full path."""


@dataclass(frozen=True)
class Resource:
    """One descriptor of a set: a plane of an image, or a buffer.

    kind: "texture", "attachment", "storage" or "load" (a storage image that is only read) of images; "range"
    of values in a storage buffer, by the first of them; "buffer" (accumulators), "status", "blocks", "list",
    or "hits" with their number; or "sampler", which ``sampler`` describes.
    """

    kind: str
    variable: Variable | None = None
    plane: int = 0
    sampler: Sampler | None = None


def stage_of(part: str) -> str:
    """The stage of a shader by its key among ``Shaders.sources``."""
    return "compute" if part == "resolve" else part.rpartition(".")[2]


@dataclass(frozen=True)
class Shaders:
    """The shaders of one SubStage with their shared descriptor set, bindings numbered by position.

    sources: by "vertex", "fragment", "compute", "resolve", or "resolve.vertex" and "resolve.fragment". bands:
    of a scatter, the first cells of the bands that run one after the other. based: whether dispatches take
    their first workgroup from a push constant. matrices: whether subgroups multiply matrices, which needs a
    recent compiler.
    """

    resources: tuple[Resource, ...]
    sources: dict[str, str]
    bands: range = range(1)
    based: bool = False
    matrices: bool = False


class ShaderSource(str):
    """The GLSL of one shader, a string that knows its parts.

    statements: whole statements of its text, each with the Function whose snippet it is.  included: the texts
    of other files in it, by the names of these.  reads: the stored Variables that it reads.
    """

    statements: Mapping[str, Function]
    included: Mapping[str, str]
    reads: frozenset[Variable]

    def __new__(
        cls,
        text: str,
        statements: Mapping[str, Function],
        included: Mapping[str, str],
        reads: Iterable[Variable],
    ) -> ShaderSource:
        self = super().__new__(cls, text)
        self.statements, self.included, self.reads = statements, included, frozenset(reads)
        return self


LONG_ATOMICS = "GL_EXT_shader_explicit_arithmetic_types_int64", "GL_EXT_shader_atomic_int64"
"""Extensions of GLSL that 64-bit atomics take."""


def constants(limits: DeviceLimits, bands: range = range(1)) -> list[str]:
    """The push constants of a dispatch: its first workgroup, and the first cell of a band of a table."""
    members = ["uvec2 dressi_base;"] * (not limits.dispatch_base) + ["int dressi_band;"] * (len(bands) > 1)
    return [f"layout(push_constant) uniform dressi_Constants {{ {' '.join(members)} }};"] if members else []


def workgroup_number(limits: DeviceLimits) -> str:
    """GLSL of the number of the workgroup, an ivec2 that counts through all slices of a dispatch."""
    return f"ivec2(gl_WorkGroupID.xy{'' if limits.dispatch_base else ' + dressi_base'})"


def invocation_number(limits: DeviceLimits) -> str:
    """GLSL of the number of the invocation, counted likewise."""
    base = "" if limits.dispatch_base else " + dressi_base * gl_WorkGroupSize.xy"
    return f"ivec2(gl_GlobalInvocationID.xy{base})"


def fetched_at(texel: str) -> str:
    """GLSL of the coordinates of a fetch, guarded so that drivers test the texel itself against the image.

    Drivers move a small constant of ``x + 4`` into the offset field of the instruction that fetches. NVIDIA's
    580 then tests the base alone, here ``x``, and reads zeros where that is outside though the texel is
    inside: ``4 - pixel.x`` reads nothing at all of an image that is five wide. Nothing can be moved out of a
    maximum. Its bound is one above the least integer: compilers remove a maximum with that one. Every fetch
    goes through here. It costs one instruction.
    """
    return f"max({texel}, ivec2(-2147483647))"


def tile_of(v: Variable, domain: Domain) -> str:
    """GLSL of the tile of a Variable read at a pixel of a domain: its batch and channels broadcast."""
    if v.tiles == 1 or (v.tiles, v.channels) == (domain.tiles, domain.channels):
        return "tile"
    image = "0" if v.batch == 1 else f"tile / {domain.channels}"
    channel = "0" if v.channels == 1 else f"tile % {domain.channels}"
    return f"({image} * {v.channels} + {channel})"


_TYPES = {1: ("float", "int"), 2: ("vec2", "ivec2"), 4: ("vec4", "ivec4")}


class Writer:
    """Collects declarations and statements of one shader, names Variables in the order of use."""

    def __init__(self, s: SubStage, limits: DeviceLimits, shader_text: ShaderText):
        self.s, self.limits, self.shader_text = s, limits, shader_text
        self.resources: list[Resource] = []
        self.declared: dict[int, str] = {}  # by binding
        self.ranges: dict[Range, str] = {}  # names of the buffers that are declared
        self.head: list[str] = []  # declarations of shared memory, and GLSL functions
        self.tiling = limits.tiling(s.domain)
        self.names: dict[Variable, str] = {}  # Variables available as expressions
        self.images: dict[Variable, str] = {}  # prefix of image names
        self.fetches: dict[Hashable, str] = {}  # by Variable
        self.samplings: dict[Hashable, str] = {}  # by Variable and Sampler
        self.loaded: set[Variable] = set()
        self.binding = {r.variable: r.binding for r in s.reads}
        self.includes: dict[str, None] = {}
        self.statements: dict[str, Function] = {}  # the Function behind each
        self.extensions: set[str] = set()  # of GLSL
        self.lines: list[str] = []
        self.locals = 0
        self.domain = s.domain  # of the pixels that statements are written for
        self.inside = False  # whether these are inside of a function that recomputes a value

    def beside(self, domain: Domain | None = None) -> Writer:
        """A writer of another shader of the SubStage, over another domain if one is given."""
        s = self.s if domain is None else replace(self.s, domain=domain)
        return Writer(s, self.limits, self.shader_text)

    # ---- declarations
    def declare(self) -> dict[Variable, str]:
        """Declares all reads and outputs. Returns the names of the outputs that are not attachments."""
        self.declare_reads()
        names, read = {}, {*self.images}
        inner = self.s.work.inner if isinstance(self.s.work, Joined) else ()
        for k, v in enumerate(self.s.outputs):
            if v not in self.s.colors:
                leaf = self.s.replaces.get(v, v)
                name = names[v] = self.images.get(leaf, f"dressi_output{k}")
                access = "" if leaf in read else "coherent" if v in inner else "writeonly"
                self._declare_storage(leaf, name, access, "storage")
                if access != "writeonly":
                    self.images[leaf], self.binding[leaf] = name, Binding.STORAGE
        return names

    def declare_reads(self) -> None:
        """Declares an input attachment or a texture for each plane that is read, and the samplers. A leaf
        that a dispatch overwrites is declared with its outputs: one storage image serves both."""
        attachments = 0
        for k, read in enumerate(self.s.reads):
            v, binding = read.variable, read.binding
            name = self.images[v] = f"dressi_image{k}"
            if v in self.s.ranges or binding is Binding.STORAGE:
                self._declare_storage(v, name, "readonly", "load")
                continue
            if v in self.s.replaces.values() and binding is not Binding.ATTACHMENT:
                continue
            prefix = "uniform i" if v.vtype.is_int else "uniform "
            for plane in range(len(v.vtype.planes)):
                if binding is Binding.ATTACHMENT:
                    index = f"input_attachment_index={attachments}, "
                    attachments += 1
                    text = f"{prefix}subpassInput {name}_{plane}"
                    self.declare_resource(Resource("attachment", v, plane), text, before=index)
                else:
                    text = f"{prefix}texture2D {name}_{plane}"
                    self.declare_resource(Resource("texture", v, plane), text)
        for sampler in self.s.samplers:
            text = f"uniform sampler dressi_{sampler}"
            self.declare_resource(Resource("sampler", sampler=sampler), text)

    def declare_resource(self, resource: Resource, text: str, *, before: str = "", format: str = "") -> None:
        """Declares a descriptor at the next binding. before, format: of its layout."""
        slot = len(self.resources)
        layout = f"{before}set=0, binding={slot}{f', {format}' if format else ''}"
        self.declared[slot] = f"layout({layout}) {text};"
        self.resources.append(resource)

    def declare_buffer(self, resource: Resource, name: str, members: str, access: str = "") -> None:
        """Declares a storage buffer."""
        text = f"{access} buffer {name} {{ {members} }}".lstrip()
        self.declare_resource(resource, text, format="std430")

    def _declare_storage(self, v: Variable, name: str, access: str, kind: str) -> None:
        """A storage image of each plane, or the range of a storage buffer that the value lies in, declared
        once for all its members. kind: of images, as in ``Resource``."""
        if v in self.s.ranges:
            held = self.s.ranges[v]
            if held not in self.ranges:
                number = len(self.ranges)
                self.ranges[held] = f"dressi_range{number}"
                members = f"{_TYPES[held.components][held.members[0].vtype.is_int]} dressi_range{number}[];"
                self.declare_buffer(
                    Resource("range", held.members[0]), f"dressi_Range{number}", members, access
                )
            return
        bits, letter = 16 if v in self.s.narrow else 32, "i" if v.vtype.is_int else "f"
        format = f"{'rgba'[: self.limits.channels(v.vtype)]}{bits}{letter}"
        image = "iimage2D" if v.vtype.is_int else "image2D"
        for plane in range(len(v.vtype.planes)):
            text = f"uniform {access} {image} {name}_{plane}"
            self.declare_resource(Resource(kind, v, plane), text, format=format)

    def enter(self, s: SubStage, images: Mapping[Variable, str]) -> None:
        """Goes on with another SubStage of the same shader. images: the names of all that are declared."""
        self.fetches = {(self.s, v): name for v, name in self.fetches.items()}
        self.samplings = {(self.s, key): name for key, name in self.samplings.items()}
        self.s, self.tiling, self.domain = s, self.limits.tiling(s.domain), s.domain
        self.images = {r.variable: images[r.variable] for r in s.reads}
        self.names, self.lines = {}, []

    def leave_out(self, which: Callable[[Resource], bool]) -> None:
        """Leaves descriptors undeclared that only other shaders of the set use."""
        self.declared = {k: text for k, text in self.declared.items() if not which(self.resources[k])}

    # ---- reading
    def corner(self, v: Variable | Domain, tile: str = "tile") -> str:
        """Coordinates in the image of the first texel of a tile."""
        (width, height), t = v.size, self.limits.tiling(v)
        if t.columns == 1:
            return f"ivec2(0, {tile} * {height})"
        return f"ivec2({tile} / {t.rows} * {width}, {tile} % {t.rows} * {height})"

    def texel(self, v: Variable, tile: str, texel: str) -> str:
        """Coordinates in the image of a texel of a tile."""
        return texel if v.tiles == 1 else f"{texel} + {self.corner(v, tile)}"

    def _texel_of_range(self, v: Variable, plane: int, texel: str) -> str:
        """A texel of a plane in its range, by its coordinates in the image that there would be."""
        held, tiling = self.s.ranges[v], self.limits.tiling(v)
        first = (held.first[v] + plane) * tiling.texels
        row = f"dressi_row_{tiling.width}"
        line = f"int {row}(ivec2 texel) {{ return texel.y * {tiling.width} + texel.x; }}"
        if line not in self.head:
            self.head.append(line)
        return f"{self.ranges[held]}[{f'{first} + ' if first else ''}{row}({texel})]"

    def _masked(self, v: Variable, value: str) -> str:
        """A value as it is stored in a range, or what was stored as the value."""
        if v not in self.s.ranges or v not in self.s.ranges[v].masks:
            return value
        words = self.s.ranges[v].masks[v]
        mask = f"uvec{len(words)}({', '.join(f'{word}u' for word in words)})"
        if v.vtype.is_int:
            return f"({value} ^ ivec{len(words)}({mask}))"
        return f"uintBitsToFloat(floatBitsToUint({value}) ^ {mask})"

    def load(self, v: Variable, coordinates: str) -> str:
        """An expression that reads all planes of a texel."""
        swizzle = {1: ".x", 2: ".xy", 3: ".xyz", 4: ""}[v.vtype.planes[0]]
        self.loaded.add(v)
        parts, coordinates = [], fetched_at(coordinates)
        for plane in range(len(v.vtype.planes)):
            name = f"{self.images[v]}_{plane}"
            if v in self.s.ranges:
                call = self._texel_of_range(v, plane, coordinates)
            elif self.binding[v] is Binding.ATTACHMENT:
                call = f"subpassLoad({name})"
            elif self.binding[v] is Binding.STORAGE or v in self.s.replaces.values():
                call = f"imageLoad({name}, {coordinates})"
            else:
                call = f"texelFetch({name}, {coordinates}, 0)"
            whole = v in self.s.ranges and self.s.ranges[v].components == v.vtype.planes[0]
            parts.append(self._masked(v, call if whole else call + swizzle))
        return f"{v.vtype.glsl}({', '.join(parts)})" if v.vtype.is_matrix else parts[0]

    def fetch(self, v: Variable) -> str:
        """The name of a GLSL function (ivec2 texel, int tile) that reads the Variable, or makes its value."""
        if v in self.fetches:
            return self.fetches[v]
        if v in self.s.channels:
            name = self.fetches[v] = f"dressi_part{len(self.fetches)}"
            whole, first = self.s.channels[v]
            body = f"{self.fetch(whole)}(texel, tile){_channels(v, whole, first)}"
        elif v in self.images:
            name = self.fetches[v] = f"dressi_fetch{len(self.fetches)}"
            body = self.load(v, self.texel(v, "tile", "texel"))
        else:
            return self._recompute(v)
        self.head.append(f"{v.vtype.glsl} {name}(ivec2 texel, int tile) {{ return {body}; }}")
        return name

    def sampled(self, v: Variable, sampler: Sampler) -> str:
        """The name of a GLSL function (vec2 uv) that reads a stored Variable with a sampler."""
        key = v, sampler
        if key in self.samplings:
            return self.samplings[key]
        name = self.samplings[key] = f"dressi_sample{len(self.samplings)}"
        if v in self.s.channels:
            whole, first = self.s.channels[v]
            body = f"{self.sampled(whole, sampler)}(uv){_channels(v, whole, first)}"
        else:
            self.loaded.add(v)
            swizzle = "xyzw"[: v.vtype.planes[0]]
            parts = [
                f"textureLod(sampler2D({self.images[v]}_{plane}, dressi_{sampler}), uv, 0.0).{swizzle}"
                for plane in range(len(v.vtype.planes))
            ]
            body = f"{v.vtype.glsl}({', '.join(parts)})"
        self.head.append(f"{v.vtype.glsl} {name}(vec2 uv) {{ return {body}; }}")
        return name

    def value(self, v: Variable) -> str:
        """The value of a Variable at this pixel, loaded or made once."""
        if v in self.names:
            return self.names[v]
        if v in self.s.channels:
            whole, first = self.s.channels[v]
            name = self.names[v] = f"{self.value(whole)}{_channels(v, whole, first)}"
            return name
        x, y = ("0" if extent == 1 else f"pixel.{c}" for extent, c in zip(v.size, "xy", strict=True))
        texel = f"ivec2({x}, {y})" if 1 in v.size else "pixel"
        if v in self.images:
            whole = v.domain == self.s.domain and not self.inside
            text = self.load(v, "place" if whole else self.texel(v, tile_of(v, self.domain), texel))
        else:
            cone = self._cone(v) if v.domain in (self.domain, ONE) else []
            if v.domain == self.domain or (cone and not any(f.places for f in cone)):
                for f in cone:
                    self.emit(f)
                return self.names[v]
            text = f"{self.fetch(v)}({texel}, {tile_of(v, self.domain)})"
        name = self.names[v] = self._new_name()
        self.lines.append(f"{v.vtype.glsl} {name} = {text};")
        return name

    # ---- recomputing
    def _recompute(self, v: Variable) -> str:
        """A GLSL function that makes the value of any texel."""
        name = self.fetches[v] = f"dressi_make{len(self.fetches)}"
        outer = self.names, self.lines, self.domain, self.inside
        self.names, self.lines, self.domain, self.inside = {}, [], v.domain, True
        result = self.value(v)
        lines = ["tile = 0;"] * (v.tiles == 1) + self.lines + [f"return {result};"]
        self.names, self.lines, self.domain, self.inside = outer
        self.function(v.vtype.glsl, name, "ivec2 pixel, int tile", lines)
        return name

    def _cone(self, v: Variable) -> list[Function]:
        """The Functions over the same pixels that make ``v`` from stored or named values, producers first."""
        assert v.creator is not None, f"nothing makes {v}"
        same, domain = Access.SAME_PIXEL, v.domain
        images, names, channels = self.images, self.names, self.s.channels

        def makers(f: Function) -> list[Function]:
            return [
                maker
                for x, maker, access, _ in f.edges
                if access is same and maker is not None and x not in names and x not in images
                if x.domain == domain and x not in channels
            ]

        return producers_first([v.creator], makers)

    def _new_name(self) -> str:
        self.locals += 1
        return f"dressi_x{self.locals - 1}"

    # ---- statements
    def include(self, f: Function) -> None:
        """Adds the files that the snippet of a Function needs."""
        if f.includes:
            self.includes.update(dict.fromkeys(included_files(f)))

    def emit(self, f: Function, actual: Mapping[Variable, Variable] | None = None) -> None:
        """The snippet of a Function; ``actual`` maps formal inputs of a fragment sub-graph to images."""
        inputs: Sequence[Variable] = [actual.get(x, x) for x in f.inputs] if actual else f.inputs
        self.include(f)
        read = []  # expressions, or names of functions
        for x, access in zip(inputs, f.access, strict=True):
            if access is Access.SAME_PIXEL:
                read.append(self.value(x))
            elif access is Access.SAMPLE:
                assert f.sampler is not None, f"{f} has no sampler"
                read.append(self.sampled(x, f.sampler))
            else:
                read.append(self.fetch(x))
        name = self._new_name()
        if isinstance(f, ReduceFunction) and unrolls(
            f, lambda g: not (g.output in self.images or g.output in self.s.channels)
        ):
            template = template_of(f.unrolled)
        else:
            template = template_of(f.glsl)
        if template.most >= len(inputs):
            raise f.fail(f"its snippet names an input that it does not have; there are {len(inputs)}")
        if template.inputs is not None:
            gaps = [read[k] for k in template.inputs]
        else:
            gaps = [
                name
                if kind == "y"
                else _PROPERTY[kind](f.output if k is None else inputs[k])
                if kind
                else read[k or 0]
                for kind, k in template.words
            ]
        filled = template.text % tuple(gaps)
        precise = "" if f in self.s.contracted else "precise "
        declared = f"{precise}{f.output.vtype.glsl} {name}"
        text = f"{declared};\n  {{ {filled} }}" if template.statements else f"{declared} = {filled};"
        self.lines.append(text)
        self.statements[text] = f
        self.names[f.output] = name

    def place(self) -> list[str]:
        """Statements that set ``pixel`` and ``tile`` from ``place``, the texel of the framebuffer."""
        (width, height), t = self.s.domain.size, self.tiling
        if t.columns == 1:
            tile = f"place.y / {height}" if self.s.domain.tiles > 1 else "0"
            pixel = f"ivec2(place.x, place.y - tile * {height})"
        else:
            tile = f"place.y / {height} + place.x / {width} * {t.rows}"
            pixel = f"ivec2(place.x % {width}, place.y % {height})"
        return [f"int tile = {tile};", f"ivec2 pixel = {pixel};"]

    def planes(self, v: Variable) -> Iterator[tuple[int, str]]:
        """(plane, vector of four components to write) for each plane of an output."""
        name, n, zero = self.names[v], v.vtype.planes[0], "ivec4" if v.vtype.is_int else "vec4"
        for plane in range(len(v.vtype.planes)):
            part = f"{name}[{plane}]" if len(v.vtype.planes) > 1 else self._masked(v, name)
            if v.vtype is VType.MAT2:
                part = f"{name}[0], {name}[1]"
            yield plane, f"{zero}({', '.join([part] + ['0'] * (4 - n))})"

    def stores(self, v: Variable, name: str, place: str = "place") -> list[str]:
        """Statements that write a value into the storage images ``name``, or into its range of a buffer."""
        if v not in self.s.ranges:
            return [f"imageStore({name}_{p}, {place}, {e});" for p, e in self.planes(v)]
        swizzle = "xyzw"[: self.s.ranges[v].components]
        return [f"{self._texel_of_range(v, p, place)} = {e}.{swizzle};" for p, e in self.planes(v)]

    def colors(self, s: SubStage) -> tuple[list[str], list[str]]:
        """Layouts and statements of the colour attachments of a subpass, one a plane of its outputs."""
        layouts, stores = [], []
        for v in s.colors:
            kind = "ivec4" if v.vtype.is_int else "vec4"
            for _, expression in self.planes(v):
                layouts.append(f"layout(location={len(layouts)}) out {kind} dressi_color{len(layouts)};")
                stores.append(f"dressi_color{len(stores)} = {expression};")
        return layouts, stores

    # ---- the whole
    def function(self, kind: str, name: str, parameters: str, lines: Iterable[str]) -> None:
        """Adds a GLSL function."""
        self.head.append(f"{kind} {name}({parameters}) {{\n{_indented(lines)}\n}}")

    def dispatch(self, main: list[str], layout: str) -> Shaders:
        """The one shader of a dispatch. layout: of its workgroups."""
        pushed = constants(self.limits)
        source = self.text(main, [*pushed, f"layout({layout}) in;"])
        return Shaders(tuple(self.resources), {"compute": source}, based=bool(pushed))

    def text(self, main: list[str], layouts: list[str]) -> str:
        wanted = ("GL_EXT_samplerless_texture_functions", *sorted(self.extensions))
        extensions = "\n".join(f"#extension {name} : require" for name in wanted)
        included = {name: self.shader_text(name) for name in self.includes}
        head = "\n".join([*layouts, *included.values(), *self.declared.values(), *self.head])
        body = _indented(line for line in main if line)
        source = f"#version 450\n{extensions}\n{head}\nvoid main() {{\n{body}\n}}\n"
        return ShaderSource(source, self.statements, included, self.loaded)


def component(name: str, vtype: VType, k: int) -> str:
    """An expression of a component of a value; those of matrices count column by column."""
    if vtype.is_matrix:
        return f"{name}[{k // vtype.shape[0]}][{k % vtype.shape[0]}]"
    return name if vtype.is_scalar else f"{name}[{k}]"


def _channels(v: Variable, whole: Variable, first: int) -> str:
    """The swizzle that takes a Variable out of one whose channels it shares; none for copies and matrices."""
    return "" if v.vtype is whole.vtype else "." + "xyzw"[first : first + v.vtype.components]


def _indented(lines: Iterable[str]) -> str:
    return "\n".join("  " + line for line in lines)


_PROPERTY: dict[str, Callable[[Variable], str]] = {
    "size": lambda v: f"ivec2({v.size[0]}, {v.size[1]})",
    "batch": lambda v: str(v.tiles),
    "type": lambda v: v.vtype.glsl,
}
