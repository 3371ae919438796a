"""Moment-based order-independent transparency (Muenstermann, Krumpen, Klein and Peters 2018), with four power
moments.

The absorbance of a fragment of transmittance t is -log t. What a pixel sees through all fragments nearer than
z has the absorbance A(z), a step function. Instead of this function its total and its first four moments are
kept:

    b_0 = sum a_i,    b_k = sum a_i z_i^k / b_0,    k = 1 to 4,    z scaled to [-1, 1].

Of all distributions with these moments, one has three points of support of which one is z. From it comes the
transmittance before z: the points nearer than z count fully, z itself by a quarter (the middle of the bounds
of the truth, and in tests the best of all shares). Nothing is sorted and no number of layers is set: two
passes of sums over all fragments, in any order.

    colour = sum c_i T(z_i) / sum (1 - t_i) T(z_i)  *  (1 - exp(-b_0))  +  exp(-b_0) background

The division makes the colour exact where there is one fragment, or where all have one colour. The result is
smooth in depths: where panes pass through each other, nothing jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ..forms.form import Form, Silhouette
from ..surface.screen import DrawnMesh, Surface, covered
from .stacks import Shade, Transparent, depth_of

THINNEST = 1e-6
"""Least difference between the nearest and the farthest depth (z / w)."""


@dataclass(frozen=True, eq=False)
class Summed(Transparent):
    """Transparent faces by moments, over the picture of the opaque ones by any form."""

    opaque: int
    """How many faces at the start of the list are opaque."""
    solid: Silhouette | None
    """The opaque faces; None where there are none."""

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """Surfaces of the opaque faces."""
        return () if self.solid is None else self.solid.surfaces

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        """The opaque faces alone."""
        if self.solid is None:
            return F.expand(0.0 if background is None else background, self.mesh.clip.batch, self.mesh.size)
        return self.solid.blend(colours, background)

    def composed(self, shade: Shade, background: Like | None = None) -> Variable:
        colour, clear = summed_layers(self.mesh, self.opaque, lambda surface: shade(surface, False))
        far = (0.0, 0.0, 0.0) if background is None else background
        return colour + clear * self.blend([shade(surface, True)[0] for surface in self.surfaces], far)


def draw_summed(form: Form, mesh: DrawnMesh, opaque: int, **options: Any) -> Summed:
    """The picture of a mesh whose faces from number ``opaque`` on are transparent, drawn by
    ``summed_layers``. form: of the opaque faces, with its options. Raises InputError."""
    solid = form.draw(replace(mesh, face_count=opaque), **options) if opaque else None
    hard = covered(mesh.face)
    return Summed(hard, hard if solid is None else solid.silhouette, mesh, opaque, solid)


def summed_layers(
    mesh: DrawnMesh, opaque: int, shade: Callable[[Surface], tuple[Variable, Variable]]
) -> tuple[Variable, Variable]:
    """(VEC3, VEC3): the colour of all transparent faces before the opaque ones at each pixel, and how much of
    what lies behind is seen through them: the picture is colour + transmittance * picture of what lies
    behind.

    mesh: its first ``opaque`` faces are opaque, the others transparent.  shade(surface): (radiance,
    transmittance) of a surface at the fragments, VEC3 each; a graph of PixelFunctions.  Differentiable in all
    that the shading reads, and in the positions by what it interpolates and by the depths; not in what covers
    the centre of a pixel.
    """
    limit = depth_of(mesh, replace(mesh, face_count=opaque).face) if opaque else None
    transparent = F.greater_equal(F.linear_index(mesh.faces.size), opaque)
    low, high = _depths(mesh, transparent)
    drawn = replace(mesh, live=transparent)

    def sums(of: Callable[[Variable, Variable, Variable], Variable]) -> Variable:
        """Over all fragments, of their radiance, transmittance and depth."""

        def value(face: Variable, depth: Variable) -> Any:
            colour, through = shade(mesh.surface(face))
            result = of(colour, through, (depth - low) / (high - low) * 2.0 - 1.0)
            return result if mesh.keep is None else (result, mesh.keep(face))

        return drawn.summed(value, limit)

    totals = sums(lambda _, through, z: absorbance(through))
    weighted = sums(lambda _, through, z: powers(z) * mean(absorbance(through)))
    moments = weighted / F.maximum(mean(totals), LEAST)

    def seen(through: Variable, z: Variable) -> Variable:
        """VEC3: how much light comes from a fragment to the eye."""
        return F.exp(-totals * share_before(moments, z))

    colour = sums(lambda colour, through, z: colour * seen(through, z))
    weight = sums(lambda _, through, z: (1.0 - through) * seen(through, z))
    clear = F.exp(-totals)
    scale = F.select(F.greater(weight, LEAST), (1.0 - clear) / F.maximum(weight, LEAST), 1.0)
    return colour * scale, clear


def _depths(mesh: DrawnMesh, chosen: Variable) -> tuple[Variable, Variable]:
    """FLOAT 1x1: the least and the largest depth of the corners of the chosen faces. Differentiable."""
    depth = F.clamp(F.component(mesh.points.smooth, 2))
    chosen = F.logical_and(chosen, F.less(F.linear_index(mesh.faces.size), mesh.face_count))
    at = [F.lookup(depth, F.component(mesh.faces, i)) for i in range(3)]
    low, high = F.minimum(F.minimum(at[0], at[1]), at[2]), F.maximum(F.maximum(at[0], at[1]), at[2])
    low, high = F.select(chosen, low, 1.0), F.select(chosen, high, 0.0)
    low, high = F.min(low, axes="xy"), F.max(high, axes="xy")
    return low, F.maximum(high, low + THINNEST)


# Absorbance along a ray, and what its moments tell of how it is distributed (``layers.moments``).

BIAS, SPREAD = 5e-5, (0.0, 0.375, 0.0, 0.375)
"""How far moments are moved to those of a spread distribution, and these. Single precision needs it: less
loses digits, more is less exact."""
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

    moments: VEC4, b_1 to b_4 of depths in [-1, 1].  depth: FLOAT. Differentiable in both.  own: how much of
    what lies at the depth counts: for many thin things a half.
    """
    b = F.mix(moments, SPREAD, BIAS)
    b1, b2, b3, b4 = b.x, b.y, b.z, b.w
    # Cholesky factors of the Hankel matrix H of 1, b1, ... b4; then c = H^-1 (1, z, z^2).
    mixed = b3 - b1 * b2
    variance = b2 - b1 * b1
    slope = mixed / variance
    second = (depth * depth - b2 - slope * (depth - b1)) / (b4 - b2 * b2 - mixed * slope)
    first = (depth - b1) / variance - slope * second
    zeroth = 1.0 - (first * b1 + second * b2)
    # The other points of support are the roots of c_0 + c_1 x + c_2 x^2; one is at infinity where c_2 is 0.
    over = 1.0 / _apart(second)
    middle = first * over * -0.5
    root = F.sqrt(F.maximum(middle * middle - zeroth * over, LEAST))
    near, far = middle - root, middle + root
    # The polynomial that is OWN at z and 1 or 0 at the roots (nearer or farther), by divided differences; its
    # mean is A(z) / b_0.
    of_near, of_far = (F.less(x, depth) for x in (near, far))
    one = (of_near - own) / _apart(near - depth)
    two = (of_far - of_near) / (far - near)
    three = (two - one) / _apart(far - depth)
    mean = own + one * (b1 - depth) + three * (b2 - b1 * (depth + near) + depth * near)
    return F.clamp(mean, 0.0, 1.0)


def _apart(x: Variable) -> Variable:
    """x, and LEAST where it is nearly 0."""
    return F.select(F.less(F.abs(x), LEAST), LEAST, x)
