"""Materials as facts: everything of them that is not an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ....ad.ops.texture.addressing import WrapName
from ...shading.bsdf import Bsdf, GltfBsdf

UV_SETS = (("uvs", "uv_faces"), ("second_uvs", "second_uv_faces"))
"""The lists of texture coordinates, and the faces that number them, by the number of the set."""


class MapRecipe(NamedTuple):
    """How a map is looked up."""

    uv_set: int
    wrap: WrapName
    moves: bool
    """Whether the coordinates go through the parts ``matrix_name`` and ``offset_name``."""


@dataclass(frozen=True)
class MaterialRecipe:
    """Everything of a material that is not an image; equal recipes make equal graphs.

    bsdf: the class of the surface.  wrap: of maps that have no place of their own.  maps: these, by the name of the part.
    blends: whether alpha is opacity.
    """

    bsdf: type[Bsdf] = GltfBsdf
    wrap: WrapName = "repeat"
    maps: tuple[tuple[str, MapRecipe], ...] = ()
    blends: bool = False

    def place(self, part: str) -> MapRecipe:
        """How the map of a part is looked up."""
        return dict(self.maps).get(part, MapRecipe(0, self.wrap, False))


PLAIN = MaterialRecipe()
"""Of meshes without a material."""


@dataclass(frozen=True)
class Members:
    """What nodes of one structure that are shaded together have for themselves.

    The list of parts ``MEMBER`` says which of them each face belongs to.

    factors: parts that are lists with an entry a member.  stacks: parts that are maps below each other, and how many.
    numbered: those of them where the list ``layer_name`` says which one a member has; in the others it is the member's number.
    """

    factors: tuple[str, ...] = ()
    stacks: tuple[tuple[str, int], ...] = ()
    numbered: tuple[str, ...] = ()

    def layers(self, part: str) -> int:
        """How many maps stand in the image of a part."""
        return dict(self.stacks).get(part, 1)


ALONE = Members()
"""Of a single node."""
UNLIT = "unlit"
"""Of the part that is 1 for members that show their base colour under any light, 0 for the others, FLOAT."""
MEMBER = "member"
"""Of the part that numbers the members, INT, an entry a face."""


def matrix_name(part: str) -> str:
    """Of the part that is the matrix of a map's coordinates, MAT2."""
    return f"{part} matrix"


def layer_name(part: str) -> str:
    """Of the part that is the number of the map that each member has in a stack, INT."""
    return f"{part} layer"


def row_name(table: str) -> str:
    """Of the part that numbers the members by the rows of a list, INT."""
    return f"{table} member"


def offset_name(part: str) -> str:
    """Of the part that is the offset of a map's coordinates, VEC2."""
    return f"{part} offset"
