"""A Function of one's own, a filmic curve with its derivative: exposure and fog are recovered from a tone-mapped picture.

python apps/samples/custom_function.py
"""

import numpy as np
from sample_tools import options, report

from dressi import VEC3, DressiAD, F, PixelFunction, Variable, adam
from dressi.render import primitives, render


class Filmic(PixelFunction):
    """x (2.51 x + 0.03) / (x (2.43 x + 0.59) + 0.14), component by component (Narkowicz)."""

    glsl = "$0 * (2.51 * $0 + 0.03) / ($0 * (2.43 * $0 + 0.59) + 0.14)"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        return x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14)

    def partials(self, x):
        above, below = x * (2.51 * x + 0.03), x * (2.43 * x + 0.59) + 0.14
        return ((5.02 * x + 0.03 - above / below * (4.86 * x + 0.59)) / below,)


given = options(__doc__, steps=300, size=64)
scene = Variable.of(render(primitives.pear(), size=given.size).colour, name="scene")
exposure, fog = Variable.of(0.0, name="exposure"), Variable.of([0.3, 0.3, 0.3], VEC3, name="fog")
target = Filmic((scene + (0.05, 0.1, 0.2)) * 2.0).output
picture = Filmic((scene + fog) * F.exp(exposure)).output

with DressiAD(given.device) as ad:
    ad.set_loss(F.mean(F.square(F.length(picture - target))))
    ad.set_optimizer(adam(0.02), [exposure, fog])
    ad.step(given.steps)
    error = np.abs(ad.recv(fog).reshape(3) - (0.05, 0.1, 0.2)).max()
    figures = {"fog_error": error, "exposure": np.exp(ad.recv(exposure))}
    report(given, "custom_function", figures, ad.evaluate(target), ad.evaluate(picture))
