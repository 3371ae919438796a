"""The engine of the operations on each driver, and small scenes in the clip space of OpenGL."""

import doctest
from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest

import dressi
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


@pytest.fixture
def examples() -> Callable[[ModuleType], doctest.TestResults]:
    """Runs the examples of all public names of a module; decorated functions are not found by ``doctest.testmod``."""

    def run(module: ModuleType) -> doctest.TestResults:
        names = {"np": np, **{name: getattr(dressi, name) for name in dressi.__all__}}
        runner = doctest.DocTestRunner()
        for name in module.__all__:
            for test in doctest.DocTestFinder().find(getattr(module, name), name, globs=names):
                runner.run(test)
        return runner.summarize()

    return run
