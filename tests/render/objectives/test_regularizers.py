"""Regularizers, large steps, and the hull of masks."""

import numpy as np
import pytest
import soft_cases as sc
from numpy.testing import assert_allclose, assert_array_equal
from reference import masks_of
from scipy.sparse.linalg import spsolve

from dressi import F, GraphError, InputError, Variable, gradient, optim
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import NumpyExecutor, evaluate
from dressi.ad.graph.program import Program
from dressi.ad.graph.traversal import leaves
from dressi.ad.graph.types import FLOAT, VEC3, list_image, list_size
from dressi.ad.transform.simplify import simplify
from dressi.render import iou, load_mesh, primitives
from dressi.render.cameras import Camera, Cameras, views
from dressi.render.core.lists import list_leaf, padded
from dressi.render.forms.edges.edge_list import edge_list, with_room
from dressi.render.io import load_photos
from dressi.render.mesh.primitives import octasphere, torus
from dressi.render.objectives import losses
from dressi.render.objectives.hull import check_cameras, estimate_bounds, hull_iou, hull_masks, inside_masks
from dressi.render.objectives.large_steps import DENSE, large_steps, levels, spread
from dressi.render.objectives.regularizers import (
    Adjacency,
    adjacency,
    bilaplacian_loss,
    cotangent,
    dirichlet_loss,
    edge_length_loss,
    laplacian,
    laplacian_loss,
    normal_consistency,
)
from dressi.render.objectives.sparse import Room
from dressi.vk.plan.core.options import BASELINE
from dressi.vk.run.execution.executor import VulkanExecutor


def dense(faces: np.ndarray, count: int) -> np.ndarray:
    """The matrix that takes positions to (mean of the neighbours - vertex)."""
    near = np.zeros((count, count))
    for face in faces:
        near[np.ix_(face, face)] = 1
    np.fill_diagonal(near, 0)
    degree = near.sum(1)
    matrix = near / np.maximum(degree, 1)[:, None]
    return matrix - np.diag((degree > 0).astype(float))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_loss_and_gradient_are_those_of_the_matrix(reduction):
    points, faces = sc.icosphere(1)
    points = points * (1, 2, 3)
    position = Variable(VEC3, (len(points), 1), data=points[None, None])
    loss = laplacian_loss(position, adjacency(faces, len(points)), reduction)
    value, slope = evaluate([loss, *gradient(loss, [position])])
    matrix = dense(faces, len(points))
    scale = len(points) if reduction == "mean" else 1
    assert_allclose(value.item(), ((matrix @ points) ** 2).sum() / scale, rtol=1e-12)
    assert_allclose(slope[0, 0], 2 * matrix.T @ matrix @ points / scale, atol=1e-12)
    assert check_gradient(loss, [position]) < 1e-6


MESHES = {
    "closed": lambda: sc.icosphere(1),
    "open": lambda: (sc.icosphere(1)[0], sc.icosphere(1)[1][5:]),
    # Three faces at the edge 0-1, a face that is turned over, one that is a line, and a vertex that no face
    # uses.
    "not manifold": lambda: (
        np.random.default_rng(3).normal(size=(8, 3)),
        np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4], [3, 0, 5], [5, 0, 6], [6, 6, 5]]),
    ),
}
MESH = pytest.mark.parametrize("make", MESHES.values(), ids=MESHES)


def bent(make, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Variable]:
    points, faces = make()
    points = points * (1, 2, 3) + 0.1 * np.random.default_rng(seed).normal(size=points.shape)
    return points, faces, Variable(VEC3, (len(points), 1), name="position", data=points[None, None])


def edges_and_uses(faces: np.ndarray) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
    """For every edge (a < b): what runs along it, (first, second, third corner) of each face."""
    found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for face in faces.tolist():
        for k in range(3):
            a, b, c = (face[(k + i) % 3] for i in range(3))
            if a != b:
                found.setdefault((min(a, b), max(a, b)), []).append((a, b, c))
    return found


def angle(points: np.ndarray, apex: int, a: int, b: int) -> float:
    u, v = points[a] - points[apex], points[b] - points[apex]
    return np.arctan2(np.linalg.norm(np.cross(u, v)), u @ v)


def cotangent_matrices(points: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Dense weights and areas, one angle after the other."""
    weights, areas = np.zeros((len(points),) * 2), np.zeros(len(points))
    for (a, b), uses in edges_and_uses(faces).items():
        for _, _, c in uses:
            if c not in (a, b):
                weights[a, b] += 0.5 / np.tan(angle(points, c, a, b))
    for face in faces.tolist():
        u, v = points[face[1]] - points[face[0]], points[face[2]] - points[face[0]]
        area = np.linalg.norm(np.cross(u, v)) / 2
        angles = [angle(points, face[k], face[k - 2], face[k - 1]) for k in range(3)]
        for k, i in enumerate(face):
            if max(angles) > np.pi / 2:
                areas[i] += area / 2 if angles[k] > np.pi / 2 else area / 4
            elif area > 0:  # between the middles of its edges and the centre of the circle around the corners
                sides = [
                    ((points[i] - points[face[k - n]]) ** 2).sum() / np.tan(angles[k - 3 + n]) for n in (1, 2)
                ]
                areas[i] += sum(sides) / 8
    return weights + weights.T, areas


@MESH
@pytest.mark.parametrize("borders", [True, False])
def test_the_cotangent_laplacian_is_that_of_the_angles(make, borders):
    points, faces, position = bent(make)
    weights, areas = cotangent_matrices(points, faces)
    mesh = cotangent(faces, points, borders=borders)
    inverse = np.divide(1, areas, out=np.zeros_like(areas), where=areas > 0)
    if not borders:
        for edge, uses in edges_and_uses(faces).items():
            if len(uses) != 2:
                inverse[list(edge)] = 0
    matrix = inverse[:, None] * (weights - np.diag(weights.sum(1)))
    losses = [f(position, mesh, how) for f in (laplacian_loss, bilaplacian_loss) for how in ("sum", "mean")]
    found, *values = evaluate([laplacian(position, mesh), *losses])
    assert_allclose(found[0, 0], matrix @ points, atol=1e-10 * np.abs(matrix).max())
    sums = [((m @ points) ** 2).sum(1) @ areas for m in (matrix, matrix @ matrix)]
    expected = [sums[0], sums[0] / areas.sum(), sums[1], sums[1] / areas.sum()]
    assert_allclose([v.item() for v in values], expected, rtol=1e-9, atol=1e-12)
    if borders:
        assert all(check_gradient(loss, [position]) < 1e-6 for loss in losses[::2])


def test_the_cotangent_laplacian_of_a_sphere_is_its_curvature():
    points, faces = sc.icosphere(3)
    radius = 2.0
    position = Variable(VEC3, (len(points), 1), data=radius * points[None, None])
    (found,) = evaluate([laplacian(position, cotangent(faces, radius * points))])
    assert_allclose(found[0, 0], -2 / radius * points, atol=0.01)


@MESH
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_energies_of_edges(make, reduction):
    points, faces, position = bent(make)
    mesh, weighted = adjacency(faces, len(points)), cotangent(faces, points)
    pairs = np.array(sorted(edges_and_uses(faces)))
    assert_array_equal(mesh.pairs, pairs)
    length = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    assert_allclose(mesh.lengths(points), length)
    weights = cotangent_matrices(points, faces)[0][pairs[:, 0], pairs[:, 1]]
    rest = np.linspace(0.5, 1.5, len(pairs))
    targets = Variable(FLOAT, (len(pairs), 1), data=rest[None, None])
    losses = {
        dirichlet_loss(position, mesh, reduction): length**2,
        dirichlet_loss(position, weighted, reduction): weights * length**2,
        edge_length_loss(position, mesh, reduction=reduction): (length / length.mean() - 1) ** 2,
        edge_length_loss(position, mesh, 0.8, reduction): (length / 0.8 - 1) ** 2,
        edge_length_loss(position, mesh, targets, reduction): (length / rest - 1) ** 2,
    }
    found = evaluate(list(losses))
    for value, (loss, terms) in zip(found, losses.items(), strict=True):
        assert_allclose(value.item(), getattr(np, reduction)(terms), rtol=1e-9)
        assert check_gradient(loss, [position]) < 1e-6


@MESH
def test_normals_of_neighbours_are_compared_where_there_are_two(make):
    points, faces, position = bent(make)
    folds = []
    for uses in edges_and_uses(faces).values():
        if len(uses) == 2 and uses[0][0] == uses[1][1] and len({i for use in uses for i in use}) == 4:
            n = [np.cross(points[b] - points[a], points[c] - points[a]) for a, b, c in uses]
            folds.append(1 - n[0] @ n[1] / (np.linalg.norm(n[0]) * np.linalg.norm(n[1])))
    assert folds
    loss = normal_consistency(position, edge_list(faces), "sum")
    assert evaluate([loss])[0].item() == pytest.approx(sum(folds))
    assert check_gradient(loss, [position]) < 1e-6


def test_folds_have_their_values():
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0]])
    faces = np.array([[0, 1, 2], [1, 0, 3]])
    for moved, expected in ((points[3], 0.0), ((0, 0, -1), 1.0), ((0, 1, 0), 2.0), ((0.5, 0, 0), 0.0)):
        place = Variable(VEC3, (4, 1), data=np.array([[*points[:3], moved]])[None])
        value = evaluate([normal_consistency(place, edge_list(faces))])[0].item()
        assert value == pytest.approx(expected)  # the last has no area and is left out


def test_cotangents_can_be_sent_again():
    points, faces, position = bent(MESHES["open"])
    other, _, _ = bent(MESHES["open"], seed=4)
    mesh, fresh = cotangent(faces, points), cotangent(faces, other)
    loss = laplacian_loss(position, mesh)
    (found,) = evaluate([loss], mesh.data(fresh))
    assert found.item() == pytest.approx(evaluate([laplacian_loss(position, fresh)])[0].item(), rel=1e-12)
    with pytest.raises(InputError, match="other faces"):
        mesh.data(cotangent(faces[1:], points))


def energies(points: np.ndarray, faces: np.ndarray) -> list[Variable]:
    """Every energy and its gradient."""
    position = Variable(VEC3, (len(points), 1), name="position", data=points[None, None].astype(np.float32))
    uniform, weighted = adjacency(faces, len(points)), cotangent(faces, points)
    losses = [
        laplacian_loss(position, weighted), bilaplacian_loss(position, uniform), dirichlet_loss(position, weighted),
        edge_length_loss(position, uniform), normal_consistency(position, edge_list(faces)),
    ]  # fmt: skip
    return [*losses, *(gradient(loss, [position])[0] for loss in losses)]


@pytest.mark.parametrize("options", [{}, {"options": BASELINE}], ids=["packed", "baseline"])
@pytest.mark.second_driver("packed")
@pytest.mark.release("baseline")
def test_energies_on_devices(device, options):
    points, faces, _ = bent(MESHES["open"])
    outputs = energies(points, faces)
    program = simplify(Program({f"output {k}": v for k, v in enumerate(outputs)}))
    with VulkanExecutor(program, device, **options) as run:
        run.run()
        for output, truth in zip(program.outputs.values(), evaluate(outputs), strict=True):
            assert np.abs(run.recv(output) - truth).max() <= 1e-5 * np.abs(truth).max()


def test_wrong_meshes_and_options_are_named():
    with pytest.raises(InputError, match="of 3"):
        adjacency(np.array([[0, 1, 3]]), 3)
    with pytest.raises(InputError, match="at least one"):
        adjacency(np.zeros((0, 3), int), 3)
    neighbourhood = adjacency(np.array([[0, 1, 2]]), 3)
    with pytest.raises(InputError, match="reduction"):
        laplacian_loss(Variable(VEC3, (3, 1)), neighbourhood, "max")


@pytest.mark.parametrize("name, power", [("l1", 1), ("l2", 2)])
def test_image_losses(name, power):
    rng = np.random.default_rng(0)
    data, other = rng.normal(size=(2, 3, 4, 3)), rng.normal(size=(1, 3, 4, 3))
    weights = rng.uniform(size=(1, 3, 4))
    image, target = Variable(VEC3, (4, 3), 2, data=data), Variable(VEC3, (4, 3), data=other)
    weight = Variable(FLOAT, (4, 3), data=weights)
    loss = getattr(losses, name)
    plain, added = loss(image, target), loss(image, target, reduction="sum")
    found = evaluate([plain, added, loss(image, target, weight, "sum")])
    powers = np.abs(data - other) ** power
    expected = [powers.mean(), powers.sum(), (powers * weights[..., None]).sum()]
    assert_allclose([v.item() for v in found], expected, rtol=1e-12)
    assert check_gradient(loss(image, target, weight), [image, target, weight]) < 1e-5
    grey = Variable(FLOAT, (4, 3), data=weights)
    assert_allclose(evaluate([loss(grey, 0.25)])[0].item(), (np.abs(weights - 0.25) ** power).mean())
    with pytest.raises(InputError, match="reduction"):
        loss(image, target, reduction="median")
    assert F.sum(image).vtype is VEC3


TERMS = {
    "dirichlet": lambda position, near, edges: dirichlet_loss(position, near),
    "edge length": lambda position, near, edges: edge_length_loss(position, near),
    "edge length to 0.3": lambda position, near, edges: edge_length_loss(position, near, 0.3),
    "laplacian": lambda position, near, edges: laplacian_loss(position, near, "sum"),
    "bilaplacian": lambda position, near, edges: bilaplacian_loss(position, near, "sum"),
    "normals": lambda position, near, edges: normal_consistency(position, edges),
}


@pytest.mark.parametrize("name", TERMS)
def test_terms_of_edges_follow_the_faces_that_are_sent(name):
    """A graph with room, sent another mesh, has the value and the gradient of that mesh's own graph."""
    first, second = primitives.octasphere(1), primitives.bumpy_ellipsoid(2)
    room = Room(6 * len(second.faces), 12)
    count, spare = len(second.positions) + 3, 2 * len(second.faces)
    position = list_leaf("position", VEC3, padded(second.positions, count))
    near, edges = adjacency(first.faces, count, room=room), with_room(edge_list(first.faces), spare)
    loss = TERMS[name](position, near, edges)
    sent = near.data(adjacency(second.faces, count, room=room))
    sent |= edges.data(with_room(edge_list(second.faces), spare))
    read = leaves([loss])
    found = evaluate([loss, *gradient(loss, [position])], {leaf: sent[leaf] for leaf in read if leaf in sent})
    own = TERMS[name](position, adjacency(second.faces, count), edge_list(second.faces))
    for a, b in zip(found, evaluate([own, *gradient(own, [position])]), strict=True):
        assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_edges_of_more_than_there_is_room_for_are_refused():
    edges = with_room(edge_list(primitives.octasphere(1).faces), 60)
    with pytest.raises(InputError, match="room for"):
        edges.data(with_room(edge_list(primitives.octasphere(1).faces), 61))


def two_parts() -> Adjacency:
    """Two spheres, one of them open, and vertices that no face uses."""
    a, b = octasphere(2), octasphere(3)
    faces = np.concatenate([a.faces, b.faces[7:] + len(a.positions) + 2])
    return adjacency(faces, len(a.positions) + len(b.positions) + 5)


LARGE_MESHES = {
    "one vertex more than none": lambda: adjacency(np.array([[0, 1, 2]]), 4),
    "sphere": lambda: adjacency(octasphere(3).faces, len(octasphere(3).positions)),
    "parts": two_parts,
    "cotangents of a torus": lambda: cotangent(torus(30, 20).faces, torus(30, 20).positions),
}


def values(count: int, vtype=VEC3) -> tuple[np.ndarray, Variable]:
    b = np.random.default_rng(0).normal(size=(count, *vtype.shape))
    return b, Variable(vtype, list_size(count), name="values", data=list_image(b))


@pytest.mark.parametrize("make", LARGE_MESHES.values(), ids=LARGE_MESHES)
@pytest.mark.parametrize("strength", [0.0, 19.0])
@pytest.mark.parametrize("most", [0, DENSE], ids=["sparse", "dense"])
def test_factors_are_the_inverse(make, strength, most, monkeypatch):
    monkeypatch.setattr("dressi.render.objectives.large_steps.DENSE", most)
    mesh = make()
    spreading = spread(mesh, strength)
    b, leaf = values(mesh.count)
    (found,) = evaluate([spreading(leaf)])
    expected = spsolve(spreading.system.tocsc(), b)
    assert np.abs(found.reshape(-1, 3) - expected).max() < 1e-5 * np.abs(expected).max()
    blocks = levels(spreading.system)
    assert_array_equal(np.sort(np.concatenate([b for level in blocks for b in level])), range(mesh.count))
    assert check_gradient(spreading(leaf), [leaf]) < 1e-6


@pytest.mark.parametrize("most", [0, DENSE], ids=["sparse", "dense"])
def test_devices_solve_it(run, most, monkeypatch):
    monkeypatch.setattr("dressi.render.objectives.large_steps.DENSE", most)
    mesh = LARGE_MESHES["sphere"]()
    spreading = spread(mesh, 19.0)
    assert len(spreading.factors) == 3
    b, leaf = values(mesh.count)
    (found,) = run([spreading(leaf)])
    residual = spreading.system @ found.reshape(-1, 3) - b
    assert np.linalg.norm(residual) < 1e-5 * np.linalg.norm(b)


def test_steps_are_those_of_the_paper_in_its_own_variable():
    """u = (I + lambda L) x by AdamUniform, from u to x and back by a solver, as it is published."""
    mesh, rate, strength, betas = LARGE_MESHES["sphere"](), 0.1, 19.0, (0.9, 0.999)
    x, leaf = values(mesh.count)
    goal = np.random.default_rng(1).normal(size=x.shape)
    target = Variable(VEC3, leaf.size, data=goal[None, None])
    loss = F.sum(F.square(F.length(leaf - target)))
    built = large_steps(mesh, rate, strength=strength, betas=betas).build([leaf], gradient(loss, [leaf]))
    executor = NumpyExecutor(Program({}, ((leaf, built.parameters[0]), *built.updates)))
    executor.run(8)
    system = spread(mesh, strength).system.tocsc()
    u, m, v = system @ x, 0.0, 0.0
    for t in range(1, 9):
        g = spsolve(system, 2 * (spsolve(system, u) - goal))
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        u = u - rate * m / (1 - betas[0] ** t) / (1e-8 + np.sqrt(v / (1 - betas[1] ** t)).max())
    assert_allclose(executor.recv(leaf)[0, 0], spsolve(system, u), atol=1e-5)


def test_other_parts_can_be_put_between():
    mesh = LARGE_MESHES["sphere"]()
    _, leaf = values(mesh.count)
    part = spread(mesh, 2.0).optimizer
    chained = optim.chain(part, optim.sgd(0.1)).build([leaf], [leaf])
    plain = optim.sgd(0.1).build([leaf], evaluated := [spread(mesh, 2.0)(leaf)])
    a, b = evaluate([chained.parameters[0], plain.parameters[0]])
    assert_allclose(a, b)
    assert evaluated[0].domain == leaf.domain


def test_mistakes_are_named():
    mesh = LARGE_MESHES["sphere"]()
    with pytest.raises(InputError, match="strength"):
        spread(mesh, -1.0)
    with pytest.raises(GraphError, match="does not hold"):
        spread(mesh, 1.0)(Variable(VEC3, (mesh.count - 1, 1)))


SIZE = (64, 64)


def views_of(mesh, size=SIZE):
    center, radius = mesh.bounding_sphere()
    train, held_out = views.ring(center, radius, 6, size), views.held_out_ring(center, radius, size)
    masks = [masks_of(mesh.positions, mesh.faces, cameras.matrices, size) for cameras in (train, held_out)]
    return train, held_out, *masks, np.stack([center - radius, center + radius])


def test_hull_holds_the_shape_and_fits_the_masks_it_is_made_of():
    mesh = primitives.bumpy_ellipsoid(2)
    train, held_out, train_masks, held_out_masks, bounds = views_of(mesh)
    found = hull_masks(train_masks, train, held_out, bounds)
    missing = (held_out_masks > found).sum() / held_out_masks.sum()
    assert missing < 2e-3
    # A pixel's ray reaches a mask's pixels, not their centres: the border may differ there.
    assert hull_iou(train_masks, train, train_masks, train, bounds) > 0.98
    assert 0.8 < iou(found, held_out_masks) < 0.99


def test_what_is_not_known_carves_nothing():
    mesh = primitives.bumpy_ellipsoid(1)
    train, held_out, masks, targets, bounds = views_of(mesh, (16, 16))
    known = np.ones(masks.shape, bool)
    known[2], masks[2] = False, 0
    others, view = [0, 1, 3, 4, 5], held_out[:1]
    found = hull_masks(masks, train, view, bounds, known=known, step=2.0)
    expected = hull_masks(masks[others], train[others], view, bounds, step=2.0)
    assert_array_equal(found, expected)
    assert hull_masks(masks, train, view, bounds, step=2.0).sum() < 0.2 * found.sum()
    points = np.array([[0.0, 0.0, 0.0], [50.0, 0.0, 0.0]]) + mesh.bounds().mean(0)
    assert_array_equal(inside_masks(masks >= 0.5, train, points, 5, known), [True, False])
    assert not inside_masks(masks >= 0.5, train, points, 6, known).any()
    some = np.ones(found.shape, bool)
    some[:, :8] = False
    assert iou(found, targets[:1], some) == iou(found, np.where(some, targets[:1], 1), some)


def test_hull_of_a_sphere_from_all_sides_is_the_sphere():
    mesh = primitives.icosphere(3)
    center, radius = mesh.bounding_sphere()
    _, held_out, _, held_out_masks, bounds = views_of(mesh)
    held_out, held_out_masks = held_out[::4], held_out_masks[::4]
    rng = np.random.default_rng(0)
    around, above = rng.uniform(0, 360, 24), np.degrees(np.arcsin(rng.uniform(-1, 1, 24)))
    train = views.orbit(center, radius, around, above, SIZE)
    masks = masks_of(mesh.positions, mesh.faces, train.matrices, SIZE)
    assert hull_iou(masks, train, held_out_masks, held_out, bounds) > 0.96


def test_skipping_by_the_grid_changes_nothing(monkeypatch):
    from dressi.render.objectives import hull

    train, held_out, masks, _, bounds = views_of(primitives.torus(24, 12))
    skipped = hull_masks(masks, train, held_out[:2], bounds, largest=False)
    monkeypatch.setattr(hull, "_grid", lambda *_: np.ones((hull._CELLS,) * 3, dtype=bool))
    assert_array_equal(skipped, hull_masks(masks, train, held_out[:2], bounds))


def test_the_largest_part_alone_hardly_depends_on_the_bounds():
    mesh = primitives.torus(32, 16, 1.0, 0.4)
    train, held_out, masks, targets, bounds = views_of(mesh)
    values = [hull_iou(masks, train, targets, held_out, b) for b in (bounds, bounds * 1.3)]
    assert max(values) - min(values) < 0.02


def test_bounds_are_estimated_from_masks():
    mesh = primitives.bumpy_ellipsoid(2)
    mesh.positions = mesh.positions * 0.3 + (4, -2, 1)
    train, _, masks, _, _ = views_of(mesh)
    bounds, true = estimate_bounds(masks, train), mesh.bounds()
    size = true[1] - true[0]
    assert (bounds[0] <= true[0] + 0.05 * size).all() and (bounds[1] >= true[1] - 0.05 * size).all()
    assert ((bounds[1] - bounds[0]) < 2 * size).all()


def test_the_box_of_masks_holds_limbs_thinner_than_a_cell():
    """A slanted bar stands out of a ball on both sides; one picture of ten lacks it."""
    ball, bar = primitives.icosphere(2), primitives.cube()
    along = np.array([1.0, 0.31, 0.17]) / np.linalg.norm([1.0, 0.31, 0.17])
    across = np.cross(along, (0, 1, 0)) / np.linalg.norm(np.cross(along, (0, 1, 0)))
    axes = np.stack([along, 0.012 * across, 0.012 * np.cross(along, across)])
    limbs = bar.positions / np.abs(bar.positions).max() @ axes
    positions = np.concatenate([0.4 * ball.positions, limbs])
    faces = np.concatenate([ball.faces, bar.faces + len(ball.positions)])
    train = views.ring(np.zeros(3), 1.0, 10, (128, 128))
    masks = masks_of(positions, faces, train.matrices, (128, 128))
    masks[3] = masks_of(0.4 * ball.positions, ball.faces, train.matrices, (128, 128))[3]
    bounds = estimate_bounds(masks, train)
    low, high = positions.min(0), positions.max(0)
    assert (bounds[0] <= low + 0.02).all() and (bounds[1] >= high - 0.02).all()
    assert (np.ptp(bounds, axis=0) < high - low + 0.2).all()


def test_cameras_that_cannot_see_the_object_are_named():
    train, *_, bounds = views_of(primitives.icosphere(1))
    good = train[0]

    def moved(eye, target):
        return Camera.perspective(45, SIZE, eye, target, name="odd.png")

    for odd, words in (
        (moved((0.1, 0, 0), (5, 0, 0)), "inside"),
        (moved((4, 0, 0), (9, 0, 0)), "behind"),
        (moved((4, 0, 0), (4, 0.1, 4)), "does not see|behind"),
    ):
        with pytest.raises(InputError, match=f"'odd.png'.*({words})"):
            check_cameras(Cameras([good, odd]), bounds)


def test_dino_has_the_hull_that_was_measured_elsewhere(data):
    photos = load_photos(data / "photos" / "dino", (320, 240))
    train, held_out = ((photos.masks[some], photos.cameras[some]) for some in (photos.train, photos.held_out))
    value = hull_iou(*train, *held_out, photos.bounds)
    assert value == pytest.approx(0.964, abs=0.003)


@pytest.mark.release
@pytest.mark.parametrize(
    ("name", "expected"),
    [("Avocado_512.glb", 0.93), ("spot_bob/spot.obj", 0.90), ("spot_bob/bob_tri.obj", 0.90)],
)
@pytest.mark.filterwarnings("ignore")
def test_hulls_of_six_real_silhouettes(data, name, expected):
    train, held_out, masks, targets, bounds = views_of(load_mesh(data / "meshes" / name), (128, 128))
    value = iou(hull_masks(masks, train, held_out, bounds, step=1.0), targets)
    print(f"{name}: hull of six masks at 128x128, held-out IoU {value:.4f}")
    assert value == pytest.approx(expected, abs=0.01)
