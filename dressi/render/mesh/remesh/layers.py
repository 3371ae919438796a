"""The mesh that remeshing works on: positions, fields of the vertices, UVs and colours as layers of rows and faces.

Each layer has rows of values and, like ``Mesh``, faces that refer to them. Layer 0 holds what belongs to vertices: the
position, the target length of edges, then all fields. Further layers hold UVs and colours, which may differ between the faces at a vertex; such a
vertex lies on a seam. Operations only ever replace rows by convex combinations of rows of one face, of all layers alike.
So every attribute that is a linear function of the position stays one exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..mesh import Mesh
from .edges import fans, half_edges

_CORNERS = ("uvs", "uv_faces"), ("colors", "color_faces"), ("second_uvs", "second_uv_faces")


@dataclass
class Layers:
    """A mesh in the middle of remeshing."""

    values: list[np.ndarray]
    """Rows (N_k, C_k) of each layer."""
    faces: list[np.ndarray]
    """(F, 3) row numbers of each layer."""
    fixed: np.ndarray
    """(V,) bool: vertices that are neither moved nor removed, such as those on borders."""

    @property
    def positions(self) -> np.ndarray:
        """(V, 3)."""
        return self.values[0][:, :3]

    @property
    def target(self) -> np.ndarray:
        """(V,) the length that edges at each vertex should have."""
        return self.values[0][:, 3]

    @property
    def count(self) -> int:
        """Number of vertices."""
        return len(self.values[0])

    def owners(self, layer: int) -> np.ndarray:
        """(N_k,) the vertex of each row of a layer, -1 for rows that no face uses."""
        found = np.full(len(self.values[layer]), -1)
        found[self.faces[layer].reshape(-1)] = self.faces[0].reshape(-1)
        return found

    def wedges(self, layer: int) -> np.ndarray:
        """(V,) number of rows that each vertex has in a layer: 1 off seams."""
        owners = self.owners(layer)
        return np.bincount(owners[owners >= 0], minlength=self.count)

    def compact(self) -> None:
        """Remove the rows that no face uses."""
        for k, (values, faces) in enumerate(zip(self.values, self.faces, strict=True)):
            used = np.zeros(len(values), dtype=bool)
            used[faces] = True
            self.values[k], self.faces[k] = values[used], (np.cumsum(used) - 1)[faces]
            if k == 0:
                self.fixed = self.fixed[used]


def to_layers(mesh: Mesh, target: np.ndarray, fields: Mapping[str, np.ndarray]) -> Layers:
    """target: (V,).  fields: (V,) or (V, C) by name."""
    columns = [
        mesh.positions,
        target[:, None],
        *(np.reshape(field, (len(mesh.positions), -1)) for field in fields.values()),
    ]
    values, faces = [np.concatenate(columns, axis=1, dtype=np.float64)], [mesh.faces.copy()]
    for what, index in _CORNERS:
        rows, own = getattr(mesh, what), getattr(mesh, index)
        if rows is not None:
            # Two vertices never share a row, so that a change at one leaves the other alone.
            pairs = np.stack([mesh.faces.reshape(-1), own.reshape(-1)], axis=1)
            unique, number = np.unique(pairs, axis=0, return_inverse=True)
            values.append(rows[unique[:, 1]])
            faces.append(number.reshape(-1, 3))
    return Layers(values, faces, _fixed(mesh.faces, len(mesh.positions)))


def _fixed(faces: np.ndarray, count: int) -> np.ndarray:
    """(V,) bool: vertices on borders and on edges of three faces, and those where several fans of faces touch."""
    edges = half_edges(faces, count)
    found = np.zeros(count, dtype=bool)
    alone = edges.twin < 0
    found[edges.start[alone]] = found[edges.end[alone]] = True
    around = np.unique(np.stack([edges.start, fans(edges)], axis=1), axis=0)
    return found | (np.bincount(around[:, 0], minlength=count) > 1)


def from_layers(
    layers: Layers, mesh: Mesh, fields: Mapping[str, np.ndarray]
) -> tuple[Mesh, dict[str, np.ndarray]]:
    """The mesh, with name, texture and colour factor of ``mesh``, and the fields in their own shapes."""
    parts = {
        "positions": layers.positions.copy(),
        "faces": layers.faces[0],
        "normals": None,
        "normal_faces": None,
        "file_tangents": None,
        "file_tangent_faces": None,
    }
    given = [pair for pair in _CORNERS if getattr(mesh, pair[0]) is not None]
    for (what, index), values, faces in zip(given, layers.values[1:], layers.faces[1:], strict=True):
        parts |= {what: values, index: faces}
    found, column = {}, 4
    for name, field in fields.items():
        shape = np.shape(field)[1:]
        width = int(np.prod(shape))
        found[name] = layers.values[0][:, column : column + width].reshape(-1, *shape)
        column += width
    return replace(mesh, **parts), found
