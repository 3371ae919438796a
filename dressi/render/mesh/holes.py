"""Closes the holes of open meshes, such as scans."""

from __future__ import annotations

import numpy as np

from .mesh import Mesh


def close_holes(mesh: Mesh) -> Mesh:
    """The mesh with a fan over each of its holes, around the mean of their edge, such as those in the base of the Stanford
    bunny; UVs, normals and textures are dropped. Holes that touch in a vertex may remain open.

    >>> from dressi.render.mesh.primitives import cube
    >>> close_holes(cube().with_faces(range(2, 12))).is_closed()
    True
    """
    around = np.roll(mesh.faces, -1, axis=1)
    halves = set(zip(mesh.faces.reshape(-1).tolist(), around.reshape(-1).tolist(), strict=True))
    after = {b: a for a, b in halves if (b, a) not in halves}
    positions, faces = list(mesh.positions), list(mesh.faces)
    while after:
        loop = [next(iter(after))]
        while loop[0] != (end := after.pop(loop[-1], loop[0])):
            loop.append(end)
        faces += [[a, b, len(positions)] for a, b in zip(loop, [*loop[1:], loop[0]], strict=True)]
        positions.append(mesh.positions[loop].mean(0))
    return mesh.with_shape(np.array(positions), np.array(faces))
