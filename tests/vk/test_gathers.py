"""Reads by random index maps, their transposes and partial sums, on every driver."""

import random

import numpy as np
import pytest
from examples_gathers import SHAPE, TAKEN, domain, some_map

from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.ops.image.gather import Gather
from dressi.ad.program import Program
from dressi.ad.types import VEC2
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk


def test_random_maps(device):
    values = {}
    x, g = (
        Variable.of(np.random.default_rng(k).normal(size=(*np.array(s)[[0, 2, 3]], 2)), VEC2)
        for k, s in enumerate((TAKEN, SHAPE))
    )
    for seed in range(60):
        index = some_map(random.Random(seed))
        gather = Gather(x, index, domain(SHAPE))
        values[f"{seed}: {index}"] = gather.output
        if gather.output.domain != domain(SHAPE):
            continue  # the axes of the batch are left alone
        back = Gather(g, index, domain(TAKEN), True)
        values[f"{seed}: transpose of {index}"] = back.output
        if (short := back.shortened(2)) is not None:
            values[f"{seed}: partial sums of {index}"] = short
    expected = dict(zip(values, evaluate(list(values.values())), strict=True))
    with VulkanExecutor(Program(values), device) as run:
        run.run()
        found = {name: run.recv(v) for name, v in values.items()}
    wrong = [name for name in values if not np.allclose(found[name], expected[name], atol=1e-5)]
    assert wrong == []
    assert len(values) > 90
