"""Warps: images read at places that flows or matrices say."""

from __future__ import annotations

from ...errors import GraphError
from ..contract.convolve import matmul
from ..graph import Variable
from ..ops.coordinates.coordinates import pixel_coordinates
from ..ops.pixel.constant import Like, constant, operands
from ..ops.pixel.math import to_float
from ..ops.pixel.vector import swizzle, vec3
from ..ops.texture.addressing import WrapName
from ..ops.texture.sample import sample
from ..types import MAT3, VEC2, Size, size_of

__all__ = ["transform_points", "warp", "warp_homography"]


def warp(image: Variable, flow: Variable, border: WrapName = "clamp") -> Variable:
    """The image read at every texel plus its flow, bilinear: output p is image(p + flow(p)).

    image: FLOAT or VECn without channels, batch 1 (shared) or that of the flow. flow: VEC2 in texels, x to the right and y
    down; its size is that of the result. border: what lies beyond the image, "clamp", "zero", "mirror" or "repeat".
    Differentiable in both: in the image by a scatter. Raises GraphError.

    >>> image = Variable.of([[0.0, 10.0, 20.0, 30.0, 40.0]])
    >>> evaluate(F.warp(image, Variable.of(np.full((1, 5, 2), (0.5, 0.0))))).ravel().tolist()
    [5.0, 15.0, 25.0, 35.0, 40.0]
    """
    if flow.vtype is not VEC2:
        raise GraphError(f"a flow is VEC2 in texels, not {flow}")
    here = to_float(pixel_coordinates(flow.size)) + 0.5
    return _read(image, here + flow, border)


def _read(image: Variable, place: Variable, border: WrapName) -> Variable:
    """The image at places in texels, centres at halves."""
    (width, height) = image.size
    return sample(image, place * (1.0 / width, 1.0 / height), "bilinear", border, tolerance=0)


def transform_points(matrix: Like, points: Like) -> Variable:
    """Points of the plane under a homography, (x / w, y / w) of matrix @ (x, y, 1).

    matrix: MAT3. points: VEC2. Domains broadcast. The result is VEC2. Points of the line that goes to infinity give
    infinity or NaN. Differentiable in both. Raises GraphError.

    >>> evaluate(F.transform_points(np.diag([1.0, 1.0, 2.0]), (3.0, 4.0))).ravel().tolist()
    [1.5, 2.0]
    """
    matrix, points = operands(matrix, points)
    if matrix.vtype is not MAT3 or points.vtype is not VEC2:
        raise GraphError(f"a homography is a MAT3 of VEC2 points, not {matrix} of {points}")
    moved = matmul(matrix, vec3(points, 1.0))
    return swizzle(moved, "xy") / moved.z


def warp_homography(
    image: Variable, matrix: Like, size: Size | None = None, border: WrapName = "clamp"
) -> Variable:
    """The image under a homography, bilinear: output p is image(matrix @ p).

    image: FLOAT or VECn without channels, batch 1 (shared) or that of the matrix. matrix: MAT3, which takes places of the
    result, in texels (x to the right, y down, centres of texels at halves, the corner of the image is 0), to places of the
    image; one texel, with a batch, or one for every texel. Affine matrices end with the row (0, 0, 1). size: (W, H) of the
    result, by default that of the image. border: as for ``warp``. Differentiable in both. Raises GraphError.

    >>> image = Variable.of([[0.0, 10.0, 20.0, 30.0, 40.0]])
    >>> evaluate(F.warp_homography(image, np.array([[1, 0, 2.0], [0, 1, 0], [0, 0, 1]]))).ravel().tolist()
    [20.0, 30.0, 40.0, 40.0, 40.0]
    """
    (matrix,) = operands(constant(matrix) if not isinstance(matrix, Variable) else matrix)
    here = to_float(pixel_coordinates(image.size if size is None else size_of(size))) + 0.5
    return _read(image, transform_points(matrix, here), border)
