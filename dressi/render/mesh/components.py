"""Connected components of a mesh."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .mesh import Mesh


def components(mesh: Mesh) -> list[Mesh]:
    """The connected components of a mesh, each a Mesh with its UVs, colours and texture, largest area first.

    Faces are connected when they share a vertex. ``mesh.component_count()`` counts the parts without making them.

    >>> import numpy as np
    >>> from dressi.render.mesh.primitives import cube
    >>> small, large = cube(0.5), cube(2.0)
    >>> both = Mesh(np.concatenate([small.positions, large.positions + 9]), np.concatenate([small.faces, large.faces + 8]))
    >>> [len(part.faces) for part in components(both)], both.component_count()
    ([12, 12], 2)
    """
    part = mesh.parts()
    order = np.argsort(part, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(part))[:-1])
    areas = np.bincount(part, weights=mesh.face_areas())
    found = []
    for k in np.argsort(-areas, kind="stable"):
        piece = mesh.with_faces(groups[k])
        rows, faces = np.unique(piece.faces, return_inverse=True)
        found.append(replace(piece, positions=mesh.positions[rows], faces=faces.reshape(-1, 3)))
    return found
