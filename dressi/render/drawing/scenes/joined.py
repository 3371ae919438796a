"""The lists of all nodes joined, and how each run of faces is shaded.

Arrays are placed in the world here, Variables by the graph. A scene of one node is drawn by the lists of its
geometry. Positions of several nodes become one list, and one table holds their matrices. Faces are ordered by
look, opaque ones first, so that a look is a run of faces; nodes of one structure share a look (``groups``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.graph.types import IVEC3, MAT4, VEC3, list_image
from ....ad.transform.gradient import total
from ...mesh.rows import distinct
from ...scene.scene import Scene
from ...surface.projection import LARGEST
from .groups import grouped, numbers_list, own_name, repeated, rows_of, unlit_beside_lit
from .images import ALONE, Given, MaterialRecipe, Members, Values, per_view, placed, turned_parts
from .node import WAYS, DrawnNode, node_drawn

LOOK = "look {} "
"""Prefix of the names of a look's images: parts of a material may have any name."""


class DrawnScene(NamedTuple):
    """A scene as images."""

    given: dict[str, Given]
    recipe: SceneRecipe
    framed: np.ndarray | None
    """(N, V, 3): what a view without cameras frames, before the whole scene is moved; None if not known."""
    vertices: np.ndarray | None
    """(N, V, 3): the vertices in the world that faces use, if all of them are arrays."""
    name: str
    moving: frozenset[str]
    """Names of the images that silhouettes depend on."""
    nodes: tuple[DrawnNode, ...]

    def places(self) -> np.ndarray | None:
        """(V,) equal numbers for vertices of one node that lie at one place; None where all differ."""
        each = [node.places for node in self.nodes]
        if all(np.array_equal(own, np.arange(len(own))) for own in each):  # numbered by their first vertex
            return None
        starts = np.cumsum([0, *map(len, each)])
        return np.concatenate([own + start for own, start in zip(each, starts, strict=False)])


def scene_given(scene: Scene, to_world: Any = None) -> DrawnScene:
    """A scene that is moved as a whole. Raises InputError with the name of the node."""
    whole = None if to_world is None else per_view("to_world", MAT4, to_world)
    nodes = [node_drawn(node, whole, len(scene)) for node in scene]
    drawn = [one.in_world() if one.is_placed else one for one in nodes]
    framed = _vertices(nodes, [one.own_place for one in nodes], leaves=True)
    return _single(drawn[0], framed) if len(drawn) == 1 else _several(drawn, framed)


def _vertices(drawn: Sequence[DrawnNode], places: Sequence[Given | None], leaves: bool) -> np.ndarray | None:
    """(N, V, 3): all vertices at these places; None for a Variable, with ``leaves`` for one without data."""
    each = []
    for one, place in zip(drawn, places, strict=True):
        for given in (one.shape.given["position"], place):
            if isinstance(given, Variable) and not (leaves and given.data is not None):
                return None
        rows = one.rows
        if place is not None:
            matrix = place.data if isinstance(place, Variable) else place.array
            assert matrix is not None
            matrix = matrix[:, 0, 0]
            rows = rows @ matrix[:, :3, :3].swapaxes(1, 2) + matrix[:, None, :3, 3]
        each.append(rows)
    most = max(map(len, each))
    if {len(rows) for rows in each} - {1, most}:
        return None
    return np.concatenate([np.broadcast_to(rows, (most, *rows.shape[1:])) for rows in each], axis=1)


def _used(drawn: Sequence[DrawnNode], faces: np.ndarray) -> np.ndarray | None:
    """``DrawnScene.vertices``."""
    vertices = _vertices(drawn, [one.to_world for one in drawn], leaves=False)
    return None if vertices is None else vertices[:, distinct(faces)]


def _single(drawn: DrawnNode, framed: np.ndarray | None) -> DrawnScene:
    shape = drawn.shape
    given = {name: shape.given[name] for name in ("position", "faces")}
    given |= {LOOK.format(0) + name: value for name, value in drawn.parts.items()}
    by = None
    if drawn.to_world is not None:
        given["to_world"] = drawn.to_world
        by = "to_world" if drawn.parts.keys() & {*WAYS} else None
    transparent = drawn.is_transparent
    look = LookRecipe(LOOK.format(0), (0,), None, drawn.recipe, transparent, by)
    recipe = SceneRecipe((look,), shape.face_count, 0 if transparent else shape.face_count)
    used = _used([drawn], shape.faces)
    return DrawnScene(given, recipe, framed, used, shape.name, frozenset(("position", "to_world")), (drawn,))


def _several(drawn: Sequence[DrawnNode], framed: np.ndarray | None) -> DrawnScene:
    drawn = unlit_beside_lit(drawn)
    groups = grouped(drawn, sorted(range(len(drawn)), key=lambda k: drawn[k].is_transparent))
    looks = [k for group in groups for k in group.nodes]
    counts = np.array([one.shape.vertex_count for one in drawn])
    starts = np.cumsum([0, *counts])
    given, sources = _sources(drawn, starts)
    moved = tuple((k, f"node {k} to_world") for k, one in enumerate(drawn) if one.to_world is not None)
    if moved:
        fixed = [np.zeros((4, 4)) if one.to_world is not None else np.eye(4) for one in drawn]
        given["matrices"] = Values(MAT4, list_image(np.array(fixed)))
        given["node_numbers"] = numbers_list(np.arange(len(drawn)))
        given["vertex_node"] = numbers_list(repeated(counts), -1)
        given |= {name: m for k, name in moved if (m := drawn[k].to_world) is not None}
    faces = {k: drawn[k].shape.faces + starts[k] for k in looks}
    recipes, last = [], 0
    for number, group in enumerate(groups):
        one, own = drawn[group.nodes[0]], np.concatenate([faces[k] for k in group.nodes])
        prefix, first, last = LOOK.format(number), last, last + len(own)
        parts, run, by = dict(group.parts), None, None
        if len(groups) > 1:
            run, parts["faces"] = (first, last), Values(IVEC3, list_image(own))
        if one.to_world is not None:
            by = f"node {group.nodes[0]} to_world" if len(group.nodes) == 1 else EACH
        for table in WAYS if by == EACH else ():
            if table in parts:
                rows = [rows_of(drawn[k].parts[table]) for k in group.nodes]
                parts[node_name(table)] = numbers_list(np.repeat(group.nodes, rows))
        given |= {prefix + name: value for name, value in parts.items()}
        facts = one.recipe, one.is_transparent, by, group.members, group.own
        recipes.append(LookRecipe(prefix, group.nodes, run, *facts))
    joined = np.concatenate([faces[k] for k in looks])
    lengths = [len(faces[k]) for k in looks]
    given["faces"] = Values(IVEC3, list_image(joined))
    given["face_node"] = numbers_list(np.repeat(looks, lengths))
    given["face_number"] = numbers_list(np.concatenate([np.arange(n) for n in lengths]))
    given["node_material"] = numbers_list(_materials(drawn))
    opaque = sum(len(faces[k]) for k in looks if not drawn[k].is_transparent)
    recipe = SceneRecipe(tuple(recipes), len(joined), opaque, sources, moved, len(drawn))
    moving = frozenset(source.positions for source in sources) | {name for _, name in moved}
    return DrawnScene(given, recipe, framed, _used(drawn, joined), "scene", moving, tuple(drawn))


def _sources(drawn: Sequence[DrawnNode], starts: np.ndarray) -> tuple[dict[str, Given], tuple[Source, ...]]:
    """The lists of positions: one of all arrays, and each Variable once."""
    given: dict[str, Given] = {}
    owners: dict[Any, list[int]] = {}
    for k, one in enumerate(drawn):
        position = one.shape.given["position"]
        one_tile = isinstance(position, Values) and len(position.array) == 1
        owners.setdefault(None if one_tile else id(position), []).append(k)
    sources, total = [], int(starts[-1])
    for key, nodes in owners.items():
        if key is None:
            source = Source("position", "position rows")
            table = np.concatenate([drawn[k].rows[0] for k in nodes])
            given[source.positions] = Values(VEC3, list_image(table))
        else:
            source = Source(f"node {nodes[0]} position", f"node {nodes[0]} rows")
            given[source.positions] = drawn[nodes[0]].shape.given["position"]
        rows, row = np.full(total, -1), 0
        for k in nodes:
            count = drawn[k].shape.vertex_count
            rows[starts[k] : starts[k + 1]] = np.arange(count) + row
            row += count if key is None else 0
        if key is not None or len(nodes) < len(drawn):
            given[source.rows] = numbers_list(rows, -1)
        sources.append(source)
    return given, tuple(sources)


def _materials(drawn: Sequence[DrawnNode]) -> list[int]:
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(one.material, len(numbers)) for one in drawn]


# How a picture is made of the images of a scene.

EACH = "matrices"
"""The name of the list with the matrix of every node."""


def node_name(table: str) -> str:
    """The name of the part that numbers the nodes by the rows of a list, INT."""
    return f"{table} node"


class LookRecipe(NamedTuple):
    """Everything of a look that is not an image; equal recipes make equal graphs."""

    prefix: str
    """With which the names of its images begin."""
    nodes: tuple[int, ...]
    run: tuple[int, int] | None
    """As ``Look.run``."""
    material: MaterialRecipe
    transparent: bool
    placed_by: str | None
    """The image that carries its normals and tangents into the world, ``EACH`` for the matrices of all nodes;
    None where they are in the world already."""
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
    """The lists of positions of several nodes; empty for one node."""
    moved: tuple[tuple[int, str], ...] = ()
    """Numbers of nodes that the graph places, and their matrices."""
    node_count: int = 1

    @property
    def transparent(self) -> tuple[int, ...]:
        """The numbers of the nodes with transparent faces."""
        return tuple(k for look in self.looks if look.transparent for k in look.nodes)

    def position(self, parts: Mapping[str, Variable]) -> Variable:
        """VEC3 list: all positions in the world. Differentiable in the nodes' and their matrices."""
        if not self.sources:
            return placed(parts["position"], parts.get("to_world"))
        lists = []
        for source in self.sources:
            rows = parts[source.positions]
            lists.append(F.lookup(rows, parts[source.rows]) if source.rows in parts else rows)
        own = total(lists)
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
        if not self.sources:
            return face
        return F.select(F.less(face, 0), -1, F.lookup(parts["face_number"], face))

    def material(self, face: Variable, parts: Mapping[str, Variable]) -> Variable:
        """INT: the number of the material of each face of an image, -1 for none."""
        node = self.node(face, parts)
        if not self.sources:
            return node
        return F.select(F.less(node, 0), -1, F.lookup(parts["node_material"], node))


def look_parts(scene: SceneRecipe, recipe: LookRecipe, parts: Mapping[str, Variable]) -> dict[str, Variable]:
    """The images of a look by their names in it, with normals and tangents in the world."""
    prefix = recipe.prefix
    own = {name[len(prefix) :]: v for name, v in parts.items() if name.startswith(prefix)}
    for name, member in recipe.own:
        table = own[name]
        here = F.equal(F.linear_index(table.size), member)
        own[name] = F.select(here, own.pop(own_name(name, member)), table)
    if recipe.placed_by is None:
        return own
    if recipe.placed_by != EACH:
        return own | turned_parts(own, dict.fromkeys(WAYS, parts[recipe.placed_by]))
    matrices = scene.matrices(parts)
    rows = {table: F.lookup(matrices, own[node_name(table)]) for table in WAYS if table in own}
    return own | turned_parts(own, rows)
