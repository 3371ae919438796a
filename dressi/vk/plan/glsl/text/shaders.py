"""What GLSL generation returns: the sources of the shaders of a SubStage, and the descriptors that they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .....ad.graph import Variable
from .....ad.types import Sampler

ShaderText = Callable[[str], str]
"""Gives the text of a file: of ``shaders/`` by name, of any other by its full path."""


@dataclass(frozen=True)
class Resource:
    """One descriptor of a set: a plane of an image, or a buffer.

    kind: "texture", "attachment", "storage" or "load" (a storage image that is read alone) of images; "range" of values in a
    storage buffer, by their first; "buffer" (accumulators), "status", "blocks", "list", or "hits" with their number; or
    "sampler", which ``sampler`` describes.
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
    """The shaders of one SubStage with their shared descriptor set, bindings numbered by position."""

    resources: tuple[Resource, ...]
    sources: dict[
        str, str
    ]  # "vertex", "fragment", "compute", "resolve" or "resolve.vertex", "resolve.fragment"
    bands: range = range(1)  # of a scatter: the first cells of the bands that run one after the other
    based: bool = False  # whether dispatches take their first workgroup from a push constant
    matrices: bool = False  # whether subgroups multiply matrices, for which compilers have to be new
