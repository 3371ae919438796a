"""The descriptors of a shader, and GLSL of what is stored behind them: storage images and ranges of storage buffers."""

from __future__ import annotations

from collections.abc import Callable

from .....ad.graph import Variable
from .....ad.types import VType
from ...bindings import Range
from ...limits import DeviceLimits
from ...substage import SubStage
from .shaders import Resource

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
