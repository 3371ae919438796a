"""Fixtures of the renderer's tests."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.vk.run.executor import VulkanExecutor


@pytest.fixture
def run(device) -> Callable[[Sequence[Variable]], list[np.ndarray]]:
    """Evaluates Variables on a device: the executor that the checks of the oracle's tests take."""

    def values(outputs: Sequence[Variable]) -> list[np.ndarray]:
        program = simplify(Program({f"output {k}": v for k, v in enumerate(outputs)}))
        with VulkanExecutor(program, device) as executor:
            executor.run()
            return [executor.recv(v) for v in program.outputs.values()]

    return values
