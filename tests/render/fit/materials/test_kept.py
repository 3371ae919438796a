"""Checkpoints of a recovery: one that was stopped anywhere computes what one that was not stopped does."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dressi import DressiAD
from dressi.errors import InputError
from dressi.render import DirectionalLight, primitives, render
from dressi.render.cameras.views import ring
from dressi.render.drawing import pixels
from dressi.render.fit import FitJob, FitOptions, FitResult
from dressi.render.fit.data.dataset import Dataset, Observations
from dressi.render.fit.disk import NAME
from dressi.render.fit.materials.options import MaterialOptions
from dressi.render.fit.materials.recover import Recovery

SUN = DirectionalLight((1.0, 1.0, 1.5), (1.5, 1.3, 1.0))
OPTIONS = MaterialOptions("albedo,normal,metallic,emission,light,exposure", steps=80, texture_size=8, batch=2)
SHORT = FitOptions(size=(24, 24), views=4, steps=2, texture_size=8, lit=True)
pytestmark = pytest.mark.vk


@pytest.fixture
def recover(device, monkeypatch):
    """Recovers the material of a pear from four pictures; ``recover(folder, polls, resume)``."""
    pixels.close_engines()
    monkeypatch.setattr(pixels, "default_engine", lambda: DressiAD(device))
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
        job = FitJob(dataset, SHORT, lambda: DressiAD(device), init=begin, folder=folder, recovery=recovery)
        return job.run(resume=resume, stop=lambda: next(left) >= polls)

    yield recovered
    pixels.close_engines()


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
