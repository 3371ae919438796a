"""What fits of thumbnails have in common."""

import pytest

from dressi.render.fit.phases import unfold
from dressi.render.fit.start.carved import hull


@pytest.fixture(autouse=True)
def coarse_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """First shapes are carved, and folded surfaces made anew, on grids that fit pictures of a few dozen pixels: 256 cells along
    a side take ten seconds."""
    monkeypatch.setattr(unfold, "CELLS", 32)
    monkeypatch.setattr(hull, "CELLS", 48)
