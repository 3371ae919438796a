"""A fit as an iterator of moments: rewound, steered, in parts of a chunk."""

import numpy as np
import pytest

import dressi.render.fit.run.running as running
from dressi import FLOAT, DressiAD, F, GraphError, InputError, Variable, optim
from dressi.render.fit import FitJob
from dressi.render.fit.graphs.controls import Controls

pytestmark = pytest.mark.vk


def job_of(tiny_fits, **controls: float) -> FitJob:
    job = FitJob(tiny_fits.scene, tiny_fits.options, tiny_fits.make_engine)
    job.controls = Controls()
    for name, value in controls.items():
        job.controls.set(name, value, step=0)
    return job


@pytest.mark.release
def test_moments_of_a_few_steps_compute_the_same_fit(tiny_fits):
    whole, _ = tiny_fits.whole()
    run = FitJob(tiny_fits.scene, tiny_fits.options, tiny_fits.make_engine).started()
    run.most = 3
    seen = [moment.step for moment in run]
    assert max(np.diff(seen)) <= 3 and run.result().losses == whole.losses


@pytest.mark.release
def test_a_rewound_fit_computes_the_same_steps_again(tiny_fits, monkeypatch):
    monkeypatch.setattr(running, "SAVE_SECONDS", 0.0)
    whole = job_of(tiny_fits).run()
    run = job_of(tiny_fits).started()
    run.keeping, rewound = 3, 0
    for moment in run:
        if moment.work.name == "texture" and rewound < 2:
            rewound += 1
            assert len(run.kept) <= 3
            run.rewind(run.kept[0])
    assert rewound == 2 and run.finished
    assert run.result().losses == whole.losses
    np.testing.assert_array_equal(run.result().mesh.positions, whole.mesh.positions)


def test_factors_are_data_that_change_a_fit(tiny_fits):
    whole, _ = tiny_fits.whole()
    same, faster = job_of(tiny_fits).run(), job_of(tiny_fits, rate=3.0).run()
    np.testing.assert_allclose([x for _, x in same.losses], [x for _, x in whole.losses], rtol=1e-5)
    assert np.abs(faster.losses[8][1] / whole.losses[8][1] - 1) > 0.01


@pytest.mark.parametrize(
    ("name", "value", "said"), [("speed", 1.0, "no factor"), ("rate", 100.0, "0.05 to 5")]
)
def test_a_factor_is_one_of_those_there_are_within_its_range(name: str, value: float, said: str):
    with pytest.raises(InputError, match=said):
        Controls().set(name, value, step=0)


def test_numbers_of_a_schedule_are_sent_before_the_first_step(device):
    x, rate = Variable.of(4.0, name="x"), Variable(FLOAT, name="rate", data=np.ones((1, 1, 1)))
    other = Variable.of(1.0)
    with DressiAD(device) as ad:
        ad.set_loss(F.square(x))
        ad.set_optimizer(optim.sgd(optim.linear(rate, rate, 4)), [x])
        ad.send(rate, np.full((1, 1, 1), 0.25))
        ad.step()
        assert ad.recv(x).item() == 2.0
        with pytest.raises(GraphError, match="not part of this program"):
            ad.send(other, 2.0)
