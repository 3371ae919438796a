"""The tree of nodes of a glTF file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dressi.errors import InputError
from dressi.render.formats.gltf.document import Document
from dressi.render.io.files import shown


class Placed(NamedTuple):
    """A node of the scene."""

    index: int
    """Of ``nodes``; -1 in a file without nodes, which places each mesh once."""
    parent: int
    """The number of the node above it; -1 for none."""
    entry: dict[str, Any]
    matrix: np.ndarray | None
    """(4, 4) to the world; None where nothing moves it."""


class Nodes:
    """The nodes of the scene of a document; methods raise InputError naming the file and the node."""

    def __init__(self, document: Document):
        self.document, self.path = document, document.path

    def name(self, index: int) -> str:
        """What the file calls a node."""
        found = self.document.item("nodes", index).get("name")
        return f"node '{shown(found)}'" if isinstance(found, str) and found else f"node {index}"

    def placed(self) -> Iterator[Placed]:
        """Every node of the scene, parents first."""
        nodes, scenes = self.document.items("nodes"), self.document.items("scenes")
        if not nodes:
            yield from (Placed(-1, -1, {"mesh": i}, None) for i in range(len(self.document.items("meshes"))))
            return
        children = {child for node in nodes for child in node.get("children", ())}
        roots = [i for i in range(len(nodes)) if i not in children]
        if scenes:
            roots = self.document.item("scenes", self.document.json.get("scene", 0)).get("nodes", [])
        seen: set[int] = set()
        stack: list[tuple[int, int, np.ndarray | None]] = [(root, -1, None) for root in reversed(roots)]
        while stack:
            index, parent, above = stack.pop()
            node = self.document.item("nodes", index)
            if index in seen:
                raise self._knot(index)
            seen.add(index)
            own = self.matrix(node)
            matrix = own if above is None else above if own is None else above @ own
            if matrix is not None and not np.isfinite(matrix).all():
                raise InputError(
                    f"'{self.path}': {self.name(index)} is too large to be placed; export it again"
                )
            yield Placed(index, parent, node, matrix)
            stack += [(child, index, matrix) for child in reversed(node.get("children", ()))]
        if not scenes and (lost := set(range(len(nodes))) - seen):
            raise self._knot(min(lost))

    def _knot(self, index: int) -> InputError:
        return InputError(
            f"'{self.path}': {self.name(index)} is its own ancestor or has two parents; export it again"
        )

    def matrix(self, node: dict[str, Any]) -> np.ndarray | None:
        """(4, 4) from a node to its parent; None where it is the identity. Raises InputError when it is not finite."""
        numbers = self.document.numbers
        if "matrix" in node:
            return numbers(node, "matrix", tuple(np.eye(4).reshape(-1))).reshape(4, 4).T
        if not node.keys() & {"translation", "rotation", "scale"}:
            return None
        quaternion = numbers(node, "rotation", (0.0, 0.0, 0.0, 1.0))
        length = np.linalg.norm(quaternion)
        if not 1e-6 < length < np.inf:
            raise InputError(
                f"'{self.path}': the rotation {shown(node['rotation'])} is no quaternion; export it again"
            )
        x, y, z, w = quaternion / length
        rotation = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
        matrix = np.eye(4)
        matrix[:3, :3] = rotation * numbers(node, "scale", (1.0, 1.0, 1.0))
        matrix[:3, 3] = numbers(node, "translation", (0.0, 0.0, 0.0))
        return matrix
