"""Passes are tested whether what they make pays or not: the graphs of these tests are small."""

from collections.abc import Iterator

import pytest

from dressi import Device
from dressi.vk.plan import compiler
from dressi.vk.plan.passes.draws import rasterize_in_compute


@pytest.fixture(autouse=True, scope="module")
def what_passes_make_is_kept() -> Iterator[None]:
    """All but rasters by dispatches: they would leave none to the passes that draw."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "JUDGED", frozenset((rasterize_in_compute,)))
        yield


@pytest.fixture
def own(device: Device) -> Iterator[Device]:
    """A second device of the same driver, on which a test leaves nothing."""
    own = Device(device.physical, validation=device.instance.validation)
    yield own
    assert own.live_objects() == []
    own.close()
