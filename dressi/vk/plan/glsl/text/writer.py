"""The writer of GLSL that all kinds of work share. It asks for the access and the binding of an input, never which
Function it writes.

Temporaries are ``precise``: no sum or product of a value depends on which other Functions share the shader, so on CPU drivers a
packed plan gives the bits of the baseline. Quotients and roots have some freedom left, of which GPUs make use. Those that ``contract_operations`` names are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .....ad.graph import Function, ReduceFunction, Variable
from .....ad.graph.snippet import template_of
from .....ad.includes import included_files
from .....ad.traversal import producers_first
from .....ad.types import Access, Sampler, VType
from ...limits import DeviceLimits
from ...model.cost import unrolls
from ...substage import ONE, Binding, Range, SubStage
from .shaders import Resource, Shaders, ShaderText
from .source import ShaderSource, constants, fetched_at, tile_of

# The descriptors of a shader, and GLSL of what is stored behind them: storage images and ranges of storage buffers.

_TYPES = {1: ("float", "int"), 2: ("vec2", "ivec2"), 4: ("vec4", "ivec4")}


def storage_format(vtype: VType, limits: DeviceLimits, *, half: bool = False) -> str:
    """GLSL name of the format that stores each plane of the type. half: in 16-bit floats."""
    return f"{'rgba'[: limits.channels(vtype)]}{16 if half else 32}{'i' if vtype.is_int else 'f'}"


class Descriptors:
    """What a shader of a SubStage declares."""

    def __init__(self, s: SubStage, limits: DeviceLimits):
        self.s, self.limits = s, limits
        self.resources: list[Resource] = []
        self.declared: dict[int, str] = {}  # by binding: what declares it
        self.ranges: dict[Range, str] = {}  # names of the buffers that are declared
        self.head: list[str] = []

    def declare_storage(self, v: Variable, name: str, access: str = "", kind: str = "storage") -> None:
        """A storage image of each plane, or the range of a storage buffer that the value lies in. kind: of images, as in
        ``Resource``."""
        if v in self.s.ranges:
            self.declare_range(self.s.ranges[v], access)
            return
        prefix = "i" if v.vtype.is_int else ""
        for plane in range(len(v.vtype.planes)):
            slot = len(self.resources)
            self.declared[slot] = (
                f"layout(set=0, binding={slot}, {storage_format(v.vtype, self.limits, half=v in self.s.narrow)}) uniform {access} "
                f"{prefix}image2D {name}_{plane};"
            )
            self.resources.append(Resource(kind, v, plane))

    def declare_range(self, held: Range, access: str) -> None:
        """The storage buffer of a range, once for all its members. The descriptor has the range alone."""
        if held in self.ranges:
            return
        number, name = len(self.ranges), f"dressi_range{len(self.ranges)}"
        kind = _TYPES[held.components][held.members[0].vtype.is_int]
        self.declared[len(self.resources)] = (
            f"layout(set=0, binding={len(self.resources)}, std430) {access} buffer dressi_Range{number} "
            f"{{ {kind} {name}[]; }};"
        )
        self.ranges[held] = name
        self.resources.append(Resource("range", held.members[0]))

    def texel_of_range(self, v: Variable, plane: int, place: str) -> str:
        """A texel of a plane in its range; place: its coordinates in the image that there would be."""
        held, tiling = self.s.ranges[v], self.limits.tiling(v)
        first = (held.first[v] + plane) * tiling.texels
        row = f"dressi_row_{tiling.width}"
        line = f"int {row}(ivec2 texel) {{ return texel.y * {tiling.width} + texel.x; }}"
        if line not in self.head:
            self.head.append(line)
        return f"{self.ranges[held]}[{f'{first} + ' if first else ''}{row}({place})]"

    def leave_out(self, which: Callable[[Resource], bool]) -> None:
        """Leaves images undeclared that only other shaders of the set use."""
        self.declared = {k: text for k, text in self.declared.items() if not which(self.resources[k])}


class Writer(Descriptors):
    """Collects declarations and statements of one shader, names Variables in the order of use."""

    def __init__(self, s: SubStage, limits: DeviceLimits, shader_text: ShaderText):
        super().__init__(s, limits)
        self.shader_text = shader_text
        self.tiling = limits.tiling(s.domain)
        self.names: dict[Variable, str] = {}  # Variables available as expressions
        self.images: dict[Variable, str] = {}  # prefix of image names
        self.fetches: dict[Variable, str] = {}
        self.samplings: dict[tuple[Variable, Sampler], str] = {}
        self.loaded: set[Variable] = set()
        self.binding = {r.variable: r.binding for r in s.reads}
        self.includes: dict[str, None] = {}
        self.statements: dict[str, Function] = {}  # the Function behind each
        self.extensions: set[str] = set()  # of GLSL
        self.lines: list[str] = []
        self.locals = 0
        self.domain = s.domain  # of the pixels that statements are written for
        self.inside = False  # whether these are inside of a function that recomputes a value

    # ---- declarations
    def declare_reads(self) -> None:
        """An input attachment or a texture for each plane that is read, and the samplers. A leaf that a dispatch overwrites is
        declared with its outputs."""
        attachment = 0
        for k, read in enumerate(self.s.reads):
            v = read.variable
            overwritten = v in self.s.replaces.values() and read.binding is not Binding.ATTACHMENT
            name = self.images[v] = f"dressi_image{k}"
            if v in self.s.ranges or read.binding is Binding.STORAGE:
                self.declare_storage(v, name, "readonly", "load")
                continue
            prefix = "i" if v.vtype.is_int else ""
            for plane in range(len(v.vtype.planes)):
                slot = len(self.resources)
                full = f"{name}_{plane}"
                if overwritten:
                    continue  # a storage image serves both
                if read.binding is Binding.ATTACHMENT:
                    self.declared[slot] = (
                        f"layout(input_attachment_index={attachment}, set=0, binding={slot}) uniform "
                        f"{prefix}subpassInput {full};"
                    )
                    attachment += 1
                    self.resources.append(Resource("attachment", v, plane))
                else:
                    self.declared[slot] = f"layout(set=0, binding={slot}) uniform {prefix}texture2D {full};"
                    self.resources.append(Resource("texture", v, plane))
        for sampler in self.s.samplers:
            slot = len(self.resources)
            self.declared[slot] = f"layout(set=0, binding={slot}) uniform sampler dressi_{sampler};"
            self.resources.append(Resource("sampler", sampler=sampler))

    # ---- reading
    def texel(self, v: Variable, tile: str, texel: str) -> str:
        """Coordinates in the image of a texel of a tile."""
        tiling = self.limits.tiling(v)
        if v.tiles == 1:
            return texel
        width, height = v.size
        if tiling.columns == 1:
            return f"{texel} + ivec2(0, {tile} * {height})"
        return f"{texel} + ivec2({tile} / {tiling.rows} * {width}, {tile} % {tiling.rows} * {height})"

    def load(self, v: Variable, coordinates: str) -> str:
        """An expression that reads all planes of a texel."""
        swizzle = {1: ".x", 2: ".xy", 3: ".xyz", 4: ""}[v.vtype.planes[0]]
        name = self.images[v]
        self.loaded.add(v)
        parts, coordinates = [], fetched_at(coordinates)
        for plane in range(len(v.vtype.planes)):
            full = f"{name}_{plane}"
            if v in self.s.ranges:
                call = self.texel_of_range(v, plane, coordinates)
            elif self.binding[v] is Binding.ATTACHMENT:
                call = f"subpassLoad({full})"
            elif self.binding[v] is Binding.STORAGE or v in self.s.replaces.values():
                call = f"imageLoad({full}, {coordinates})"
            else:
                call = f"texelFetch({full}, {coordinates}, 0)"
            whole = v in self.s.ranges and self.s.ranges[v].components == v.vtype.planes[0]
            parts.append(call if whole else call + swizzle)
        return f"{v.vtype.glsl}({', '.join(parts)})" if v.vtype.is_matrix else parts[0]

    def fetch(self, v: Variable) -> str:
        """The name of a GLSL function (ivec2 texel, int tile) that reads the Variable, or makes its value."""
        if v not in self.fetches:
            if v in self.s.channels:
                return self._part(v)
            if v not in self.images:
                return self._recompute(v)
            name = self.fetches[v] = f"dressi_fetch{len(self.fetches)}"
            body = self.load(v, self.texel(v, "tile", "texel"))
            self.head.append(f"{v.vtype.glsl} {name}(ivec2 texel, int tile) {{ return {body}; }}")
        return self.fetches[v]

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
        wide, high = v.size
        x = "0" if wide == 1 else "pixel.x"
        y = "0" if high == 1 else "pixel.y"
        texel = "pixel" if x != "0" and y != "0" else f"ivec2({x}, {y})"
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
        name = self.names[v] = f"dressi_x{self._next()}"
        self.lines.append(f"{v.vtype.glsl} {name} = {text};")
        return name

    def _part(self, v: Variable) -> str:
        """A GLSL function that reads some channels of an image."""
        whole, first = self.s.channels[v]
        name = self.fetches[v] = f"dressi_part{len(self.fetches)}"
        body = f"{self.fetch(whole)}(texel, tile){_channels(v, whole, first)}"
        self.head.append(f"{v.vtype.glsl} {name}(ivec2 texel, int tile) {{ return {body}; }}")
        return name

    # ---- recomputing
    def _recompute(self, v: Variable) -> str:
        """A GLSL function that makes the value of any texel."""
        name = self.fetches[v] = f"dressi_make{len(self.fetches)}"
        outer = self.names, self.lines, self.domain, self.inside
        self.names, self.lines, self.domain, self.inside = {}, [], v.domain, True
        result = self.value(v)
        lines = ["tile = 0;"] * (v.tiles == 1) + self.lines
        self.names, self.lines, self.domain, self.inside = outer
        body = "\n".join("  " + line for line in lines)
        self.head.append(f"{v.vtype.glsl} {name}(ivec2 pixel, int tile) {{\n{body}\n  return {result};\n}}")
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

    def _next(self) -> int:
        self.locals += 1
        return self.locals - 1

    # ---- statements
    def include(self, f: Function) -> None:
        """Adds the files that the snippet of a Function needs."""
        if f.includes:
            self.includes.update(dict.fromkeys(included_files(f)))

    def emit(self, f: Function, actual: dict[Variable, Variable] | None = None) -> None:
        """The snippet of a Function; ``actual`` maps formal inputs of a fragment sub-graph to images."""
        inputs: Sequence[Variable] = f.inputs
        if actual:
            inputs = [actual.get(x, x) for x in inputs]
        self.include(f)
        names = self.names
        read = [
            names[x] if access is Access.SAME_PIXEL and x in names else self._read(f, x, access)
            for x, access in zip(inputs, f.access, strict=True)
        ]
        name = f"dressi_x{self._next()}"
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
        names[f.output] = name

    def _read(self, f: Function, x: Variable, access: Access) -> str:
        """What a snippet reads an input by: an expression, or the name of a function."""
        if access is Access.SAME_PIXEL:
            return self.value(x)
        if access is Access.SAMPLE:
            assert f.sampler is not None, f"{f} has no sampler"
            return self.sampled(x, f.sampler)
        return self.fetch(x)

    def tile_corner(self) -> str:
        """The first texel of ``tile`` in the framebuffer."""
        (width, height), t = self.s.domain.size, self.tiling
        if t.columns == 1:
            return f"ivec2(0, tile * {height})"
        return f"ivec2(tile / {t.rows} * {width}, tile % {t.rows} * {height})"

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
            part = f"{name}[{plane}]" if len(v.vtype.planes) > 1 else name
            if v.vtype is VType.MAT2:
                part = f"{name}[0], {name}[1]"
            yield plane, f"{zero}({', '.join([part] + ['0'] * (4 - n))})"

    def stores(self, v: Variable, name: str, place: str = "place") -> list[str]:
        """Statements that write a value into the storage images ``name``, or into its range of a buffer."""
        if v not in self.s.ranges:
            return [f"imageStore({name}_{p}, {place}, {e});" for p, e in self.planes(v)]
        swizzle = "xyzw"[: self.s.ranges[v].components]
        return [f"{self.texel_of_range(v, p, place)} = {e}.{swizzle};" for p, e in self.planes(v)]

    def dispatch(self, main: list[str], layout: str) -> Shaders:
        """The one shader of a dispatch. layout: of its workgroups."""
        pushed = constants(self.limits)
        source = self.text(main, [*pushed, f"layout({layout}) in;"])
        return Shaders(tuple(self.resources), {"compute": source}, based=bool(pushed))

    def text(self, main: list[str], layouts: list[str]) -> str:
        wanted = ("GL_EXT_samplerless_texture_functions", *sorted(self.extensions))
        extensions = "\n".join(f"#extension {name} : require" for name in wanted)
        body = "\n".join("  " + line for line in main if line)
        included = {name: self.shader_text(name) for name in self.includes}
        head = "\n".join([*layouts, *included.values(), *self.declared.values(), *self.head])
        source = f"#version 450\n{extensions}\n{head}\nvoid main() {{\n{body}\n}}\n"
        return ShaderSource.of(source, self.statements, included, self.loaded)


def component(name: str, vtype: VType, k: int) -> str:
    """An expression of a component of a value; those of matrices count column by column."""
    if vtype.is_matrix:
        return f"{name}[{k // vtype.shape[0]}][{k % vtype.shape[0]}]"
    return name if vtype.is_scalar else f"{name}[{k}]"


def _channels(v: Variable, whole: Variable, first: int) -> str:
    """What follows a value to take out of it a Variable that shares its channels, or is a copy of it (matrices, too)."""
    return "" if v.vtype is whole.vtype else "." + "xyzw"[first : first + v.vtype.components]


def ivec2_text(size: tuple[int, int]) -> str:
    """A size as a constant in GLSL."""
    return f"ivec2({size[0]}, {size[1]})"


_PROPERTY: dict[str, Callable[[Variable], str]] = {
    "size": lambda v: ivec2_text(v.size),
    "batch": lambda v: str(v.tiles),
    "type": lambda v: v.vtype.glsl,
}


def color_outputs(w: Writer, s: SubStage) -> tuple[list[str], list[str]]:
    """The declarations of the colour attachments of a subpass, one a plane of its outputs, and the statements that write
    them."""
    layouts, stores = [], []
    for v in s.colors:
        for _, expression in w.planes(v):
            k = len(layouts)
            layouts.append(
                f"layout(location={k}) out {'ivec4' if v.vtype.is_int else 'vec4'} dressi_color{k};"
            )
            stores.append(f"dressi_color{k} = {expression};")
    return layouts, stores
