"""What the images of a plan are: format, size, and what each is used for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Flag

from ...ad.graph import Variable
from .glsl.shaders import Shaders
from .substage import SparseWork, SubStage


class Usage(Flag):
    """What an image is used for, as VkImageUsageFlagBits, or that it is a range of a storage buffer."""

    SOURCE = 0x1
    TARGET = 0x2
    SAMPLED = 0x4
    STORAGE = 0x8
    COLOR = 0x10
    DEPTH = 0x20
    INPUT = 0x80
    RANGE = 1 << 31  # none of Vulkan's

    @property
    def words(self) -> str:
        """For messages: "colour attachment and storage image"."""
        return " and ".join(_WORDS[usage] for usage in self)


_WORDS = {
    Usage.COLOR: "colour attachment",
    Usage.INPUT: "input attachment",
    Usage.SAMPLED: "sampled image",
    Usage.STORAGE: "storage image",
    Usage.SOURCE: "source of copies",
    Usage.TARGET: "target of copies",
    Usage.DEPTH: "depth attachment",
    Usage.RANGE: "range of a storage buffer",
}
NOTHING = Usage(0)
SHADERS = Usage.COLOR | Usage.INPUT | Usage.SAMPLED | Usage.STORAGE
"""All that shaders of a plan use an image for."""
ANY = SHADERS | Usage.SOURCE | Usage.TARGET
"""Every use but as a depth attachment: of images that outlive a plan, which later plans may use otherwise."""
_BOUND = {
    "texture": Usage.SAMPLED,
    "attachment": Usage.INPUT,
    "storage": Usage.STORAGE,
    "load": Usage.STORAGE,
}


@dataclass(frozen=True)
class ImageSlot:
    """One VkImage: format by components and kind of number, size in texels, and what it is used for. A range
    of a storage buffer is one line of words."""

    components: int  # 1, 2 or 4
    is_int: bool
    width: int
    height: int
    usage: Usage = ANY
    half: bool = False  # 16-bit floats
    lasting: bool = False  # a depth that a scatter tests later, in another run perhaps
    passing: bool = (
        False  # nothing but attachments of one render pass, on a device that needs no memory for them
    )

    @property
    def depth(self) -> bool:
        """Whether it is the depth of a raster."""
        return Usage.DEPTH in self.usage

    @property
    def in_buffer(self) -> bool:
        """Whether it is a range of a storage buffer."""
        return Usage.RANGE in self.usage

    @property
    def format(self) -> str:
        """The name of its VkFormat, without the prefix."""
        if self.depth:
            return "D32_SFLOAT"
        bits = 16 if self.half else 32
        channels = "".join(f"{channel}{bits}" for channel in "RGBA"[: self.components])
        return f"{channels}_{'SINT' if self.is_int else 'SFLOAT'}"

    @property
    def bytes(self) -> int:
        return (2 if self.half else 4) * self.components * self.width * self.height


def usages(
    shaders: Mapping[SubStage, Shaders],
    copies: Iterable[tuple[Variable, Variable]],
    shared: Iterable[Variable],
) -> dict[Variable, Usage]:
    """What a plan uses the image of each Variable for.

    copies: (leaf, new value) at the end of a step. shared: leaves and outputs, whose images outlive the plan.
    """
    found: dict[Variable, Usage] = {}

    def add(v: Variable, usage: Usage) -> None:
        found[v] = found.get(v, NOTHING) | usage

    for s, made in shaders.items():
        for resource in made.resources:
            if resource.variable is not None and resource.kind != "range":
                add(resource.variable, _BOUND[resource.kind])
        for v in s.colors:
            add(v, Usage.COLOR)
        if isinstance(s.work, SparseWork) and s.work.sparse is not None:
            for v in s.work.sparse.fill:
                add(v, Usage.TARGET)
        found.update(dict.fromkeys(s.ranges, Usage.RANGE))
    for leaf, new in copies:
        add(leaf, Usage.TARGET)
        add(new, Usage.SOURCE)
    found.update(dict.fromkeys(shared, ANY))
    return found
