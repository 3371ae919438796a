"""How a picture is made of the images of a scene."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ....ad import functional as F
from ....ad.graph import Variable
from ...surface.projection import LARGEST
from .groups import own_name
from .images import ALONE, MaterialRecipe, Members, placed, turned_parts
from .node import WAYS

EACH = "matrices"
"""Of the list with the matrix of every node."""


def node_name(table: str) -> str:
    """Of the part that numbers the nodes by the rows of a list, INT."""
    return f"{table} node"


class LookRecipe(NamedTuple):
    """Everything of a look that is not an image; equal recipes make equal graphs."""

    prefix: str
    """Of the names of its images."""
    nodes: tuple[int, ...]
    run: tuple[int, int] | None
    """As ``Look.run``."""
    material: MaterialRecipe
    transparent: bool
    placed_by: str | None
    """The image that carries its normals and tangents into the world, ``EACH`` for the matrices of all nodes; None where they
    lie there."""
    members: Members = ALONE
    own: tuple[tuple[str, int], ...] = ()
    """Factors of single members that are images of their own: part and member."""


class Source(NamedTuple):
    """A list of positions that is part of the joined one, and the numbers of its rows there, INT."""

    positions: str
    rows: str


@dataclass(frozen=True)
class SceneRecipe:
    """Everything of a scene that is not an image; equal recipes make equal graphs."""

    looks: tuple[LookRecipe, ...]
    face_count: int
    opaque_faces: int
    """How many of the faces, from the first, are opaque."""
    sources: tuple[Source, ...] = ()
    """Of several nodes."""
    moved: tuple[tuple[int, str], ...] = ()
    """Numbers of nodes that the graph places, and their matrices."""
    node_count: int = 1

    @property
    def transparent(self) -> tuple[int, ...]:
        """The numbers of the nodes with transparent faces."""
        return tuple(k for look in self.looks if look.transparent for k in look.nodes)

    def position(self, parts: Mapping[str, Variable]) -> Variable:
        """VEC3 list: all positions in the world. Differentiable in those of the nodes and in their matrices."""
        if not self.sources:
            return placed(parts["position"], parts.get("to_world"))
        own = None
        for source in self.sources:
            rows = parts[source.positions]
            if source.rows in parts:
                rows = F.lookup(rows, parts[source.rows])
            own = rows if own is None else own + rows
        assert own is not None
        if len(self.sources) > 1 or self.moved:
            # A matrix times NaN would spoil the gradient by the matrix, and one node that of others.
            own = F.select(F.less(F.sum_components(F.abs(own)), LARGEST), own, 0.0)
        if not self.moved:
            return own
        return placed(own, F.lookup(self.matrices(parts), parts["vertex_node"]))

    def matrices(self, parts: Mapping[str, Variable]) -> Variable:
        """MAT4 list: one matrix a node."""
        table, number = parts["matrices"], parts["node_numbers"]
        for node, name in self.moved:
            table = table + parts[name] * F.equal(number, node)
        return table

    def node(self, face: Variable, parts: Mapping[str, Variable]) -> Variable:
        """INT: the node that each face of an image belongs to, -1 for none."""
        if not self.sources:
            return F.select(F.less(face, 0), -1, F.constant(0))
        return F.select(F.less(face, 0), -1, F.lookup(parts["face_node"], face))

    def number(self, face: Variable, parts: Mapping[str, Variable]) -> Variable:
        """INT: the number that each face of an image has within its node, -1 for none."""
        return (
            face if not self.sources else F.select(F.less(face, 0), -1, F.lookup(parts["face_number"], face))
        )

    def material(self, face: Variable, parts: Mapping[str, Variable]) -> Variable:
        """INT: the number of the material of each face of an image, -1 for none."""
        node = self.node(face, parts)
        return (
            node
            if not self.sources
            else F.select(F.less(node, 0), -1, F.lookup(parts["node_material"], node))
        )


def look_parts(scene: SceneRecipe, recipe: LookRecipe, parts: Mapping[str, Variable]) -> dict[str, Variable]:
    """The images of a look by their names in it, with normals and tangents in the world."""
    prefix = recipe.prefix
    found = {name[len(prefix) :]: v for name, v in parts.items() if name.startswith(prefix)}
    for name, member in recipe.own:
        table = found[name]
        here = F.equal(F.linear_index(table.size), member)
        found[name] = F.select(here, found.pop(own_name(name, member)), table)
    if recipe.placed_by is None:
        return found
    if recipe.placed_by != EACH:
        return found | turned_parts(found, dict.fromkeys(WAYS, parts[recipe.placed_by]))
    matrices = scene.matrices(parts)
    rows = {table: F.lookup(matrices, found[node_name(table)]) for table in WAYS if table in found}
    return found | turned_parts(found, rows)
