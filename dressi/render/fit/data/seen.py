"""What pictures show of the vertices of a mesh: which of them, in what colours, and whether these are mirrored light."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.ndimage import map_coordinates
from scipy.sparse import csr_matrix, diags, vstack
from scipy.spatial import KDTree

from ...core.engine import MakeEngine
from ...drawing.draw import draw
from ...mesh import Mesh
from ...mesh.primitives import icosphere
from ...mesh.rows import unit
from .dataset import Observations
from .directional import grazing

NEAR = 2.0
"""Pixels between a point and what its view shows in its place, up to which it is seen."""


def seen_weights(mesh: Mesh, views: Observations, make_engine: MakeEngine) -> np.ndarray:
    """(N, V): the cosine at which each of the pictures shows a vertex of a mesh in the world, 0 where it does not."""
    low, high = mesh.bounds()
    scale = float(max((high - low).max(), 1e-30))
    places = (mesh.positions - low) / scale
    marked = Mesh(mesh.positions, mesh.faces, colors=places, color_faces=mesh.faces)
    _, shown = draw(marked, views.cameras, make_engine)
    normals, weights = mesh.vertex_normals(), np.zeros((len(views.cameras), len(places)))
    for k, camera in enumerate(views.cameras):
        pixel, depth = camera.project(mesh.positions)
        column, row = np.round(np.clip(np.nan_to_num(pixel - 0.5, nan=-2.0), -2, 1 << 20)).astype(int).T
        width, height = camera.size
        inside = (depth > 0) & (row >= 0) & (row < height) & (column >= 0) & (column < width)
        row, column = np.where(inside, row, 0), np.where(inside, column, 0)
        reach = NEAR * depth / (camera.intrinsics[1, 1] * scale)
        to_eye = camera.center - mesh.positions
        cosine = (to_eye * normals).sum(1) / np.maximum(np.linalg.norm(to_eye, axis=1), 1e-30)
        # A pixel of a slope shows points that are farther from each other than its width.
        away = np.linalg.norm(shown[k, row, column] - places, axis=1) * np.clip(cosine, 0.25, 1.0)
        inside &= (away < reach) & (views.masks[k, row, column] >= 0.5)
        weights[k] = np.where(inside, np.clip(cosine, 0, 1), 0.0)
    return weights


def seen_values(
    mesh: Mesh, views: Observations, weights: np.ndarray, pictures: Iterable[np.ndarray]
) -> np.ndarray:
    """(N, V, C): what N pictures (H, W, C) by the cameras of ``views`` show where they see the vertices by
    ``weights`` (N, V), interpolated between pixels; of no meaning elsewhere."""
    values = []
    for picture, camera, weight in zip(pictures, views.cameras, weights, strict=True):
        pixel, _ = camera.project(mesh.positions)
        at = np.where(weight > 0, pixel.T[::-1] - 0.5, 0.0)
        channels = np.moveaxis(picture, -1, 0)
        values.append(np.stack([map_coordinates(one, at, order=1, mode="nearest") for one in channels], 1))
    return np.array(values)


# Whether a thing is glossy all over.

FACING = 0.2
"""Cosine from which on a picture tells the colour of a vertex."""
FEWEST = 4
"""Pictures that do so of each vertex that is asked."""
ASKED = 4000
"""Vertices that are asked, at random; half of them make the map, the others judge it."""
CELLS = 2
"""Subdivisions of an icosahedron, whose 162 vertices are the directions of the map."""
DAMPED = 0.1
"""Of the usual weight of a direction: that of no light there."""
CALM = 3e-3
"""Weight of no change by direction of a vertex, of each picture of it."""
GLOSSY = 0.15
"""Share of the changes that the map has to explain."""


def glossy(mesh: Mesh, views: Observations, make_engine: MakeEngine) -> bool:
    """Whether a mesh in the world mirrors one map of light in pictures of it.

    How the colours of vertices change from picture to picture is guessed in two ways that do not know them: by one map
    of light that all mirror, found from other vertices, and by a change with the direction that each vertex has by
    itself, found from its other pictures. Both are judged by the share of the squared changes that they explain. A map
    explains .3 of a radio of smooth plastic before its texture is found and .2 of an avocado, each vertex by itself nothing;
    of matt things they explain -.1 to .2 and .2 to .3.
    """
    weights = seen_weights(mesh, views, make_engine)
    weights = np.where(weights > FACING, weights, 0.0)
    known = np.flatnonzero((weights > 0).sum(0) >= FEWEST)
    asked = np.random.default_rng(0).permutation(known)[:ASKED]
    if len(asked) < 2:
        return False
    colours = seen_values(mesh, views, weights, views.colors)[:, asked]
    towards = np.stack([unit(eye - mesh.positions[asked]) for eye in views.cameras.centers])
    weights, normals = weights[:, asked], mesh.vertex_normals()[asked]
    usual = _mean(weights, colours)
    # Exposures are no gloss.
    gains = np.einsum("nv,nvc,vc->n", weights, colours, usual) / np.einsum(
        "nv,vc,vc->n", weights, usual, usual
    )
    colours = colours / np.maximum(gains, 1e-3)[:, None, None]
    changes = colours - _mean(weights, colours)
    by_map = _explained_by_map(weights, changes, towards, normals)
    return by_map > max(GLOSSY, _explained_by_points(weights[:, 1::2], changes[:, 1::2], towards[:, 1::2]))


def _mean(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(V, C) of values (N, V, C) by weights (N, V)."""
    return np.einsum("nv,nvc->vc", weights, values) / np.maximum(weights.sum(0), 1e-12)[:, None]


def _explained_by_map(
    weights: np.ndarray, changes: np.ndarray, towards: np.ndarray, normals: np.ndarray
) -> float:
    """The share of changes (N, V, C) of every other vertex that a map explains which is made of those between."""
    cosine = (towards * normals).sum(-1)
    there, sphere = 2 * cosine[..., None] * normals - towards, icosphere(CELLS).positions
    cells, factors = KDTree(sphere).query(there)[1], grazing(cosine)

    def system(part: slice) -> tuple[csr_matrix, np.ndarray]:
        """Rows for all pictures of each vertex: light by direction, less its mean over them, and the changes."""
        w, cell, factor, change = (x[:, part] for x in (weights, cells, factors, changes))
        rows = np.arange(w.shape[1])
        shape = len(rows), len(sphere)
        light = [csr_matrix((f, (rows, c)), shape) for f, c in zip(factor, cell, strict=True)]
        usual = sum(diags(share) @ one for share, one in zip(w / w.sum(0), light, strict=True))
        roots = np.sqrt(w)
        blocks = [diags(root) @ (one - usual) for root, one in zip(roots, light, strict=True)]
        return vstack(blocks).tocsr(), (roots[..., None] * change).reshape(-1, change.shape[-1])

    light, change = system(slice(0, None, 2))
    normal = (light.T @ light).toarray()
    damped = normal + DAMPED * np.trace(normal) / len(sphere) * np.eye(len(sphere))
    found = np.linalg.solve(damped, light.T @ change)
    light, change = system(slice(1, None, 2))
    return 1 - float(((change - light @ found) ** 2).sum() / max((change**2).sum(), 1e-30))


def _explained_by_points(weights: np.ndarray, changes: np.ndarray, towards: np.ndarray) -> float:
    """The share of changes (N, V, C) that a linear function of the direction explains for each vertex, by its other
    pictures, beside a constant by these."""

    def missed(columns: np.ndarray, damping: np.ndarray) -> float:
        columns = np.sqrt(weights)[..., None] * columns
        wanted = np.sqrt(weights)[..., None] * changes
        normal = np.einsum("nvi,nvj->vij", columns, columns) + weights.sum(0)[:, None, None] * damping
        solved = np.linalg.solve(normal, np.moveaxis(columns, 0, -1))
        guess = np.einsum("nvi,vim,mvc->nvc", columns, solved, wanted)
        own = np.einsum("nvi,vin->nv", columns, solved)
        # What a least squares fit misses of a row when it does not know it.
        return float((((wanted - guess) / np.maximum(1 - own, 0.05)[..., None]) ** 2).sum())

    ones = np.ones((*weights.shape, 1))
    still = missed(ones, np.zeros((1, 1)))
    return 1 - missed(np.concatenate([ones, towards], -1), CALM * np.diag([0.0, 1, 1, 1])) / max(still, 1e-30)
