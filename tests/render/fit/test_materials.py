"""Fits of materials, and materials that are kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dressi import DressiAD, GraphError, InputError, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.config import shader_text
from dressi.render import DirectionalLight, Environment, Mesh, PointLight, primitives, psnr, render, ring
from dressi.render.core.materials import GLTF
from dressi.render.drawing import point
from dressi.render.fit import Dataset, FitJob, FitOptions, FitResult, Observations
from dressi.render.fit.data.textures import charted
from dressi.render.fit.disk import NAME
from dressi.render.fit.phases.materials import (
    Maps,
    MaterialFit,
    MaterialOptions,
    Recovery,
    parts_of,
    with_maps,
)
from dressi.render.mesh.checks import check_surface
from dressi.render.mesh.material import Material
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.model.records import model_of_profile
from dressi.vk.planning import PlanningEngine

SUN = DirectionalLight((1.0, 1.0, 1.5), (1.5, 1.3, 1.0))


@pytest.fixture
def scene(engines, make_engine):
    """A textured pear, four pictures of it, and what makes engines."""
    rng = np.random.default_rng(0)
    mesh = primitives.pear(16, 12, 8)
    mesh.texture = 0.2 + 0.3 * rng.random((8, 8, 3))
    mesh.material = Material(metallic=0.0, roughness=0.4)
    cameras = ring(*mesh.bounding_sphere(), 4, (32, 32))
    picture = render(mesh, cameras, light=SUN, filter="trilinear")
    return mesh, Observations(cameras, picture.mask, picture.colour), make_engine


def test_maps_are_recovered_under_known_light(scene):
    mesh, views, make_engine = scene
    start = replace(mesh, texture=None, material=None)
    options = MaterialOptions(("albedo", "roughness"), steps=60, texture_size=16, batch=0)
    found = MaterialFit(start, views, options, SUN, make_engine).run()
    assert found.finished and len(found.losses) == 60 and found.losses[-1] < 0.1 * found.losses[0]
    again = render(found.mesh, views.cameras, light=SUN, filter="trilinear")
    assert psnr(again.colour, views.colors, views.masks) > 28
    assert found.mesh.texture.shape == (16, 16, 3) and found.mesh.material.validate().metallic == 1.0
    assert (found.mesh.material.metallic_roughness[..., 0] == 0).all()
    assert (found.exposures == 1).all() and found.light.direction == SUN.direction
    assert start.material is None


def test_a_step_leaves_out_pixels_without_surface():
    mesh = primitives.pear(16, 12, 8)
    cameras = ring(*mesh.bounding_sphere(), 4, (256, 256))
    views = Observations(cameras, np.ones((4, 256, 256)), np.ones((4, 256, 256, 3)))
    options = MaterialOptions(texture_size=64, batch=0)
    sky = Environment(np.ones((8, 16, 3)))
    engine = PlanningEngine(profile("lavapipe"), model_of_profile("lavapipe"), shader_text)
    fit = MaterialFit(mesh, views, options, sky, lambda: engine)
    engine.set_loss(fit.loss)
    engine.set_optimizer(fit.optimizer, fit.parameters)
    shading = [s for s in engine.plan.step.sub_stages if s.domain.batch == 4 and len(s.functions) > 20]
    assert shading and all(getattr(s.work, "sparse", None) for s in shading)


def test_light_and_exposure_are_found_on_a_known_material(scene):
    mesh, views, make_engine = scene
    gains = np.array([0.7, 1.0, 1.2, 1.0])
    bright = replace(views, colors=views.colors * gains[:, None, None, None])
    options = MaterialOptions(("light", "exposure"), steps=250, batch=0)
    start = DirectionalLight((1.0, 0.6, 1.0), 2.0)
    found = MaterialFit(mesh, bright, options, start, make_engine).run()
    towards = found.light.direction.ravel() / np.linalg.norm(found.light.direction)
    assert towards @ np.array(SUN.direction) / np.linalg.norm(SUN.direction) > 0.995
    assert_allclose(found.exposures / found.exposures[1], gains, rtol=0.05)


@pytest.mark.release
def test_a_stop_keeps_what_is_found(scene):
    mesh, views, make_engine = scene
    options = MaterialOptions(("albedo", "normal", "metallic", "emission"), steps=50, texture_size=8)
    found = MaterialFit(mesh, views, options, SUN, make_engine).run(stop=iter([False, True]).__next__)
    assert not found.finished and len(found.losses) == 10
    assert found.mesh.material.emission_map.min() >= 0
    found.mesh.material.validate()


def test_every_learned_row_starts_from_the_material_and_becomes_one_of_its_maps():
    mesh = primitives.pear(16, 12, 8)
    random = np.random.default_rng(0)
    mesh.material = Material(
        metallic=0.5, roughness=0.8, metallic_roughness=random.uniform(0.2, 0.9, (4, 4, 2)), clearcoat=0.7,
        sheen_color=(0.2, 0.4, 0.6), emission=(1.0, 2.0, 3.0), emission_map=random.uniform(0.2, 0.9, (4, 4, 3)),
    )  # fmt: skip
    maps = Maps(mesh, tuple(GLTF.learned), (4, 4))
    values = dict(zip(maps.values, evaluate(list(maps.values.values())), strict=True))
    found = with_maps(mesh, values, (4, 4)).material.validate()
    inside = charted(mesh, (4, 4))
    for what in ("metallic_roughness", "emission_map"):
        factor = (0.5, 0.8) if what == "metallic_roughness" else (1.0, 2.0, 3.0)
        wanted = getattr(mesh.material, what) * factor
        assert_allclose(getattr(found, what)[inside], wanted[inside], atol=1e-6)
    assert_allclose(found.clearcoat_map[inside], 0.7, atol=1e-6)
    assert_allclose(found.sheen_color_map[inside], [(0.2, 0.4, 0.6)] * inside.sum(), atol=1e-6)
    assert (found.clearcoat, found.sheen_color, found.metallic, found.roughness) == (1, (1, 1, 1), 1, 1)


def test_bad_options_are_refused(scene):
    mesh, views, make_engine = scene
    with pytest.raises(InputError, match="albedo, metallic"):
        parts_of("albedo,colour")
    with pytest.raises(InputError, match="unwrap"):
        MaterialFit(replace(mesh, uvs=None, uv_faces=None), views, MaterialOptions(), SUN, make_engine)
    with pytest.raises(InputError, match="far away"):
        MaterialFit(mesh, views, MaterialOptions(), PointLight((0, 1, 0)), make_engine)
    with pytest.raises(InputError, match="steps"):
        MaterialOptions(steps=0)


@pytest.mark.release
def test_vertices_move_under_the_light(scene):
    """A dented pear: its outlines and its shading show where the surface is."""
    _, _, make_engine = scene
    mesh = primitives.pear(32, 24, 8)
    mesh.texture = 0.2 + 0.3 * np.random.default_rng(0).random((8, 8, 3))
    mesh.material = Material(roughness=0.4)
    cameras = ring(*mesh.bounding_sphere(), 4, (48, 48))
    picture = render(mesh, cameras, light=SUN, filter="trilinear", samples=4)
    views = Observations(cameras, picture.mask, picture.colour)
    wave = 0.06 * np.sin(9 * mesh.positions @ (0.5, 0.8, 0.3))
    dented = mesh.moved(mesh.positions * (1 + wave[:, None]))
    options = MaterialOptions(("albedo", "roughness"), steps=60, texture_size=8, batch=0)
    found = MaterialFit(dented, views, options, SUN, make_engine, moves=True).run()

    def away(other: Mesh) -> float:
        """The mean distance along the normals of the nearest true vertices."""
        moves = other.positions[:, None] - mesh.positions
        near = np.linalg.norm(moves, axis=2).argmin(1)
        moves = np.take_along_axis(moves, near[:, None, None], 1)[:, 0]
        return float(np.abs((moves * mesh.vertex_normals()[near]).sum(1)).mean())

    assert found.finished and away(found.mesh) < 0.65 * away(dented)
    assert found.losses[-1] < 0.1 * found.losses[0]
    assert np.array_equal(found.mesh.faces, mesh.faces) and found.mesh.uvs is not None
    assert check_surface(found.mesh).inside_out == 0


def test_vertices_do_not_move_to_blur_textures(monkeypatch):
    levels = []
    made = point.uv_level
    monkeypatch.setattr(point, "uv_level", lambda *given: levels.append(made(*given)) or levels[-1])
    mesh = primitives.pear(8, 6, 8)
    views = Observations(ring(*mesh.bounding_sphere(), 2, (8, 8)), np.ones((2, 8, 8)), np.ones((2, 8, 8, 3)))
    fit = MaterialFit(mesh, views, MaterialOptions("albedo"), SUN, DressiAD, moves=True)
    assert levels
    with pytest.raises(GraphError, match="depend"):
        gradient(fit.loss, levels, allow_unused=False)


def test_the_steps_of_a_recovery_are_shared_by_its_stages():
    options = MaterialOptions("albedo,normal,light", steps=103)
    whole, moving = (Recovery(options, SUN, moves).stages for moves in (False, True))
    assert whole == [(options, False)]
    assert [moves for _, moves in moving] == [False, True, False]
    assert sum(part.steps for part, _ in moving) == 103
    assert [part.optimize for part, _ in moving] == [("albedo", "light")] * 2 + [options.optimize]
    alone = MaterialOptions("normal")
    assert Recovery(alone, SUN, True).stages == [(alone, False)]


@pytest.mark.release
def test_a_recovery_in_stages_goes_on_from_what_the_one_before_found(scene):
    mesh, views, make_engine = scene
    start = replace(mesh, texture=None, material=None)
    options = MaterialOptions("albedo,roughness,normal,exposure", steps=80, texture_size=8, batch=0)
    short = FitOptions(size=(32, 32), views=4, steps=2, texture_size=8, lit=True)
    dataset = Dataset(views, None, np.zeros(3), 1.0, mesh.bounds(), np.array([0.0, 1.0, 0.0]), mesh)
    told, recovery = [], Recovery(options, SUN, moves=True)
    found = FitJob(dataset, short, make_engine, init=start, recovery=recovery).run(progress=told.append)
    losses = [loss for phase, loss in found.losses if phase == "material"]
    assert found.finished and len(losses) == 80 and told[-1].done == told[-1].total == 82
    # No stage begins where the first one did; the loss of the second is of whole pictures.
    assert losses[40] < 0.5 * losses[0] and losses[79] < losses[40]
    assert not np.array_equal(found.mesh.positions, start.positions) and found.exposures is not None
    assert found.quality[-1].phase == "material" and found.quality[-1].psnr is not None


OPTIONS = MaterialOptions("albedo,normal,metallic,emission,light,exposure", steps=80, texture_size=8, batch=2)
SHORT = FitOptions(size=(24, 24), views=4, steps=2, texture_size=8, lit=True)


@pytest.fixture
def recover(engines, make_engine):
    """Recovers the material of a pear from four pictures; ``recover(folder, polls, resume)``."""
    mesh = primitives.pear(16, 12, 8)
    cameras = ring(*mesh.bounding_sphere(), 4, (24, 24))
    picture = render(mesh, cameras, light=SUN, filter="trilinear")
    views = Observations(cameras, picture.mask, picture.colour)
    begin = replace(mesh, texture=None)
    dataset = Dataset(views, None, np.zeros(3), 1.0, mesh.bounds(), np.array([0.0, 1.0, 0.0]), mesh)
    start = DirectionalLight((1.0, 0.6, 1.0), 2.0)

    def recovered(folder: Path | None, polls: float = np.inf, options=OPTIONS, resume=False) -> FitResult:
        left = iter(range(1000))
        recovery = Recovery(options, start, moves=True)
        job = FitJob(dataset, SHORT, make_engine, init=begin, folder=folder, recovery=recovery)
        return job.run(resume=resume, stop=lambda: next(left) >= polls)

    return recovered


@pytest.mark.release
def test_a_resumed_recovery_computes_the_same_numbers(recover, tmp_path: Path):
    whole = recover(None)
    done, first = [], 2 + OPTIONS.steps // 4
    # Within a stage, between two of them, and within the next.
    for polls in (4, 2, 2):
        part = recover(tmp_path, polls, resume=bool(done))
        assert not part.finished and part.losses == whole.losses[: len(part.losses)]
        done.append(len(part.losses))
    assert done[0] < first <= done[1] < done[2] < len(whole.losses)
    found = recover(tmp_path, resume=True)
    assert found.finished and found.losses == whole.losses
    for a, b in (
        (found.mesh.positions, whole.mesh.positions),
        (found.mesh.texture, whole.mesh.texture),
        (found.exposures, whole.exposures),
        (found.light.direction, whole.light.direction),
        *((getattr(found.mesh.material, name), getattr(whole.mesh.material, name)) for name in ("normal", "metallic_roughness", "emission_map")),
    ):  # fmt: skip
        np.testing.assert_array_equal(a, b)


@pytest.mark.release
def test_checkpoints_of_others_and_damaged_ones_are_refused(recover, tmp_path: Path):
    recover(tmp_path, 4)
    with pytest.raises(InputError, match="other options"):
        recover(tmp_path, 1, replace(OPTIONS, optimize="albedo,normal"), resume=True)
    kept = tmp_path / NAME
    kept.write_bytes(kept.read_bytes()[:-1000])
    with pytest.raises(InputError, match="is damaged"):
        recover(tmp_path, 1, resume=True)
