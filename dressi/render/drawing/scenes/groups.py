"""Nodes of one kind of surface, shaded together as one look.

Their materials then differ in numbers alone (``completed`` gives them what they lack). Single values become a
list with an entry a node, maps of one size stand below each other in one image, and lists of corners are
joined; each face knows its node. So the cost of a picture follows the number of kinds, not that of nodes.
Joining a map or a list that is a Variable would copy it in every
step: nodes share a look only where they share the Variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ....ad.graph import Variable
from ....ad.graph.types import FLOAT, INT, IVEC3, VEC2, VEC3, VEC4, VType, list_image, list_size
from ...core.materials import GLTF, Normals, Parameter
from ...shading.bsdf import Bsdf, GltfBsdf, UnlitBsdf
from . import images
from .images import ALONE, MEMBER, UNLIT, UV_SETS, Given, MaterialRecipe, Members, Values
from .node import INDEX, WAYS, DrawnNode

HIGHEST_STACK = 8192
"""Rows of an image of maps below each other and their mip levels."""
PER_ROW = 1.5
"""Rows of such an image for one of the maps."""
SPARSE = 509
"""Maps are compared by every so many numbers before they are compared as a whole."""


class Group(NamedTuple):
    """Nodes that are one look."""

    nodes: tuple[int, ...]
    parts: dict[str, Given]
    """Their parts by name. A Variable among the factors of a list is a part of its own, ``own_name``."""
    members: Members
    own: tuple[tuple[str, int], ...]
    """These factors: part and member."""


def own_name(part: str, member: int) -> str:
    """The name of the part that is the factor of one member, where it is a Variable."""
    return f"{part} of {member}"


def unlit_beside_lit(drawn: Sequence[DrawnNode]) -> list[DrawnNode]:
    """The nodes. If some have glTF's surface, unlit ones get it, too, with the part ``UNLIT``."""
    drawn, own = list(drawn), {UNLIT: Values(FLOAT, np.ones((1, 1, 1)))}
    if any(one.recipe.bsdf is GltfBsdf for one in drawn):
        for k, one in enumerate(drawn):
            if one.recipe.bsdf is UnlitBsdf:
                recipe = replace(one.recipe, bsdf=GltfBsdf)
                drawn[k] = replace(one, recipe=recipe, parts=one.parts | own)
    return drawn


def grouped(drawn: Sequence[DrawnNode], numbers: Sequence[int]) -> list[Group]:
    """Those nodes in groups, by their first nodes."""
    together: list[_Together] = []
    for k in numbers:
        look, kinds = _look_of(drawn[k]), {n: kind_of(n, g) for n, g in drawn[k].numbered.items()}
        for one in together:
            common = joint(one.kinds, kinds, drawn[k].recipe.bsdf) if look == one.look else None
            if common is not None:
                one.kinds = common
                one.nodes.append(k)
                break
        else:
            together.append(_Together(look, kinds, [k]))
    return [_group(drawn, part, one.kinds) for one in together for part in _chunks(one)]


@dataclass
class _Together:
    """Nodes that share a look, and the kinds of its parts."""

    look: tuple[MaterialRecipe, bool, bool]
    kinds: Kinds
    nodes: list[int]


def _look_of(node: DrawnNode) -> tuple[MaterialRecipe, bool, bool]:
    """What nodes that share a look have in common, beside the kinds of their parts: the recipe, whether they
    are transparent, and whether the graph carries normals or tangents into the world."""
    turned = node.to_world is not None and any(name in node.parts for name in WAYS)
    return node.recipe, node.is_transparent, turned


def _chunks(one: _Together) -> Iterator[list[int]]:
    """The nodes in parts as large as the height of an image of maps allows."""
    nodes, rows = one.nodes, [kind[2][1] for kind in one.kinds.values() if kind[0] == "map"]
    most = max(int(HIGHEST_STACK / (PER_ROW * max(rows, default=1))), 1)
    for first in range(0, len(nodes), most):
        yield nodes[first : first + most]


def _group(drawn: Sequence[DrawnNode], nodes: list[int], kinds: Kinds) -> Group:
    if len(nodes) == 1:
        return Group((nodes[0],), drawn[nodes[0]].numbered, ALONE, ())
    counts = [len(drawn[k].shape.faces) for k in nodes]
    members = [
        completed(drawn[k].numbered, kinds, count, drawn[k].recipe.bsdf)
        for k, count in zip(nodes, counts, strict=True)
    ]
    found: dict[str, Given] = {MEMBER: numbers_list(repeated(counts))}
    factors, stacks, numbered, own = [], [], [], []
    for name, first in members[0].items():
        given = [parts[name] for parts in members]
        match kinds[name][0]:
            case "own":
                found[name] = first
                if name in INDEX:
                    found[INDEX[name]] = _faces(INDEX[name], members, counts, [0] * len(nodes))
            case "factor":
                if all(g is first for g in given) and isinstance(first, Variable):
                    found[name] = first
                    continue
                factors.append(name)
                found[name], variables = _table(given)
                own += [(name, k) for k in variables]
                found |= {own_name(name, k): variable for k, variable in variables.items()}
            case "map":
                maps, layer = _distinct([g.array for g in given if isinstance(g, Values)])
                found[name] = Values(first.vtype, np.concatenate(maps, axis=1))
                if len(maps) > 1:
                    stacks.append((name, len(maps)))
                if 1 < len(maps) < len(given):
                    numbered.append(name)
                    found[images.layer_name(name)] = numbers_list(layer)
            case _ if name in INDEX:
                lists = [g.array.reshape(-1, g.vtype.components) for g in given if isinstance(g, Values)]
                starts = np.cumsum([0, *map(len, lists)])[:-1]
                found[name] = Values(first.vtype, list_image(np.concatenate(lists)))
                found[INDEX[name]] = _faces(INDEX[name], members, counts, starts)
    for part, place in drawn[nodes[0]].recipe.maps:
        if place.moves and images.matrix_name(part) in factors:
            table, _ = UV_SETS[place.uv_set]
            found[images.row_name(table)] = numbers_list(
                repeated([rows_of(parts[table]) for parts in members])
            )
    return Group(tuple(nodes), found, Members(tuple(factors), tuple(stacks), tuple(numbered)), tuple(own))


def _table(given: Sequence[Given]) -> tuple[Values, dict[int, Variable]]:
    """A list with an entry a member, 0 for Variables; and the Variables by member."""
    arrays = {k: g.array[:, 0, 0] for k, g in enumerate(given) if isinstance(g, Values)}
    most = max((len(array) for array in arrays.values()), default=1)
    vtype = given[0].vtype
    table = np.zeros((most, len(given), *vtype.shape))
    for k, array in arrays.items():
        table[:, k] = array
    variables = {k: g for k, g in enumerate(given) if isinstance(g, Variable)}
    return Values(vtype, np.concatenate([list_image(rows) for rows in table])), variables


def _distinct(images: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[int]]:
    """The images that differ, and the number of each image among them."""
    different: list[np.ndarray] = []
    numbers = []
    for image in images:
        equal = (k for k, other in enumerate(different) if _equal(image, other))
        number = next(equal, len(different))
        if number == len(different):
            different.append(image)
        numbers.append(number)
    return different, numbers


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a is b or (np.array_equal(a.ravel()[::SPARSE], b.ravel()[::SPARSE]) and np.array_equal(a, b))


def _faces(
    index: str, members: Sequence[dict[str, Given]], counts: Sequence[int], starts: Sequence[int] | np.ndarray
) -> Values:
    """The faces of all members that number a list, in which their rows begin at ``starts``."""
    faces = []
    for parts, count, start in zip(members, counts, starts, strict=True):
        numbers = parts[index]
        assert isinstance(numbers, Values)
        faces.append(numbers.array.reshape(-1, 3)[:count] + start)
    return Values(IVEC3, list_image(np.concatenate(faces)))


def rows_of(given: Given) -> int:
    """How many rows the image of a list has."""
    width, height = given.size if isinstance(given, Variable) else given.array.shape[2:0:-1]
    return width * height


def repeated(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """0, 1, ..., each as often as its count says."""
    return np.repeat(np.arange(len(counts)), counts)


def numbers_list(values: Any, padding: int = 0) -> Values:
    """A list of whole numbers; ``padding`` fills its last row."""
    values = np.asarray(values)
    width, height = list_size(len(values))
    image = np.full(width * height, padding)
    image[: len(values)] = values
    return Values(INT, image.reshape(1, height, width))


# Parts of materials that change nothing, so that nodes whose materials have unlike parts share a look.
#
# Examples are a coat of strength 0, an image of ones, a white list of colours. Shading all nodes with the
# parts of all takes less time than shading them kind by kind, because looks that are shaded apart must be put
# together at every pixel.

Kinds = Mapping[str, tuple[Any, ...]]
"""The kind of each part by name: "factor" and type; "map", type and shape; "list"; or "own" and which."""
LISTS: dict[str, tuple[VType, Any]] = {
    "uvs": (VEC2, 0.0),
    "second_uvs": (VEC2, 0.0),
    "colours": (VEC3, 1.0),
    "tangents": (VEC4, (1.0, 0.0, 0.0, 1.0)),
}
"""Lists that a node may get: type, and the one value of all corners."""
IMAGES = {"texture": VEC3} | {
    row.map.field: row.map.vtype for row in GLTF.parameters if row.map is not None and row.column is not None
}
"""Images that may be ones, whose factors are parts of their own."""
TILTING = frozenset(row.name for row in GLTF.parameters if isinstance(row, Normals))
"""Images that need tangents: a node with one has tangents of its own, or the graph finds them for all."""


@cache
def material_rows(surface: type[Bsdf]) -> dict[str, Parameter]:
    """Rows of factors that a node of that surface may get, by the names of their parts."""
    rows = [row for kind in (GLTF, surface.kind) for row in kind.parameters if row.neutral is not None]
    return {name: row for row in rows for name in (row.beside, row.name)} | {UNLIT: Parameter(UNLIT)}


def kind_of(name: str, given: Given) -> tuple[Any, ...]:
    """What has to be equal of the parts of nodes that share a look."""
    listed = name in INDEX or name in INDEX.values()
    size = given.size if isinstance(given, Variable) else given.array.shape[2:0:-1]
    if size == (1, 1) and not listed:
        return "factor", str(given.vtype)
    if isinstance(given, Variable) or len(given.array) > 1:
        return "own", id(given if isinstance(given, Variable) else given.array)
    return ("list",) if listed else ("map", str(given.vtype), given.array.shape)


def joint(one: Kinds, other: Kinds, surface: type[Bsdf]) -> Kinds | None:
    """The kinds of parts of two nodes of a surface with each other's parts; None if one cannot be neutral."""
    found, rows = {**one, **other}, material_rows(surface)
    for name in found:
        a, b, row = one.get(name), other.get(name), rows.get(name)
        if a == b:
            continue
        known = [kind for kind in (a, b) if kind is not None]
        what = {kind[0] for kind in known}
        if table_of(name) in LISTS:
            fits = what == {"list"} and len(known) == 1
            fits &= table_of(name) != "tangents" or TILTING.isdisjoint(one if a is None else other)
        elif name in IMAGES:
            fits = what == {"map"} and len(known) == 1
        else:
            types = {kind[1] for kind in known if len(kind) > 1}
            fits = row is not None and types == {str(_type(row, name))} and len(what) == len(known)
            fits &= "map" not in what or name == getattr(row, "name", "")
            fits &= len(known) == 1 or (row is not None and row.multiplies and what == {"map", "factor"})
        if not fits:
            return None
        if row is not None and "map" in what:
            found[name] = next(kind for kind in known if kind[0] == "map")
            if row.multiplies:
                found = {**found, row.beside: ("factor", str(row.vtype))}
    return found


def completed(parts: Mapping[str, Given], kinds: Kinds, faces: int, surface: type[Bsdf]) -> dict[str, Given]:
    """The parts of a node with so many faces, and neutral values for parts of the others."""
    found, rows = dict(parts), material_rows(surface)
    for name, kind in kinds.items():
        row, own = rows.get(name), parts.get(name)
        if name in LISTS and own is None:
            vtype, value = LISTS[name]
            found[name] = Values(vtype, list_image(np.full((1, vtype.components), value, np.float64)))
            found[INDEX[name]] = Values(IVEC3, list_image(np.zeros((faces, 3), np.int64)))
        elif name in IMAGES and own is None:
            found[name] = Values(IMAGES[name], np.ones(kind[2]))
        elif row is not None and kind[0] == "map" and (own is None or kind_of(name, own)[0] == "factor"):
            # The value, if there is one, stands beside an image without effect.
            found[name] = Values(row.vtype, np.broadcast_to(np.asarray(row.neutral, np.float64), kind[2]))
            if row.multiplies:
                found[row.beside] = _value(row.vtype, row.default) if own is None else own
    for name in kinds.keys() - found.keys():
        if (row := rows.get(name)) is not None:
            value = 1.0 if name != row.name and row.multiplies else row.default
            found[name] = _value(_type(row, name), value)
    return found


def table_of(name: str) -> str:
    """The list that faces of this name number; the name itself if it names no faces."""
    return next((table for table, index in INDEX.items() if index == name), name)


def _type(row: Parameter, name: str) -> VType:
    return row.given.get(name, row.vtype)


def _value(vtype: VType, value: Any) -> Values:
    return Values(vtype, np.broadcast_to(np.asarray(value, np.float64), (1, 1, 1, *vtype.shape)))
