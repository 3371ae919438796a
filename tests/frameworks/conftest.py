"""The engine of the operations on each driver, and small scenes in the clip space of OpenGL."""

from collections.abc import Iterator

import numpy as np
import pytest

from dressi.frameworks import engine
from dressi.vk.run.device.device import Device


@pytest.fixture(scope="module")
def module_engine(device: Device) -> Iterator[engine.Engine]:
    with engine.using(device) as found:
        yield found


@pytest.fixture
def on_device(module_engine: engine.Engine, monkeypatch: pytest.MonkeyPatch) -> engine.Engine:
    """dressi.numpy and dressi.torch run on this device."""
    monkeypatch.setattr(engine._chosen, "engine", module_engine, raising=False)
    return module_engine


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)
