"""Fewer faces for the same shape: quadric decimation (Garland and Heckbert 1997), by fast-simplification."""

from __future__ import annotations

from ..errors import InputError
from .mesh import Mesh


def decimate(mesh: Mesh, faces: int) -> Mesh:
    """The shape of the mesh with about that many faces, never more than it has; UVs, normals and textures are dropped.

    Needs the package fast-simplification. Raises InputError when it is missing, or faces is below 4.
    """
    if faces < 4:
        raise InputError(f"a mesh cannot be decimated to {faces} faces; give at least 4")
    if len(mesh.faces) <= faces:
        return Mesh(mesh.positions, mesh.faces, color=mesh.color, name=mesh.name)
    try:
        from fast_simplification import simplify  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("decimating meshes needs a package; pip install fast-simplification") from None
    # Of a unit shape: single precision and absolute epsilons inside.
    center, radius = mesh.bounding_sphere()
    found = simplify(
        ((mesh.positions - center) / max(radius, 1e-30)).astype("float32"),
        mesh.faces.astype("int32"),
        target_count=faces,
    )
    points = found[0].astype(float) * radius + center
    return Mesh(points, found[1], color=mesh.color, name=mesh.name).clean()
