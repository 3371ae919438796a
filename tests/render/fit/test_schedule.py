"""Phases, reach, and a ball that comes home from far."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import soft_cases as sc

from dressi import DressiAD
from dressi.ad import functional as F
from dressi.ad.graph import Variable
from dressi.ad.optim import adam
from dressi.ad.types import FLOAT, VEC2
from dressi.errors import InputError
from dressi.render.cameras.views import ring
from dressi.render.fit import Dataset, FitJob, FitOptions
from dressi.render.fit.data.dataset import Observations
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.forms.reach import check_reach, gap, marked
from dressi.render.mesh.primitives import octasphere
from dressi.render.objectives.phases import Phase, run_phases

REPOSITORY = Path(__file__).resolve().parents[3]


def far_range():
    spec = importlib.util.spec_from_file_location("far_range", REPOSITORY / "apps" / "far_range.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_numbers_of_a_phase_go_geometrically():
    radius = Variable(FLOAT, name="radius")
    phase = Phase(4, numbers={radius: (0.8, 0.05)})
    np.testing.assert_allclose([phase.at(k)[radius] for k in range(5)], [0.8, 0.4, 0.2, 0.1, 0.05])


@pytest.mark.parametrize(
    "phase, named",
    [
        (Phase(0), "step"),
        (Phase(1, numbers={Variable(FLOAT, name="radius"): (0.1, 0.0)}), "radius"),
        (Phase(1, numbers={Variable(VEC2, name="shift"): (0.1, 0.1)}), "shift"),
    ],
)
def test_phases_that_make_no_sense_are_named(phase, named):
    with pytest.raises(InputError, match=named):
        run_phases([phase], lambda _: F.constant(0.0), adam(0.1), [], lambda: pytest.fail("built"))


@pytest.mark.release
@pytest.mark.vk
def test_forms_follow_each_other_and_the_optimizer_goes_on(device):
    """Outer, face with two layers, antialias: one build each; radius and sigma are data; Adam's counter is carried."""
    case = sc.flat(
        [(-0.5, -0.5, 0.4), (0.3, -0.5, 0.4), (0.3, 0.5, 0.4), (-0.5, 0.5, 0.4)], [(0, 1, 2), (0, 2, 3)]
    )
    position, faces = case.variables()
    move = Variable(VEC2, name="move", data=np.array([[[[0.5, -0.3]]]]))
    radius, sigma = Variable(FLOAT, name="radius"), Variable(FLOAT, name="sigma")
    built = []

    def build(phase):
        form = phase.options["form"]
        numbers = {} if form == "antialias" else {"radius": radius}
        numbers |= {"sigma": sigma} if form == "face" else {}
        own, target = (
            hard_soft_ras(p, faces, size=(32, 32), face_count=2, **numbers, **phase.options).silhouette
            for p in (position + F.vec4(move, 0.0, 0.0), position)
        )
        built.append(form)
        return F.mean(F.square(own - F.stop_gradient(target)))

    phases = [
        Phase(30, {"form": "outer"}, {radius: (0.5, 0.1)}),
        Phase(20, {"form": "face", "layers": 2}, {radius: (0.1, 0.06), sigma: (0.02, 0.01)}),
        Phase(20, {"form": "antialias"}),
    ]
    result = run_phases(phases, build, adam(0.02), [move], lambda: DressiAD(device))
    assert built == ["outer", "face", "antialias"] and result.builds == 3 and len(result.losses) == 70
    assert int(result.state["step"].reshape(())) == 70
    assert np.abs(result.state["move"]).max() * 16 < 0.2


@pytest.mark.release
@pytest.mark.vk
def test_a_ball_feels_its_target_from_far(device):
    """The pull at 0.35 and 0.6 is at least that of overlap; from 1.2 and, with a margin, along the border it comes home."""
    app = far_range()
    far = app.Range("outer", 32, -app.FARTHEST / 2, app.FARTHEST / 2)
    near, *others = far.slopes(device, [app.FARTHEST - distance for distance in app.DISTANCES])
    assert near < 0 and max(others) <= near
    assert far.recover(device, 80) < 0.2
    assert app.Range("outer", 32, -0.9, 0.6).slopes(device, [0.0])[0] > 0
    assert app.Range("outer", 32, -0.9, 0.6, app.REACH).slopes(device, [0.0])[0] < 0


def masks(*columns: int) -> np.ndarray:
    """(N, 20, 20) with a square of four pixels that starts at each column."""
    found = np.zeros((len(columns), 20, 20))
    for image, column in zip(found, columns, strict=True):
        image[8:12, column : column + 4] = 1
    return found


def test_gaps_are_between_outlines():
    np.testing.assert_allclose(gap(masks(0, 0, 2, 0), masks(4, 10, 0, 0)), [0, 6 / 20, 0, 0])
    np.testing.assert_allclose(gap(masks(0), np.zeros((1, 20, 20))), [0])
    with pytest.raises(InputError, match="size"):
        gap(masks(0), masks(0, 1))


def test_what_is_out_of_reach_is_said():
    own, target = masks(0, 0), masks(10, 2)
    assert check_reach(own, target, 0.2) is None
    note = check_reach(own, target, 0.1)
    assert note is not None and "1 of 2 views (number 0)" in note and "0.3" in note
    with pytest.raises(InputError, match="nothing would pull"):
        check_reach(own[:1], target[:1], 0.1)


def test_points_mark_their_pixels():
    matrix = np.eye(4)
    points = np.array([(0.0, 0.0, 0.5), (-0.99, 0.99, 0.5), (2.0, 0.0, 0.5)])
    found = marked(matrix[None], points, (4, 6))
    assert np.argwhere(found[0]).tolist() == [[2, 3], [3, 0]]


def test_a_fit_out_of_reach_is_refused_before_it_starts():
    """The start is above, all masks show something below, and three pixels do not reach so far."""
    cameras = ring(np.zeros(3), 1.0, 2, (64, 64))
    seen = np.zeros((2, 64, 64))
    seen[:, 56:60, 30:34] = 1
    train = Observations(cameras, seen, seen[..., None] * np.ones(3))
    scene = Dataset(train, None, np.zeros(3), 1.0, np.array([[-1.0] * 3, [1.0] * 3]), np.array([0.0, 1, 0]))
    options = FitOptions(size=(64, 64), views=2, radius=0.01)
    job = FitJob(scene, options, lambda: pytest.fail("built"), init=octasphere(3, 0.25, (0.0, 0.45, 0.0)))
    with pytest.raises(InputError, match="nothing would pull"):
        job.run()
