"""Small graphs for every Function declared in `dressi.render`, in the shape of those of `dressi.ad`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from dressi.ad import functional as F
from dressi.ad.graph import Function, Variable
from dressi.ad.types import FLOAT, INT, IVEC3, VEC2, VEC3, VEC4
from dressi.render import crossings, edges, screen, soft_faces, sparse

sys.path.insert(0, str(Path(__file__).parent))
import soft_cases

SIZE = (24, 16)
CASE = soft_cases.cases()["near plane"]


@dataclass(frozen=True)
class Example:
    """A graph: its output, and the leaves by which the output is differentiable there (not all, maybe none)."""

    output: Variable
    wrt: tuple[Variable, ...] = ()


def _lists(batch: int = 1) -> tuple[Variable, Variable]:
    """Faces and projected vertices, as leaves."""
    clip, faces = CASE.clip, CASE.faces
    w = np.where(clip[:, 3] > 0.05, clip[:, 3], 1.0)
    depth = np.where((clip[:, 3] > 0.05) & (clip[:, 2] >= 0), np.clip(clip[:, 2] / w, 0, 1), -1.0)
    xy = (clip[:, :2] / w[:, None] * 0.5 + 0.5) * (SIZE[0] / SIZE[1], 1.0)
    vertex = np.concatenate([xy, depth[:, None]], axis=1).astype(np.float32)
    vertex = np.stack([vertex + (0.1 * k, 0, 0) * (depth >= 0)[:, None] for k in range(batch)])[:, None]
    return (
        Variable(IVEC3, (len(faces), 1), data=faces[None, None]),
        Variable(VEC3, (len(clip), 1), batch, data=vertex.astype(np.float32)),
    )


def enlarge(cull: int, batch: int) -> Example:
    faces, vertex = _lists(batch)
    reach = Variable(FLOAT, data=0.125)
    return Example(soft_faces.Enlarge(reach, faces, vertex, len(CASE.faces), SIZE, cull).output)


def nearest_edge(batch: int) -> Example:
    faces, vertex = _lists(batch)
    face = np.arange(batch * SIZE[0] * SIZE[1]).reshape(batch, SIZE[1], SIZE[0]) % (len(CASE.faces) + 1) - 1
    shown = screen.ShownFaces(faces, vertex, 0).output
    face = Variable(INT, SIZE, batch, data=face)
    kept = F.select(F.equal(F.lookup(shown, face), 0), -1, face)
    records = [soft_faces.FaceRecord(faces, vertex, part).output for part in range(3)]
    return Example(soft_faces.NearestEdge(kept, *(F.lookup(r, kept) for r in records)).output)


def face_record(part: int) -> Example:
    return Example(soft_faces.FaceRecord(*_lists(2), part).output)


def extremes(axis: str) -> Example:
    rng = np.random.default_rng(4)
    image = Variable(FLOAT, SIZE, 2, data=(rng.uniform(size=(2, SIZE[1], SIZE[0])) > 0.9).astype(float))
    first = soft_faces.Extremes(image, F.constant(2), "x").output
    return Example(first if axis == "x" else soft_faces.Extremes(first, Variable(INT, data=3), axis).output)


def shown_faces(cull: int) -> Example:
    faces, vertex = _lists(2)
    return Example(screen.ShownFaces(faces, vertex, cull).output)


def edge_ends() -> Example:
    return Example(edges.EdgeEnds(edges.edge_list(CASE.faces).list, _lists(2)[1]).output)


def edge_sides(cull: int) -> Example:
    return Example(edges.EdgeSides(edges.edge_list(CASE.faces).list, _lists(2)[1], cull).output)


def _edges(batch: int) -> tuple[int, Variable, Variable]:
    """How many, their ends and sides."""
    rng = np.random.default_rng(6)
    ends = rng.uniform(size=(batch, 1, 7, 4)).astype(np.float32)
    ends[0, 0, 2, 2:] = ends[0, 0, 2, :2]
    sides = rng.integers(-1, 3, (batch, 1, 7))
    return 7, Variable(VEC4, (7, 1), batch, data=ends), Variable(INT, (7, 1), batch, data=sides)


def edge_quads(batch: int) -> Example:
    count, ends, sides = _edges(batch)
    return Example(edges.EdgeQuads(Variable(FLOAT, data=0.125), ends, sides, count, SIZE).output)


def edge_distance() -> Example:
    _, ends, _ = _edges(1)
    number = Variable(INT, SIZE, data=np.arange(SIZE[0] * SIZE[1]).reshape(1, SIZE[1], SIZE[0]) % 7)
    return Example(edges.EdgeDistance(number - 1, F.lookup(ends, number)).output)


def edge_front(cull: int) -> Example:
    found = edges.edge_list(CASE.faces)
    return Example(edges.EdgeFront(found.list, found.around, found.faces, _lists(2)[1], cull).output)


def outline_distance(batch: int) -> Example:
    _, ends, sides = _edges(batch)
    x, y = np.meshgrid(np.arange(SIZE[0]), np.arange(SIZE[1]))
    face = np.stack([np.where((x - 4 * k) % 9 < 5, y, -1) for k in range(batch)])
    number = Variable(INT, SIZE, data=(x // 2 + y // 3)[None] % 7)
    near = [F.lookup(table, number) for table in (ends, sides)]
    return Example(edges.OutlineDistance(Variable(INT, SIZE, batch, data=face), *near).output)


def crossing(axis: str, batch: int) -> Example:
    rng = np.random.default_rng(7)
    x, y = np.meshgrid(np.arange(SIZE[0]), np.arange(SIZE[1]))
    face = np.stack([np.where((x + y + k) % 5 < 3, x // 2, -1) for k in range(batch)])
    depth = np.where(face < 0, edges.BEYOND, rng.uniform(size=face.shape))
    front = Variable(VEC2, SIZE, batch, data=np.stack([face, depth], axis=-1).astype(np.float32))
    # Edges near the pixels, steep and flat, hidden too.
    place = np.stack([x, y], axis=-1)[None] + rng.uniform(-0.2, 1.2, (1, SIZE[1], SIZE[0], 2))
    along = rng.uniform(-1.5, 1.5, place.shape)
    ends = np.concatenate([place - along, place + along], axis=-1) / SIZE[1]
    side, depths = rng.integers(-1, 3, (1, SIZE[1], SIZE[0])), rng.uniform(0, 0.5, place.shape)
    own = [
        Variable(t, SIZE, data=v.astype(np.float32 if t is not INT else int))
        for t, v in ((VEC4, ends), (VEC2, depths), (INT, side))
    ]
    return Example(crossings.Crossing(front, *own, axis).output)


def sparse_rows(kind: type[Function], vtype=VEC3) -> Example:
    rng = np.random.default_rng(5)
    dense = rng.uniform(-1, 1, (40, 40)) * (rng.uniform(size=(40, 40)) < 0.2)
    dense = dense if kind is sparse.SparseProduct else dense + dense.T
    shape = (1, 5, 9, *vtype.shape)  # 45 texels: more rows than one, as in a list that wraps
    values = Variable(vtype, (9, 5), data=rng.uniform(-1, 1, shape).astype(np.float32))
    matrix = sparse.sparse_matrix(csr_array(dense.astype(np.float32)))
    return Example(kind(values, matrix).output, (values,))


EXAMPLES: dict[type[Function], list[Callable[[], Example]]] = {
    soft_faces.Enlarge: [lambda: enlarge(0, 1), lambda: enlarge(1, 2)],
    soft_faces.NearestEdge: [lambda: nearest_edge(1), lambda: nearest_edge(2)],
    soft_faces.FaceRecord: [lambda part=part: face_record(part) for part in range(3)],
    soft_faces.Extremes: [lambda: extremes("x"), lambda: extremes("y")],
    edges.EdgeSides: [lambda: edge_sides(0), lambda: edge_sides(1)],
    edges.EdgeEnds: [edge_ends],
    edges.EdgeQuads: [lambda: edge_quads(1), lambda: edge_quads(2)],
    edges.EdgeDistance: [edge_distance],
    edges.EdgeFront: [lambda: edge_front(0), lambda: edge_front(1)],
    crossings.Crossing: [lambda: crossing("x", 1), lambda: crossing("y", 2)],
    edges.OutlineDistance: [lambda: outline_distance(1), lambda: outline_distance(2)],
    screen.ShownFaces: [lambda: shown_faces(0), lambda: shown_faces(1)],
    sparse.SparseProduct: [lambda v=v: sparse_rows(sparse.SparseProduct, v) for v in (VEC3, FLOAT)],
    sparse.SparseDifference: [lambda v=v: sparse_rows(sparse.SparseDifference, v) for v in (VEC3, VEC2)],
}
