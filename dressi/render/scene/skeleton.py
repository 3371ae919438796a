"""Trees of joints: from the place of each joint in its parent to its place in the world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import INT, MAT4, list_image, list_size
from ...errors import InputError, KnownAttributes, shown
from ..cameras.conventions import check_affine
from ..lists import list_leaf


class Skeleton(KnownAttributes):
    """Joints, of which each has a place in another or in the world.

    parents: for each of K joints the number of its parent, -1 for the world.  local: from each joint to its parent, (K, 4, 4),
    (N, K, 4, 4), or a MAT4 list of K entries, batch 1 or N.  names: of the joints. Differentiable in local. Raises InputError:
    a joint that is its own ancestor, shapes that do not fit.

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
                f"joint '{shown(self.names[k])}' has the parent {self.parents[k]}, and there are {count} joints"
            )
        self._steps = self._ancestors()
        self.local = self._matrices(local, count)

    def _ancestors(self) -> list[np.ndarray]:
        """For each joint its parent, then the parent's parent, then the ancestor of twice that: -1 beyond the world."""
        steps, step = [], self.parents
        while (step >= 0).any():
            if len(steps) > len(self.parents).bit_length():
                k = int(np.argmax(step >= 0))
                raise InputError(f"joint '{shown(self.names[k])}' is its own ancestor; mend its parents")
            steps.append(step)
            step = np.where(step >= 0, step[np.maximum(step, 0)], -1)
        return steps

    def _matrices(self, local: Any, count: int) -> np.ndarray | Variable:
        if isinstance(local, Variable):
            if local.vtype is not MAT4 or local.size != list_size(count):
                raise InputError(
                    f"the places of {count} joints are a MAT4 list of as many, not {local} (made at {local.where})"
                )
            return local
        array = np.asarray(local, np.float64)
        if array.ndim not in (3, 4) or array.shape[-3:] != (count, 4, 4) or not np.isfinite(array).all():
            raise InputError(
                f"the places of {count} joints are finite matrices ({count}, 4, 4) or (N, {count}, 4, 4), not {array.shape}"
            )
        check_affine("local", array)
        return array

    def posed(self, local: Any) -> Skeleton:
        """The same joints at other places in their parents. Raises InputError."""
        return Skeleton(self.parents, local, self.names)

    def world(self) -> np.ndarray | Variable:
        """From each joint to the world: (K, 4, 4), (N, K, 4, 4) or a MAT4 list. Differentiable in local.

        As many products as the depth of the tree has binary digits: each joins the ways that are known so far."""
        place = self.local
        for step in self._steps:
            if isinstance(place, Variable):
                numbers = list_leaf("ancestors", INT, step)
                joined = F.matmul(F.lookup(place, numbers), place)
                # Stored: readers would multiply all ways again.
                place = F.store(F.select(F.less(numbers, 0), place, joined))
            else:
                found = place[..., np.maximum(step, 0), :, :] @ place
                place = np.where((step >= 0)[:, None, None], found, place)
        return place


def matrices_list(name: str, matrices: np.ndarray) -> Variable:
    """Matrices (K, 4, 4) or (N, K, 4, 4) as a MAT4 list."""
    rows = matrices.reshape(-1, *matrices.shape[-3:])
    data = np.concatenate([list_image(row) for row in rows])
    return Variable(MAT4, list_size(matrices.shape[-3]), len(rows), name=name, data=data)
