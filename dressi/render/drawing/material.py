"""Materials as images: the parts of a mesh's ``Material``, and those given instead of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import VEC4, Size, VType
from ...errors import InputError, did_you_mean
from ..materials import GLTF
from ..mesh import Mesh
from ..surface.faces_within import FacesWithin
from ..surface.screen import barycentric, corners, covered, interpolate
from .inputs import Given, Values, face_list, numbers, vertex_list
from .point import Look

MATERIAL: dict[str, VType] = GLTF.parts
"""The parts of a material beside its base colour: one value, one a view, or an image that is looked up at the UVs."""


def material_part(name: str, value: Any) -> Given:
    """A part: a number or a vector, an image (H, W) or (H, W, channels), or a Variable. Raises InputError."""
    if name not in MATERIAL:
        near = did_you_mean(name, MATERIAL) or "; its base colour is texture="
        raise InputError(f"a material has {', '.join(MATERIAL)}, not {name!r}{near}")
    vtype = MATERIAL[name]
    if isinstance(value, Variable):
        if value.vtype is not vtype:
            raise InputError(f"{name} is a {vtype} Variable, not {value} (made at {value.where})")
        return value
    array, shape = numbers(name, value), vtype.shape
    if array.ndim == 0:
        array = np.full(shape, float(array))
    if array.shape == shape:
        return Values(vtype, array.reshape(1, 1, 1, *shape))
    if array.ndim != 2 + len(shape) or array.shape[2:] != shape or array.size == 0:
        text = ", ".join(("H", "W", *map(str, shape)))
        raise InputError(f"{name} is one value or an image ({text}), not an array {array.shape}")
    return Values(vtype, array[None])


def material_given(mesh: Any, material: Mapping[str, Any] | None) -> dict[str, Given]:
    """The parts of a picture that are the material of a mesh, with those of ``material`` instead. Raises InputError."""
    own = _host_parts(mesh) if isinstance(mesh, Mesh) else {}
    given = {
        name: material_part(name, value) for name, value in (material or {}).items() if value is not None
    }
    for row in GLTF.parameters:
        if row.column is not None and row.map is not None and row.name in given and row.map.field in own:
            # The other columns stay, as maps of their own.
            shared = own.pop(row.map.field)
            for other in GLTF.parameters:
                if other.map is row.map and other.column is not None:
                    image = np.ascontiguousarray(shared[..., other.column])
                    own[other.beside], own[other.name] = own[other.name], image
    for name in given:
        own.pop(name, None)
        own.pop(f"{name}_factor", None)
    return {name: material_part(name.removesuffix("_factor"), value) for name, value in own.items()} | given


def _host_parts(mesh: Mesh) -> dict[str, Any]:
    """Arrays and numbers by name; a factor of 1 beside a map is left out."""
    found = mesh.material
    if found is None:
        return {}
    found.validate()
    parts: dict[str, Any] = {}
    for row in GLTF.parameters:
        if row.fields:
            image = None if row.map is None else getattr(found, row.map.field)
            parts |= row.parts(getattr(found, row.field), image)
    without = [row for row in GLTF.parameters if row.needs and row.needs not in parts]
    without += [GLTF["alpha"]] if found.alpha_mode == "opaque" else []
    absent = {name for row in without for name in (row.name, row.beside)}
    return {name: value for name, value in parts.items() if name not in absent}


def tangents_given(mesh: Any, given: Mapping[str, Given], changed: bool) -> dict[str, Given]:
    """The tangents of a mesh with a normal map, if its shape is that of the file (not ``changed``)."""
    if changed or not isinstance(mesh, Mesh) or mesh.uvs is None or "normal" not in given:
        return {}
    tangents, faces = mesh.tangents()
    table = vertex_list("tangents", VEC4, tangents)
    return {"tangents": table, "tangent_faces": face_list("tangent_faces", faces, len(tangents))}


def wrap_of(mesh: Any) -> str:
    """How textures of the mesh go on outside of [0, 1]: along both axes as the material says for u. Raises InputError where
    it says something else for v and there are texture coordinates outside."""
    found = mesh.material if isinstance(mesh, Mesh) else None
    if found is None:
        return "repeat"
    u, v = found.wrap
    if u != v and mesh.uvs is not None:
        outside = [bool(((axis < 0) | (axis > 1)).any()) for axis in mesh.uvs.T]
        if all(outside):
            raise InputError(
                f"mesh '{mesh.name}': its texture wraps by '{u}' along u and by '{v}' along v, and one way is drawn for both;"
                " set material.wrap to two equal ways, or keep the texture coordinates of one axis in [0, 1]"
            )
        return v if outside[1] else u
    return u


def opaque(looks: Sequence[Look], size: Size) -> Callable[[Variable], Variable] | None:
    """``DrawnMesh.keep`` of looks with alpha masks: where alpha is at least the cutoff (default 0.5); None without any."""
    cut = [look for look in looks if "alpha" in look.parts]
    if not cut:
        return None

    def keep(face: Variable) -> Variable:
        kept = None
        for look in cut:
            own = face if look.run is None else FacesWithin(face, *look.run).output
            found = _kept(look, own, size)
            found = found if look.run is None else F.select(covered(own), found, 1.0)
            kept = found if kept is None else F.minimum(kept, found)
        assert kept is not None
        return kept

    return keep


def _kept(look: Look, face: Variable, size: Size) -> Variable:
    """FLOAT mask: a material is not cut out at faces of a look."""
    parts = look.parts
    weights = barycentric(look.view.clip, corners(face, look.faces), size)
    uv = interpolate(parts["uvs"], corners(face, parts.get("uv_faces", look.faces)), weights)
    alpha = F.sample(parts["alpha"], uv, "bilinear", look.wrap, tolerance=0.0)
    return F.greater_equal(alpha, parts.get("alpha_cutoff", F.constant(0.5)))
