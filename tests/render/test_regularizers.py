"""The uniform Laplacian against a dense matrix."""

import sys
from pathlib import Path

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.gradient import gradient
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, VEC3
from dressi.errors import InputError
from dressi.render import losses
from dressi.render.regularizers import adjacency, laplacian, laplacian_loss

sys.path.insert(0, str(Path(__file__).parent))
import soft_cases as sc


def dense(faces: np.ndarray, count: int) -> np.ndarray:
    """The matrix that takes positions to (mean of the neighbours - vertex)."""
    near = np.zeros((count, count))
    for face in faces:
        for i in face:
            for j in face:
                near[i, j] = i != j
    degree = near.sum(1)
    matrix = near / np.maximum(degree, 1)[:, None]
    return matrix - np.diag((degree > 0).astype(float))


@pytest.fixture
def mesh() -> tuple[np.ndarray, np.ndarray, Variable]:
    """A sphere, three vertices that no face uses, and a list whose last row is not full."""
    points, faces = sc.icosphere(1)
    points = np.concatenate([points * (1, 2, 3), np.ones((3, 3))])
    values = np.full((1, 5, 10, 3), 7.0)  # what fills up the list must not count
    values.reshape(-1, 3)[: len(points)] = points
    return points, faces, Variable(VEC3, (10, 5), data=values)


def test_laplacian_is_the_mean_of_the_neighbours_minus_the_vertex(mesh):
    points, faces, position = mesh
    neighbourhood = adjacency(faces, len(points))
    inverse = np.zeros((1, 5, 10))
    inverse.reshape(-1)[: len(points)] = neighbourhood.inverse_degree.data.reshape(-1)
    (found,) = evaluate([laplacian(position, _fitted(neighbourhood, inverse))])
    found = found.reshape(-1, 3)
    np.testing.assert_allclose(found[: len(points)], dense(faces, len(points)) @ points, atol=1e-12)
    assert not found[len(points) :].any()


def _fitted(neighbourhood, inverse):
    """The same neighbourhood for a list of another width."""
    return type(neighbourhood)(
        neighbourhood.count,
        neighbourhood.offsets,
        neighbourhood.neighbours,
        Variable(FLOAT, (10, 5), data=inverse),
    )


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_loss_and_gradient_are_those_of_the_matrix(reduction):
    points, faces = sc.icosphere(1)
    points = points * (1, 2, 3)
    position = Variable(VEC3, (len(points), 1), data=points[None, None])
    loss = laplacian_loss(position, adjacency(faces, len(points)), reduction)
    value, slope = evaluate([loss, *gradient(loss, [position])])
    matrix = dense(faces, len(points))
    scale = len(points) if reduction == "mean" else 1
    np.testing.assert_allclose(value.item(), ((matrix @ points) ** 2).sum() / scale, rtol=1e-12)
    np.testing.assert_allclose(slope[0, 0], 2 * matrix.T @ matrix @ points / scale, atol=1e-12)
    assert check_gradient(loss, [position]) < 1e-6


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
    found = evaluate(
        [loss(image, target), loss(image, target, reduction="sum"), loss(image, target, weight, "sum")]
    )
    powers = np.abs(data - other) ** power
    expected = [powers.mean(), powers.sum(), (powers * weights[..., None]).sum()]
    np.testing.assert_allclose([v.item() for v in found], expected, rtol=1e-12)
    assert check_gradient(loss(image, target, weight), [image, target, weight]) < 1e-5
    grey = Variable(FLOAT, (4, 3), data=weights)
    np.testing.assert_allclose(
        evaluate([loss(grey, 0.25)])[0].item(), (np.abs(weights - 0.25) ** power).mean()
    )
    with pytest.raises(InputError, match="reduction"):
        loss(image, target, reduction="median")
    assert F.sum(image).vtype is VEC3
