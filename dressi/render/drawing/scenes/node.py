"""One node as images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ....ad.graph import Variable
from ....ad.graph.evaluation import known_value
from ....ad.graph.types import IVEC3, MAT4, VEC3, list_image
from ....errors import InputError
from ...forms.edges.edge_list import vertex_places
from ...mesh import Material
from ...scene.scene import Node
from . import images
from .images import LISTS, Given, MaterialRecipe, Shape, Values, per_view

INDEX = {"tangents": "tangent_faces"} | {table: index for table, _, index in LISTS}
"""The lists that belong to corners of faces, and the names of the faces that number them."""
WAYS = ("normals", "tangents")
"""The lists that turn with a node."""


@dataclass(eq=False)
class DrawnNode:
    """A node as images, by name."""

    node: Node
    shape: Shape
    parts: dict[str, Given]
    """Without position and faces."""
    own_place: Given | None
    """The matrix of the node."""
    to_world: Given | None
    """The matrix of the node after the motion of the scene as a whole."""
    recipe: MaterialRecipe
    material: tuple[Any, ...]
    """Equal for nodes of one material."""

    @classmethod
    def of(cls, node: Node, to_world: Any) -> DrawnNode:
        mesh, material = node.geometry.mesh, node.material
        if isinstance(material, Material):
            if mesh is None:
                raise InputError(
                    f"node '{node.name}': a Material belongs to a Mesh; of a pair (positions, faces) give parts by name"
                )
            mesh, material = replace(mesh, material=material), None
        shape = images.shape_given(node.geometry)
        parts = {name: g for name, g in shape.given.items() if name not in ("position", "faces")}
        parts |= images.material_given(mesh, material)
        parts |= images.tangents_given(mesh, parts, node.geometry.moves)
        matrix = None if node.to_world is None else per_view("to_world", MAT4, node.to_world)
        surface = () if mesh is None else (id(mesh.material), id(mesh.texture), mesh.color)
        own = (*surface, id(node.material))
        placed = _product(to_world, matrix)
        if _mirrors(placed):
            shape, parts = _mirrored(shape, parts)
        return cls(node, shape, parts, matrix, placed, images.recipe_of(mesh, material), own)

    @property
    def is_placed(self) -> bool:
        """Whether all of its lists are arrays that can be placed in the world here."""
        fixed = (self.shape.given["position"], self.to_world)
        ways = () if self.to_world is None else tuple(self.parts.get(name) for name in WAYS)
        given = [one for one in (*fixed, *ways) if one is not None]
        return not any(isinstance(one, Variable) or len(one.array) > 1 for one in given)

    @cached_property
    def rows(self) -> np.ndarray:
        """(N, V, 3): of the positions, without padding; they are arrays."""
        position = self.shape.given["position"]
        rows = position.data if isinstance(position, Variable) else position.array
        assert rows is not None
        return rows.reshape(len(rows), -1, 3)[:, : self.shape.vertex_count]

    @property
    def places(self) -> np.ndarray:
        """(V,) equal numbers for vertices at one place: where arrays put them, or where they are before
        anything moves them. All differ where no place is known."""
        given, count = self.shape.given["position"], self.shape.vertex_count
        known: Any = None
        if not isinstance(given, Variable):
            known = given.array
        elif isinstance(known := self.node.geometry.rest, Variable | None):
            known = known_value(given if known is None else known)
        if known is None or np.ndim(known) < 2 or np.shape(known)[-1] != 3:
            return np.arange(count)
        batch = np.shape(known)[0] if np.ndim(known) > 2 else 1
        rows = np.asarray(known, np.float64).reshape(batch, -1, 3)[:, :count]
        return vertex_places(np.concatenate(list(rows), axis=1))

    def in_world(self) -> DrawnNode:
        """Its lists carried into the world."""
        if self.to_world is None:
            return self
        assert isinstance(self.to_world, Values)
        matrix = self.to_world.array[0, 0, 0]
        rows = self.rows @ matrix[:3, :3].T + matrix[:3, 3]
        given = self.shape.given | {"position": Values(VEC3, list_image(rows[0]))}
        parts = dict(self.parts)
        for table in WAYS:
            values = parts.get(table)
            if isinstance(values, Values):
                parts[table] = images.turned_rows(table, values, matrix)
        shape = replace(self.shape, given=given)
        return replace(self, shape=shape, parts=parts, own_place=None, to_world=None)

    @property
    def is_transparent(self) -> bool:
        """Whether what lies behind the material is seen through it."""
        return images.is_transparent(self.parts, self.recipe)

    @property
    def numbered(self) -> dict[str, Given]:
        """Its parts; those that are numbered by its vertices get faces of their own."""
        own = Values(IVEC3, list_image(self.shape.faces))
        missing = [index for table, index in INDEX.items() if table in self.parts and index not in self.parts]
        return self.parts | dict.fromkeys(missing, own)


def node_drawn(node: Node, to_world: Given | None, count: int) -> DrawnNode:
    """A node of a scene of ``count`` nodes that is moved as a whole. Raises InputError with its name."""
    try:
        return DrawnNode.of(node, to_world)
    except InputError as error:
        if count == 1 or f"'{node.name}'" in str(error):
            raise
        raise InputError(f"node '{node.name}': {error}") from None


def _product(whole: Given | None, own: Given | None) -> Given | None:
    if whole is None or own is None:
        return own if whole is None else whole
    if isinstance(whole, Values) and isinstance(own, Values):
        return Values(MAT4, whole.array @ own.array)
    a, b = (m if isinstance(m, Variable) else m.leaf("to_world") for m in (whole, own))
    return a @ b


def _mirrors(matrix: Given | None) -> bool:
    """Whether a matrix mirrors; of a Variable, the value it was made with, where known."""
    if isinstance(matrix, Variable):
        values = known_value(matrix)
    else:
        values = None if matrix is None else matrix.array
    return values is not None and bool(np.linalg.det(values.reshape(-1, 4, 4)[0, :3, :3]) < 0)


def _mirrored(shape: Shape, parts: dict[str, Given]) -> tuple[Shape, dict[str, Given]]:
    """The lists with faces turned, so that fronts, normals and tangents stay outside in a mirror."""
    parts = dict(parts)
    for table, index in INDEX.items():
        values, numbers = parts.get(table), parts.get(index)
        if isinstance(numbers, Values):
            parts[index] = Values(IVEC3, numbers.array[..., ::-1])
        if values is not None and table in WAYS:
            signs = (-1.0, -1.0, -1.0) if table == "normals" else (1.0, 1.0, 1.0, -1.0)
            fixed = isinstance(values, Values)
            parts[table] = Values(values.vtype, values.array * signs) if fixed else values * signs
    faces = shape.faces[:, ::-1]
    given = shape.given | {"faces": Values(IVEC3, list_image(faces))}
    return replace(shape, given=given, faces=faces), parts
