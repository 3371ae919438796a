"""Large steps: the inverse in factors, and the optimizer of the paper."""

import numpy as np
import pytest
from scipy.sparse.linalg import spsolve

from dressi.ad import functional as F
from dressi.ad import optim
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import NumpyExecutor, evaluate
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import VEC3, list_image, list_size
from dressi.errors import GraphError, InputError
from dressi.render.mesh.primitives import octasphere, torus
from dressi.render.objectives.large_steps import large_steps, levels, spread
from dressi.render.objectives.regularizers import Adjacency, adjacency, cotangent


def two_parts() -> Adjacency:
    """Two spheres, one of them open, and vertices that no face uses."""
    a, b = octasphere(2), octasphere(3)
    faces = np.concatenate([a.faces, b.faces[7:] + len(a.positions) + 2])
    return adjacency(faces, len(a.positions) + len(b.positions) + 5)


MESHES = {
    "one vertex more than none": lambda: adjacency(np.array([[0, 1, 2]]), 4),
    "sphere": lambda: adjacency(octasphere(3).faces, len(octasphere(3).positions)),
    "parts": two_parts,
    "cotangents of a torus": lambda: cotangent(torus(30, 20).faces, torus(30, 20).positions),
}


def values(count: int, vtype=VEC3) -> tuple[np.ndarray, Variable]:
    b = np.random.default_rng(0).normal(size=(count, *vtype.shape))
    return b, Variable(vtype, list_size(count), name="values", data=list_image(b))


@pytest.mark.parametrize("make", MESHES.values(), ids=MESHES)
@pytest.mark.parametrize("strength", [0.0, 19.0])
def test_factors_are_the_inverse(make, strength):
    mesh = make()
    spreading = spread(mesh, strength)
    b, leaf = values(mesh.count)
    (found,) = evaluate([spreading(leaf)])
    expected = spsolve(spreading.system.tocsc(), b)
    assert np.abs(found.reshape(-1, 3) - expected).max() < 1e-5 * np.abs(expected).max()
    blocks = levels(spreading.system)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([b for level in blocks for b in level])), range(mesh.count)
    )
    assert check_gradient(spreading(leaf), [leaf]) < 1e-6


@pytest.mark.vk
def test_devices_solve_it(run):
    mesh = MESHES["sphere"]()
    spreading = spread(mesh, 19.0)
    assert len(spreading.factors) == 3
    b, leaf = values(mesh.count)
    (found,) = run([spreading(leaf)])
    residual = spreading.system @ found.reshape(-1, 3) - b
    assert np.linalg.norm(residual) < 1e-5 * np.linalg.norm(b)


def test_steps_are_those_of_the_paper_in_its_own_variable():
    """u = (I + lambda L) x by AdamUniform, from u to x and back by a solver, as it is published."""
    mesh, rate, strength, betas = MESHES["sphere"](), 0.1, 19.0, (0.9, 0.999)
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
    np.testing.assert_allclose(executor.recv(leaf)[0, 0], spsolve(system, u), atol=1e-5)


def test_other_parts_can_be_put_between():
    mesh = MESHES["sphere"]()
    _, leaf = values(mesh.count)
    part = spread(mesh, 2.0).optimizer
    chained = optim.chain(part, optim.sgd(0.1)).build([leaf], [leaf])
    plain = optim.sgd(0.1).build([leaf], evaluated := [spread(mesh, 2.0)(leaf)])
    a, b = evaluate([chained.parameters[0], plain.parameters[0]])
    np.testing.assert_allclose(a, b)
    assert evaluated[0].domain == leaf.domain


def test_mistakes_are_named():
    mesh = MESHES["sphere"]()
    with pytest.raises(InputError, match="strength"):
        spread(mesh, -1.0)
    with pytest.raises(GraphError, match="does not hold"):
        spread(mesh, 1.0)(Variable(VEC3, (mesh.count - 1, 1)))
