"""After an error of any kind the next call works, values are right, and nothing is left behind."""

import numpy as np
import pytest

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph import PixelFunction
from dressi.config import config
from dressi.errors import DressiError, OutOfMemoryError, PlanError
from dressi.vk.run import built, executor
from dressi.vk.run.device.commands import Commands
from dressi.vk.run.device.transfer import Transfers
from dressi.vk.run.shaders import pipeline_cache
from dressi.vk.run.shaders.pipeline import PipelineMaker
from dressi.vk.run.shaders.pipeline_cache import PipelineCache

pytestmark = pytest.mark.vk


class Wrong(PixelFunction):
    glsl = "$0 + unknown"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()


class Lost(Wrong):
    glsl = "$0"
    includes = ("there/is/no/such_file.glsl",)


@pytest.fixture
def own(device):
    with config(cache=None):
        own = Device(device.physical, validation=device.instance.validation)
        yield own
        assert own.live_objects() == []
        own.close()


def leaf(name: str) -> Variable:
    return Variable(size=(4, 3), data=np.arange(12.0).reshape(1, 3, 4), name=name)


@pytest.mark.parametrize("kind", [Wrong, Lost])
def test_after_wrong_glsl(own, kind):
    x = leaf("x")
    with DressiAD(own) as ad:
        ad.set_output("y", F.square(x))
        ad.recv("y")
        before = own.live_objects()
        for _ in range(3):
            with pytest.raises(DressiError):
                ad.evaluate(kind(F.sum(leaf("other") * 2.0)).output + F.shift(x, 1, 0))
            assert own.live_objects() == before
        found = ad.evaluate([x + 1.0, F.sum(x, "x")])
        np.testing.assert_array_equal(found[0], x.data + 1)
        np.testing.assert_array_equal(ad.recv("y"), x.data**2)


PLACES = [
    (executor, "build_plan"),
    (executor, "check_memory"),
    (pipeline_cache, "compile_many"),
    (PipelineCache, "release_modules"),
    (PipelineMaker, "make"),
    (built, "make_pool"),
    (Commands, "initialize"),
    (Commands, "record"),
    (Commands, "submit"),
    (Transfers, "upload"),
]


@pytest.mark.one_driver  # what the host does
@pytest.mark.parametrize("error", [KeyboardInterrupt, OutOfMemoryError, PlanError])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[1])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_error_anywhere_leaves_nothing_and_the_next_call_works(own, monkeypatch, place, error, after):
    """error: raised by each call of a part in turn, before or after its work, until the calls come to their end."""
    owner, name = place
    whole = getattr(owner, name)
    for turn in range(12):
        x, y = leaf("x"), Variable(size=(4, 3), name="y")
        total = F.sum(F.shift(x, 1, 0, "clamp") * y, "x")
        calls = 0

        def failing(*arguments, turn=turn, **more):
            nonlocal calls
            calls += 1
            if calls == turn + 1 and not after:
                raise error("on purpose")
            found = whole(*arguments, **more)
            if calls == turn + 1:
                raise error("on purpose")
            return found

        with DressiAD(own) as ad:
            ad.set_output("total", total)
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, failing)
                try:
                    ad.send(y, np.ones((3, 4)))
                    ad.recv("total")
                    ad.send(y, np.full((3, 4), 2.0))
                    ad.recv("total")
                except (KeyboardInterrupt, DressiError) as caught:
                    assert "on purpose" in str(caught)
            ad.send(y, np.full((3, 4), 3.0))
            moved = np.pad(x.data[0], ((0, 0), (1, 0)), mode="edge")[:, :4]
            expected = 3 * moved.sum(1)
            np.testing.assert_allclose(ad.recv("total").reshape(-1), expected)
            np.testing.assert_allclose(ad.evaluate(total + 1.0).reshape(-1), expected + 1)
        assert own.live_objects() == []
        if calls <= turn:
            break
    else:
        pytest.fail("the calls do not come to an end")
