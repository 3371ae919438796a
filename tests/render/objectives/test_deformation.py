"""Loop subdivision, displacement, and as-rigid-as-possible motion."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from dressi import FLOAT, DressiAD, F, Variable
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.render import arap_loss, cotangent, displaced, loop_subdivision, primitives

BALL = primitives.icosphere(1)
OPEN = BALL.positions[1:], BALL.faces[~(BALL.faces == 0).any(1)] - 1
BENT = BALL.positions + 0.1 * np.random.default_rng(0).normal(size=BALL.positions.shape)


@pytest.mark.parametrize("shape", [(BALL.positions, BALL.faces), OPEN], ids=["closed", "open"])
def test_loop_subdivision_is_that_of_trimesh(shape):
    trimesh = pytest.importorskip("trimesh")
    points, faces = shape
    fine = loop_subdivision(faces, len(points), 2)
    expected, _ = trimesh.remesh.subdivide_loop(points, faces, 2)
    found = fine.matrix @ points
    assert found.shape == expected.shape and fine.faces.max() == len(found) - 1
    assert cKDTree(expected).query(found)[0].max() < 1e-12
    position = Variable.of(points, name="position")
    assert_allclose(np.ravel(evaluate([fine.of(position)])[0])[: found.size], found.ravel(), atol=1e-6)


def test_gradients_of_deformations():
    position = Variable.of(BENT, name="position")
    height = Variable.of(np.linspace(-0.2, 0.3, 42), FLOAT, name="height")
    turned = Variable.of(np.random.default_rng(1).normal(size=BENT.shape))
    near = cotangent(BALL.faces, BALL.positions)
    fine = loop_subdivision(BALL.faces, 42, 1).of(position)
    assert check_gradient(arap_loss(position, BALL.positions, near), [position]) < 1e-6
    assert (
        check_gradient(F.sum(F.dot(displaced(position, BALL.faces, height), turned)), [position, height])
        < 1e-6
    )
    assert check_gradient(F.sum(F.square(fine)).x, [position]) < 1e-6


@pytest.mark.every_driver
def test_rigid_motions_have_no_energy(device):
    near = cotangent(BALL.faces, BALL.positions)
    bent = arap_loss(Variable.of(BENT), BALL.positions, near)
    position = Variable.of(BALL.positions, name="position")
    moved = arap_loss(position, BALL.positions, near)
    with DressiAD(device) as ad:
        ad.set_output("moved", moved)
        ad.set_output("bent", bent)
        for angle in (0.1, 1.5, 3.1):
            turn = Rotation.from_rotvec(angle * np.array([0.6, 0, 0.8])).as_matrix()
            ad.send(position, BALL.positions @ turn.T + 1)
            ad.step()
            assert ad.recv("moved").item() < 1e-9
        assert_allclose(ad.recv("bent").item(), evaluate([bent])[0].item(), rtol=1e-4)
