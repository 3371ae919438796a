"""`dressi fit --rerun`: what a recording gets, with a stand-in for rerun where it is not installed."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_fits import fits_on

from dressi import InputError
from dressi.cli.fitting.request import Request, check_options
from dressi.cli.fitting.run import Recording
from dressi.render.fit import FitJob


class Stream:
    """What of ``rerun.RecordingStream`` a recording calls."""

    def __init__(self, *_, recording_id):
        self.step, self.logged, self.calls = 0, [], []

    def set_time(self, timeline, *, sequence):
        self.step = sequence

    def log(self, name, value, static=False):
        self.logged.append((name, self.step, value))

    def save(self, path):
        self.calls.append(("save", path))

    def connect_grpc(self, address):
        raise ValueError(f'invalid endpoint "{address}"\nmore')

    def __getattr__(self, name):
        return lambda *given, **named: self.calls.append((name, given))


@pytest.fixture
def rerun(monkeypatch):
    image = lambda codes: SimpleNamespace(compress=lambda: codes)  # noqa: E731
    up = SimpleNamespace(RIGHT_HAND_Y_UP="up")
    module = SimpleNamespace(
        RecordingStream=Stream, Scalars=float, Image=image, Asset3D=lambda **given: given, ViewCoordinates=up
    )
    monkeypatch.setitem(sys.modules, "rerun", module)


@pytest.mark.one_driver
def test_losses_pictures_and_meshes_are_recorded(device, rerun, tmp_path):
    fits, told = fits_on(device), []
    recording = Recording(str(tmp_path / "new" / "fit.rrd"), "a fit")
    with recording:
        result = recording.run(
            FitJob(fits.scene, fits.options, fits.make_engine), resume=False, progress=told.append
        )
    of: dict[str, list] = {}
    for name, step, value in recording._stream.logged:
        of.setdefault(name, []).append((step, value))
    assert of["loss"] == [(k + 1, loss) for k, (_, loss) in enumerate(result.losses)]
    assert {step for step, _ in of["IoU"]} == {now.done for now in told if now.iou is not None}
    assert of["pictures"][0][1].dtype == np.uint8 and of["pictures"][-1][0] == len(result.losses)
    assert all(model["contents"][:4] == b"glTF" for _, model in of["world/mesh"])
    assert (tmp_path / "new").is_dir() and ("disconnect", ()) in recording._stream.calls


@pytest.mark.vk
def test_what_cannot_be_recorded_is_said(monkeypatch, rerun):
    with pytest.raises(InputError, match='--rerun foo: invalid endpoint "foo"; give another file or address'):
        Recording("foo", "a fit")
    with pytest.raises(InputError, match="--rerun and --view each show the fit"):
        check_options(Request(rerun="a.rrd", view=True, target=Path("mesh.glb")))
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(InputError, match=r"pip install 'dressi\[rerun\]'"):
        Recording("a.rrd", "a fit")
