"""Filtered targets of a fit: outlines, textures as pyramids in charts, and the picture that is compared."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.ndimage import binary_dilation

from dressi import DressiAD
from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT
from dressi.render.cameras.views import ring
from dressi.render.drawing.draw import draw
from dressi.render.fit import Observations
from dressi.render.fit.graphs.mask_distances import signed_distances
from dressi.render.fit.graphs.round import start
from dressi.render.fit.phases.texture import TextureRound, weakened
from dressi.render.fit.textures.charts import charted, dilated, with_charts
from dressi.render.fit.textures.pyramid import Pyramid
from dressi.render.mesh import Mesh
from dressi.render.mesh.primitives import cube, octasphere
from dressi.render.objectives.metrics import psnr
from dressi.render.shading.lights import Light
from dressi.render.surface.color import linear_to_srgb

SIZE = (40, 40)


def test_texels_of_faces_are_charted():
    corners = np.array([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75]])
    mesh = Mesh(np.eye(3), [[0, 1, 2]], uvs=corners, uv_faces=np.array([[0, 1, 2]]))
    seen = charted(mesh, (16, 16))
    assert seen[4:8, 4:8].all() and not seen[:3].any() and not seen[13:].any() and not seen[10:, 10:].any()
    beyond = charted(replace(mesh, uvs=corners + (0.5, -1.0)), (16, 16))
    np.testing.assert_array_equal(beyond, np.roll(seen, 8, axis=1))


def test_texels_between_charts_are_those_of_the_nearest_chart():
    texture, inside = np.zeros((8, 8, 3)), np.zeros((8, 8), bool)
    texture[:, :2], texture[:, 6:], inside[:, :2], inside[:, 6:] = 0.25, 0.75, True, True
    full = dilated(texture, inside)
    assert (full[:, :4] == 0.25).all() and (full[:, 4:] == 0.75).all()
    np.testing.assert_array_equal(dilated(texture, np.zeros_like(inside)), texture)


def test_charts_have_a_margin():
    mesh = with_charts(cube(), 64)
    assert mesh.uv_faces is not None and mesh.uv_faces.shape == mesh.faces.shape
    seen = charted(mesh, (64, 64))
    apart = [
        charted(replace(mesh, uv_faces=mesh.uv_faces[k : k + 1]), (64, 64)) for k in range(len(mesh.faces))
    ]
    assert 0.2 < seen.mean() < 1 and np.sum(apart, axis=0).max() >= 1


def test_a_value_keeps_a_share_of_its_derivative():
    x, share = Variable(FLOAT, (3, 1), name="x"), np.array([[0.0, 0.25, 1.0]])
    found = weakened(x * x, Variable(FLOAT, (3, 1), name="share", data=share[None]))
    value, slope = evaluate([found, *gradient(F.sum(found), [x])], {x: np.full((1, 1, 3), 2.0)})
    np.testing.assert_array_equal(value.reshape(-1), 4.0)
    np.testing.assert_allclose(slope.reshape(-1), 4 * share[0])


def test_texels_that_nothing_touches_follow_their_neighbours():
    pyramid = Pyramid((64, 32), np.array([0.2, 0.4, 0.6]))
    assert [level.size for level in pyramid.levels] == [(16, 8), (32, 16), (64, 32)]
    (texture,) = evaluate([pyramid.texture])
    np.testing.assert_allclose(texture, np.broadcast_to([0.2, 0.4, 0.6], texture.shape))
    touched = F.crop(pyramid.texture, 20, 10, (1, 1)).x
    slopes = evaluate(gradient(touched, pyramid.levels))
    (moved,) = evaluate(
        [pyramid.texture], {level: level.data + s for level, s in zip(pyramid.levels, slopes, strict=True)}
    )
    change = (moved - texture)[0, ..., 0]
    assert change[10, 20] == change.max() > 1 and (change >= 0).all()
    assert change[10, 21] > 0.1 and change[14, 20] > 0 and change[10, 50] == 0


@pytest.mark.release
@pytest.mark.vk
def test_pictures_are_compared_as_they_were_filtered(device):
    """At the truth, shape and texture, the picture of the round is that of many samples a pixel, not that of one."""

    def make_engine() -> DressiAD:
        return DressiAD(device)

    ball = with_charts(octasphere(3, 0.8), 64)
    x = np.linspace(0, 6 * np.pi, 64)
    stripes = 0.5 + 0.4 * np.sin(x)[:, None, None] * np.array([1.0, 0.5, -1.0]) * np.ones((64, 64, 1))
    ball.texture = stripes
    cameras = ring(np.zeros(3), 1.0, 2, SIZE)
    many, one = (Observations(cameras, *draw(ball, cameras, make_engine, n), samples=n) for n in (16, 1))
    work = TextureRound(
        ball, cameras.matrices, many.masks, many.colors,
        steps=40, texture_size=64, gradient="exact", seed=0, shape=True,
    )  # fmt: skip
    codes = linear_to_srgb(stripes)[None]
    engine = make_engine()
    try:
        engine.set_loss(work.loss)
        engine.set_optimizer(work.optimizer, work.parameters)
        engine.send(work.pyramid.levels[-1], codes - work.pyramid.levels[0].data[:, :1, :1])
        look = work.look(engine)
        plain = psnr(one.colors, many.colors, many.masks)
        assert look.psnr is not None and look.psnr > 30 > plain + 3 and look.iou > 0.98
        # From another shape and no texture both are found.
        engine.send(work.pyramid.levels[-1], np.zeros_like(codes))
        engine.send(work.position, 0.99 * np.asarray(work.position.data))
        before = work.look(engine)
        engine.step(work.steps)
        after = work.look(engine)
    finally:
        engine.close()
    assert before.psnr is not None and after.psnr is not None
    assert after.psnr > before.psnr + 8 and after.iou >= before.iou


@pytest.mark.release
@pytest.mark.vk
def test_colours_beside_the_object_do_not_count_where_masks_are_frayed(device):
    """Masks that are two pixels too wide show a dark background at their rims."""

    def make_engine() -> DressiAD:
        return DressiAD(device)

    ball = with_charts(octasphere(3, 0.7), 64)
    ball.texture = np.full((64, 64, 3), 0.5)
    cameras = ring(np.zeros(3), 1.0, 6, SIZE)
    true, colors = draw(ball, cameras, make_engine, 16)
    masks = np.stack([binary_dilation(mask >= 0.5, iterations=2) for mask in true]).astype(float)
    found = []
    for fringe in (2.0, None):
        work = TextureRound(
            ball, cameras.matrices, masks, colors, steps=30, texture_size=64, gradient="exact", seed=0, shape=True,
            fringe=fringe,
        )  # fmt: skip
        engine = make_engine()
        try:
            start(engine, work)
            engine.step(work.steps)
            mesh = work.found(engine).mesh
        finally:
            engine.close()
        # Both are drawn on the true shape: what counts is the texture.
        found.append(draw(replace(mesh, positions=ball.positions), cameras, make_engine, 16)[1])
    near, spoilt = (psnr(images, colors, true >= 1) for images in found)
    assert near > 25 and near > spoilt + 2


def test_partly_covered_pixels_tell_where_the_outline_is():
    n, samples, radius = 48, 16, 15.2
    y, x = (np.mgrid[: n * samples, : n * samples] + 0.5) / samples
    fine = radius - np.hypot(x - 23.3, y - 24.1)
    centre_y, centre_x = np.mgrid[:n, :n] + 0.5
    truth = radius - np.hypot(centre_x - 23.3, centre_y - 24.1)
    coverage = (fine > 0).reshape(n, samples, n, samples).mean((1, 3))
    near = np.abs(truth) < 8
    errors = [
        signed_distances(mask[None], (n, n))[0][near] * n - truth[near]
        for mask in (coverage, np.float64(truth > 0))
    ]
    filtered, hard = (np.sqrt(np.mean(error**2)) for error in errors)
    assert filtered < 0.12 and hard > 2 * filtered and abs(errors[0].mean()) < 0.02


@pytest.mark.release
def test_lit_samples_stand_for_their_part_of_the_pixel(device):
    """Under even light that a rough surface only scatters, the lit picture is the unlit one times a factor."""
    mesh = octasphere(3)
    mesh.texture = np.random.default_rng(0).random((128, 128, 3))
    cameras = ring(np.zeros(3), 1.0, 1, (32, 32))
    even = Light((0.0, 1.0, 0.0), colour=0.0, ambient=0.5)
    for samples in (4, 16):
        mask, unlit = draw(mesh, cameras, lambda: DressiAD(device), samples)
        lit = draw(mesh, cameras, lambda: DressiAD(device), samples, even)[1]
        np.testing.assert_allclose(lit, 0.5 * unlit, atol=1e-5)
        assert unlit[mask == 1].std() > 0.02
