"""Parts of materials that change nothing, so that nodes whose materials have unlike parts share a look.

A coat of strength 0, an image of ones, a white list of colours: with such values a node is drawn as without them. Shading all nodes
with the parts of all takes less time than shading them kind by kind, for what is shaded apart has to be put together at every pixel.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from ....ad.graph import Variable
from ....ad.types import IVEC3, VEC2, VEC3, VEC4, VType, list_image
from ...materials import GLTF
from ...materials.parameter import Normals, Parameter
from ...shading.bsdf import Bsdf
from ..images.inputs import Given, Values
from ..images.material_recipe import UNLIT
from .node import INDEX

Kinds = Mapping[str, tuple[Any, ...]]
"""Of parts by name: "factor" and type, "map", type and shape of the array, "list", or "own" and which."""
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
"""Images that mean something along tangents: whoever has one has tangents of its own, or the graph finds them for all."""


@cache
def rows_of(surface: type[Bsdf]) -> dict[str, Parameter]:
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
    """The kinds of parts of nodes of a surface that get those of each other; None where no value of one of them changes nothing."""
    found, rows = {**one, **other}, rows_of(surface)
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
    """The parts of a node with so many faces, and what the others have beside."""
    found, rows = dict(parts), rows_of(surface)
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
        row = rows.get(name)
        if row is not None:
            found[name] = _value(
                _type(row, name), 1.0 if name != row.name and row.multiplies else row.default
            )
    return found


def table_of(name: str) -> str:
    """The list that faces of this name number; the name itself where it is none of faces."""
    return next((table for table, index in INDEX.items() if index == name), name)


def _type(row: Parameter, name: str) -> VType:
    """Of one of the parts of a row."""
    return row.given.get(name, row.vtype)


def _value(vtype: VType, value: Any) -> Values:
    return Values(vtype, np.broadcast_to(np.asarray(value, np.float64), (1, 1, 1, *vtype.shape)))
