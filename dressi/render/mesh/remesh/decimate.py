"""Fewer faces for the same shape: quadric decimation (Garland and Heckbert 1997), by fast-simplification."""

from __future__ import annotations

from itertools import product

import numpy as np

from ....errors import InputError
from ..mesh import Mesh
from ..rows import distinct
from .operations import fans, half_edges

HASTE = 7
"""Aggressiveness of the collapse. Lower values keep small errors small but stop before the goal."""
CAREFUL, MORE = (5, 4, 3), (1.0, 1.25, 1.5, 2.0, 3.0)
"""Attempts for closed meshes, (aggressiveness, factor on the number of faces), until the result is closed."""


def decimate(mesh: Mesh, faces: int) -> Mesh:
    """The shape of the mesh with about that many faces, never more than it has; UVs, normals and textures are dropped.

    The collapse ignores topology; for a closed mesh use ``decimate_closed``. Raises InputError if faces is below 4.

    >>> from dressi.render.mesh.primitives import icosphere
    >>> len(decimate(icosphere(2), 100).faces) <= 120
    True
    """
    if faces < 4:
        raise InputError(f"a mesh cannot be decimated to {faces} faces; give at least 4")
    if len(mesh.faces) <= faces:
        return mesh.with_shape(mesh.positions, mesh.faces)
    return _simplified(mesh, faces, HASTE)


def decimate_closed(mesh: Mesh, faces: int, *, handles: bool = True) -> Mesh:
    """The shape of a closed mesh with about that many faces, closed and with the same handles; more faces if that needs
    them. UVs, normals and textures are dropped. Surfaces that touch in a vertex get one each, so that the result is a manifold.

    handles: False lets thin handles collapse, which takes fewer attempts and faces.

    >>> from dressi.render.mesh.primitives import icosphere
    >>> decimate_closed(icosphere(2), 100).is_closed()
    True
    """
    for more, haste in product(MORE, CAREFUL):
        count = int(more * faces)
        if count >= len(mesh.faces):
            break
        found = _simplified(mesh, count, haste)
        # Attempts with low aggressiveness may stop early.
        same = not handles or found.euler_characteristic() == mesh.euler_characteristic()
        if same and found.is_closed() and len(found.faces) <= 1.5 * count:
            return _unpinched(found)
    return _unpinched(mesh)


def _unpinched(mesh: Mesh) -> Mesh:
    """The shape with a vertex for each fan of faces around a vertex."""
    _, first, faces = np.unique(
        fans(half_edges(mesh.faces, len(mesh.positions))), return_index=True, return_inverse=True
    )
    if len(first) == len(distinct(mesh.faces)):
        return mesh.with_shape(mesh.positions, mesh.faces)
    return mesh.with_shape(mesh.positions[mesh.faces.reshape(-1)[first]], faces.reshape(-1, 3))


def _simplified(mesh: Mesh, faces: int, haste: int) -> Mesh:
    from fast_simplification import simplify

    # Scaled to unit size: the library uses single precision and absolute tolerances.
    center, radius = mesh.bounding_sphere()
    found = simplify(
        ((mesh.positions - center) / max(radius, 1e-30)).astype("float32"),
        mesh.faces.astype("int32"),
        target_count=faces,
        agg=haste,
    )
    points = found[0].astype(float) * radius + center
    return mesh.with_shape(points, found[1]).clean()
