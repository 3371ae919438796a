"""Remeshing: the same surface with other vertices and faces, and everything on it carried over.

Each round splits long edges, collapses short ones, flips edges towards a Delaunay triangulation and slides vertices over
the surface (Botsch and Kobbelt 2004; continuously during an optimisation: Palfinger 2022). A round works on sets of edges
that do not touch, so that no loop runs over edges.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ....errors import InputError
from ..mesh import Mesh
from .collapse import collapse_short
from .flip import flip_edges
from .layers import from_layers, to_layers
from .lengths import target_lengths
from .relax import relax
from .split import split_long

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

    faces: about how many; the lengths then follow the curvature (``target_lengths``).  lengths: the target lengths instead, a
    number or (V,), in units of the mesh.  most_faces: a bound that is kept exactly, as long as the mesh keeps it itself.
    fields: (V,) or (V, C) arrays at the vertices, such as the moments of an optimizer, by name.  rounds: how often.

    New values are convex combinations of old ones at corners of one face: fields, UVs and colours that are linear functions
    of the position stay so exactly, and what was not negative is not afterwards. Seams of UVs stay seams. The topology,
    borders included, does not change; on borders and where three faces share an edge, nothing changes, and a warning says so.
    Raises InputError.

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
        warnings.warn(
            f"mesh '{mesh.name}' is not closed or no manifold: {fixed} vertices on borders and seams of more than two faces"
            " stay as they are",
            stacklevel=2,
        )
    # Room for the splits first.
    collapse_short(layers)
    for _ in range(rounds):
        split_long(layers, most)
        collapse_short(layers)
        flip_edges(layers)
        relax(layers)
    return Remeshed(*from_layers(layers, mesh, fields), fixed)
