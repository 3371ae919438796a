"""Silhouettes of a picture blended between neighbouring pixels: the antialias form over given triangles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ad import functional as F
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


def spans(triangles: np.ndarray, count: int) -> np.ndarray:
    """(V, 2): the first and the last of the triangles that use each of ``count`` vertices; (1, 0) for none."""
    number = np.repeat(np.arange(len(triangles)), 3)
    inside = (triangles >= 0) & (triangles < count)
    vertex, number = triangles.reshape(-1)[inside.reshape(-1)], number[inside.reshape(-1)]
    found = np.tile(np.array([len(triangles), -1], np.int32), (count, 1))
    np.minimum.at(found[:, 0], vertex, number)
    np.maximum.at(found[:, 1], vertex, number)
    return found


def of_each_image(position: Variable, spans: Variable, face: Variable) -> Variable:
    """Shared positions with a batch: in each image the vertices of no triangle between the first and the last one seen there
    are dropped, so that only the silhouettes of what the image shows count."""
    last = F.max(face, axes="xy")
    first = F.min(F.select(F.less(face, 0), NEVER, face), axes="xy")
    shown = F.logical_and(F.less_equal(spans.x, last), F.greater_equal(spans.y, first))
    return F.select(shown, position, 0.0)


NEVER = 1 << 30
"""More than the number of any triangle."""


def antialiased(
    colours: Sequence[Variable],
    rast: Variable,
    position: Variable,
    faces: Variable,
    edges: Variable,
    neighbours: Variable,
    spans: Variable | None = None,
) -> tuple[Variable, ...]:
    """The pictures with their silhouettes blended. edges, neighbours: ``edge_tables``.  spans: of shared positions of which
    each image shows a range. Differentiable in the colours and the positions."""
    face, count = face_of(rast), faces.count or 0
    clip = to_vulkan(position if spans is None else of_each_image(position, spans, face))
    mesh = DrawnMesh(clip, faces, rast.size, count, seen=face)
    # The form reads the edges and neighbours alone.
    table = EdgeList(edges.count or 0, edges, edges, faces, neighbours, False)
    form = antialias_form(mesh, edges=table, with_seams=False)
    return tuple(form.antialias(colour) for colour in colours)
