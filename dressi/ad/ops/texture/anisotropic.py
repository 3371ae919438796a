"""Textures: anisotropic sampling, several trilinear taps along the longest axis of a pixel's footprint."""

from __future__ import annotations

from ...graph import Variable
from ..pixel.arithmetic import hadamard, maximum
from ..pixel.compare import greater_equal, select
from ..pixel.exponential import log2, sqrt
from ..pixel.vector import vec2
from .addressing import Place, WrapName
from .levels import sample_levels
from .mipmap import LEAST

__all__: list[str] = []


def footprint_axis(a: Variable, b: Variable) -> tuple[Variable, Variable, Variable]:
    """(d, minor, length): of the matrix J with columns a and b (VEC2), with the singular values s1 and s2, the vector d
    for which d d^T = J J^T - s2^2 (VEC2, of either sign, along the longest axis), s2^2 and |d|^2 = s1^2 - s2^2.

    With the complex number z = (A - C) + 2 B i of J J^T = ((A, B), (B, C)), |d|^2 is |z| and d the square root of z.
    """
    x, y, both = a.x * a.x + b.x * b.x, a.y * a.y + b.y * b.y, a.x * a.y + b.x * b.y
    difference = x - y
    length = sqrt(maximum(difference * difference + both * both * 4.0, LEAST * LEAST))
    # The larger component by the root, the other by B: no cancellation.
    wide = greater_equal(difference, 0.0)
    larger = sqrt(maximum((length + select(wide, difference, -difference)) * 0.5, LEAST))
    smaller = both / larger
    d = vec2(select(wide, larger, smaller), select(wide, smaller, larger))
    determinant = a.x * b.y - a.y * b.x
    return d, determinant * determinant / maximum((x + y + length) * 0.5, LEAST), length


def sample_anisotropic(
    image: Variable,
    places: tuple[Place, ...],
    uv: Variable,
    across: Variable,
    down: Variable,
    taps: int,
    wrap: WrapName,
    layer: Variable | None = None,
) -> Variable:
    """The mean of ``taps`` trilinear samples; see ``F.sample``. The other arguments as for ``sample_levels``."""
    extent = (float(places[0][2]), float(places[0][3]))
    d, minor, length = footprint_axis(hadamard(across, extent), hadamard(down, extent))
    level = log2(maximum(minor + length * (1.0 / taps**2), LEAST)) * 0.5
    along = hadamard(d, (1.0 / extent[0], 1.0 / extent[1]))
    total = None
    for k in range(taps):
        moved = uv + along * ((k + 0.5) / taps - 0.5)
        value = sample_levels(image, places, moved, level, wrap, layer)
        total = value if total is None else total + value
    assert total is not None
    return total * (1.0 / taps)
