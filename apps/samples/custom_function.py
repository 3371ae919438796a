"""A Function of one's own, Hable's filmic curve: exposure and fog are found from a tone-mapped picture.

    python apps/samples/custom_function.py
"""

import numpy as np
from sample_tools import options, report

from dressi import DressiAD, F, Variable, adam
from dressi.ad.graph import PixelFunction
from dressi.render import primitives, render


class Filmic(PixelFunction):
    """(x (0.15 x + 0.05) + 0.004) / (x (0.15 x + 0.5) + 0.06) - 1/15, component by component."""

    glsl = "($0 * (0.15 * $0 + 0.05) + 0.004) / ($0 * (0.15 * $0 + 0.5) + 0.06) - 1.0 / 15.0"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        return (x * (0.15 * x + 0.05) + 0.004) / (x * (0.15 * x + 0.5) + 0.06) - 1 / 15

    def partials(self, x):
        below = x * (0.15 * x + 0.5) + 0.06
        return (((0.3 * x + 0.05) - (x * (0.15 * x + 0.05) + 0.004) / below * (0.3 * x + 0.5)) / below,)


given = options(__doc__, steps=200, size=64)
exposure, fog = Variable.of(0.0, name="exposure"), Variable.of([0.5, 0.5, 0.5], name="fog")
scene = render(primitives.pear(), size=given.size).colour
picture = Filmic((F.add(scene, 0.0) + fog) * F.exp(exposure)).output
target = Filmic((F.add(scene, 0.0) + (0.05, 0.1, 0.3)) * 4.0).output
