"""Textures: filtered, at the rims of charts, and unfolded."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.ndimage import binary_dilation, distance_transform_edt, gaussian_filter, label

from dressi import DressiAD, F, Variable, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.types import FLOAT, VEC3, list_image, list_values
from dressi.render import Camera, Cameras, Light, Mesh, linear_to_srgb, psnr, ring
from dressi.render.core.lists import list_leaf
from dressi.render.drawing.occlusion import Charts
from dressi.render.fit import Observations, draw, photo_dataset
from dressi.render.fit.data import learned
from dressi.render.fit.data.learned import signed_distances
from dressi.render.fit.data.textures import (
    Pyramid,
    charted,
    dilated,
    fringe,
    levelled,
    rim_weights,
    seam_differences,
    with_charts,
)
from dressi.render.fit.graphs.round import start
from dressi.render.fit.phases.texture import SMOOTH, STIFF, UNFOLD, TextureRound, stiffness, weakened
from dressi.render.io import Photos
from dressi.render.mesh.checks import check_surface
from dressi.render.mesh.primitives import cube, octasphere
from dressi.render.objectives.regularizers import adjacency

SIZE = (40, 40)


def test_texels_of_faces_are_charted():
    corners = np.array([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75]])
    mesh = Mesh(np.eye(3), [[0, 1, 2]], uvs=corners, uv_faces=np.array([[0, 1, 2]]))
    seen = charted(mesh, (16, 16))
    assert seen[4:8, 4:8].all() and not seen[:3].any() and not seen[13:].any() and not seen[10:, 10:].any()
    beyond = charted(replace(mesh, uvs=corners + (0.5, -1.0)), (16, 16))
    assert_array_equal(beyond, np.roll(seen, 8, axis=1))


def test_texels_between_charts_are_those_of_the_nearest_chart():
    texture, inside = np.zeros((8, 8, 3)), np.zeros((8, 8), bool)
    texture[:, :2], texture[:, 6:], inside[:, :2], inside[:, 6:] = 0.25, 0.75, True, True
    full = dilated(texture, inside)
    assert (full[:, :4] == 0.25).all() and (full[:, 4:] == 0.75).all()
    assert_array_equal(dilated(texture, np.zeros_like(inside)), texture)


@pytest.mark.one_driver
def test_seams_are_levelled_where_pictures_leave_it_open(make_engine):
    mesh = with_charts(cube(), 128)
    charts, engine = Charts(mesh, (128, 128)), make_engine()
    found = charts.evaluated(engine, {"place": charts.spread("place", mesh.positions[mesh.faces])})
    engine.close()
    inside, steps = found["inside"], seam_differences(mesh, (128, 128))
    smooth = dilated(found["place"], inside)
    assert steps.shape[0] > 100 and np.abs(steps @ smooth.reshape(-1, 3)).max() < 0.1  # two texels
    number, count = label(inside)
    offsets = np.random.default_rng(0).uniform(-0.5, 0.5, (count + 1, 3))
    spoiled = dilated(smooth + offsets[number], inside)

    def step(texture: np.ndarray) -> float:
        return float(np.sqrt(((steps @ texture.reshape(-1, 3)) ** 2).mean()))

    sure = np.where(inside, 0.0, np.nan)
    free = levelled(spoiled, mesh, sure)
    assert step(spoiled) > 0.2 and step(free) < 0.1 * step(spoiled)
    assert_array_equal(free, dilated(free, inside))
    sure[number == 1] = 1.0
    kept = levelled(spoiled, mesh, sure)
    assert step(kept) < 0.2 * step(spoiled) and np.abs((kept - spoiled)[number == 1]).mean() < 0.02
    others = number > 1
    assert (
        np.abs((kept - smooth - offsets[1])[others]).mean()
        < 0.5 * np.abs((spoiled - smooth - offsets[1])[others]).mean()
    )


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
    assert_array_equal(value.reshape(-1), 4.0)
    assert_allclose(slope.reshape(-1), 4 * share[0])


def test_texels_that_nothing_touches_follow_their_neighbours():
    pyramid = Pyramid((64, 32), np.array([0.2, 0.4, 0.6]))
    assert [level.size for level in pyramid.levels] == [(16, 8), (32, 16), (64, 32)]
    (texture,) = evaluate([pyramid.texture])
    assert_allclose(texture, np.broadcast_to([0.2, 0.4, 0.6], texture.shape))
    touched = F.crop(pyramid.texture, 20, 10, (1, 1)).x
    slopes = evaluate(gradient(touched, pyramid.levels))
    (moved,) = evaluate(
        [pyramid.texture], {level: level.data + s for level, s in zip(pyramid.levels, slopes, strict=True)}
    )
    change = (moved - texture)[0, ..., 0]
    assert change[10, 20] == change.max() > 1 and (change >= 0).all()
    assert change[10, 21] > 0.1 and change[14, 20] > 0 and change[10, 50] == 0


@pytest.mark.release
def test_pictures_are_compared_as_they_were_filtered(make_engine):
    """At the truth, shape and texture, the picture of the round is that of many samples a pixel, not that of
    one."""

    ball = with_charts(octasphere(3, 0.8), 128)
    x = np.linspace(0, 6 * np.pi, 128)
    stripes = 0.5 + 0.4 * np.sin(x)[:, None, None] * np.array([1.0, 0.5, -1.0]) * np.ones((128, 128, 1))
    ball.texture = stripes
    cameras = ring(np.zeros(3), 1.0, 2, SIZE)
    many, one = (Observations(cameras, *draw(ball, cameras, make_engine, n), samples=n) for n in (16, 1))
    work = TextureRound(
        ball, cameras.matrices, many.masks, many.colors,
        steps=40, texture_size=128, gradient="exact", seed=0, shape=True,
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
def test_colours_beside_the_object_do_not_count_where_masks_are_frayed(make_engine):
    """Masks that are two pixels too wide show a dark background at their rims."""

    ball = with_charts(octasphere(3, 0.7), 64)
    ball.texture = np.full((64, 64, 3), 0.5)
    cameras = ring(np.zeros(3), 1.0, 6, SIZE)
    true, colors = draw(ball, cameras, make_engine, 16)
    masks = np.stack([binary_dilation(mask >= 0.5, iterations=2) for mask in true]).astype(float)
    found = []
    for width in (2.0, None):
        work = TextureRound(
            ball, cameras.matrices, masks, colors, steps=30, texture_size=64, gradient="exact", seed=0, shape=True,
            fringe=width,
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
    """Under even light that a rough surface only scatters, the lit picture is the unlit one times a
    factor."""
    mesh = octasphere(3)
    mesh.texture = np.random.default_rng(0).random((128, 128, 3))
    cameras = ring(np.zeros(3), 1.0, 1, (32, 32))
    even = Light((0.0, 1.0, 0.0), colour=0.0, ambient=0.5)
    for samples in (4, 16):
        mask, unlit = draw(mesh, cameras, lambda: DressiAD(device), samples)
        lit = draw(mesh, cameras, lambda: DressiAD(device), samples, even)[1]
        assert_allclose(lit, 0.5 * unlit, atol=1e-5)
        assert unlit[mask == 1].std() > 0.02


SIDE = 64


def discs(background: float, mean: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    """Four textured discs before a background, (4, H, W, 3) with blended rims, and what covers half of a
    pixel (4, H, W)."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    shares = np.stack([np.clip(r + 0.5 - np.hypot(x - 32, y - 32), 0, 1) for r in (15, 17.3, 19.6, 22.1)])
    texture = mean + 0.5 * gaussian_filter(rng.normal(size=(4, SIDE, SIDE, 3)), (0, 1, 1, 0))
    return texture * shares[..., None] + background * (1 - shares[..., None]), shares >= 0.5


def moved(mask: np.ndarray, pixels: float) -> np.ndarray:
    """A mask (H, W) with its outline so many pixels farther outside."""
    return distance_transform_edt(~mask) - distance_transform_edt(mask) <= pixels


@pytest.mark.parametrize("background", [0.0, 0.9])
@pytest.mark.parametrize("wider", [-1, 0, 1, 2])
def test_the_background_within_masks_says_how_wide_they_are(background: float, wider: int):
    images, masks = discs(background)
    grown = np.stack([moved(mask, wider) for mask in masks])
    assert abs(fringe(images, grown) - max(wider, 0)) < 0.25 + 0.15 * max(wider, 0)


def test_rims_before_a_background_like_the_object_say_nothing():
    images, masks = discs(0.4)
    assert fringe(images, masks) < 0.3
    assert fringe(np.full_like(images, 0.4), masks) == 0
    assert fringe(images, np.ones(masks.shape)) == 0


def test_pixels_that_are_not_known_are_no_rim():
    images, masks = discs(0.0)
    known = np.ones(masks.shape, bool)
    known[:, :, 32:] = False
    # The picture says nothing there: it is black, and the mask ends.
    images, masks = images * known[..., None], np.stack([moved(mask, 1) for mask in masks]) & known
    assert fringe(images, masks) < 0.5 < fringe(images, masks, known)


def test_a_fit_of_photographs_knows_it_of_those_that_it_learns_from():
    images, masks = discs(0.0)
    grown = np.stack([moved(mask, 1) for mask in masks[:3]] + [masks[3]])
    camera = Camera.perspective(40, (SIDE, SIDE), (0, 0, 4), (0, 0, 0))
    photos = Photos(images, grown, Cameras([camera] * 4), tuple("abcd"), np.array([[-1.0] * 3, [1.0] * 3]))
    train = photo_dataset(photos).train
    assert train.fringe == fringe(images[:3], grown[:3]) > 0.5


def test_colours_of_narrow_fringes_count_up_to_the_rim():
    _, masks = discs(0.0)
    colours = [rim_weights(masks, fringe=width)[0] for width in (0.0, 1.0, 2.0, 3.0)]
    assert_array_equal(colours[0], masks)
    assert_array_equal(colours[2], colours[3])
    assert colours[0].sum() > colours[1].sum() > colours[2].sum() > 0


@pytest.mark.release
def test_pictures_of_the_next_steps_alone_are_as_good_as_all(device, monkeypatch):
    ball = with_charts(octasphere(2, 0.7), 32)
    cameras = ring(np.zeros(3), 1.0, 13, CHART_SIZE)
    masks, colors = draw(
        replace(ball, texture=np.random.default_rng(0).random((32, 32, 3))), cameras, lambda: DressiAD(device)
    )
    found = []
    for most in (learned.MOST, 0):
        monkeypatch.setattr(learned, "MOST", most)
        work = TextureRound(
            ball, cameras.matrices, masks, colors, steps=22, texture_size=32, gradient="exact", seed=0, shape=True, batch=1,
            fringe=0.5,
        )  # fmt: skip
        assert work.pictures.streamed == (most == 0)
        engine = DressiAD(device)
        try:
            start(engine, work)
            for step, count in ((0, 1), (1, 9), (10, 10), (20, 2)):
                work.before(engine, step)
                engine.step(count)
                found.append((engine.losses(), *vars(work.look(engine)).values()))
        finally:
            engine.close()
    for all_there, streamed in zip(found[:4], found[4:], strict=True):
        for one, other in zip(all_there, streamed, strict=True):
            assert_allclose(other, one, atol=1e-6)


def test_smooth_shapes_are_stiffer_than_rough_ones():
    ball = octasphere(3)
    count = len(ball.positions)
    neighbours = adjacency(ball.faces, count)
    noise = 0.1 * np.random.default_rng(0).standard_normal((count, 1))

    def weight(positions: np.ndarray) -> float:
        return stiffness(list_leaf("position", VEC3, positions), neighbours)

    def roughness(positions: np.ndarray) -> float:
        around = [np.setdiff1d(neighbours.pairs[(neighbours.pairs == k).any(1)], k) for k in range(count)]
        away = np.stack([positions[near].mean(0) for near in around]) - positions
        return float(count * np.median(np.linalg.norm(away, axis=1))) ** 2

    rough = ball.positions * (1 + noise)
    assert weight(rough) < 0.5 * weight(ball.positions)
    assert weight(rough) * roughness(rough) == pytest.approx(STIFF, rel=1e-4)
    assert weight(0 * ball.positions) == STIFF / SMOOTH  # however flat


CHART_SIZE = (24, 20)


@pytest.mark.release
@pytest.mark.parametrize("kept", [False, True])
def test_the_texture_follows_a_shape_without_folds(device, kept):
    ball = with_charts(octasphere(2, 0.7), 32)
    cameras = ring(np.zeros(3), 1.0, 3, CHART_SIZE)
    pictures = np.ones((3, *CHART_SIZE[::-1])), np.full((3, *CHART_SIZE[::-1], 3), 0.5)
    work = TextureRound(
        ball, cameras.matrices, *pictures, steps=2, texture_size=32, gradient="exact", seed=0, shape=True,
        rest=ball.positions if kept else None,
    )  # fmt: skip
    bent = ball.positions.copy()
    bent[int(np.argmax(bent[:, 2]))] *= -1.5
    folded = ball.moved(bent)
    assert check_surface(folded).self_intersecting > 0
    engine = DressiAD(device)

    def points() -> np.ndarray:
        return list_values(engine.state()["position"], len(bent))[0]

    try:
        start(engine, work)
        engine.send(work.position, list_image(bent))
        work.before(engine, UNFOLD - 1)
        assert_allclose(points(), bent, atol=1e-6)
        work.before(engine, UNFOLD)
        # The faces of a mesh that was given stay as they are.
        assert (check_surface(ball.moved(points())).self_intersecting > 0) == kept
        assert kept or np.array_equal(points(), work.mesh.positions.astype(np.float32))
        engine.step(2)
        assert work.found(engine).mesh.uvs is ball.uvs
    finally:
        engine.close()
