"""Remeshing: the same surface with other vertices and faces, and everything on it carried over.

Each round splits long edges, collapses short ones, flips edges towards a Delaunay triangulation and slides
vertices over the surface (Botsch and Kobbelt 2004; continuously during an optimisation: Palfinger 2022). A
round works on sets of edges that do not touch, so that no loop runs over edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import numpy as np

from ....errors import InputError, warn
from ..mesh import Mesh
from ..rows import distinct, unit
from .operations import (
    collapse_short,
    fans,
    flip_edges,
    from_layers,
    half_edges,
    relax,
    split_long,
    to_layers,
)

ROUNDS = 2


class Remeshed(NamedTuple):
    """The result of ``remesh``."""

    mesh: Mesh
    fields: dict[str, np.ndarray]
    """Those that were given, at the vertices of the new mesh."""
    fixed: int
    """Number of vertices that stayed because they lie on borders, or where the surface is not a manifold."""


def remesh(
    mesh: Mesh,
    *,
    faces: int | None = None,
    lengths: np.ndarray | float | None = None,
    most_faces: int | None = None,
    fields: Mapping[str, np.ndarray] | None = None,
    rounds: int = ROUNDS,
) -> Remeshed:
    """The same surface, with edges of about the target lengths.

    faces: about how many; the lengths then follow the curvature (``target_lengths``).  lengths: the target
    lengths instead, a number or (V,), in units of the mesh.  most_faces: a bound that is kept exactly, as
    long as the mesh keeps it itself.
    fields: (V,) or (V, C) arrays at the vertices, such as the moments of an optimizer, by name.  rounds: how
    often.

    New values are convex combinations of old ones at corners of one face: fields, UVs and colours that are
    linear functions of the position stay so exactly, and what was not negative is not afterwards. Seams of
    UVs stay seams. The topology, borders included, does not change; on borders and where three faces share an
    edge, nothing changes, and a warning says so. Raises InputError.

    >>> from dressi.render.mesh.primitives import icosphere
    >>> ball = icosphere(2)
    >>> found = remesh(ball, faces=1000, fields={"height": ball.positions[:, 2]})
    >>> bool(np.allclose(found.fields["height"], found.mesh.positions[:, 2])), found.mesh.is_closed()
    (True, True)
    """
    fields = {} if fields is None else fields
    if (faces is None) == (lengths is None):
        raise InputError("remeshing needs a number of faces or target lengths; give one of the two")
    if faces is not None and faces < 4:
        raise InputError(f"a mesh cannot be remeshed to {faces} faces; give at least 4")
    wanted = target_lengths(mesh, faces) if faces is not None else np.asarray(lengths, np.float64)
    if wanted.ndim > 1 or (wanted.ndim and len(wanted) != len(mesh.positions)):
        raise InputError(f"target lengths are a number or one for each vertex, not {wanted.shape}")
    if not (np.isfinite(wanted).all() and (wanted > 0).all()):
        raise InputError("target lengths are positive numbers")
    for name, field in fields.items():
        if len(field) != len(mesh.positions):
            raise InputError(f"field '{name}' has {len(field)} rows for {len(mesh.positions)} vertices")
    most = np.iinfo(np.int64).max if most_faces is None else most_faces
    layers = to_layers(mesh, np.broadcast_to(wanted, len(mesh.positions)), fields)
    fixed = int(layers.fixed.sum())
    if fixed:
        warn(
            f"mesh '{mesh.name}' is not closed or no manifold: {fixed} vertices on borders and seams of more"
            " than two faces stay as they are"
        )
    # Room for the splits first.
    collapse_short(layers)
    for _ in range(rounds):
        split_long(layers, most)
        collapse_short(layers)
        flip_edges(layers)
        relax(layers)
    return Remeshed(*from_layers(layers, mesh, fields), fixed)


# Target lengths of edges: shorter where the surface bends and where more detail is asked for, for a number of
# faces.

COARSEST = 3.0
"""Largest target length, relative to the one that is the same everywhere."""
FINEST = 0.4
"""Least target length, likewise."""
LEAST = 20
"""Faces that are asked for each part, as long as all together need no more than half of them: with fewer the end of a limb
that was cut off becomes a flat tetrahedron."""
GROWTH = 0.3
"""Largest difference of the target lengths at the ends of an edge, relative to its length."""
SMOOTHINGS, TRIES = 2, 3
MEAN = 0.93
"""Root mean square of lengths after remeshing over targets: collapses begin at 4/5, splits at 4/3."""


def uniform_length(area: float, faces: int) -> float:
    """The edge of equilateral triangles of which so many have this area."""
    return float(np.sqrt(4 / np.sqrt(3) * area / max(faces, 1)))


def target_lengths(
    shape: Mesh, faces: int, detail: np.ndarray | None = None, *, bending: float = 1.0
) -> np.ndarray:
    """(V,) target lengths with which the surface gets about so many faces.

    A chord of length L deviates from a surface of curvature k by k L^2 / 8, so an even deviation asks for L ~
    1 / sqrt(k) (Dunyach et al. 2013). bending: 0 ignores curvature, 1 follows it.  detail: (V,) factors on
    the density of faces, such as the remaining error, about 1 in the mean. Lengths lie between FINEST and
    COARSEST times the uniform one, or below where a part would have too few faces, and change by at most GROWTH times the distance.

    >>> from dressi.render.mesh.primitives import icosphere
    >>> ball = icosphere(3)
    >>> lengths = target_lengths(ball, len(ball.faces))
    >>> bool(abs(lengths / ball.edge_lengths().mean() - 1).max() < 0.2)
    True
    """
    area = shape.face_areas()
    around = np.zeros(len(shape.positions))
    for corner in shape.faces.T:
        np.add.at(around, corner, area / 3)
    edges = shape.edges()
    lengths = shape.edge_lengths()
    same = uniform_length(area.sum(), faces)
    density = np.ones(len(around)) if detail is None else np.maximum(detail, 1e-6)
    if bending > 0:
        bend = curvatures(shape, edges, lengths)
        # Flat parts have no scale of their own: there the extent of the shape bounds the radius of curvature.
        floor = 1.0 / max(float(np.linalg.norm(np.ptp(shape.positions, axis=0))), 1e-30)
        density = density * np.maximum(bend, floor) ** bending
    density, goal = density / density.mean(), float(faces)
    # A part is asked for no shorter edges than it has: a sliver without area would be split without end.
    parts, number = shape.parts(), np.zeros(len(around), np.int64)
    number[shape.faces] = parts[:, None]
    areas, along = np.bincount(parts, area), number[edges[:, 0]]
    least = uniform_length(1.0, min(LEAST, faces // (2 * len(areas)))) * np.sqrt(areas)
    longest = np.maximum(least, np.bincount(along, lengths) / np.bincount(along))
    longest = np.where(longest > 0, longest, np.inf)[number]
    for _ in range(TRIES):
        wanted = graded(np.minimum(_for_count(density, around, same, goal), longest), edges, lengths)
        # Grading shortens edges: ask for fewer faces.
        goal *= min(faces / _count(around, wanted), 1.0)
    return wanted


def _count(around: np.ndarray, wanted: np.ndarray) -> float:
    """Number of faces of a surface with these target lengths (V,). around: (V,) areas."""
    return float((around / (np.sqrt(3) / 4 * (MEAN * wanted) ** 2)).sum())


def _for_count(density: np.ndarray, around: np.ndarray, same: float, faces: float) -> np.ndarray:
    """Lengths ~ 1 / sqrt(density), between their bounds, for so many faces: bisection."""
    low, high = -6.0, 6.0
    while True:
        middle = 0.5 * (low + high)
        wanted = np.clip(float(np.exp(middle)) * same / np.sqrt(density), FINEST * same, COARSEST * same)
        if high - low < 1e-3:
            return wanted
        if _count(around, wanted) > faces:
            low = middle
        else:
            high = middle


def curvatures(shape: Mesh, edges: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(V,) how fast the normal turns along edges, in 1 over lengths, smoothed over neighbours."""
    normals = shape.vertex_normals()
    turn = np.linalg.norm(normals[edges[:, 0]] - normals[edges[:, 1]], axis=1) / np.maximum(lengths, 1e-30)
    total, weight = np.zeros(len(normals)), np.zeros(len(normals))
    for end in edges.T:
        np.add.at(total, end, turn**2 * lengths)
        np.add.at(weight, end, lengths)
    bend = total / np.maximum(weight, 1e-30)
    averaging = shape.averaging()
    for _ in range(SMOOTHINGS):
        bend = 0.5 * (bend + averaging @ bend)
    return np.sqrt(bend)


def graded(wanted: np.ndarray, edges: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(V,) the largest lengths below ``wanted`` that change along edges by at most GROWTH times their
    length."""
    for _ in range(len(wanted)):
        limit = wanted.copy()
        for one, other in (edges.T, edges.T[::-1]):
            np.minimum.at(limit, one, wanted[other] + GROWTH * lengths)
        if np.array_equal(limit, wanted):
            break
        wanted = limit
    return wanted


# Fewer faces for the same shape: quadric decimation (Garland and Heckbert 1997), by fast-simplification.

HASTE = 7
"""Aggressiveness of the collapse. Lower values keep small errors small but stop before the goal."""
CAREFUL, MORE = (5, 4, 3), (1.0, 1.25, 1.5, 2.0, 3.0)
"""Attempts for closed meshes, (aggressiveness, factor on the number of faces), until the result is closed."""


def decimate(mesh: Mesh, faces: int) -> Mesh:
    """The shape with about that many faces, never more than it has; UVs, normals and textures are dropped.

    The collapse ignores topology; for a closed mesh use ``decimate_closed``. Raises InputError below 4.

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
    """The shape of a closed mesh with about that many faces, closed and with the same handles; more faces if
    that needs them. UVs, normals and textures are dropped. Surfaces that touch in a vertex or an edge get one
    each, so that the result is a manifold.

    handles: False lets thin handles collapse, which takes fewer attempts and faces.

    >>> from dressi.render.mesh.primitives import icosphere
    >>> decimate_closed(icosphere(2), 100).is_closed()
    True
    """
    for more, haste in product(MORE, CAREFUL):
        count = int(more * faces)
        if count >= len(mesh.faces):
            break
        fewer = _parted(_simplified(mesh, count, haste))
        # Attempts with low aggressiveness may stop early.
        same = not handles or fewer.euler_characteristic() == mesh.euler_characteristic()
        if same and fewer.is_closed() and len(fewer.faces) <= 1.5 * count:
            return _unpinched(fewer)
    return _unpinched(_parted(mesh))


def _parted(mesh: Mesh) -> Mesh:
    """The shape with two edges, of two faces each, in place of an edge of four, to which a thin handle has collapsed: one gets
    a vertex in its middle. Of both ways to pair the faces, that with the flatter sheets."""
    points, faces = mesh.positions, mesh.faces
    ends = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1) @ [len(points), 1]
    edges, count = np.unique(ends, return_counts=True)
    for a, b in np.stack(np.divmod(edges[count == 4], len(points)), axis=1):
        there, back = (
            np.argwhere((faces == begin) & (np.roll(faces, -1, axis=1) == end))
            for begin, end in ((a, b), (b, a))
        )
        if len(there) != 2:
            continue
        middle, along = 0.5 * (points[a] + points[b]), unit(points[[b]] - points[a])
        away = np.stack([points[faces[face, corner - 1]] for face, corner in (*there, *back)]) - middle
        away = unit(away - (away @ along.T) * along)
        other = back[int(away[0] @ away[2] + away[1] @ away[3] > away[0] @ away[3] + away[1] @ away[2])]
        for face, corner in (there[0], other):
            begin, end, tip = np.roll(faces[face], -corner)
            faces = np.vstack([faces, [len(points), end, tip]])
            faces[face] = begin, len(points), tip
        points = np.vstack([points, middle])
    return mesh.with_shape(points, faces)


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
    unit = ((mesh.positions - center) / max(radius, 1e-30)).astype("float32")
    points, fewer, *_ = simplify(unit, mesh.faces.astype("int32"), target_count=faces, agg=haste)
    return mesh.with_shape(points.astype(float) * radius + center, fewer).clean()
