"""Every Function on every driver against its float64 meaning."""

from functools import cache

import numpy as np
import pytest
from examples import EXAMPLES

from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.ops.image.raster import Rasterize
from dressi.ad.program import Program
from dressi.ad.traversal import leaves
from dressi.vk.plan.options import BASELINE
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk
TOLERANCE = 1e-5  # of the largest value


def near_edges(f: Rasterize) -> np.ndarray:
    """Pixels whose centre lies within 1/16 pixel of an edge of a drawn triangle: there drivers may differ."""
    values = evaluate(f.inputs[:2])
    position = values[0].reshape(values[0].shape[0], -1, 4)
    width, height = f.size
    if f.indexed:
        triangles = values[1].reshape(values[1].shape[0], -1, 3)[:, : f.triangles]
    else:
        triangles = np.arange(3 * f.triangles).reshape(1, -1, 3)
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    near = np.zeros((f.batch, height, width), bool)
    for tile in range(f.batch):
        clip = position[tile % len(position)]
        screen = (clip[:, :2] / clip[:, 3:] * 0.5 + 0.5) * (width, height)
        for triangle in triangles[tile % len(triangles)]:
            for a, b in zip(screen[triangle], screen[np.roll(triangle, -1)], strict=True):
                d = b - a
                t = np.clip(((x - a[0]) * d[0] + (y - a[1]) * d[1]) / max(d @ d, 1e-30), 0, 1)
                near[tile] |= np.hypot(x - a[0] - t * d[0], y - a[1] - t * d[1]) <= 1 / 16
    return near


def compare(v: Variable, got: np.ndarray, expected: np.ndarray, what: str) -> None:
    if isinstance(v.creator, Rasterize):
        far = ~near_edges(v.creator)
        assert far.mean() > 0.5 and (got[far] == expected[far]).all(), what
        return
    finite = np.isfinite(expected)
    assert (np.isfinite(got) == finite).all(), what
    largest = np.abs(expected[finite]).max(initial=0.0)
    if largest < 1e-20:  # zero by cancellation: judged by what cancelled
        largest = max(np.abs(x.data).max() for x in leaves([v]))
    error = np.abs(got[finite] - expected[finite]).max(initial=0.0)
    assert error <= TOLERANCE * max(largest, 1e-30), f"{what}: {error:.3g} of {largest:.3g}"


@cache
def meaning_of(kind) -> tuple[list[Variable], list[np.ndarray]]:
    """The examples of a kind of Function, and their values in float64."""
    examples = [build().output for build in EXAMPLES[kind]]
    return examples, evaluate(examples)


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_meaning(device, kind):
    examples, expected = meaning_of(kind)
    program = Program({f"{kind.__name__} {k}": v for k, v in enumerate(examples)})
    for options in ({}, {"options": BASELINE}):
        with VulkanExecutor(program, device, **options) as run:
            run.run()
            run.wait()
            for name, v, value in zip(program.outputs, examples, expected, strict=True):
                compare(v, run.recv(v), value, name)
