"""Materials as images: the parts of a mesh's ``Material``, and those given instead of them."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from ....ad.graph import Variable
from ....ad.ops.texture.addressing import one_wrap
from ....ad.types import MAT2, VEC2, VEC3, VEC4, VType
from ....errors import InputError, did_you_mean
from ...materials import GLTF, Placement
from ...materials.parameter import range_text
from ...mesh import Material, Mesh
from ...mesh.material import ALPHA_MODES
from ...shading.bsdf import Bsdf, GltfBsdf, UnlitBsdf
from ...shading.lights import Light
from ...surface.color import check_linear
from .inputs import Given, Values, face_list, numbers, vertex_list
from .lights import LightRecipe
from .material_recipe import MapRecipe, MaterialRecipe, matrix_name, offset_name

MATERIAL: dict[str, VType] = GLTF.parts
"""The parts of a material beside its base colour: one value, one a view, or an image that is looked up at the UVs."""

SHOWN_UNLIT = frozenset(
    ("texture", "colour", "alpha", "alpha_cutoff", "alpha_mode", "transmission", "transmission_map")
)
"""Parts of ``material=`` that are seen without a light."""
SHOWN_BY_LAMBERT = frozenset(("emission", "emission_map", "normal", "normal_scale"))
"""Parts that are seen under ``Light``, too."""

BUMPY = frozenset(row.name for row in GLTF.parameters if row.map is not None and row.map.signed)
"""Those that are normals along tangents."""

MODE = "alpha_mode"
"""The key of ``material=`` that says what its alpha means: a name, not an image."""


def material_part(name: str, value: Any, known: Mapping[str, VType] = MATERIAL) -> Given:
    """A part: a number or a vector, an image (H, W) or (H, W, channels), or a Variable. known: the parts of the kind of
    material, and their types. Raises InputError."""
    if name not in known:
        near = did_you_mean(name, known) or "; its base colour is texture="
        raise InputError(f"a material has {', '.join([*known, MODE])}, not {name!r}{near}")
    vtype = known[name]
    if isinstance(value, Variable):
        if value.vtype is not vtype:
            raise InputError(f"{name} is a {vtype} Variable, not {value} (made at {value.where})")
        return value
    array, shape = numbers(name, value), vtype.shape
    _check_part(name, value, array)
    if array.ndim == 0:
        array = np.full(shape, float(array))
    if array.shape == shape:
        return Values(vtype, array.reshape(1, 1, 1, *shape))
    if array.ndim != 2 + len(shape) or array.shape[2:] != shape or array.size == 0:
        text = ", ".join(("H", "W", *map(str, shape)))
        raise InputError(f"{name} is one value or an image ({text}), not an array {array.shape}")
    return Values(vtype, array[None])


def warn_without_effect(material: Any, lights: Sequence[LightRecipe], stacklevel: int) -> None:
    """Warns when parts of ``material=``, by name or a ``Material``, change nothing: Lambert's light, which is the default, and no light
    show base colours alone."""
    if isinstance(material, Material):
        own = {name: (getattr(material, name), default) for name, default in GLTF.fields.items()}
        material = {name: x for name, (x, default) in own.items() if not np.array_equal(x, default)}
    if not isinstance(material, Mapping) or not all(light.kind is Light for light in lights):
        return
    shown = SHOWN_UNLIT | (SHOWN_BY_LAMBERT if lights else frozenset())
    unseen = [name for name, x in material.items() if x is not None and name not in shown]
    if unseen:
        what = (
            "the headlight and other lights of Lambert show" if lights else "without a light a picture shows"
        )
        warnings.warn(
            f"{', '.join(unseen)} of the material change nothing: {what} the base colour alone; give"
            " light=DirectionalLight((0, 1, 1)), an Environment or another light that shades materials",
            stacklevel=stacklevel,
        )


def _check_part(name: str, value: Any, array: np.ndarray) -> None:
    """Raises InputError for code values, and for numbers outside the range of a part of ``MATERIAL``."""
    if name in ("texture", "colour", "base"):
        check_linear(name, value)
        return
    rows = [row for row in GLTF.parameters if name in row.given]
    if not rows or not array.size:
        return
    low, high = array.min(), array.max()
    for row in rows:
        least, most = row.least, row.most
        if row.map is not None and name != row.field:  # an image alone
            least, most = (-1.01, 1.01) if row.map.signed else (0.0, row.map.most)
        if low < least or high > most:
            codes = 1 < high <= 255 and most <= 1.01 and array.ndim > 1
            raise InputError(
                f"{name} is {low if low < least else high:.4g}, which is not in {range_text(least, most)}"
                f"{': divide code values by 255' if codes else '; correct it'}"
            )


def material_given(mesh: Any, material: Mapping[str, Any] | Bsdf | None) -> dict[str, Given]:
    """The parts of a picture that are the material of a mesh, with those of ``material`` instead. Raises InputError.

    A surface of one's own takes from the mesh what lies outside of its BSDF (normals and alpha), the base colour where it has
    none, and maps and factors that its table names and that it leaves out.
    """
    kind = _kind_of(mesh, material)
    own = _host_parts(mesh, kind) if isinstance(mesh, Mesh) else {}
    if isinstance(material, Bsdf):
        known: Mapping[str, VType] = kind.kind.parts | {"base": VEC3}
        material = {one.name: getattr(material, one.name) for one in fields(material)}
    else:
        known = MATERIAL
    parts = {name: x for name, x in (material or {}).items() if x is not None and name != MODE}
    if alpha_mode_of(mesh, material) == "opaque":
        for unused in ("alpha", GLTF["alpha"].beside):
            parts.pop(unused, None)
            own.pop(unused, None)
    given = {name: material_part(name, x, known) for name, x in parts.items()}
    for row in GLTF.parameters:
        if row.column is not None and row.image.field in own and row.name in given:
            # The other columns stay, as maps of their own.
            shared = own.pop(row.image.field)
            for other in GLTF.parameters:
                if other.map is row.map and other.column is not None:
                    image = np.ascontiguousarray(shared[..., other.column])
                    own[other.beside], own[other.name] = own[other.name], image
    for name in given:
        own.pop(name, None)
        own.pop(f"{name}_factor", None)
    places = placements_of(mesh) if isinstance(mesh, Mesh) else {}
    found = {name: material_part(name.removesuffix("_factor"), value) for name, value in own.items()} | given
    for part, place in places.items():
        if place.moves:
            found[matrix_name(part)] = Values(MAT2, np.asarray(place.matrix, np.float64)[None, None, None])
            found[offset_name(part)] = Values(VEC2, np.asarray(place.offset, np.float64)[None, None, None])
    return found


def _host_parts(mesh: Mesh, kind: type[Bsdf]) -> dict[str, Any]:
    """Arrays and numbers by name, of what a kind of surface uses; a factor of 1 beside a map is left out."""
    found = mesh.material
    if found is None:
        return {}
    found.validate()
    parts: dict[str, Any] = {}
    shipped, used = ({one.name for one in fields(one_kind)} for one_kind in (GltfBsdf, kind))
    for row in GLTF.parameters:
        if row.fields and (row.name in used or row.name not in shipped):
            image = None if row.map is None else getattr(found, row.map.field)
            parts |= row.parts(getattr(found, row.field), image)
    without = [row for row in GLTF.parameters if row.needs and row.needs not in parts]
    without += [GLTF["alpha"]] if found.alpha_mode == "opaque" else []
    absent = {name for row in without for name in (row.name, row.beside)}
    return {name: value for name, value in parts.items() if name not in absent}


def recipe_of(mesh: Any, material: Mapping[str, Any] | Bsdf | None) -> MaterialRecipe:
    """What is no image of the material of a mesh, with ``material`` instead of its own parts."""
    found = mesh.material if isinstance(mesh, Mesh) else None
    kind, blends = _kind_of(mesh, material), alpha_mode_of(mesh, material) == "blend"
    if found is None:
        return MaterialRecipe(kind, blends=blends)
    maps = {
        part: MapRecipe(place.uv_set, one_wrap(place.wrap or found.wrap), place.moves)
        for part, place in placements_of(mesh).items()
    }
    return MaterialRecipe(kind, one_wrap(found.wrap), tuple(sorted(maps.items())), blends)


def _kind_of(mesh: Any, material: Mapping[str, Any] | Bsdf | None) -> type[Bsdf]:
    """The class of the surface of a mesh with ``material``."""
    if isinstance(material, Bsdf):
        return type(material)
    found = mesh.material if isinstance(mesh, Mesh) else None
    return UnlitBsdf if found is not None and found.unlit else GltfBsdf


def alpha_mode_of(mesh: Any, material: Mapping[str, Any] | Bsdf | None) -> str | None:
    """What alpha means: the mode that ``material`` names, or that of the mesh. One value of alpha, not an image, blends where
    nothing else is said: as a mask it would cut out all or nothing. None where neither says. Raises InputError."""
    found = mesh.material if isinstance(mesh, Mesh) else None
    own = None if found is None else found.alpha_mode
    if not isinstance(material, Mapping):
        return own
    mode, alpha = material.get(MODE), material.get("alpha")
    if mode is not None:
        if mode not in ALPHA_MODES:
            raise InputError(
                f"{MODE} is one of {', '.join(ALPHA_MODES)}, not {mode!r}{did_you_mean(str(mode), ALPHA_MODES)}"
            )
        return mode
    if alpha is None or own in ("mask", "blend"):
        return own
    single = alpha.size == (1, 1) if isinstance(alpha, Variable) else np.ndim(alpha) == 0
    return "blend" if single and material.get("alpha_cutoff") is None else "mask"


def placements_of(mesh: Mesh) -> dict[str, Placement]:
    """Where maps lie that do not lie at the UVs as they are, by the names of the parts that hold them."""
    found = {} if mesh.material is None else mesh.material.placements
    return {
        part: found[row.map.field]
        for row in GLTF.parameters
        if row.map is not None and row.map.field in found
        for part in {row.name, row.map.field} & {"texture", *MATERIAL}
    }


def is_transparent(parts: Container[str], recipe: MaterialRecipe) -> bool:
    """Whether what lies behind a material with these parts is seen through it."""
    return (recipe.blends and "alpha" in parts) or recipe.bsdf.transmits(parts)


def tangents_given(mesh: Any, given: Mapping[str, Given], changed: bool) -> dict[str, Given]:
    """The tangents of a mesh with a map of normals, if its shape is that of the file (not ``changed``)."""
    if changed or not isinstance(mesh, Mesh) or mesh.uvs is None or not given.keys() & BUMPY:
        return {}
    tangents, faces = mesh.tangents()
    table = vertex_list("tangents", VEC4, tangents)
    return {"tangents": table, "tangent_faces": face_list("tangent_faces", faces, len(tangents))}
