"""Small graphs for every Function declared in `dressi.render`, in the shape of those of `dressi.ad`."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import soft_cases
from example_tools import Example
from scipy.sparse import csr_array
from scipy.spatial.transform import Rotation

from dressi import FLOAT, INT, IVEC3, VEC2, VEC3, VEC4, F, Variable
from dressi.ad.graph import Function
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.transform.fused import Whole
from dressi.render.cameras import Camera
from dressi.render.core.lists import list_leaf
from dressi.render.drawing import point
from dressi.render.fields import rays
from dressi.render.forms import cells, pairs
from dressi.render.forms import face as face_form
from dressi.render.forms.edges import around_edges, edge_list
from dressi.render.forms.edges import edge_list as edge_sides
from dressi.render.forms.edges import edge_list as edges
from dressi.render.mesh import primitives
from dressi.render.objectives import deformation, points, sparse
from dressi.render.shading import sphere_filter
from dressi.render.shading.bsdf import hair
from dressi.render.strands import ribbons
from dressi.render.surface import projection, screen


def ribbon_ends() -> tuple[Variable, Variable]:
    """Segments of ribbons near the centre of a pixel: inside, across, beside it, and one turned over."""
    rng = np.random.default_rng(21)
    centre, along = rng.uniform(-0.7, 0.7, (1, 4, 8, 2)), rng.normal(size=(1, 4, 8, 2))
    across = np.stack([-along[..., 1], along[..., 0]], -1) * rng.uniform(0.05, 0.6, (1, 4, 8, 1))
    across[0, 0, 0] *= -1
    ends = [np.concatenate([centre + k * along, across * (1 + 0.2 * k)], -1) for k in (-0.5, 0.5)]
    start, end = (Variable(VEC4, (8, 4), data=x.astype(np.float32)) for x in ends)
    return start, end


def ribbon_area() -> Example:
    ends = ribbon_ends()
    return Example(ribbons.ribbon_area(*ends), ends)


def disc_area() -> Example:
    """No disc here touches the side of a pixel from within or without, where the slope has a kink."""
    rng = np.random.default_rng(23)
    place = Variable(VEC2, (8, 4), data=rng.uniform(-1.2, 1.2, (1, 4, 8, 2)).astype(np.float32))
    radius = Variable(FLOAT, (8, 4), data=rng.uniform(0.1, 1.5, (1, 4, 8)).astype(np.float32))
    return Example(ribbons.disc_area(place, radius), (place, radius))


STRANDS: list[Callable[[], Example]] = [ribbon_area, disc_area]

SIZE = (24, 16)
CASE = soft_cases.cases()["near plane"]


def _lists(batch: int = 1) -> tuple[Variable, Variable]:
    """Faces and projected vertices, as leaves: some in front of the near plane, one that is not there."""
    clip = np.array([CASE.clip * (1.0 + 0.02 * k, 1, 1, 1) for k in range(batch)], np.float32)
    clip[:, 3] = np.nan
    (vertex,) = evaluate(
        [projection.project(Variable(VEC4, (len(CASE.clip), 1), batch, data=clip[:, None]), SIZE).vertex]
    )
    return (
        Variable(IVEC3, (len(CASE.faces), 1), data=CASE.faces[None, None]),
        Variable(VEC4, (len(CASE.clip), 1), batch, data=vertex.astype(np.float32)),
    )


def bessel_example(kind: type[Function]) -> Example:
    """Both polynomials and both series."""
    x = Variable(FLOAT, (8, 4), data=np.geomspace(0.01, 400, 32).reshape(1, 4, 8).astype(np.float32))
    return Example(kind(x).output, (x,))


def projected(smooth: bool) -> Example:
    """Behind the near plane and in front of it; where not ``smooth`` also behind the viewer, too far away, no numbers."""
    rng = np.random.default_rng(8)
    clip = rng.uniform(0.2, 1, (2, 4, 8, 4)) * (1, -1, 1, 1)
    clip[:, ::2, :, 2] *= -1
    if not smooth:
        clip[:, :2, 0, 3], clip[:, :2, 1, 3] = -1, 0
        clip[:, :2, 2, 0], clip[:, :2, 3, 3] = 1e7, 1e-7
        clip[:, :2, 4, 1], clip[:, :2, 5, 2], clip[:, :2, 6, 3] = np.nan, 1e16, np.inf
    position = Variable(VEC4, (8, 4), 2, data=clip.astype(np.float32))
    return Example(projection.project(position, (3, 2)).smooth, (position,) if smooth else ())


def segment_ends(there: bool = True) -> Example:
    """Both behind the near plane, one or the other in front, both in front; some that are not there."""
    rng = np.random.default_rng(9)
    a, b = (rng.uniform(0.2, 1, (1, 4, 8, 4)) for _ in range(2))
    a[0, 1::2, :, 2] *= -1
    b[0, 2:, :, 2] *= -1
    if not there:
        a[0, :2, 0] = b[0, :2, 1] = 0
    a, b = (Variable(VEC4, (8, 4), data=x.astype(np.float32)) for x in (a, b))
    return Example(edge_list.segment_ends(a, b), (a, b) if there else ())


def distance_of_points(points: bool) -> Example:
    """Points beside the segment, beyond one end or the other; segments that are ``points`` have a kink there."""
    rng = np.random.default_rng(11)
    p, a, b = rng.uniform(-1, 1, (3, 1, 8, 12, 2)).astype(np.float32)
    b = a if points else b
    p, a, b = (Variable(VEC2, (12, 8), data=x) for x in (p, a, b))
    along = b - a
    place = F.clamp(F.dot(p - a, along) / F.maximum(F.dot(along, along), 1e-30))
    return Example(around_edges.point_distance(p, a, b, place), (p,) if points else (p, a, b))


def _segments(batch: int) -> tuple[Variable, Variable, Variable, Variable]:
    """Pairs of vertices and ends of the segments of faces; the faces and vertices."""
    faces, vertex = _lists(batch)
    pairs = face_form.face_segments(faces, vertex, len(CASE.faces), 0)
    return pairs, edge_list.segment(vertex, pairs.x, pairs.y), faces, vertex


def nearest_edge(batch: int) -> Example:
    pairs, ends, faces, vertex = _segments(batch)
    face = np.arange(batch * SIZE[0] * SIZE[1]).reshape(batch, SIZE[1], SIZE[0]) % (len(CASE.faces) + 1) - 1
    shown = screen.shown_faces(faces, vertex, 0)
    face = Variable(INT, SIZE, batch, data=face)
    kept = F.select(F.equal(F.lookup(shown, face), 0), -1, face)
    records = face_form.face_records(ends, pairs, vertex, faces.size)
    return Example(face_form.NearestEdge(kept, *(F.lookup(r, kept) for r in records)).output)


def extremes(axis: str, *, shorter: bool = False) -> Example:
    rng = np.random.default_rng(4)
    image = Variable(FLOAT, SIZE, 2, data=(rng.uniform(size=(2, SIZE[1], SIZE[0])) > 0.9).astype(float))
    first = face_form.Extremes(image, F.constant(2), "x")
    whole = first
    if axis == "y":
        whole = face_form.Extremes(first.output, Variable(INT, data=7), axis)
    return Example(whole.shortened(8) if shorter else whole.output)


def block_extremes(axis: str) -> Example:
    """Of a mask along x; along y of extremes, as the second pass of ``Extremes`` has them."""
    rng = np.random.default_rng(4)
    image = Variable(FLOAT, SIZE, 2, data=(rng.uniform(size=(2, SIZE[1], SIZE[0])) > 0.9).astype(float))
    if axis == "y":
        image = face_form.Extremes(image, F.constant(2), "x").output
    return Example(face_form.BlockExtremes(image, 5, axis).output)


def edge_front(cull: int) -> Example:
    found = edges.edge_list(CASE.faces)
    vertex = _lists(2)[1]
    ends = edge_list.segment(vertex, found.list.x, found.list.y)
    return Example(edge_sides.EdgeFront(found.list, ends, found.around, found.faces, vertex, cull).output)


def inner_face() -> Example:
    """Walks from the middle of faces, in all directions and as far as beyond the mesh."""
    faces, vertex = _lists(2)
    count, rng = len(CASE.faces), np.random.default_rng(9)
    face = Variable(
        INT, SIZE, data=(np.arange(SIZE[0] * SIZE[1]) % (count + 1) - 1).reshape(1, SIZE[1], SIZE[0])
    )
    start = [F.lookup(vertex, F.component(F.lookup(faces, face), i)).xy for i in range(3)]
    middle = (start[0] + start[1] + start[2]) * (1 / 3)
    way = Variable(VEC2, SIZE, data=rng.normal(size=(1, SIZE[1], SIZE[0], 2)).astype(np.float32) * 0.1)
    neighbours = edges.edge_list(CASE.faces).neighbours
    return Example(around_edges.Walk(face, middle, middle + way, faces, neighbours, vertex).output)


def pair_example(kind: type[Function], batch: int) -> Example:
    """What pixels of tilted tori show, two that cross each other, in front of the near plane too."""
    clips, count = [], 0
    for k in range(batch):
        mesh = primitives.torus(8, 6)
        own = [mesh.positions * 1.4, mesh.positions[:, [1, 2, 0]] * 1.3 + (0.5, 0.1 * k, 0.2)]
        points = np.concatenate(own) @ np.array([(0.8, 0, 0.6), (0, 1, 0), (-0.6, 0, 0.8)])
        camera = Camera.perspective(50, SIZE, (0.2 * k, 0.3, 3.0), (0, 0, 0), near=1.9)
        clips.append(np.concatenate([points, np.ones((len(points), 1))], axis=1) @ camera.world_to_clip.T)
        count = len(mesh.positions)
    table = np.concatenate([mesh.faces, mesh.faces + count])
    clip = Variable(VEC4, (2 * count, 1), batch, data=np.array(clips, np.float32)[:, None])
    drawn = screen.DrawnMesh(clip, list_leaf("faces", IVEC3, table), SIZE, len(table))
    images = evaluate([drawn.face, drawn.points.vertex])
    face = Variable(INT, SIZE, batch, data=images[0])
    drawn = replace(drawn, seen=face)
    if kind is pairs.ScaledGradient:
        return Example(pairs.ScaledGradient(drawn.points.vertex, F.constant(2.0)).output)
    if kind is pairs.MovedEdges:
        form = pairs.edges_form(drawn)
        places = [Variable(FLOAT, SIZE, batch, data=x) for x in evaluate([p.place for p in form.pairs])]
        rng = np.random.default_rng(3)
        picture, *jumps = (
            Variable(VEC3, SIZE, batch, data=rng.uniform(size=(batch, SIZE[1], SIZE[0], 3))) for _ in range(3)
        )
        return Example(pairs.MovedEdges(picture, *places, *jumps, *places).output, (picture,))
    found = edges.edge_list(table)
    parted = pairs.Parted(face, pairs.joined(drawn, found.neighbours), divides=True).output
    if kind is pairs.Parted:
        return Example(parted)
    vertex = Variable(VEC4, clip.size, batch, data=images[1])
    between = pairs.PairEdges(
        parted, face, drawn.faces, found.neighbours, vertex, drawn.faces, batch == 1
    ).output
    return Example(pairs.AnyEdge(between).output if kind is pairs.AnyEdge else between)


def cells_example(kind: type[Function], batch: int) -> Example:
    """Edges everywhere, so that one, two, three and four meet between centres, at any angle; straight ones in the second."""
    rng = np.random.default_rng(batch)
    shape = (batch, SIZE[1], SIZE[0])
    place = np.where(rng.uniform(size=(2, *shape)) < 0.6, rng.uniform(size=(2, *shape)), -1)
    slope = np.where(place < 0, 0.0, np.tan(rng.uniform(-1.55, 1.55, (2, *shape))))
    lines = np.stack([place[0], slope[0], place[1], slope[1]], axis=-1)
    lines[1:, ..., :2], lines[1:, ..., 2:] = (0.3, 0.0), (-1.0, 0.0)
    return Example(kind(Variable(VEC4, SIZE, batch, data=lines.astype(np.float32))).output)


def stored_image(kind=around_edges.Stored) -> Example:
    image = Variable(VEC3, SIZE, 2, data=np.random.default_rng(1).uniform(size=(2, SIZE[1], SIZE[0], 3)))
    return Example(kind(image * 2.0).output, (image,))


def sparse_rows(kind: type[Function], vtype=VEC3, *, shorter: bool = False) -> Example:
    rng = np.random.default_rng(5)
    dense = rng.uniform(-1, 1, (40, 40)) * (rng.uniform(size=(40, 40)) < 0.2)
    dense = dense if kind is sparse.SparseProduct else dense + dense.T
    shape = (1, 5, 9, *vtype.shape)  # 45 texels: more rows than one, as in a list that wraps
    values = Variable(vtype, (9, 5), data=rng.uniform(-1, 1, shape).astype(np.float32))
    matrix = sparse.sparse_matrix(csr_array(dense.astype(np.float32)))
    if shorter:
        return Example(kind(values, matrix).shortened(3))
    return Example(kind(values, matrix).output, (values,))


def point_trees() -> dict[type[Function], list[Callable[[], Example]]]:
    """Trees of several levels over points, and over weights of which some are 0."""
    rng = np.random.default_rng(7)
    near = points.cloud(rng.uniform(size=(300, 3)))
    weights = Variable.of(np.maximum(rng.uniform(-1, 1, 300), 0), FLOAT)
    sums, _ = points._levels(weights, 300, "sums")
    query = Variable.of(rng.uniform(size=(40, 3)))
    place = Variable.of(rng.uniform(size=40), FLOAT)
    return {
        points.Grouped: [lambda x=x: Example(x) for x in (near.boxes[1], sums[0])],
        points.Nearest: [lambda: Example(points.nearest(query, near))],
        points.Chosen: [lambda: Example(points.Chosen(place, weights, *sums, 300).output)],
    }


def best_rotation() -> Example:
    """Of stretched and mirrored rotations. Where the two smallest singular values cancel, none is much better than others."""
    left, right = Rotation.random(40, np.random.default_rng(3)).as_matrix().reshape(2, 20, 3, 3)
    stretch = np.array([1.5, 0.8, 0.3]) * np.where(np.arange(20)[:, None] % 2, 1, (1, 1, -1))
    matrices = left @ (stretch[..., None] * right)
    columns = [Variable(VEC3, (5, 4), data=matrices[..., k].reshape(1, 4, 5, 3)) for k in range(3)]
    return Example(F.apply(deformation.BestRotation, *columns))


def deepest() -> Example:
    rng = np.random.default_rng(9)
    values = Variable.of(rng.normal(size=60), FLOAT)
    along = Variable(
        VEC3, (6, 5), data=np.append(rng.uniform(-0.6, 0.6, (1, 5, 6, 2)), -np.ones((1, 5, 6, 1)), -1)
    )
    start, grid = F.constant((1.2, 1.4, 5.0)), ((0.0, 0.0, 0.0), 1.0, (3, 4, 5))
    return Example(F.apply(rays.Deepest, start, along, 0.5, values, grid=grid, samples=20))


def filtered_sphere(kernel: sphere_filter.Kernel, vtype=VEC3, batch: int = 1, rows: int = 0) -> Example:
    values = np.random.default_rng(5).uniform(size=(batch, 6, 12, *vtype.shape))
    image = Variable(vtype, (12, 6), batch, data=values)
    return Example(sphere_filter.SphereFilter(image, kernel, (8, 5), rows).output, () if rows else (image,))


EXAMPLES: dict[type[Function], list[Callable[[], Example]]] = {
    face_form.NearestEdge: [lambda: nearest_edge(1), lambda: nearest_edge(2)],
    Whole: [
        lambda: projected(True),
        lambda: projected(False),
        segment_ends,
        lambda: segment_ends(False),
        *STRANDS,
    ],
    around_edges.PointDistance: [lambda: distance_of_points(False), lambda: distance_of_points(True)],
    face_form.Extremes: [lambda: extremes("x"), lambda: extremes("y")],
    face_form.BlockExtremes: [lambda: block_extremes("x"), lambda: block_extremes("y")],
    face_form.ExtremesByBlocks: [lambda a=a: extremes(a, shorter=True) for a in "xy"],
    sphere_filter.SphereFilter: [
        lambda: filtered_sphere(sphere_filter.GgxKernel(0.4)),
        lambda: filtered_sphere(sphere_filter.GgxKernel(0.1, spread=0.25, reach=0.9), FLOAT, 2),
        *(lambda n=n: filtered_sphere(sphere_filter.CosineKernel(), batch=1 + n, rows=n) for n in (0, 1)),
    ],
    edge_sides.EdgeFront: [lambda: edge_front(0), lambda: edge_front(1)],
    around_edges.Walk: [inner_face],
    **{
        k: [lambda k=k: pair_example(k, 1), lambda k=k: pair_example(k, 2)]
        for k in (pairs.Parted, pairs.PairEdges, pairs.AnyEdge, pairs.MovedEdges, pairs.ScaledGradient)
    },
    **{
        k: [lambda k=k: cells_example(k, 1), lambda k=k: cells_example(k, 2)]
        for k in (cells.Extents, cells.Taken, cells.Given)
    },
    around_edges.Stored: [lambda: stored_image(around_edges.Stored)],
    **{kind: [lambda kind=kind: bessel_example(kind)] for kind in (hair.LogBessel, hair.BesselRatio)},
    point.FacesWithin: [lambda: Example(point.FacesWithin(F.pixel_coordinates(SIZE).x - 1, 2, 6).output)],
    **point_trees(),
    rays.Deepest: [deepest],
    deformation.BestRotation: [best_rotation],
    sparse.SparseProduct: [
        *(lambda v=v: sparse_rows(sparse.SparseProduct, v) for v in (VEC3, FLOAT)),
        lambda: sparse_rows(sparse.SparseProduct, shorter=True),
    ],
    sparse.SparseDifference: [
        *(lambda v=v: sparse_rows(sparse.SparseDifference, v) for v in (VEC3, VEC2)),
        lambda: sparse_rows(sparse.SparseDifference, shorter=True),
    ],
}
