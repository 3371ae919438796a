"""Meshes of fields, silhouettes of fields, and a change of topology by gradients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dressi import FLOAT, VEC3, DressiAD, F, InputError, Variable, adam
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.render import chamfer, primitives, render
from dressi.render.cameras import Camera, Cameras
from dressi.render.fields import Isosurface, Rays, eikonal_loss, ray_loss, roughness_loss, sample_field
from dressi.render.fields.isosurface import WEIGHTS, loops
from dressi.render.mesh.remesh.volume import Grid


def cube(cells: int) -> Grid:
    return Grid(np.full(3, -1.0), 2 / cells, (cells + 1, cells + 1, cells + 1))


def test_loops_of_all_signs():
    counts, loop, rank = loops()
    assert (counts.max(), rank.max()) == (4, 6) and counts[0] == counts[255] == 0
    for signs in range(256):
        for number in range(counts[signs]):
            own = rank[signs][loop[signs] == number]
            assert len(own) >= 3 and sorted(own) == list(range(len(own)))


def test_a_ball_has_its_surface_and_noise_a_closed_one():
    grid = cube(16)
    ball = 0.8 - np.linalg.norm(grid.points(), axis=-1)
    mesh = Isosurface(grid, ball).mesh(ball)
    assert mesh.is_closed() and mesh.euler_characteristic() == 2
    assert_allclose(mesh.signed_volume(), 4 / 3 * np.pi * 0.8**3, rtol=0.04)
    noise = np.random.default_rng(0).normal(size=grid.shape)
    mesh = Isosurface(grid, noise).mesh(noise)
    # Each face runs along an edge as often as another one runs back.
    edges = mesh.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    along, back = (np.unique(e, axis=0, return_counts=True) for e in (edges, edges[:, ::-1]))
    assert np.array_equal(along[0], back[0]) and np.array_equal(along[1], back[1])
    assert mesh.signed_volume() > 0


def test_gradients_of_vertices_and_silhouettes():
    grid, random = cube(5), np.random.default_rng(0)
    noise = random.normal(size=grid.shape)
    surface = Isosurface(grid, noise, weighted=True)
    values = surface.leaf(noise)
    weights = Variable.of(random.uniform(0.5, 2, WEIGHTS * surface.cells), FLOAT, name="weights")
    points = Variable.of(grid.points().reshape(-1, 3), name="points")
    turned = Variable.of(random.normal(size=(surface.vertex_count, 3)))
    plain = F.sum(F.dot(surface.position(values), turned))
    bent = F.sum(F.dot(surface.position(values, weights=weights, points=points), turned))
    assert check_gradient(plain, [values]) < 1e-6
    assert check_gradient(bent, [values, weights, points]) < 1e-6
    cameras = [Camera.perspective(40, (9, 7), eye, (0, 0, 0)) for eye in ((0, 0, 3), (2, 1.5, 1))]
    deepest = Rays.of([camera.rays() for camera in cameras]).deepest(values, grid)
    through = Rays.through(Cameras(cameras).matrices, (9, 7)).deepest(values, grid, samples=200)
    dense = Rays.of([camera.rays() for camera in cameras]).deepest(values, grid, samples=200)
    assert_allclose(*evaluate([through, dense]), atol=0.1)
    assert check_gradient(eikonal_loss(values, grid) + roughness_loss(values, grid), [values]) < 1e-6
    masks = Variable.of(random.uniform(size=(2, 7, 9)), FLOAT, batched=True)
    assert check_gradient(ray_loss(deepest, masks, width=0.2), [values]) < 1e-6
    places = Variable.of(random.uniform(-1.2, 1.2, (9, 3)), VEC3, name="places")
    assert check_gradient(F.sum(sample_field(values, grid, places)), [values, places]) < 1e-6


@pytest.mark.every_driver
def test_the_device_follows_other_fields(device):
    grid, random = cube(9), np.random.default_rng(1)
    fields = random.normal(size=(2, *grid.shape))
    surface = Isosurface(grid, fields[0], faces=8000)
    values = surface.leaf(fields[0])
    position = surface.position(values)
    rays = Rays.of([Camera.perspective(40, (16, 16), (0.3, 0.2, 3), (0, 0, 0)).rays()])
    deepest = rays.deepest(values, grid)
    with DressiAD(device) as ad:
        ad.set_output("position", position)
        ad.set_output("deepest", deepest)
        for field in fields:
            ad.send(values, field.reshape(values.shape))
            for leaf, data in surface.data(field, position).items():
                ad.send(leaf, data)
            ad.step()
            mesh = surface.mesh(field)
            found = ad.recv("position").reshape(-1, 3)[: len(mesh.positions)]
            assert_allclose(found, mesh.positions, atol=1e-5)
            assert_allclose(
                ad.recv("deepest"), evaluate([deepest], {values: field.reshape(values.shape)})[0], atol=1e-5
            )


def test_a_ball_becomes_a_torus(device):
    """From masks alone: a hole opens that the ball covers."""
    target = primitives.torus(radius=0.55, tube=0.25)
    eyes = [(3, 0.4, 0.3), (0.4, 3, -0.3), (0.3, -0.4, 3), (2, 2, 1.5), (-2, 1.5, 2), (1.5, 2, -2)]
    cameras = Cameras([Camera.perspective(40, (32, 32), eye, (0, 0, 0)) for eye in eyes])
    masks = Variable.of(np.asarray(render(target, cameras).mask), FLOAT, batched=True)
    grid = cube(16)
    ball = 0.6 - np.linalg.norm(grid.points(), axis=-1)
    values = Isosurface(grid, ball).leaf(ball)
    rays = Rays.of([camera.rays() for camera in cameras])
    loss = ray_loss(rays.deepest(values, grid), masks, width=0.5 * grid.step)
    with DressiAD(device) as ad:
        ad.set_loss(loss)
        ad.set_optimizer(adam(0.02), [values])
        ad.step(40)
        mesh = Isosurface(grid, ad.recv(values)).mesh(ad.recv(values))
    assert mesh.euler_characteristic() == 0
    assert chamfer(mesh, target, 4000) < 0.5 * grid.step


def test_priors_of_a_distance():
    """A ball has slope 1, and Laplacian 2 / radius."""
    grid = cube(24)
    ball = Isosurface(grid, 0.6 - np.linalg.norm(grid.points(), axis=-1))
    values = ball.leaf(0.6 - np.linalg.norm(grid.points(), axis=-1))
    far = grid.points()[1:-1, 1:-1, 1:-1].reshape(-1, 3)
    slope, rough = (x.item() for x in evaluate([eikonal_loss(values, grid), roughness_loss(values, grid)]))
    expected = np.mean((2 * grid.step / np.maximum(np.linalg.norm(far, axis=1), grid.step)) ** 2)
    assert slope < 0.01 and 0.7 < rough / expected < 1.4


def test_fields_without_a_surface():
    grid = cube(4)
    surface = Isosurface(grid, 0.6 - np.linalg.norm(grid.points(), axis=-1))
    with pytest.raises(InputError, match="no zero inside of its grid, its largest value is -1"):
        surface.data(np.full(grid.shape, -1.0))
    with pytest.raises(InputError, match=r"nan at grid point \(1, 2, 3\)"):
        surface.data(np.where(np.arange(125).reshape(5, 5, 5) == 38, np.nan, 1.0))
    with pytest.raises(InputError, match="faces, and there is room for"):
        surface.data(np.random.default_rng(0).normal(size=grid.shape))
    with pytest.raises(InputError, match="12 values for a grid"):
        surface.data(np.ones(12))
    with pytest.raises(InputError, match="make it with weighted=True"):
        surface.position(surface.leaf(np.ones(125)), weights=surface.leaf(np.ones(10)))
    with pytest.raises(InputError, match="has no cells inside"):
        Isosurface(Grid(np.zeros(3), 1.0, (2, 5, 5)), np.ones((2, 5, 5)))
