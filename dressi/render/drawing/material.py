"""Materials as images: the parts of a mesh's ``Material``, and those given instead of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import FLOAT, VEC2, VEC3, VEC4, Size, VType
from ...errors import InputError, did_you_mean
from ..mesh import Mesh
from ..surface.screen import barycentric, corners, interpolate
from .inputs import Given, Values, face_list, numbers, vertex_list

MATERIAL: dict[str, VType] = {
    "metallic": FLOAT,
    "roughness": FLOAT,
    "metallic_roughness": VEC2,
    "normal": VEC3,
    "normal_scale": FLOAT,
    "occlusion": FLOAT,
    "occlusion_strength": FLOAT,
    "emission": VEC3,
    "clearcoat": FLOAT,
    "clearcoat_roughness": FLOAT,
    "sheen": VEC3,
    "sheen_roughness": FLOAT,
    "alpha": FLOAT,
    "alpha_cutoff": FLOAT,
}
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
    if given.keys() & {"metallic", "roughness"} and "metallic_roughness" in own:
        # The other column stays, as a map of its own.
        both = own.pop("metallic_roughness")
        for k, name in enumerate(("metallic", "roughness")):
            own[f"{name}_factor"], own[name] = own[name], np.ascontiguousarray(both[..., k])
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
    parts: dict[str, Any] = {"metallic": found.metallic, "roughness": found.roughness}
    if found.metallic_roughness is not None:
        parts["metallic_roughness"] = found.metallic_roughness
    if found.normal is not None:
        parts["normal"] = found.normal
        if found.normal_scale != 1:
            parts["normal_scale"] = found.normal_scale
    if found.occlusion is not None:
        parts["occlusion"] = found.occlusion
        if found.occlusion_strength != 1:
            parts["occlusion_strength"] = found.occlusion_strength
    if found.alpha is not None and found.alpha_mode == "mask":
        parts |= {"alpha": found.alpha, "alpha_cutoff": found.alpha_cutoff}
    for name, factor, image in (
        ("emission", found.emission, found.emission_map),
        ("clearcoat", found.clearcoat, found.clearcoat_map),
        ("clearcoat_roughness", found.clearcoat_roughness, found.clearcoat_roughness_map),
        ("sheen", found.sheen_color, None),
        ("sheen_roughness", found.sheen_roughness, None),
    ):
        if not np.any(factor):
            continue
        parts[name] = factor if image is None else image
        if image is not None and not np.all(np.equal(factor, 1)):
            parts[f"{name}_factor"] = factor
    if "clearcoat" not in parts:
        parts = {name: value for name, value in parts.items() if not name.startswith("clearcoat")}
    if "sheen" not in parts:
        parts.pop("sheen_roughness", None)
    return parts


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


def opaque(
    parts: Mapping[str, Variable], clip: Variable, size: Size, wrap: str
) -> Callable[[Variable], Variable]:
    """``DrawnMesh.keep`` of a material with an alpha mask: where alpha is at least the cutoff (default 0.5)."""
    cutoff = parts.get("alpha_cutoff", F.constant(0.5))

    def keep(face: Variable) -> Variable:
        weights = barycentric(clip, corners(face, parts["faces"]), size)
        uv = interpolate(parts["uvs"], corners(face, parts.get("uv_faces", parts["faces"])), weights)
        return F.greater_equal(F.sample(parts["alpha"], uv, "bilinear", wrap, tolerance=0.0), cutoff)

    return keep
