"""Reads by random index maps, their transposes and partial sums, on every driver."""

import random

import numpy as np
import pytest
from examples_gathers import SHAPE, TAKEN, domain, some_map

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.ops.image.gather import Gather
from dressi.ad.ops.image.lookup import Lookup
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, INT, VEC2
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


def test_a_pixel_reads_as_many_tables_as_there_are(device):
    """More than the images of any kind that a shader may read, beside its own pixel."""
    tables = [Variable.of(np.full((1, 3), np.sin(k)), FLOAT, name=f"table {k}") for k in range(130)]
    at = Variable(INT, (8, 4), name="at", data=np.arange(32).reshape(1, 4, 8) % 3)
    total = F.constant(0.0)
    for table in tables:
        total = total + F.lookup(table, at)
    with VulkanExecutor(Program({"total": total}), device) as run:
        run.run()
        np.testing.assert_allclose(run.recv(total), evaluate([total])[0], atol=1e-4)


SIZE = (6, 5)
AT = F.pixel_coordinates((12, 5))
Z = np.random.default_rng(5).integers(-1, 6, (5, 12))
DIAGONAL = F.pixel_coordinates((6, 1))
READS = {
    "f(x / s, z(x))": F.ivec2(AT.x / 2, Variable.of(Z, INT)),
    "in(x, x)": F.ivec2(DIAGONAL.x, DIAGONAL.x),
    "in(x, x) of every y": F.ivec2(AT.x, AT.x),
    "in(2 x + y - 1, y / 2)": F.ivec2(2 * AT.x + AT.y - 1, AT.y / 2),
    "in(7 - x / 3, 2 y)": F.ivec2(7 - AT.x / 3, 2 * AT.y),
    "in(clamp(x - 4), y)": F.clamp(AT - (4, 0), 0, (5, 4)),
}


@pytest.mark.parametrize("name", READS)
def test_gradients_of_reads_that_are_easily_wrong(device, name):
    """The first two lose terms in compilers that turn such scatters into gathers. The loss is quadratic, so that central
    differences with a step of 1 are exact; the differences of the device are of one batch, a tile for each of its texels."""
    rng = np.random.default_rng(7)
    values = rng.integers(-4, 5, (5, 6)).astype(float)
    weights = Variable.of(rng.integers(-2, 3, (READS[name].size[1], READS[name].size[0])), INT)

    def loss(x):
        return F.sum(F.to_float(weights) * F.square(F.lookup(x, READS[name])), "xy")

    x = Variable.of(values, FLOAT)
    steps = np.eye(30).reshape(30, 5, 6)
    (found,) = gradient(loss(x), [x])
    forward, backward = (loss(Variable.of(values + s * steps, FLOAT)) for s in (1, -1))
    outputs = {"gradient": found, "differences": (forward - backward) * 0.5}
    meaning = dict(zip(outputs, evaluate(list(outputs.values())), strict=True))
    with VulkanExecutor(Program(outputs), device) as run:
        run.run()
        results = {key: run.recv(v) for key, v in outputs.items()}
    for g in (meaning, results):
        assert np.array_equal(g["gradient"].ravel(), meaning["differences"].ravel())
        assert np.array_equal(g["differences"].ravel(), meaning["differences"].ravel())


def test_a_pick_of_one_texel_stays_a_lookup():
    """The gradients of the many picks of a kernel share one scatter; as gathers they were one shader each had to compile."""
    assert isinstance(F.lookup(Variable(FLOAT, (5, 5)), 3).creator, Lookup)
