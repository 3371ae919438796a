"""Spherical harmonics: orthonormal, and light and irradiance of maps that they hold exactly."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import VEC3
from dressi.errors import GraphError, InputError
from dressi.render.shading.harmonics import (
    COUNT,
    harmonic_irradiance,
    harmonics,
    project_map,
    radiance,
)
from dressi.render.shading.sphere_filter import directions, solid_angles

SIZE = (64, 32)


def coefficients() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(COUNT, 3))


def some_directions() -> np.ndarray:
    d = np.random.default_rng(1).normal(size=(5, 3))
    return d / np.linalg.norm(d, axis=1, keepdims=True)


def test_they_are_orthonormal():
    basis = harmonics(directions(SIZE)).reshape(-1, COUNT)
    area = evaluate([solid_angles(SIZE)])[0].reshape(-1, 1)
    np.testing.assert_allclose(basis.T @ (basis * area), np.eye(COUNT), atol=4e-3)


def test_a_map_of_harmonics_is_projected_onto_them():
    image = harmonics(directions(SIZE)) @ coefficients()
    (found,) = evaluate([project_map(image)])
    np.testing.assert_allclose(found[0, 0], coefficients(), atol=0.02)


def test_radiance_is_the_sum():
    table = Variable.of(coefficients(), VEC3)
    (found,) = evaluate([radiance(table, Variable.of(some_directions(), VEC3))])
    np.testing.assert_allclose(found[0, 0], harmonics(some_directions()) @ coefficients(), rtol=1e-9)


def test_irradiance_is_the_integral_over_the_cosine():
    n = some_directions()
    d = directions((256, 128)).reshape(-1, 3)
    area = evaluate([solid_angles((256, 128))])[0].reshape(-1)
    light = harmonics(d) @ coefficients()
    wanted = (np.maximum(n @ d.T, 0) * area) @ light / np.pi
    table = Variable.of(coefficients(), VEC3)
    (found,) = evaluate([harmonic_irradiance(table, Variable.of(n, VEC3))])
    np.testing.assert_allclose(found[0, 0], wanted, atol=2e-3)


@pytest.mark.parametrize("light", [radiance, harmonic_irradiance])
def test_gradients_are_central_differences(light):
    table, n = Variable.of(coefficients(), VEC3), Variable.of(some_directions(), VEC3)
    assert check_gradient(light(table, n), [table, n]) < 1e-6


def test_the_projection_is_differentiable():
    image = Variable(VEC3, (8, 4), data=np.random.default_rng(2).random((1, 4, 8, 3)))
    assert check_gradient(project_map(image), [image]) < 1e-6


@pytest.mark.vk
def test_devices_agree_with_the_oracle(run):
    table = project_map(np.random.default_rng(3).random((8, 16, 3)))
    n = Variable.of(some_directions(), VEC3)
    outputs = [radiance(table, n), harmonic_irradiance(table, n)]
    for found, wanted in zip(run(outputs), evaluate(outputs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_other_tables_and_images_are_refused():
    with pytest.raises(GraphError, match="16 VEC3"):
        radiance(Variable.of(coefficients()[:9], VEC3), F.constant((0.0, 0.0, 1.0)))
    with pytest.raises(InputError, match=r"\(H, W, 3\)"):
        project_map(np.ones((4, 8)))
