"""Fewer faces for the same shape: quadric decimation (Garland and Heckbert 1997), by fast-simplification."""

from __future__ import annotations

from itertools import product

from ...errors import InputError
from .mesh import Mesh

HASTE = 7
"""How eagerly edges collapse; less keeps small errors small, and stops before the goal."""
CAREFUL, MORE = (5, 4, 3), (1.0, 1.25, 1.5, 2.0, 3.0)
"""Of closed meshes: how eagerly, and how many times the faces wanted, until what is found is closed."""


def decimate(mesh: Mesh, faces: int) -> Mesh:
    """The shape of the mesh with about that many faces, never more than it has; UVs, normals and textures are dropped.

    Edges collapse without a look at what they tie together: of a closed mesh see ``decimate_closed``. Raises InputError
    when faces is below 4.

    >>> from dressi.render.mesh.primitives import icosphere
    >>> len(decimate(icosphere(2), 100).faces) <= 120
    True
    """
    if faces < 4:
        raise InputError(f"a mesh cannot be decimated to {faces} faces; give at least 4")
    if len(mesh.faces) <= faces:
        return Mesh(mesh.positions, mesh.faces, color=mesh.color, name=mesh.name)
    return _simplified(mesh, faces, HASTE)


def decimate_closed(mesh: Mesh, faces: int) -> Mesh:
    """The shape of a closed mesh with about that many faces, closed and with as many handles: as many as that takes, up to
    all. UVs, normals and textures are dropped.

    >>> from dressi.render.mesh.primitives import icosphere
    >>> decimate_closed(icosphere(2), 100).is_closed()
    True
    """
    for more, haste in product(MORE, CAREFUL):
        count = int(more * faces)
        if count >= len(mesh.faces):
            break
        found = _simplified(mesh, count, haste)
        # The careful ones may stop early.
        same = found.is_closed() and found.euler_characteristic() == mesh.euler_characteristic()
        if same and len(found.faces) <= 1.5 * count:
            return found
    return Mesh(mesh.positions, mesh.faces, color=mesh.color, name=mesh.name)


def _simplified(mesh: Mesh, faces: int, haste: int) -> Mesh:
    from fast_simplification import simplify

    # Of a unit shape: single precision and absolute epsilons inside.
    center, radius = mesh.bounding_sphere()
    found = simplify(
        ((mesh.positions - center) / max(radius, 1e-30)).astype("float32"),
        mesh.faces.astype("int32"),
        target_count=faces,
        agg=haste,
    )
    points = found[0].astype(float) * radius + center
    return Mesh(points, found[1], color=mesh.color, name=mesh.name).clean()
