"""Fixtures of the tests of the command line."""

import pytest

from dressi.errors import DressiError


@pytest.fixture(scope="session")
def driver() -> None:
    """Skips tests where no driver answers."""
    from dressi.vk.run.device.instance import list_devices

    try:
        list_devices()
    except DressiError as error:
        pytest.skip(str(error))


@pytest.fixture
def coarse_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of this process carve first shapes, and make folded surfaces anew, on grids for thumbnails."""
    monkeypatch.setattr("dressi.render.fit.phases.remeshed.CELLS", 32)
    monkeypatch.setattr("dressi.render.fit.start.carved.CELLS", 48)
