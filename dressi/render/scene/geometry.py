"""Shapes of nodes: what gives positions, faces, and the attributes that belong to them.

A new kind of shape is one class here or in a file beside: it says its lists (``Geometry.lists``), as arrays
or as Variables that it computes. Whatever is drawn, lit, picked or differentiated reads these lists alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import FLOAT, VEC3, VType, list_image, list_size
from ...errors import InputError, KnownAttributes
from ..core.lists import list_leaf
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


# Shapes that are weighted sums of displacements: morph targets, blend shapes, statistical models.

MOST_MODES = 4096
"""A row of an image."""


def weighted_sum(name: str, modes: np.ndarray, weights: Variable) -> Variable:
    """VEC3 list of V entries: the sum of weights[m] * modes[m]. Differentiable in the weights; the gradient
    by a weight is the product of its mode with that of the sum, over all vertices at once.

    modes: (M, V, 3), data.  weights: FLOAT list of M entries, batch 1 or N.

    >>> weights = list_leaf("weights", FLOAT, np.array([1.0, 10.0]))
    >>> evaluate(weighted_sum("modes", np.ones((2, 4, 3)), weights))[0, 0, 3].tolist()
    [11.0, 11.0, 11.0]
    """
    if len(modes) == 1:  # a single channel is no axis
        table = list_leaf(name, VEC3, modes[0])
        return F.contract("out[y, x] = modes[y, x] * w[0, 0]", modes=table, w=weights)
    # Channels: each texel sums over its own, and each weight over a run of texels.
    data = np.concatenate([list_image(mode) for mode in modes])[None]
    table = Variable(VEC3, list_size(modes.shape[1]), channels=len(modes), name=name, data=data)
    return F.contract("out[y, x] = modes[m, y, x] * w[0, m]", modes=table, w=weights)


class MorphGeometry(KnownAttributes, MovedGeometry):
    """A mesh whose vertices are moved by weighted displacements: positions + sum of weights[m] * modes[m].

    mesh: a ``Mesh``.  modes: (M, V, 3), in coordinates of the mesh.  weights: (M,), (N, M) for N tiles, or a
    FLOAT list of M entries, batch 1 or N.  normal_modes: (M, K, 3), displacements of the K normals of the
    mesh; without them normals are those of the moved shape.  positions: instead of those of the mesh, (V, 3)
    or a VEC3 list.  names: of the modes.

    Differentiable in weights and positions: an exact sum, and its transpose. The modes are data. Raises
    InputError.

    >>> cube = primitives.cube()
    >>> shape = MorphGeometry(cube, cube.positions[None], [0.5])  # half as large again
    >>> shape.lists()["positions"].max().item()
    1.5
    """

    modes: np.ndarray
    weights: np.ndarray | Variable
    normal_modes: np.ndarray | None
    positions: np.ndarray | Variable
    names: tuple[str, ...]

    def __init__(
        self,
        mesh: Mesh,
        modes: Any,
        weights: Any,
        *,
        normal_modes: Any = None,
        positions: Any = None,
        names: tuple[str, ...] = (),
    ):
        if not isinstance(mesh, Mesh):
            raise InputError(f"a MorphGeometry takes a Mesh, not {type(mesh).__name__}")
        self._mesh, self.name, self.names = mesh, mesh.name, tuple(names)
        self.modes = self._table("modes", modes, len(mesh.positions))
        count = len(self.modes)
        self.normal_modes = None
        if normal_modes is not None:
            if mesh.normals is None:
                raise self._error("it has no normals that normal_modes could move")
            self.normal_modes = self._table("normal_modes", normal_modes, len(mesh.normals))
            if len(self.normal_modes) != count:
                raise self._error(f"{len(self.normal_modes)} normal_modes for {count} modes")
        if self.names and len(self.names) != count:
            raise self._error(f"{len(self.names)} names for {count} modes")
        self.weights = self._weights(weights, count)
        self.positions = mesh.positions if positions is None else positions
        if not isinstance(self.positions, Variable):
            self.positions = np.asarray(self.positions, np.float64)
            if self.positions.shape != mesh.positions.shape:
                raise self._error(f"positions are {mesh.positions.shape}, not {self.positions.shape}")

    def _error(self, text: str) -> InputError:
        return InputError(f"mesh '{self.name}': {text}")

    def _table(self, what: str, values: Any, count: int) -> np.ndarray:
        table = np.asarray(values)
        fits = table.ndim == 3 and table.shape[1:] == (count, 3) and len(table)
        if not fits or table.dtype.kind not in "fiu":
            raise self._error(f"{what} are an array (M, {count}, 3), not {table.dtype} {table.shape}")
        if len(table) > MOST_MODES:
            raise self._error(f"{len(table):,} {what}, above the limit of {MOST_MODES:,}")
        if not np.isfinite(table).all():
            raise self._error(f"{what} have values that are NaN or infinite; repair them")
        return table if table.dtype == np.float32 else table.astype(np.float64)

    def _weights(self, values: Any, count: int) -> np.ndarray | Variable:
        if isinstance(values, Variable):
            if values.vtype is not FLOAT or values.size != list_size(count):
                raise self._error(
                    f"weights are a FLOAT list of {count} entries, size {list_size(count)}, not {values}"
                    f" (made at {values.where})"
                )
            return values
        array = np.asarray(values, np.float64)
        if array.ndim not in (1, 2) or array.shape[-1] != count or not np.isfinite(array).all():
            raise self._error(f"weights are {count} finite numbers, or (N, {count}), not {array.shape}")
        return array

    def weighted(self, weights: Any) -> MorphGeometry:
        """The same shape with other weights. Raises InputError.

        >>> cube = primitives.cube()
        >>> MorphGeometry(cube, cube.positions[None], [0.0]).weighted([1.0]).lists()["positions"].max().item()
        2.0
        """
        own = {"normal_modes": self.normal_modes, "positions": self.positions, "names": self.names}
        return MorphGeometry(self._mesh, self.modes, weights, **own)

    @cached_property
    def moved(self) -> np.ndarray | Variable:
        """(V, 3), (N, V, 3) or a VEC3 list: the vertices."""
        return self._sum("positions", self.positions, self.modes)

    @cached_property
    def normals(self) -> np.ndarray | Variable | None:
        """The normals, unit, if they have modes of their own."""
        if self.normal_modes is None:
            return None
        assert self._mesh.normals is not None
        total = self._sum("normals", self._mesh.normals, self.normal_modes)
        if isinstance(total, Variable):
            return F.normalize(total)
        return total / np.maximum(np.linalg.norm(total, axis=-1, keepdims=True), 1e-30)

    def _sum(self, name: str, mean: np.ndarray | Variable, modes: np.ndarray) -> np.ndarray | Variable:
        if not isinstance(mean, Variable) and not isinstance(self.weights, Variable):
            return mean + np.tensordot(self.weights, modes, axes=1)
        weights = self.weights
        if not isinstance(weights, Variable):
            weights = tiled_list("weights", FLOAT, weights)
        if not isinstance(mean, Variable):
            mean = list_leaf(name, VEC3, mean)
        return mean + weighted_sum(f"modes of {name}", modes, weights)

    def lists(self) -> dict[str, Any]:
        lists = mesh_lists(self._mesh, {"positions": self.moved})
        if self.normals is not None:
            lists |= {"normals": self.normals, "normal_faces": self._mesh.normal_faces}
        return lists
