"""Absorbance along a ray, and what its moments tell of how it is distributed (``layers.moments``)."""

from __future__ import annotations

from ...ad import functional as F
from ...ad.graph import Variable

BIAS = 5e-5
"""How far moments are moved to those of a spread distribution. Single precision needs it; less loses digits, more is less exact."""
SPREAD = (0.0, 0.375, 0.0, 0.375)
"""Moments of that distribution."""
OWN = 0.25
"""How much of the absorbance at z lies before it."""
LEAST = 1e-8
"""Denominators that are smaller are replaced."""
DARKEST = 1e-4
"""A transmittance that is less counts as this."""


def absorbance(through: Variable) -> Variable:
    """-log of a transmittance."""
    return -F.log(F.maximum(through, DARKEST))


def mean(rgb: Variable) -> Variable:
    """FLOAT: of the components of a VEC3."""
    return F.sum_components(rgb) * (1 / 3)


def powers(z: Variable) -> Variable:
    """VEC4: z, z^2, z^3, z^4."""
    square = z * z
    return F.vec4(z, square, square * z, square * square)


def share_before(moments: Variable, depth: Variable, own: float = OWN) -> Variable:
    """FLOAT in [0, 1]: A(z) / b_0, how much of the absorbance lies nearer than a depth.

    moments: VEC4, b_1 to b_4 of depths in [-1, 1].  depth: FLOAT. Differentiable in both.  own: how much of what lies at the
    depth counts: for many thin things a half.
    """
    b = F.mix(moments, SPREAD, BIAS)
    b1, b2, b3, b4 = b.x, b.y, b.z, b.w
    # Cholesky factors of the Hankel matrix ((1, b1, b2), (b1, b2, b3), (b2, b3, b4)); then c = its inverse times (1, z, z^2).
    mixed = b3 - b1 * b2
    variance = b2 - b1 * b1
    slope = mixed / variance
    second = (depth * depth - b2 - slope * (depth - b1)) / (b4 - b2 * b2 - mixed * slope)
    first = (depth - b1) / variance - slope * second
    zeroth = 1.0 - (first * b1 + second * b2)
    # The other two points of support are the roots of c_0 + c_1 x + c_2 x^2. One is at infinity where c_2 is 0.
    over = 1.0 / _apart(second)
    middle = first * over * -0.5
    root = F.sqrt(F.maximum(middle * middle - zeroth * over, LEAST))
    near, far = middle - root, middle + root
    # The polynomial that is OWN at z and 1 or 0 at the roots (nearer or farther), by divided differences; its mean is A(z) / b_0.
    of_near, of_far = (F.less(x, depth) for x in (near, far))
    one = (of_near - own) / _apart(near - depth)
    two = (of_far - of_near) / (far - near)
    three = (two - one) / _apart(far - depth)
    mean = own + one * (b1 - depth) + three * (b2 - b1 * (depth + near) + depth * near)
    return F.clamp(mean, 0.0, 1.0)


def _apart(x: Variable) -> Variable:
    """x, and LEAST where it is nearly 0."""
    return F.select(F.less(F.abs(x), LEAST), LEAST, x)
