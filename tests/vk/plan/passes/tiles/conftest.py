"""What tests of register tiles share."""

import numpy as np
import pytest

from dressi.vk.plan.lowering import tile_contractions


@pytest.fixture
def always(monkeypatch):
    """Every contraction is done by register tiles, however small."""
    tile_contractions.chosen.cache_clear()
    monkeypatch.setattr(tile_contractions, "WORTH", 0.0)
    monkeypatch.setattr(tile_contractions, "GAIN", np.inf)
    yield
    tile_contractions.chosen.cache_clear()
