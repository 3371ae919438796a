"""The arguments of ``render`` as images: geometries, materials, places and lights."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.graph.types import FLOAT, IVEC3, MAT2, MAT4, VEC2, VEC3, VEC4, VType, list_image, list_size
from ....ad.ops.texture.addressing import WrapName, one_wrap
from ....errors import InputError, did_you_mean
from ...cameras.rigid import check_affine, not_numbers
from ...core.materials import GLTF, Placement, range_text
from ...mesh import Material, Mesh
from ...mesh.material import ALPHA_MODES
from ...scene.geometry import count_of, geometry_of
from ...shading.bsdf import Bsdf, GltfBsdf, UnlitBsdf
from ...shading.lights import Light, LightSource
from ...surface.color import check_linear

# The arguments of ``render`` as images: Variables unchanged, arrays converted to the data of leaves.

LISTS = (
    ("uvs", VEC2, "uv_faces"), ("colours", VEC3, "colour_faces"), ("normals", VEC3, "normal_faces"),
    ("second_uvs", VEC2, "second_uv_faces"),
)  # fmt: skip
"""Lists of a geometry beside its positions: name, type, and the name of the faces that number them."""


class Values(NamedTuple):
    """Data of a leaf: an array (batch, H, W, ...) with the shape of the type at the end."""

    vtype: VType
    array: np.ndarray

    def leaf(self, name: str) -> Variable:
        batch, height, width = self.array.shape[:3]
        return Variable(self.vtype, (width, height), batch, name=name, data=self.array)


Given = Variable | Values


def shape_of(given: Given) -> tuple[int, ...]:
    return given.shape if isinstance(given, Variable) else given.array.shape


def numbers(name: str, value: Any) -> np.ndarray:
    """Finite numbers. Raises InputError."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, RuntimeError):
        raise not_numbers(name, value) from None
    if not np.isfinite(array).all():
        raise InputError(f"{name} has values that are NaN or infinite; repair them")
    return array


def vertex_list(name: str, vtype: VType, value: Any, count: int | None = None) -> Given:
    """One or N lists of ``count`` entries: (count, k), (N, count, k) or a Variable. Raises InputError."""
    k = vtype.components
    if isinstance(value, Variable):
        if value.vtype is not vtype:
            raise InputError(
                f"{name} are a {vtype} list, one entry a vertex, not {value} (made at {value.where})"
            )
        if count is not None and value.size != list_size(count):
            wanted = f"a list of {count} entries, a Variable of size {list_size(count)}"
            raise InputError(f"{name} are {wanted}, not {value}")
        return value
    array = numbers(name, value)
    if array.ndim not in (2, 3) or array.shape[-1] != k or array.shape[-2] == 0:
        raise InputError(f"{name} are an array (V, {k}) or (N, V, {k}), not {array.shape}")
    if count is not None and array.shape[-2] != count:
        raise InputError(f"{name} have {array.shape[-2]} rows for {count} vertices; give one each")
    return Values(vtype, np.concatenate([list_image(a) for a in array.reshape(-1, *array.shape[-2:])]))


def face_list(name: str, value: Any, count: int) -> Values:
    """Triples of numbers below ``count``. Raises InputError."""
    array = np.asarray(value)
    if array.ndim != 2 or array.shape[1] != 3 or len(array) == 0 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} are integers (F, 3), at least one triangle, not {array.dtype} {array.shape}"
        )
    wrong = ((array < 0) | (array >= count)).any(axis=1)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(f"{name}: face {k} is {array[k].tolist()}, out of range for {count} vertices")
    return Values(IVEC3, list_image(array.astype(np.int64)))


def per_view(name: str, vtype: VType, value: Any) -> Given:
    """One value, or one a view. A number becomes a vector of equal components. Raises InputError."""
    if isinstance(value, Variable):
        if value.vtype not in (vtype, FLOAT) or (vtype is MAT4 and value.vtype is not MAT4):
            raise InputError(f"{name} is a {vtype}, not {value} (made at {value.where})")
        if name == "to_world" and value.data is not None:
            check_affine(name, value.data)
        return value
    array = numbers(name, value)
    if name == "to_world":
        check_affine(name, array)
    if array.ndim == 0 and vtype is not MAT4:
        array = np.full(vtype.shape, float(array))
    shape = vtype.shape
    if array.shape != shape and (array.ndim != len(shape) + 1 or array.shape[1:] != shape or len(array) == 0):
        text = ", ".join(map(str, shape))
        raise InputError(f"{name} has shape ({text}) or (N, {text}), not {array.shape}")
    if vtype.is_int:
        if (array != np.round(array)).any():
            raise InputError(f"{name} is a whole number, not {value!r}")
        array = array.astype(np.int64)
    return Values(vtype, array.reshape(-1, 1, 1, *shape))


def picture_of(name: str, value: Any, radiance: bool = False) -> Given:
    """Colours: a number, (3,), (H, W, 3), (N, H, W, 3) or a Variable. radiance: of a light. Raises
    InputError."""
    if isinstance(value, Variable):
        if value.vtype.is_int or value.vtype.is_matrix:
            raise InputError(f"{name} is an image of colours, not {value} (made at {value.where})")
        return value
    array = numbers(name, value)
    check_linear(name, value, radiance)
    if array.ndim == 0:
        array = np.full(3, float(array))
    if array.ndim not in (1, 3, 4) or array.shape[-1] != 3 or array.size == 0:
        raise InputError(f"{name} has shape (H, W, 3), linear, not {array.shape}")
    return Values(VEC3, array.reshape((1,) * (4 - array.ndim) + array.shape))


@dataclass(frozen=True, eq=False)
class Shape:
    """One geometry, or a scene: its lists by name, and the facts that are not images."""

    given: dict[str, Given]
    faces: np.ndarray
    face_count: int
    vertex_count: int
    name: str


def shape_given(mesh: Any) -> Shape:
    """A ``Mesh``, a pair (positions, faces) or a ``Geometry``. Raises InputError."""
    geometry = geometry_of(mesh)
    own = geometry.lists()
    name, faces = geometry.name, np.asarray(own["faces"])
    count = geometry.vertex_count
    if count is None:
        count = count_of(own["positions"])
    given: dict[str, Given] = {"position": vertex_list("positions", VEC3, own["positions"], count)}
    _, height, width = shape_of(given["position"])[:3]
    given["faces"] = face_list("faces", faces, width * height if count is None else count)
    if count is None:
        most = int(faces.max()) + 1
        count = most if list_size(most) == (width, height) else width * height
    if own.get("texture") is not None:
        if own.get("uvs") is None:
            raise InputError(
                f"mesh '{name}': a texture needs texture coordinates; give uvs=, or use mesh.unwrap()"
            )
        given["texture"] = picture_of("texture", own["texture"])
    for table, vtype, index in LISTS:
        if own.get(table) is not None:
            numbered = own.get(index)
            if table == "colours" and not isinstance(own[table], Variable):
                check_linear(table, own[table])
            given[table] = vertex_list(table, vtype, own[table], count if numbered is None else None)
            if numbered is not None:
                _, height, width = shape_of(given[table])[:3]
                given[index] = face_list(index, numbered, width * height)
                if len(numbered) != len(faces):
                    raise InputError(
                        f"{index} has {len(numbered)} rows for {len(faces)} faces; give one each"
                    )
    given["colour"] = per_view("colour", VEC3, own.get("colour", (1.0, 1.0, 1.0)))
    return Shape(given, faces, len(faces), count, name)


# Lights as images: their parameters become leaves, and lights are made again around these.


class LightRecipe(NamedTuple):
    """Everything of a light that is not an image; equal recipes make equal graphs."""

    number: int
    kind: type[LightSource]
    fixed: tuple[tuple[str, Any], ...]
    """Fields that are no parameters, and parameters that are named ways ("headlight") or None."""
    parameters: tuple[str, ...]

    def name(self, field: str) -> str:
        """The name of the image of a parameter."""
        return f"light {self.number} {field}"

    def light(self, parts: Mapping[str, Variable]) -> LightSource:
        """The light whose parameters are these Variables."""
        return self.kind(**dict(self.fixed), **{field: parts[self.name(field)] for field in self.parameters})


def lights_of(light: Any) -> tuple[LightSource, ...]:
    """The lights of an argument: None, "headlight", a direction, a light or several. Raises InputError."""
    if light is None:
        return ()
    if isinstance(light, LightSource):
        return (light,)
    if isinstance(light, Sequence) and any(isinstance(one, LightSource) for one in light):
        wrong = [one for one in light if not isinstance(one, LightSource)]
        if wrong:
            raise InputError(f"several lights are a list of lights, which {wrong[0]!r} is not")
        return tuple(light)
    return (Light(light),)


def light_given(light: Any) -> tuple[dict[str, Given], tuple[LightRecipe, ...]]:
    """The images of the parameters of all lights, and how lights are made of them. Raises InputError."""
    given: dict[str, Given] = {}
    recipes = []
    for number, given_light in enumerate(lights_of(light)):
        one = given_light.prepared()
        values = {field.name: getattr(one, field.name) for field in fields(one)}
        fixed = {
            k: v for k, v in values.items() if k not in one.parameters or v is None or isinstance(v, str)
        }
        parameters = tuple(name for name in values if name not in fixed)
        recipe = LightRecipe(number, type(one), tuple(fixed.items()), parameters)
        given |= {recipe.name(name): _parameter(one, name) for name in parameters}
        direction = fixed.get("direction")
        if isinstance(direction, str) and (direction != "headlight" or not isinstance(one, Light)):
            raise InputError(f"light is 'headlight', a direction, a light or None, not {direction!r}")
        recipes.append(recipe)
    return given, tuple(recipes)


def _parameter(light: LightSource, name: str) -> Given:
    value, what = getattr(light, name), f"{name} of {type(light).__name__}"
    if name in light.images:
        return picture_of(what, value, radiance=True)
    if name in light.lists:
        return vertex_list(what, light.parameters[name], value)
    given = per_view(what, light.parameters[name], value)
    if isinstance(given, Values):
        if name in light.positive and given.array.min() < 0:
            raise InputError(f"{what} is {given.array.min():.4g}; light is not negative: give numbers from 0")
        if name == "direction" and not np.abs(given.array).max(-1).min() > 0:
            raise InputError("the direction of the light is zero; point it towards the light")
    return given


# Materials as images: the parts of a mesh's ``Material``, and those given instead of them.

MATERIAL: dict[str, VType] = GLTF.parts
"""The parts of a material beside its base colour: one value, one a view, or an image at the UVs."""

SHOWN_UNLIT = frozenset("texture colour alpha alpha_cutoff alpha_mode transmission transmission_map".split())
"""Parts of ``material=`` that are seen without a light."""
SHOWN_BY_LAMBERT = frozenset(("emission", "emission_map", "normal", "normal_scale"))
"""Parts that are seen under ``Light``, too."""

BUMPY = frozenset(row.name for row in GLTF.parameters if row.map is not None and row.map.signed)
"""Parts that are normals along tangents."""

MODE = "alpha_mode"
"""The key of ``material=`` that says what its alpha means: a name, not an image."""


def material_part(name: str, value: Any, known: Mapping[str, VType] = MATERIAL) -> Given:
    """A part: a number or a vector, an image (H, W) or (H, W, channels), or a Variable. known: the parts of
    the kind of material, and their types. Raises InputError."""
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
    """Warns when parts of ``material=``, by name or a ``Material``, change nothing: under the default,
    Lambert's light, and without a light a picture shows base colours alone."""
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
    """The parts of a picture that are the material of a mesh, with those of ``material`` instead. Raises
    InputError.

    A surface of one's own takes from the mesh the normals and alpha, which lie outside of its BSDF, the base
    colour where it has none, and those maps and factors that its table names and that it leaves out.
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
    """Arrays and numbers by name that a kind of surface uses; a factor of 1 beside a map is left out."""
    material = mesh.material
    if material is None:
        return {}
    material.validate()
    parts: dict[str, Any] = {}
    shipped, used = ({one.name for one in fields(one_kind)} for one_kind in (GltfBsdf, kind))
    for row in GLTF.parameters:
        if row.fields and (row.name in used or row.name not in shipped):
            image = None if row.map is None else getattr(material, row.map.field)
            parts |= row.parts(getattr(material, row.field), image)
    without = [row for row in GLTF.parameters if row.needs and row.needs not in parts]
    without += [GLTF["alpha"]] if material.alpha_mode == "opaque" else []
    absent = {name for row in without for name in (row.name, row.beside)}
    return {name: value for name, value in parts.items() if name not in absent}


def recipe_of(mesh: Any, material: Mapping[str, Any] | Bsdf | None) -> MaterialRecipe:
    """What is no image of the material of a mesh, with ``material`` instead of its own parts."""
    own = _material_of(mesh)
    kind, blends = _kind_of(mesh, material), alpha_mode_of(mesh, material) == "blend"
    if own is None:
        return MaterialRecipe(kind, blends=blends)
    maps = {
        part: MapRecipe(place.uv_set, one_wrap(place.wrap or own.wrap), place.moves)
        for part, place in placements_of(mesh).items()
    }
    return MaterialRecipe(kind, one_wrap(own.wrap), tuple(sorted(maps.items())), blends)


def _material_of(mesh: Any) -> Material | None:
    return mesh.material if isinstance(mesh, Mesh) else None


def _kind_of(mesh: Any, material: Mapping[str, Any] | Bsdf | None) -> type[Bsdf]:
    """The class of the surface of a mesh with ``material``."""
    if isinstance(material, Bsdf):
        return type(material)
    own = _material_of(mesh)
    return UnlitBsdf if own is not None and own.unlit else GltfBsdf


def alpha_mode_of(mesh: Any, material: Mapping[str, Any] | Bsdf | None) -> str | None:
    """The meaning of alpha: the mode that ``material`` names, or that of the mesh; None where neither says. A
    single value of alpha blends by default: as a mask it would cut out all or nothing. Raises InputError."""
    host = _material_of(mesh)
    own = None if host is None else host.alpha_mode
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
    """The placements of maps that do not lie at the UVs as they are, by the names of their parts."""
    placements = {} if mesh.material is None else mesh.material.placements
    return {
        part: placements[row.map.field]
        for row in GLTF.parameters
        if row.map is not None and row.map.field in placements
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


# Materials as facts: everything of them that is not an image.

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

    bsdf: the class of the surface.  wrap: of maps that have no place of their own.  maps: these, by the name
    of the part.
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
"""The recipe of meshes without a material."""


@dataclass(frozen=True)
class Members:
    """What nodes of one structure that are shaded together have for themselves.

    The list of parts ``MEMBER`` says which of them each face belongs to.

    factors: parts that are lists with an entry a member.  stacks: parts that are maps below each other, and
    how many.
    numbered: those of them where the list ``layer_name`` says which one a member has; in the others it is the
    member's number.
    """

    factors: tuple[str, ...] = ()
    stacks: tuple[tuple[str, int], ...] = ()
    numbered: tuple[str, ...] = ()

    def layers(self, part: str) -> int:
        """How many maps stand in the image of a part."""
        return dict(self.stacks).get(part, 1)


ALONE = Members()
"""The members of a single node."""

# Names of parts.

UNLIT = "unlit"
"""FLOAT: 1 for members that show their base colour under any light, 0 for the others."""
MEMBER = "member"
"""INT, an entry a face: the number of its member."""


def matrix_name(part: str) -> str:
    """MAT2: the matrix of a map's coordinates."""
    return f"{part} matrix"


def offset_name(part: str) -> str:
    """VEC2: the offset of a map's coordinates."""
    return f"{part} offset"


def layer_name(part: str) -> str:
    """INT: the number of the map that each member has in a stack."""
    return f"{part} layer"


def row_name(table: str) -> str:
    """INT: the member of each row of a list."""
    return f"{table} member"


# Positions, normals and tangents carried into the world.


def tiled(rows: Variable, batch: int) -> Variable:
    """A list with so many tiles."""
    return F.expand(rows, batch) if rows.batch == 1 and batch > 1 else rows


def placed(positions: Variable, matrix: Variable | None) -> Variable:
    """VEC3 list: positions by a MAT4, one for all or one each."""
    if matrix is None:
        return positions
    return F.matmul(matrix, tiled(F.vec4(positions, 1.0), matrix.batch)).xyz


def turned_parts(parts: Mapping[str, Variable], by: Mapping[str, Variable]) -> dict[str, Variable]:
    """The normals and tangents among the parts of a look, unit again. by: for each a MAT4, one for all rows
    or one each.

    Normals go by the cofactors, as the cross product of two edges does.
    """
    turned = {}
    for name in ("normals", "tangents"):
        if name in parts:
            a, b, c = (F.column(by[name], k).xyz for k in range(3))
            rows = tiled(parts[name], by[name].batch)
            if name == "normals":
                cofactors = F.mat3(F.cross(b, c), F.cross(c, a), F.cross(a, b))
                turned[name] = F.normalize(F.matmul(cofactors, rows))
            else:
                turned[name] = F.vec4(F.normalize(F.matmul(F.mat3(a, b, c), rows.xyz)), rows.w)
    return turned


def turned_rows(name: str, values: Values, matrix: np.ndarray) -> Values:
    """``normals`` or ``tangents`` by a (4, 4) matrix, as ``turned_parts``."""
    turn, rows = matrix[:3, :3], values.array
    u, v, w = turn.T
    # Rows are the columns of the cofactors.
    by = np.stack([np.cross(v, w), np.cross(w, u), np.cross(u, v)]) if name == "normals" else turn.T
    ways = rows[..., :3] @ by
    length = np.linalg.norm(ways, axis=-1, keepdims=True)
    return Values(values.vtype, np.concatenate([ways / np.where(length > 0, length, 1.0), rows[..., 3:]], -1))
