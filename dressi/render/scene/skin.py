"""Linear blend skinning: vertices that follow several joints at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import INT, IVEC4, MAT4, VEC3, VEC4, list_size
from ...errors import InputError, KnownAttributes, shown
from ..cameras.rigid import check_affine
from ..core.lists import list_leaf
from .geometry import Geometry, MovedGeometry, geometry_of, tiled_list

SLACK = 0.02
"""How far weights of a vertex may add up to something else than 1: files hold them in 8 bits."""


class SkinnedGeometry(KnownAttributes, MovedGeometry):
    """A mesh that joints move: a vertex p goes to the sum of weight * joint @ inverse_bind @ p.

    geometry: a ``Mesh`` or a ``MorphGeometry``, in the pose in which it was bound.  joints: (V, 4 n) numbers
    of joints.
    weights: (V, 4 n), not negative, which add up to 1 for each vertex.  inverse_bind: (K, 4, 4), from the
    world to each joint in that pose.  skeleton: a ``Skeleton`` of K joints, or their matrices to the world:
    (K, 4, 4), (N, K, 4, 4) or a MAT4 list. The result lies in the world of the skeleton. Normals turn by the
    cofactors of the blended matrix.

    Differentiable in the matrices, and in what the geometry is differentiable in. Raises InputError with the
    name of the mesh.

    >>> cube = primitives.cube()
    >>> joints, weights = np.zeros((8, 4), int), np.eye(4)[np.zeros(8, int)]
    >>> shape = SkinnedGeometry(cube, joints, weights, np.eye(4)[None], Skeleton([-1], np.diag([2, 2, 2, 1.0])[None]))
    >>> shape.lists()["positions"].max().item()
    2.0
    """

    bound: Geometry
    joints: np.ndarray
    weights: np.ndarray
    inverse_bind: np.ndarray
    skeleton: Any

    def __init__(self, geometry: Any, joints: Any, weights: Any, inverse_bind: Any, skeleton: Any):
        self.bound = geometry_of(geometry)
        self.name, mesh = self.bound.name, self.bound.mesh
        if mesh is None:
            raise InputError("a SkinnedGeometry takes a Mesh or a MorphGeometry, not (positions, faces)")
        self._mesh, self.inverse_bind = mesh, np.asarray(inverse_bind, np.float64)
        if self.inverse_bind.ndim != 3 or self.inverse_bind.shape[1:] != (4, 4) or not len(self.inverse_bind):
            raise self._error(
                f"inverse_bind is (K, 4, 4), one matrix a joint, not {self.inverse_bind.shape}; a skin needs"
                " a joint"
            )
        count = len(self.inverse_bind)
        self.joints, self.weights = np.asarray(joints), np.asarray(weights, np.float64)
        self._check(count)
        check_affine("inverse_bind", self.inverse_bind)
        places = skeleton.local if isinstance(skeleton, Skeleton) else skeleton
        if isinstance(places, Variable):
            if places.vtype is not MAT4 or places.size != list_size(count):
                raise self._error(
                    f"the skeleton has {count} joints, as inverse_bind says: a MAT4 list or ({count}, 4, 4),"
                    f" not {places}"
                )
        elif np.ndim(places) not in (3, 4) or np.shape(places)[-3:] != (count, 4, 4):
            raise self._error(
                f"the skeleton has matrices {np.shape(places)}, and inverse_bind has {count} joints"
            )
        elif not isinstance(skeleton, Skeleton):
            skeleton = np.asarray(skeleton, np.float64)
            check_affine("skeleton", skeleton)
        self.skeleton = skeleton

    def _check(self, count: int) -> None:
        vertices = len(self._mesh.positions)
        if self.joints.ndim != 2 or self.joints.dtype.kind not in "iu" or self.joints.shape[1] % 4:
            raise self._error(f"joints are whole numbers (V, 4), not {self.joints.dtype} {self.joints.shape}")
        if self.joints.shape != self.weights.shape or len(self.joints) != vertices:
            raise self._error(
                f"{vertices} vertices need joints and weights of one shape ({vertices}, 4), not"
                f" {self.joints.shape} and {self.weights.shape}"
            )
        if not np.isfinite(self.weights).all() or self.weights.min() < 0:
            raise self._error("weights are negative, NaN or infinite; give weights in [0, 1]")
        total = self.weights.sum(1)
        wrong = np.abs(total - 1) > SLACK
        if wrong.any():
            k = int(np.argmax(wrong))
            raise self._error(
                f"the weights of vertex {k} add up to {total[k]:.4g}, not to 1 ({int(wrong.sum())} such"
                " vertices); normalise them"
            )
        used = np.where(self.weights > 0, self.joints, 0)
        if used.min() < 0 or used.max() >= count:
            raise self._error(f"joints are {used.min()} to {used.max()}, and there are {count}")
        self.joints, self.weights = used, self.weights / total[:, None]

    def _error(self, text: str) -> InputError:
        return InputError(f"skin of mesh '{self.name}': {text}")

    def posed(self, skeleton: Any) -> SkinnedGeometry:
        """The same shape with another pose: a ``Skeleton``, or matrices to the world. Raises InputError."""
        return SkinnedGeometry(self.bound, self.joints, self.weights, self.inverse_bind, skeleton)

    @cached_property
    def _matrices(self) -> np.ndarray | Variable:
        """From the pose in which it was bound to the world, a joint each."""
        world = self.skeleton.world() if isinstance(self.skeleton, Skeleton) else self.skeleton
        if isinstance(world, Variable):
            return F.store(F.matmul(world, tiled_list("inverse bind matrices", MAT4, self.inverse_bind)))
        return world @ self.inverse_bind

    def _blended(self, rows: np.ndarray) -> np.ndarray | Variable:
        """The blended matrix of each of these vertices."""
        matrices, joints, weights = self._matrices, self.joints[rows], self.weights[rows]
        if not isinstance(matrices, Variable):
            return np.einsum("vj,...vjab->...vab", weights, matrices[..., joints, :, :])
        total = None
        for k in range(0, joints.shape[1], 4):
            if k and not weights[:, k : k + 4].any():
                continue
            numbers = list_leaf("joints", IVEC4, joints[:, k : k + 4])
            shares = list_leaf("joint weights", VEC4, weights[:, k : k + 4])
            for i in range(4):
                part = F.lookup(matrices, F.component(numbers, i)) * F.component(shares, i)
                total = part if total is None else total + part
        assert total is not None
        return total

    @cached_property
    def _lists(self) -> dict[str, Any]:
        lists = dict(self.bound.lists())
        lists["positions"] = _placed(self._blended(np.arange(self.vertex_count)), lists["positions"])
        if lists.get("normals") is not None:
            # Normals belong to corners of faces: each to the vertex there.
            owner = np.zeros(0 if self._mesh.normals is None else len(self._mesh.normals), np.int64)
            owner[np.asarray(lists["normal_faces"])] = self._mesh.faces
            lists["normals"] = _turned(self._blended(owner), lists["normals"])
        return lists

    def lists(self) -> dict[str, Any]:
        return self._lists


def _variables(matrices: np.ndarray | Variable, rows: Any) -> tuple[Variable, Variable]:
    """Both as lists of one batch."""
    if not isinstance(matrices, Variable):
        matrices = tiled_list("blended matrices", MAT4, matrices)
    if not isinstance(rows, Variable):
        rows = list_leaf("rows", VEC3, rows)
    batch = max(matrices.batch, rows.batch)
    return matrices, F.expand(rows, batch) if rows.batch < batch else rows


def _placed(matrices: np.ndarray | Variable, rows: Any) -> np.ndarray | Variable:
    if not isinstance(matrices, Variable) and not isinstance(rows, Variable):
        return np.einsum("...vab,...vb->...va", matrices[..., :3, :3], rows) + matrices[..., :3, 3]
    matrices, rows = _variables(matrices, rows)
    return F.matmul(matrices, F.vec4(rows, 1.0)).xyz


def _turned(matrices: np.ndarray | Variable, rows: Any) -> np.ndarray | Variable:
    if not isinstance(matrices, Variable) and not isinstance(rows, Variable):
        u, v, w = np.moveaxis(matrices[..., :3, :3], -1, 0)
        columns = np.stack([np.cross(v, w), np.cross(w, u), np.cross(u, v)], axis=-1)
        turned = np.einsum("...vab,...vb->...va", columns, rows)
        return turned / np.maximum(np.linalg.norm(turned, axis=-1, keepdims=True), 1e-30)
    matrices, rows = _variables(matrices, rows)
    u, v, w = (F.column(matrices, k).xyz for k in range(3))
    return F.normalize(F.matmul(F.mat3(F.cross(v, w), F.cross(w, u), F.cross(u, v)), rows))


# Trees of joints: from the place of each joint in its parent to its place in the world.


class Skeleton(KnownAttributes):
    """Joints, of which each has a place in another or in the world.

    parents: for each of K joints the number of its parent, -1 for the world.  local: from each joint to its
    parent, (K, 4, 4), (N, K, 4, 4), or a MAT4 list of K entries, batch 1 or N.  names: of the joints.
    Differentiable in local. Raises InputError: a joint that is its own ancestor, shapes that do not fit.

    >>> up = np.eye(4)
    >>> up[1, 3] = 1.0
    >>> Skeleton([-1, 0, 1], np.stack([up] * 3)).world()[:, 1, 3].tolist()
    [1.0, 2.0, 3.0]
    """

    parents: np.ndarray
    local: np.ndarray | Variable
    names: tuple[str, ...]

    def __init__(self, parents: Sequence[int] | np.ndarray, local: Any, names: Sequence[str] = ()):
        self.parents = np.asarray(parents)
        count = len(self.parents)
        self.names = tuple(names) or tuple(f"joint {k}" for k in range(count))
        if self.parents.ndim != 1 or not count or self.parents.dtype.kind not in "iu":
            raise InputError(f"parents of joints are one whole number each, not {self.parents.shape}")
        if len(self.names) != count:
            raise InputError(f"{len(self.names)} names for {count} joints; give one each")
        outside = (self.parents < -1) | (self.parents >= count)
        if outside.any():
            k = int(np.argmax(outside))
            raise InputError(
                f"joint '{shown(self.names[k])}' has the parent {self.parents[k]}, and there are {count}"
                " joints"
            )
        # For each joint its parent, then the parent's parent, then the ancestor of twice that: -1 beyond the
        # world.
        self._steps, step = [], self.parents
        while (step >= 0).any():
            if len(self._steps) > count.bit_length():
                k = int(np.argmax(step >= 0))
                raise InputError(f"joint '{shown(self.names[k])}' is its own ancestor; mend its parents")
            self._steps.append(step)
            step = np.where(step >= 0, step[np.maximum(step, 0)], -1)
        if isinstance(local, Variable):
            if local.vtype is not MAT4 or local.size != list_size(count):
                raise InputError(
                    f"the places of {count} joints are a MAT4 list of as many, not {local} (made at"
                    f" {local.where})"
                )
        else:
            local = np.asarray(local, np.float64)
            if local.ndim not in (3, 4) or local.shape[-3:] != (count, 4, 4) or not np.isfinite(local).all():
                raise InputError(
                    f"the places of {count} joints are finite matrices ({count}, 4, 4) or (N, {count}, 4, 4),"
                    f" not {local.shape}"
                )
            check_affine("local", local)
        self.local = local

    def posed(self, local: Any) -> Skeleton:
        """The same joints at other places in their parents. Raises InputError."""
        return Skeleton(self.parents, local, self.names)

    def world(self) -> np.ndarray | Variable:
        """From each joint to the world: (K, 4, 4), (N, K, 4, 4) or a MAT4 list. Differentiable in local.

        As many products as the depth of the tree has binary digits: each joins the ways known so far."""
        place = self.local
        for step in self._steps:
            if isinstance(place, Variable):
                numbers = list_leaf("ancestors", INT, step)
                joined = F.matmul(F.lookup(place, numbers), place)
                # Stored: readers would multiply all ways again.
                place = F.store(F.select(F.less(numbers, 0), place, joined))
            else:
                joined = place[..., np.maximum(step, 0), :, :] @ place
                place = np.where((step >= 0)[:, None, None], joined, place)
        return place
