"""Silhouettes of a picture blended between neighbouring pixels: the antialias form over given triangles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ad.graph import Variable
from ...render.forms.antialias import antialias_form
from ...render.forms.edges.edge_list import EdgeList, edge_list
from ...render.lists import list_data
from ...render.surface.screen import DrawnMesh
from .interpolate import face_of
from .rasterize import to_vulkan


def edge_tables(triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The edges (E, 4) of triangles (T, 3), and the neighbours (T, 3) of each; see ``EdgeList``. Raises InputError."""
    edges = edge_list(triangles)
    tables = list_data(edges.list)[: edges.count], list_data(edges.neighbours)[: len(triangles)]
    return tables[0].astype(np.int32), tables[1].astype(np.int32)


def antialiased(
    colours: Sequence[Variable],
    rast: Variable,
    position: Variable,
    faces: Variable,
    edges: Variable,
    neighbours: Variable,
) -> tuple[Variable, ...]:
    """The pictures with their silhouettes blended. edges, neighbours: ``edge_tables``. Differentiable in the colours and
    the positions."""
    face, count = face_of(rast), faces.count or 0
    clip = to_vulkan(position)
    mesh = DrawnMesh(clip, faces, rast.size, count, seen=face)
    # The form reads the edges and neighbours alone.
    table = EdgeList(edges.count or 0, edges, edges, faces, neighbours, False)
    form = antialias_form(mesh, edges=table, with_seams=False)
    return tuple(form.antialias(colour) for colour in colours)
