"""What tests of strips share."""

import numpy as np
import pytest

from dressi.vk.plan.lowering.tiling import choose


@pytest.fixture
def always(monkeypatch):
    """Every contraction is done by strips, however small."""
    choose.chosen.cache_clear()
    monkeypatch.setattr(choose, "WORTH", 0.0)
    monkeypatch.setattr(choose, "GAIN", np.inf)
    yield
    choose.chosen.cache_clear()
