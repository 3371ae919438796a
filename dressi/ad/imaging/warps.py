"""Warps: images read at places that flows or matrices say."""

from __future__ import annotations

from itertools import product

from ...errors import GraphError
from ..graph import Domain, Variable
from ..graph.index_map import BORDERS, mirror_period
from ..graph.types import MAT3, VEC2, Size, size_of
from ..ops.image.coordinates import pixel_coordinates
from ..ops.image.image import pad
from ..ops.image.lookup import ScatterAdd, lookup
from ..ops.image.reduce import Sum, fit, reduce_axes
from ..ops.image.reduce import max as max_texel
from ..ops.pixel.arithmetic import clamp, maximum, minimum, mix, total
from ..ops.pixel.compare import select
from ..ops.pixel.constant import Like, constant, operands
from ..ops.pixel.hints import Later, recompute, store
from ..ops.pixel.kinds import AliasBeside, shortcut
from ..ops.pixel.math import abs, floor, to_float, to_int
from ..ops.pixel.matrix import inverse, max_component
from ..ops.pixel.vector import swizzle, vec3, vector
from ..transform.gradient import backward, jvp
from .channels import channel, concatenate_channels
from .convolve import matmul

__all__ = ["transform_points", "warp", "warp_homography"]

REACH = {"bilinear": 1, "cubic": 2}
"""The filters, and how many texels away from a place they read: 2 reach along each axis."""
FAR = 1e6  # texels: beyond all places


def warp(image: Variable, flow: Variable, border: str = "clamp", filter: str = "bilinear") -> Variable:
    """The image read at every texel plus its flow: output p is image(p + flow(p)).

    image: FLOAT with any number of channels, or VECn; batch 1 (shared) or that of the flow. flow: VEC2 in
    texels, x to the right and y down; its size is that of the result. border: what lies beyond the image,
    "clamp", "zero", "mirror", "reflect" or "repeat", as for ``contract``. filter: "bilinear", or "cubic"
    (Catmull-Rom, of the 4 x 4 texels around; its first derivatives have no jumps). Differentiable in both: in
    the image by gathers where neighbours come from neighbours, else, and for the last three borders, by a
    scatter. Raises GraphError.

    >>> image = Variable.of([[0.0, 10.0, 20.0, 30.0, 40.0]])
    >>> flow = Variable.of(np.full((1, 5, 2), (0.5, 0.0)))
    >>> evaluate(F.warp(image, flow)).ravel().tolist()
    [5.0, 15.0, 25.0, 35.0, 40.0]
    >>> evaluate(F.warp(image, flow, "reflect", "cubic")).ravel().tolist()
    [3.75, 15.0, 25.0, 36.25, 36.25]
    """
    if flow.vtype is not VEC2:
        raise GraphError(f"a flow is VEC2 in texels, not {flow}")
    here = to_float(pixel_coordinates(flow.size)) + 0.5
    return _read(image, here + flow, _back(here + flow, image.size), border, filter)


def _back(place: Variable, size: Size) -> Variable:
    """About where texels of an image of this size are read: two fixed-point steps, exact for slow flows."""
    here = to_float(pixel_coordinates(size)) + 0.5
    at = here
    for _ in range(2):
        last = (place.size[0] - 1, place.size[1] - 1)
        near = clamp(to_int(floor(clamp(at, -FAR, FAR))), (0, 0), last)
        at = at + here - (lookup(place, near) + at - to_float(near) - 0.5)
    return at


def _read(image: Variable, place: Variable, back: Variable, border: str, filter: str) -> Variable:
    """The image at places in texels, centres at halves. back: the texel of the result that about reads each
    texel of the image. Four channels at a time are read as the components of one texel."""
    if border not in BORDERS or filter not in REACH:
        raise GraphError(
            f"an image is warped with a border, one of {', '.join(BORDERS)}, and a filter, one of"
            f" {', '.join(REACH)}, not by {border!r} and {filter!r}"
        )
    if image.channels > 1:
        pieces = []
        for k in range(0, image.channels, 4):
            parts = [channel(image, c) for c in range(k, min(k + 4, image.channels))]
            packed = _read(vector(parts), place, back, border, filter)
            pieces += [swizzle(packed, component) for component in "xyzw"[: len(parts)]]
        return concatenate_channels(*pieces)
    if border == "clamp" and filter == "cubic":
        # With a margin of what it reads the image is 0 beyond, which the gathered gradient knows.
        width, height = image.size
        place, back = (
            clamp(place, (-0.5, -0.5), (width + 0.5, height + 0.5)) + 2.0,
            pad(back, 2, 2, 2, 2, "clamp"),
        )
        image, border = pad(image, 2, 2, 2, 2, "clamp"), "zero"
    value = _sampled(image, place, border, filter)
    if border not in ("clamp", "zero") or image.vtype.is_int or image.vtype.is_matrix:
        return value
    return Warped(value, image, place, back, border=border, filter=filter).output


def _sampled(image: Variable, place: Variable, border: str, filter: str) -> Variable:
    # Texels cost less than what they lie in between two passes.
    texels, fraction = _corners(_inside(image, place, border), filter)
    taps = [recompute(lookup(image, _wrapped(texel, image.size, border))) for texel in texels]
    if filter == "bilinear":
        upper, lower = (recompute(mix(a, b, fraction.x)) for a, b in (taps[:2], taps[2:]))
        return mix(upper, lower, fraction.y)
    across, down = _weights(fraction, filter)
    rows = [recompute(total([w * x for w, x in zip(across, taps[k : k + 4])])) for k in range(0, 16, 4)]
    return total([w * row for w, row in zip(down, rows, strict=True)])


def _inside(image: Variable, place: Variable, border: str) -> Variable:
    width, height = image.size
    return clamp(place, (0.5, 0.5), (width - 0.5, height - 0.5)) if border == "clamp" else place


def _wrapped(texel: Variable, size: Size, border: str) -> Variable:
    """The texel inside an image that a border puts there; what is read by "zero" and "clamp" as it is."""
    if border in ("zero", "clamp"):
        return texel
    if border == "repeat":
        return (texel % size + size) % size
    (across, right), (down, bottom) = (mirror_period(extent, border) for extent in size)
    folded = (texel % (across, down) + (across, down)) % (across, down)
    return minimum(folded, (right, bottom) - folded)


def _corners(place: Variable, filter: str) -> tuple[list[Variable], Variable]:
    """The texels around places that a filter reads, row by row, and how far the places are behind the texel
    before them."""
    corner, reach = floor(place - 0.5), REACH[filter]
    texel, taps = to_int(corner), range(1 - reach, 1 + reach)
    return [texel + (i, j) for j in taps for i in taps], recompute(place - 0.5 - corner)


def _weights(fraction: Variable, filter: str) -> tuple[list[Variable], list[Variable]]:
    """Of the texels along x and along y."""
    reach = REACH[filter]
    both = [recompute(_weight(fraction - float(k), filter)) for k in range(1 - reach, 1 + reach)]
    return [w.x for w in both], [w.y for w in both]


def _weight(away: Variable, filter: str) -> Variable:
    """Of texels at distances, by components; 0 where a filter does not reach."""
    d = abs(away)
    if filter == "bilinear":
        return maximum(1.0 - d, 0.0)
    near, far = (1.5 * d - 2.5) * d * d + 1.0, ((2.5 - 0.5 * d) * d - 4.0) * d + 2.0
    return select(d < 1.0, near, select(d < 2.0, far, 0.0))


class Missed(Later):
    """x, which is 0 nearly everywhere, so that only its readers run on the blocks where it is not."""

    quiet = 0


class Warped(AliasBeside):
    """Inputs (value, image, place, back): the value, the image at the places, with a cheaper gradient by it.

    Where neighbours are read by neighbours, the gradient of a texel is gathered from the 3x3 results around
    ``back`` (5x5 for "cubic"), which are likely to read it. What these miss, magnified parts and beyond a border, is scattered:
    the sum of the two is exact, however good ``back`` is.
    """

    fields = ("border", "filter")
    border: str
    filter: str

    def vjp(self, gy, i):
        _, image, place, _ = self.inputs
        if i not in (1, 2):
            return None
        y, x, gy = _sampled(image, place, self.border, self.filter), self.inputs[i], store(gy)
        exact = backward({y: [gy]}, [x], (image, place)).get(x)
        if i == 2 or exact is None:
            return exact
        cheap = self._transposed(gy)
        return shortcut(cheap if image.batch == gy.batch else reduce_axes(Sum, cheap, "n"), fit(exact, image))

    def jvp(self, tangents):
        _, image, place, _ = self.inputs
        known = [(x, t) for x, t in zip((image, place), tangents[1:3], strict=True) if t is not None]
        y = _sampled(image, place, self.border, self.filter)
        return jvp([y], *map(list, zip(*known, strict=True)))[0] if known else None

    def _transposed(self, gy: Variable) -> Variable:
        _, image, place, back = self.inputs
        place = store(_inside(image, place, self.border))
        known = max_component(abs(back)) < FAR
        near = store(to_int(floor(select(known, back, -FAR))))  # one choice for all that reads it
        here = to_float(pixel_coordinates(image.size)) + 0.5
        parts = []
        reach = REACH[self.filter]
        for dy, dx in product(range(-reach, reach + 1), repeat=2):
            at = near + (dx, dy)
            weight = _weight(lookup(place, at) - here, self.filter)
            parts.append(lookup(gy, at) * (weight.x * weight.y))
        gathered = total(parts)
        (texels, fraction), own, pairs = _corners(place, self.filter), pixel_coordinates(gy.size), []
        far = [recompute(max_component(abs(own - lookup(near, texel))) > reach) for texel in texels]
        missed = store(Missed(total(far), gy).output)
        across, down = _weights(fraction, self.filter)
        for k, texel in enumerate(texels):
            weight = across[k % len(across)] * down[k // len(across)]
            pairs += [recompute(select(missed, select(far[k], gy * weight, 0.0), 0.0)), recompute(texel)]
        rest = ScatterAdd(Domain(image.size, gy.batch), max_texel(max_component(abs(gy))), *pairs).output
        return gathered + rest


def transform_points(matrix: Like, points: Like) -> Variable:
    """Points of the plane under a homography, (x / w, y / w) of matrix @ (x, y, 1).

    matrix: MAT3. points: VEC2. Domains broadcast. The result is VEC2. Points of the line that goes to
    infinity give infinity or NaN. Differentiable in both. Raises GraphError.

    >>> evaluate(F.transform_points(np.diag([1.0, 1.0, 2.0]), (3.0, 4.0))).ravel().tolist()
    [1.5, 2.0]
    """
    matrix, points = operands(matrix, points, matrices=True)
    if matrix.vtype is not MAT3 or points.vtype is not VEC2:
        raise GraphError(f"a homography is a MAT3 of VEC2 points, not {matrix} of {points}")
    moved = recompute(matmul(matrix, vec3(points, 1.0)))
    return swizzle(moved, "xy") / moved.z


def warp_homography(
    image: Variable,
    matrix: Like,
    size: Size | None = None,
    border: str = "clamp",
    filter: str = "bilinear",
) -> Variable:
    """The image under a homography: output p is image(matrix @ p).

    image: FLOAT with any number of channels, or VECn; batch 1 (shared) or that of the matrix. matrix: MAT3,
    which takes places of the result, in texels (x to the right, y down, centres of texels at halves, the
    corner of the image is 0), to places of the image; one texel, with a batch, or one for every texel. Affine
    matrices end with the row (0, 0, 1). size: (W, H) of the result, by default that of the image. border,
    filter: as for ``warp``. Differentiable in both. Raises GraphError.

    >>> image = Variable.of([[0.0, 10.0, 20.0, 30.0, 40.0]])
    >>> evaluate(F.warp_homography(image, np.array([[1, 0, 2.0], [0, 1, 0], [0, 0, 1]]))).ravel().tolist()
    [20.0, 30.0, 40.0, 40.0, 40.0]
    """
    (matrix,) = operands(constant(matrix) if not isinstance(matrix, Variable) else matrix)
    here = to_float(pixel_coordinates(image.size if size is None else size_of(size))) + 0.5
    place = transform_points(matrix, here)
    if matrix.size == (1, 1):
        there = to_float(pixel_coordinates(image.size)) + 0.5
        return _read(image, place, transform_points(inverse(matrix), there), border, filter)
    return _read(image, place, _back(place, image.size), border, filter)
