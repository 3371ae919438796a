"""Adam, and variants that differ from it only in the second moment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import PixelFunction, Variable
from ..ops.pixel.constant import float_literal
from ..types import FLOAT
from .optimizer import Optimizer, State, clock_of, flushed, moment, names


class BiasCorrection(PixelFunction):
    """Input FLOAT t > 0: 1 / (1 - b^t), accurate in single precision even if b^t is nearly 1, as in the first steps with b = 0.999.

    With x = -t ln b this is 1 / (1 - exp(-x)), and (1 + x/2 + x^2/12) / x for small x: off by x^4 / 720, 2e-7 at 0.1.
    """

    operations = 20.0
    fields = ("rate",)

    def __init__(self, t: Variable, beta: float):
        self.rate = -math.log(beta) if beta else 1e4
        super().__init__(t)

    def infer(self):
        if self.inputs[0].vtype is not FLOAT:
            raise self.fail("takes FLOAT")
        return FLOAT, self.inputs[0].domain

    @property
    def glsl(self) -> str:
        return (
            f"{{ float x = $0 * {float_literal(self.rate)};\n"
            "$y = x < 0.1 ? (1.0 + x * (0.5 + x * 0.083333336)) / x : 1.0 / (1.0 - exp(-x)); }"
        )

    def eval(self, t):
        with np.errstate(divide="ignore"):
            return -1.0 / np.expm1(-t * self.rate)

    def partials(self, t):
        return ((self.output - F.square(self.output)) * self.rate,)


class ScaleByAdam(Optimizer):
    """m / (sqrt(v) + eps) with bias correction: Kingma and Ba, Adam, algorithm 1.

    m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;  both divided by 1 - b^t, t = 1 in the first step.
    """

    def __init__(self, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8):
        if not (isinstance(betas, Sequence) and len(betas) == 2):
            raise GraphError(f"betas of adam are two numbers, not {betas!r}")
        for beta in betas:
            if isinstance(beta, bool) or not (isinstance(beta, Real) and 0 <= beta < 1):
                raise GraphError(f"betas of adam lie in [0, 1), not {beta!r}")
        if isinstance(eps, bool) or not (isinstance(eps, Real) and 0 <= eps < math.inf):
            raise GraphError(f"eps of adam is a finite number of at least 0, not {eps!r}")
        self.betas, self.eps = betas, eps

    def init(self, parameters):
        moments = [(p, f"{n}.adam_{k}") for p, n in zip(parameters, names(parameters)) for k in "mv"]
        return {name: moment(p, name) for p, name in moments}

    def update(self, gradients, state, parameters):
        t = clock_of(state) + 1.0
        fix1, fix2 = (BiasCorrection(t, b).output for b in self.betas)
        b1, b2 = self.betas
        directions, new = [], {}
        for g, name in zip(gradients, names(parameters), strict=True):
            m, v = state[f"{name}.adam_m"], state[f"{name}.adam_v"]
            m2 = new[f"{name}.adam_m"] = flushed(m * b1 + g * (1.0 - b1))
            v2 = new[f"{name}.adam_v"] = flushed(v * b2 + F.hadamard(g, g) * (1.0 - b2))
            scale, changed = self._second(name, v2, state)
            new |= changed
            directions.append(F.hadamard(m2 * fix1, 1.0 / (F.sqrt(scale * fix2) + self.eps)))
        return directions, new

    def _second(self, name: str, v: Variable, state: State) -> tuple[Variable, State]:
        """The second moment whose root divides the direction, and new values of the state that it needs."""
        return v, {}


class ScaleByAdamUniform(ScaleByAdam):
    """Adam with one scale for a whole parameter: the largest second moment of all its components.

    Nicolet, Jacobson and Jakob, Large Steps in Inverse Rendering of Geometry, section 4.3. The direction stays that of
    the first moment, while Adam's own scaling by components would undo a linear map of the gradient.
    """

    def _second(self, name, v, state):
        return F.max(F.max_component(v)), {}


class ScaleByAmsgrad(ScaleByAdam):
    """Adam whose second moment never shrinks: Reddi, Kale and Kumar, On the Convergence of Adam and Beyond,
    algorithm 2, with Adam's bias correction."""

    def init(self, parameters):
        largest = {
            f"{n}.adam_vmax": moment(p, f"{n}.adam_vmax") for p, n in zip(parameters, names(parameters))
        }
        return {**super().init(parameters), **largest}

    def _second(self, name, v, state):
        largest = F.maximum(state[f"{name}.adam_vmax"], v)
        return largest, {f"{name}.adam_vmax": largest}
