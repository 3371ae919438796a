"""Clouds, points of surfaces, and distances between them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial import cKDTree

from dressi import VEC3, DressiAD, F, InputError, Variable
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.render import f_score, hausdorff, primitives
from dressi.render.objectives.points import (
    chamfer_loss,
    cloud,
    distances_to,
    f_score_loss,
    hausdorff_loss,
    surface_samples,
)


def shells(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of two spheres."""
    points = np.random.default_rng(0).normal(size=(2, n, 3))
    return tuple(points / np.linalg.norm(points, axis=2, keepdims=True) * np.array([1, 1.01])[:, None, None])


@pytest.mark.every_driver
@pytest.mark.parametrize(("p", "q"), [(3000, 2000), (1, 30), (700, 1)])
def test_distances_are_those_of_a_tree(device, p, q):
    a, b = shells(p)[0], shells(q)[1]
    moving = Variable.of(a, name="a")
    near, there = cloud(moving), cKDTree(b).query(a)[0]
    back = cKDTree(a).query(b)[0]
    # As far from all points: the search of another point beside it goes on.
    a_query = np.concatenate([np.zeros((1, 3)), a[:7]])
    outputs = {
        "chamfer": chamfer_loss(near, b, squared=False),
        "hausdorff": hausdorff_loss(near, b),
        "score": f_score_loss(near, b, 0.02, softness=0),
        "query": distances_to(Variable.of(a_query), cloud(b)),
    }
    with DressiAD(device) as ad:
        for name, value in outputs.items():
            ad.set_output(name, value)
        for _ in range(2):
            ad.step()
            found = {name: np.ravel(ad.recv(name)) for name in outputs}
            assert_allclose(found["chamfer"], 0.5 * (there.mean() + back.mean()), rtol=1e-5)
            assert_allclose(found["hausdorff"], hausdorff(a, b), rtol=1e-5)
            assert_allclose(found["score"], 1 - f_score(a, b, 0.02), atol=1e-5)
            assert_allclose(found["query"], cKDTree(b).query(a_query)[0], atol=1e-6)
            # Another order of the points changes nothing.
            for leaf, data in near.data(a[:, ::-1]).items():
                ad.send(leaf, data)


def test_gradients_of_distances():
    a, b = (Variable.of(x + 0.1, name="points") for x in shells(40))
    for loss in (chamfer_loss(a, b), hausdorff_loss(a, b), f_score_loss(a, b, 0.3)):
        assert check_gradient(loss, [a, b]) < 1e-6


def test_points_of_a_surface_are_spread_evenly(device):
    mesh = primitives.icosphere(2)
    stretched = mesh.positions * (1, 2, 3)
    faces = np.concatenate([mesh.faces, np.zeros((40, 3), int)])
    position = Variable.of(stretched, name="position")
    found = surface_samples(position, faces, 5000, counter=3)
    chosen = np.ravel(evaluate([found.face])[0])[:5000]
    share = np.bincount(chosen, minlength=len(faces)) / 5000
    area = mesh.moved(stretched).face_areas()
    assert_allclose(share[: len(area)], area / area.sum(), atol=2.1 / 5000)
    # With other places alone; which faces are chosen has no derivative.
    moving = Variable.of(stretched, name="moving")
    assert check_gradient(F.mean(F.square(found.of(moving)).x), [moving]) < 1e-6
    with DressiAD(device) as ad:
        ad.set_output("face", found.face)
        ad.step()
        # Rounding of sums decides at the border of two faces.
        assert np.mean(np.ravel(ad.recv("face"))[:5000] != chosen) < 0.002


def test_what_no_cloud_or_surface_can_be_made_of():
    with pytest.raises(InputError, match="has no points"):
        chamfer_loss(np.zeros((0, 3)), np.zeros((1, 3)))
    with pytest.raises(InputError, match=r"point 1 of a cloud is not finite: \[nan"):
        cloud(np.array([[0.0, 0, 0], [np.nan, 0, 0]]))
    with pytest.raises(InputError, match="no surface"):
        surface_samples(Variable.of(np.eye(3), VEC3), np.zeros((0, 3), int), 5)
    with pytest.raises(InputError, match="empty mesh or cloud"):
        hausdorff(np.zeros((0, 3)), np.zeros((1, 3)))
    with pytest.raises(InputError, match="threshold"):
        f_score_loss(np.zeros((1, 3)), np.zeros((1, 3)), 0.0)
