"""Fragment sub-graphs of rasters on devices: what their roots and the names in their snippets may be."""

import numpy as np
import pytest

from dressi import FLOAT, VEC4, F, PixelFunction, Variable
from dressi.ad.evaluate import evaluate
from dressi.ad.program import Program
from dressi.vk.run.executor import VulkanExecutor

SIZE = (12, 8)
CORNERS = np.array([(-1, -1, 0.5, 1), (3, -1, 0.5, 1), (-1, 3, 0.5, 1)] * 2, float)


class Hidden(PixelFunction):
    """Its snippet has variables of its own with the names that draws use."""

    zero_derivative = True
    glsl = "int face = -5, triangle = -5, number = -5; $y = float($0 + face + triangle + number == -15);"

    def infer(self):
        return FLOAT, self.inputs[0].domain

    def evaluate(self, at, x):
        return np.where(x == 0, 1.0, 0.0)


def drawn(fragment) -> Variable:
    position = Variable(VEC4, (6, 1), data=CORNERS[None, None])
    return F.rasterize(position, size=SIZE, fragment=fragment)


def image(seed: int) -> Variable:
    values = np.random.default_rng(seed).integers(0, 5, (1, SIZE[1], SIZE[0])) / 4
    return Variable(FLOAT, SIZE, data=values)


ROOTS = {
    "a leaf keeps": lambda: drawn(lambda face: (F.to_float(face) * 0.25, image(1))),
    "a leaf is the depth": lambda: drawn(lambda face: (image(2), Hidden(face).output)),
    "values are both": lambda: drawn(lambda face: (F.sqrt(image(2)) * 0.5, F.shift(image(1), 1, 2))),
    "own names": lambda: drawn(lambda face: (0.5 - 0.25 * F.to_float(face), Hidden(face).output)),
}


@pytest.mark.parametrize("name", ROOTS)
def test_devices_draw_what_the_fragment_means(device, name):
    face = ROOTS[name]()
    (wanted,) = evaluate([face])
    assert len(np.unique(wanted)) > 1 or name == "own names"
    with VulkanExecutor(Program({"face": face}), device) as run:
        run.run()
        np.testing.assert_array_equal(run.recv(face), wanted)
