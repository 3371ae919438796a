"""Passes are tested whether what they make pays or not: the graphs of these tests are small. Tests change what
passes do, so that every plan is made anew, and none is kept for other tests."""

from collections.abc import Iterator

import pytest

from dressi import Device
from dressi.vk.plan import compiler
from dressi.vk.plan.passes.draws import rasterize_in_compute
from dressi.vk.run import runner
from dressi.vk.run.execution import executor


@pytest.fixture(autouse=True, scope="module")
def what_passes_make_is_kept() -> Iterator[None]:
    """All but rasters by dispatches: they would leave none to the passes that draw."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "JUDGED", frozenset((rasterize_in_compute,)))
        patch.setattr(executor, "planned", executor.anew)
        patch.setattr(runner, "planned", executor.anew)
        yield


@pytest.fixture
def own(device: Device) -> Iterator[Device]:
    """A second device of the same driver, on which a test leaves nothing."""
    own = Device(device.physical, validation=device.instance.validation)
    yield own
    assert own.live_objects() == []
    own.close()
