"""The arguments of ``render`` as images: Variables unchanged, arrays converted to the data of leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ....ad.graph import Variable
from ....ad.types import FLOAT, IVEC3, MAT4, VEC2, VEC3, VType, list_image, list_size
from ....errors import InputError
from ...cameras.arrays import not_numbers
from ...cameras.conventions import check_affine
from ...scene.geometry import count_of, geometry_of
from ...surface.color import check_linear

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
    """A list of ``count`` entries, or N lists: an array (count, k) or (N, count, k), or a Variable. Raises InputError."""
    k = vtype.components
    if isinstance(value, Variable):
        if value.vtype is not vtype:
            raise InputError(
                f"{name} are a {vtype} list, one entry a vertex, not {value} (made at {value.where})"
            )
        if count is not None and value.size != list_size(count):
            raise InputError(
                f"{name} are a list of {count} entries, a Variable of size {list_size(count)}, not {value}"
            )
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
    """An image of colours: (3,), (H, W, 3) or (N, H, W, 3), a number, or a Variable. radiance: of a light. Raises InputError."""
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
