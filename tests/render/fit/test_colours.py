"""Colours in the shape phase: what they cost, how they pull, and a fit that needs them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reference import images_of

from dressi import DressiAD
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.types import IVEC3, VEC3
from dressi.cli.fitting.request import Request
from dressi.errors import InputError
from dressi.render.cameras.units import matrices_leaf
from dressi.render.cameras.views import ring
from dressi.render.fit import Dataset, FitJob, FitOptions, Observations, shape_rounds
from dressi.render.fit.terms.colours import colour_term
from dressi.render.lists import list_leaf
from dressi.render.mesh.primitives import octasphere
from dressi.render.surface.color import srgb_to_linear
from dressi.render.surface.projection import to_clip
from dressi.render.surface.screen import DrawnMesh

SIZE = (20, 16)


def drawn(mesh, matrices):
    position = list_leaf("position", VEC3, mesh.positions)
    clip = to_clip(position, matrices_leaf(matrices))
    return position, DrawnMesh(clip, list_leaf("faces", IVEC3, mesh.faces), SIZE, len(mesh.faces))


@pytest.fixture(scope="module")
def scene():
    """A ball whose colour is its place, in four pictures by a ring of cameras."""
    mesh = octasphere(2, 0.8)
    cameras = ring(np.zeros(3), 1.0, 4, SIZE)
    _, masks = images_of(mesh, cameras.matrices, SIZE)
    return mesh, cameras, masks


def test_colours_are_compared_as_codes_over_the_masks(scene):
    mesh, cameras, masks = scene
    codes = np.array([0.2, 0.5, 0.9])
    pictures = masks[..., None] * srgb_to_linear(codes)
    _, mesh_drawn = drawn(mesh, cameras.matrices)
    colour, distance = colour_term(mesh_drawn, pictures, masks, SIZE, 0, len(mesh.positions))

    def cost(value) -> float:
        values = np.broadcast_to(np.asarray(value), (*colour.data.shape[:3], 3))
        return float(evaluate([distance], {colour: values})[0].item())

    assert cost(codes) == pytest.approx(0, abs=1e-12)
    assert cost(codes + (0.1, 0, 0.2)) == pytest.approx(0.05 / 3)


def test_derivatives_are_those_of_the_covered_pixels(scene):
    mesh, cameras, masks = scene
    rng = np.random.default_rng(0)
    position, mesh_drawn = drawn(mesh, cameras.matrices)
    colour, distance = colour_term(
        mesh_drawn, rng.random((4, *SIZE[::-1], 3)), masks, SIZE, 0, len(mesh.positions)
    )
    random = rng.random(colour.data.shape)
    # Small steps: no pixel changes its face.
    assert check_gradient(distance, [colour, position], {colour: random}, step=1e-7) < 1e-4


def test_rounds_with_colours_share_all_steps():
    for steps in (3, 40, 600):
        options = FitOptions(steps=steps, colours=True)
        for exact in (False, True):
            rounds = shape_rounds(options, exact)
            assert sum(plan.steps for plan in rounds) == steps - options.texture_steps
            # Of masks that are exact outlines have the last word.
            colours = [bool(plan.weights) for plan in (rounds[:-1] if exact else rounds)]
            assert colours == sorted(colours) and (bool(rounds[-1].weights)) is not exact
            assert steps < 40 or colours[-1]
    with pytest.raises(InputError, match="outer or contour form"):
        FitOptions(colours=True, form="face")


@pytest.mark.release
@pytest.mark.vk
def test_colours_show_where_the_surface_is(device):
    """A dent that no outline shows: a ball of which the pictures, by colours, are those of a smaller one inside."""
    size = (32, 32)
    cameras = ring(np.zeros(3), 1.0, 6, size)
    truth = octasphere(4, 0.6)
    truth.positions[:, 1] = np.where(
        truth.positions[:, 1] > 0, 0.5 * truth.positions[:, 1], truth.positions[:, 1]
    )
    truth.texture = None
    pictures, masks = painted(truth, cameras, size)
    scene = Dataset(
        Observations(cameras, masks, pictures),
        None,
        np.zeros(3),
        1.0,
        np.array([[-0.7] * 3, [0.7] * 3]),
        np.array([0.0, 1, 0]),
    )
    options = FitOptions(size=size, steps=100, texture_size=8, colours=True, start="sphere")
    losses = FitJob(scene, options, lambda: DressiAD(device)).run().losses
    first = sum(plan.steps for plan in shape_rounds(options) if not plan.weights)
    shape = [loss for phase, loss in losses if phase == "shape"][first:]
    assert min(shape) < 0.3 * shape[0] and np.isfinite(shape).all()


def painted(mesh, cameras, size):
    """Pictures of a mesh whose colour at each point is where it lies, and its masks."""
    from reference import rasterize

    pictures, masks = [], []
    for matrix in cameras.matrices:
        raster = rasterize(mesh.positions, mesh.faces, matrix, size)
        at = np.einsum("hwk,hwkd->hwd", raster.weights, mesh.positions[mesh.faces[raster.face]])
        pictures.append(srgb_to_linear(0.5 + 0.5 * np.sin(5 * at)) * raster.mask[..., None])
        masks.append(raster.mask)
    return np.stack(pictures), np.stack(masks)


def test_colours_are_the_default_of_the_form_that_has_them():
    assert FitOptions().follows_colours and not FitOptions(form="face").follows_colours
    plain, coloured = (shape_rounds(FitOptions(colours=colours)) for colours in (False, True))
    assert len(plain) == 3 and not any(plan.weights for plan in plain)
    # Outlines first; then from pictures so small that a few pixels are far.
    assert [plan.pixels for plan in coloured[:2]] == [plan.pixels for plan in plain[:2]]
    seen = [plan.pixels for plan in coloured if plan.weights]
    assert seen == sorted(seen) and seen[0] < plain[0].pixels and seen[-1] == plain[-1].pixels


@pytest.mark.release
def test_the_colours_of_lit_pictures_move_no_vertex(tiny_fits):
    """In all rounds, that of the texture too; over unlit pictures they do."""
    train = tiny_fits.scene.train
    other = replace(tiny_fits.scene, train=replace(train, colors=train.colors[..., ::-1] ** 2))
    for lit in (True, False):
        options = replace(tiny_fits.options, colours=None, joint=True, lit=lit, steps=16)
        a, b = (
            FitJob(scene, options, tiny_fits.make_engine).run().mesh for scene in (tiny_fits.scene, other)
        )
        assert np.array_equal(a.positions, b.positions) == lit
        assert np.abs(a.texture - b.texture).max() > 0.01


def test_pictures_of_a_mesh_are_lit_when_its_material_is_recovered():
    for optimize, source, lit in (
        ("albedo", "target", True),
        (None, "target", False),
        ("albedo", "photos", False),
    ):
        options = Request(**{"optimize": optimize, source: Path("x")}).options((24, 24))
        assert (options.lit, options.follows_colours) == (lit, not lit)
