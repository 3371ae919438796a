"""Shapes of nodes: what gives positions, faces, and the attributes that belong to them.

A new kind of shape is one class here or in a file beside: it says its lists (``Geometry.lists``), as arrays
or as Variables that it computes. Whatever is drawn, lit, picked or differentiated reads these lists alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import PathLike
from typing import Any

import numpy as np

from ...ad.graph import Variable
from ...ad.graph.types import VType, list_image, list_size
from ...errors import InputError, KnownAttributes
from ..mesh import Mesh


class Geometry(ABC):
    """Base of the shapes of nodes. One object in several nodes is drawn several times: its leaves are shared,
    and gradients by them are sums over the nodes."""

    name: str = "mesh"

    @property
    def mesh(self) -> Mesh | None:
        """The mesh that carries the material, the UVs and the texture; None where there is none."""
        return None

    @property
    def moves(self) -> bool:
        """Whether positions are not those of the mesh, so that its normals and tangents do not fit."""
        return False

    @property
    def vertex_count(self) -> int | None:
        """How many vertices there are; None where the positions alone say it."""
        return None

    @property
    def rest(self) -> Any:
        """Positions before anything moves them, (V, 3) or a VEC3 list, by which faces that share no vertices
        are joined; None if there are none."""
        return None if self.mesh is None else self.mesh.positions

    @abstractmethod
    def lists(self) -> dict[str, Any]:
        """By name, in coordinates of its own: ``positions`` (V, 3), (N, V, 3) or a VEC3 list, and ``faces``
        (F, 3); where there are some, ``uvs`` with ``uv_faces``, ``colours`` with ``colour_faces``,
        ``normals`` with ``normal_faces``, ``texture``, and ``colour`` (3,). Lists without faces of their own
        have one row a vertex. Missing ones may be None."""


class MovedGeometry(Geometry):
    """Base of shapes that are a mesh whose vertices something moves."""

    _mesh: Mesh

    @property
    def mesh(self) -> Mesh:
        return self._mesh

    @property
    def moves(self) -> bool:
        return True

    @property
    def vertex_count(self) -> int:
        return len(self._mesh.positions)


class TriangleGeometry(KnownAttributes, Geometry):
    """The triangles of a mesh, with lists instead of its own.

    mesh: a ``Mesh``, or a pair (positions, faces).  positions: (V, 3), (N, V, 3) or a VEC3 list.  colours:
    linear, (V, 3) or a VEC3 list.  uvs: (U, 2) or a VEC2 list, one a vertex or numbered by ``uv_faces`` (F,
    3).  texture: linear, (H, W, 3) or a VEC3 image.  Differentiable in each Variable. Raises InputError.

    >>> TriangleGeometry(primitives.cube()).lists()["faces"].shape
    (12, 3)
    """

    def __init__(
        self,
        mesh: Any,
        *,
        positions: Any = None,
        colours: Any = None,
        uvs: Any = None,
        uv_faces: Any = None,
        texture: Any = None,
    ):
        given = {
            "positions": positions,
            "colours": colours,
            "uvs": uvs,
            "uv_faces": uv_faces,
            "texture": texture,
        }
        self._given = {name: value for name, value in given.items() if value is not None}
        self._mesh = self._pair = None
        if isinstance(mesh, Mesh):
            self._mesh, self.name, self._own_positions = mesh, mesh.name, mesh.positions
        elif isinstance(mesh, tuple) and len(mesh) == 2 and not isinstance(mesh[1], Mesh):
            self._pair = {"positions": mesh[0], "faces": np.asarray(mesh[1])}
            self.name, self._own_positions = "mesh", mesh[0]
        else:
            raise InputError(
                f"render takes a Mesh, a Scene or a pair (positions, faces), not {type(mesh).__name__};"
                " load files with load_mesh or load_scene"
            )

    @property
    def mesh(self) -> Mesh | None:
        return self._mesh

    @property
    def moves(self) -> bool:
        return "positions" in self._given

    @property
    def vertex_count(self) -> int | None:
        return count_of(self._own_positions)

    @property
    def rest(self) -> Any:
        return self._own_positions

    def lists(self) -> dict[str, Any]:
        if self._pair is not None:
            return self._pair | self._given
        assert self._mesh is not None
        return mesh_lists(self._mesh, self._given)


def mesh_lists(mesh: Mesh, given: dict[str, Any]) -> dict[str, Any]:
    """The lists of a mesh, some given instead: UVs bring their texture, and new positions have no normals."""
    mesh.validate()
    lists: dict[str, Any] = {"positions": mesh.positions, "faces": mesh.faces, "colour": mesh.color}
    if mesh.uvs is not None and "uvs" not in given:
        lists |= {"uvs": mesh.uvs, "uv_faces": mesh.uv_faces, "texture": mesh.texture}
    if mesh.second_uvs is not None:
        lists |= {"second_uvs": mesh.second_uvs, "second_uv_faces": mesh.second_uv_faces}
    if mesh.colors is not None and "colours" not in given:
        lists |= {"colours": mesh.colors, "colour_faces": mesh.color_faces}
    if mesh.normals is not None and "positions" not in given:
        lists |= {"normals": mesh.normals, "normal_faces": mesh.normal_faces}
    return lists | given


def geometry_of(value: Any) -> Geometry:
    """A geometry as it is; that of a mesh or of a pair (positions, faces). Raises InputError."""
    if isinstance(value, (str, PathLike)):
        raise InputError(
            f"a node has a shape, not the name of a file: load_mesh('{value}') is one mesh,"
            f" load_scene('{value}') all nodes of it"
        )
    return value if isinstance(value, Geometry) else TriangleGeometry(value)


def count_of(positions: Any) -> int | None:
    """How many rows a list of positions has; None for a Variable, whose image says only how many fit."""
    if isinstance(positions, Variable):
        return None
    return np.shape(positions)[-2] if np.ndim(positions) > 1 else 0


def tiled_list(name: str, vtype: VType, values: np.ndarray) -> Variable:
    """(K, ...) or (N, K, ...) as a list of K entries, of 1 or N tiles."""
    rows = values.reshape(-1, *values.shape[values.ndim - 1 - len(vtype.shape) :])
    data = np.concatenate([list_image(row) for row in rows])
    return Variable(vtype, list_size(rows.shape[1]), len(rows), name=name, data=data)
