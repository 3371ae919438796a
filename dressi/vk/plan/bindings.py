"""How shaders get at stored values: the bindings of images, and ranges of storage buffers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from ...ad.graph import Variable


class Binding(Enum):
    """How a shader gets at an image."""

    ATTACHMENT = "input attachment"
    TEXTURE = "texture"
    VERTEX = "texture of the vertex shader"
    STORAGE = "storage image"

    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False)
class Read:
    """An image that a SubStage reads.  elsewhere: at other pixels than the shader's own, too."""

    variable: Variable
    binding: Binding
    elsewhere: bool = False

    def by(self, binding: Binding) -> Read:
        """The same image by another binding."""
        return self if binding is self.binding else Read(self.variable, binding, self.elsewhere)


def all_reads(first: Iterable[Read], second: Iterable[Read]) -> tuple[Read, ...]:
    """The reads of one shader that does the work of two. An image that both read has the binding of the first; it is read
    elsewhere, and then as a texture, if one of them does that."""
    found = {r.variable: r for r in first}
    for r in second:
        known = found.setdefault(r.variable, r)
        if r.elsewhere and not known.elsewhere:
            attached = known.binding is Binding.ATTACHMENT
            found[r.variable] = Read(known.variable, r.binding if attached else known.binding, True)
    return tuple(found.values())


@dataclass(frozen=True, eq=False)
class Range:
    """Values of one format and size that one dispatch makes and the same SubStages read. They lie in one range of a storage
    buffer, plane after plane, each with its texels row by row as an image of the value would have them.

    members: in the order of their planes.
    """

    members: tuple[Variable, ...]

    @cached_property
    def first(self) -> dict[Variable, int]:
        """The number of the first plane of each member."""
        counts = [len(v.vtype.planes) for v in self.members]
        return {v: sum(counts[:k]) for k, v in enumerate(self.members)}

    @property
    def components(self) -> int:
        """32-bit words of a texel: 1, 2 or 4."""
        return {1: 1, 2: 2, 3: 4, 4: 4}[self.members[0].vtype.planes[0]]

    @property
    def words(self) -> int:
        """32-bit words of a texel in all planes together."""
        return self.components * sum(len(v.vtype.planes) for v in self.members)

    def part(self, v: Variable, texels: int) -> tuple[int, int]:
        """The first byte of a member in the range, and how many there are. texels: of a plane, all tiles together."""
        plane = 4 * self.components * texels
        return self.first[v] * plane, len(v.vtype.planes) * plane


def word_of(value: np.ndarray, v: Variable) -> int | None:
    """The 32 bits that all components of a value have; None where they differ."""
    words = np.unique(np.asarray(value, v.vtype.dtype).astype(v.vtype.dtype).ravel().view(np.uint32))
    return int(words[0]) if len(words) == 1 else None
