"""The shaders of one SubStage: their GLSL, their descriptors, and expressions that all kinds of work use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ....ad.graph import Domain, Function, Variable
from ....ad.graph.types import Sampler
from ..core.limits import DeviceLimits

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
