"""The text of a shader that knows the Function behind each of its statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .....ad.graph import Domain, Function, Variable
from ...limits import DeviceLimits


def constants(limits: DeviceLimits, bands: range = range(1)) -> list[str]:
    """The push constants of the shaders of a dispatch: its first workgroup, the first cell of a band of a table."""
    members = ["uvec2 dressi_base;"] * (not limits.dispatch_base) + ["int dressi_band;"] * (len(bands) > 1)
    return [f"layout(push_constant) uniform dressi_Constants {{ {' '.join(members)} }};"] if members else []


def workgroup_number(limits: DeviceLimits) -> str:
    """GLSL of the number of the workgroup in the whole dispatch, of which a slice may run: an ivec2."""
    return f"ivec2(gl_WorkGroupID.xy{'' if limits.dispatch_base else ' + dressi_base'})"


def invocation_number(limits: DeviceLimits) -> str:
    """The same of the invocation."""
    base = "" if limits.dispatch_base else " + dressi_base * gl_WorkGroupSize.xy"
    return f"ivec2(gl_GlobalInvocationID.xy{base})"


def fetched_at(texel: str) -> str:
    """GLSL of the coordinates of a fetch, guarded so that drivers test the texel itself against the image.

    Drivers move a small constant of ``x + 4`` into the offset field of the instruction that fetches. NVIDIA's 580 then tests
    the base alone, here ``x``, and reads zeros where that is outside though the texel is inside: ``4 - pixel.x`` reads nothing
    at all of an image that is five wide. Nothing can be moved out of a maximum. Its bound is one above the least integer:
    compilers remove a maximum with that one. Every fetch goes through here. It costs one instruction.
    """
    return f"max({texel}, ivec2(-2147483647))"


def tile_of(v: Variable, domain: Domain) -> str:
    """GLSL of the tile of a Variable that is read at a pixel of a domain: its batch and its channels broadcast."""
    if v.tiles == 1 or (v.tiles, v.channels) == (domain.tiles, domain.channels):
        return "tile"
    image = "0" if v.batch == 1 else f"tile / {domain.channels}"
    channel = "0" if v.channels == 1 else f"tile % {domain.channels}"
    return f"({image} * {v.channels} + {channel})"


class ShaderSource(str):
    """The GLSL of one shader, a string that knows its parts.

    statements: whole statements of its text, each with the Function whose snippet it is.  included: the texts of other
    files in it, by the names of these.  reads: the stored Variables that it reads.
    """

    statements: Mapping[str, Function]
    included: Mapping[str, str]
    reads: frozenset[Variable] = frozenset()

    @classmethod
    def of(
        cls,
        text: str,
        statements: Mapping[str, Function],
        included: Mapping[str, str],
        reads: Iterable[Variable] = (),
    ) -> ShaderSource:
        """A text with its parts."""
        self = cls(text)
        self.statements, self.included, self.reads = statements, included, frozenset(reads)
        return self
