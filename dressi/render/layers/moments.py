"""Moment-based order-independent transparency (Muenstermann, Krumpen, Klein and Peters 2018), with four power moments.

The absorbance of a fragment of transmittance t is -log t. What a pixel sees through all fragments nearer than z has the
absorbance A(z), a step function. Instead of this function its total and its first four moments are kept:

    b_0 = sum a_i,    b_k = sum a_i z_i^k / b_0,    k = 1 to 4,    z scaled to [-1, 1].

Of all distributions with these moments, one has three points of support of which one is z. From it comes the transmittance
before z: the points nearer than z count fully, z itself by a quarter (the middle of the bounds of the truth, and in tests the best
of all shares). Nothing is sorted and no number of layers is set: two passes of sums over all fragments, in any order.

    colour = sum c_i T(z_i) / sum (1 - t_i) T(z_i)  *  (1 - exp(-b_0))  +  exp(-b_0) background

The division makes the colour exact where there is one fragment, or where all have one colour. The result is smooth in
depths: where panes pass through each other, nothing jumps.
"""

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


def transmittance_before(total: Variable, moments: Variable, depth: Variable) -> Variable:
    """FLOAT in [0, 1]: how much light comes through everything nearer than a depth.

    total: FLOAT, b_0.  moments: VEC4, b_1 to b_4 divided by it, of depths in [-1, 1].  depth: FLOAT. Differentiable in all.
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
    one = (of_near - OWN) / _apart(near - depth)
    two = (of_far - of_near) / (far - near)
    three = (two - one) / _apart(far - depth)
    mean = OWN + one * (b1 - depth) + three * (b2 - b1 * (depth + near) + depth * near)
    return F.exp(-total * F.clamp(mean, 0.0, 1.0))


def _apart(x: Variable) -> Variable:
    """x, and LEAST where it is nearly 0."""
    return F.select(F.less(F.abs(x), LEAST), LEAST, x)
