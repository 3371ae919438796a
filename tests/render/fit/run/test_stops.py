"""What a fit goes on from whose process was killed after the last step of a round."""

from pathlib import Path

import pytest

from dressi import DressiAD
from dressi.render.fit import FitJob
from dressi.render.fit.run import running
from dressi.vk.run.measure.stages import RoundStages


class Killed(Exception):
    pass


@pytest.mark.vk
def test_a_round_that_was_saved_at_its_end_is_not_measured(device, tiny_fits, tmp_path: Path, monkeypatch):
    """Its engine has run no step since, and was not sent what a step reads."""

    def job(measure) -> FitJob:
        return FitJob(
            tiny_fits.scene, tiny_fits.options, lambda: DressiAD(device), folder=tmp_path, measure=measure
        )

    def kill(name, engine):
        raise Killed

    monkeypatch.setattr(running, "SAVE_SECONDS", 0.0)
    with pytest.raises(Killed):
        job(kill).run()
    stages = RoundStages()
    found, (whole, _) = job(stages).run(resume=True), tiny_fits.whole()
    assert found.finished and found.losses == whole.losses
    assert [stage["round"] for stage in stages] == ["shape 2", "shape 3", "texture 4"]
