"""The sRGB transfer curve as Functions, differentiable; ``color`` has it on the host. Codes are not clamped."""

from __future__ import annotations

from ...ad import functional as F
from ...ad.graph import Variable


def decoded(codes: Variable) -> Variable:
    """Linear light of sRGB codes (float image); below 0 the curve goes on straight, above 1 as a power. Differentiable.

    >>> from dressi import evaluate
    >>> evaluate(decoded(Variable.of([0.0, 0.5, 1.0], FLOAT))).round(3).tolist()
    [0.0, 0.214, 1.0]
    """
    high = F.pow((F.maximum(codes, 0.04045) + 0.055) / 1.055, 2.4)
    return F.select(F.less_equal(codes, 0.04045), codes / 12.92, high)


def encoded(light: Variable) -> Variable:
    """sRGB codes of linear light (float image), the inverse of ``decoded``. Differentiable.

    >>> from dressi import evaluate
    >>> evaluate(encoded(Variable.of([0.0, 0.214, 1.0], FLOAT))).round(3).tolist()
    [0.0, 0.5, 1.0]
    """
    high = F.pow(F.maximum(light, 0.0031308), 1 / 2.4) * 1.055 - 0.055
    return F.select(F.less_equal(light, 0.0031308), light * 12.92, high)
