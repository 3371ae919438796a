"""Geometry of vectors: products, lengths, directions."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...graph import PixelFunction, Variable
from ...graph.types import vector_type
from .arithmetic import maximum, sub
from .compare import greater, guarded, less, select
from .constant import Like, floats
from .elementary import sqrt
from .kinds import Bilinear, component_sum
from .math import square

__all__ = ["cross", "distance", "dot", "length", "normalize", "reflect", "refract"]


class Dot(Bilinear):
    operations = 2.0

    def infer(self):
        a, b = (x.vtype for x in self.inputs)
        if a != b or a.is_matrix or a.is_int:
            raise self.fail("needs two vectors of one type")
        return vector_type(1), self.broadcast()

    @cached_property
    def glsl(self) -> str:
        return "$0 * $1" if self.inputs[0].vtype.is_scalar else "dot($0, $1)"

    def eval(self, a, b):
        return a * b if self.inputs[0].vtype.is_scalar else component_sum(a * b)

    def vjp(self, gy, i):
        return gy * self.inputs[1 - i]


class Cross(Bilinear):
    operations = 2.0
    glsl = "cross($0, $1)"

    def infer(self):
        if any(x.vtype is not vector_type(3) for x in self.inputs):
            raise self.fail("needs two VEC3")
        return vector_type(3), self.broadcast()

    def eval(self, a, b):
        a, b = (np.moveaxis(x, -1, 0) for x in (a, b))
        return np.stack([a[j] * b[k] - a[k] * b[j] for j, k in ((1, 2), (2, 0), (0, 1))], axis=-1)

    def vjp(self, gy, i):
        a, b = self.inputs
        return cross(b, gy) if i == 0 else cross(gy, a)


class Length(PixelFunction):
    operations, decides_on = 9.0, ()
    glsl = "length($0)"

    def infer(self):
        x = self.inputs[0].vtype
        if x.is_matrix or x.is_int:
            raise self.fail("takes float vectors")
        return vector_type(1), self.broadcast()

    def eval(self, x):
        return np.abs(x) if self.inputs[0].vtype.is_scalar else np.sqrt(component_sum(x * x))

    def vjp(self, gy, i):
        return gy * normalize(self.inputs[0])

    def jvp(self, tangents):
        return None if tangents[0] is None else dot(tangents[0], normalize(self.inputs[0]))


class Normalize(PixelFunction):
    operations, decides_on = 14.0, ()

    def infer(self):
        x = self.inputs[0].vtype
        if x.is_matrix or x.is_int:
            raise self.fail("takes float vectors")
        return x, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        if self.inputs[0].vtype.is_scalar:
            return "sign($0)"
        return "$0 * (dot($0, $0) > 0.0 ? inversesqrt(dot($0, $0)) : 0.0)"

    def eval(self, x):
        if self.inputs[0].vtype.is_scalar:
            return np.sign(x)
        norm = np.sqrt(component_sum(x * x))[..., None]
        return np.divide(x, norm, out=np.zeros_like(x), where=norm > 0)

    def _project(self, t: Variable) -> Variable:
        """The derivative, a symmetric matrix (1 - y y^T) / length(x), applied to t."""
        x, y = self.inputs[0], self.output
        norm = length(x)
        inverse = guarded(greater(norm, 0.0), lambda norm: 1.0 / norm, norm)
        return (t - y * dot(y, t)) * inverse

    def vjp(self, gy, i):
        return self._project(gy)

    def jvp(self, tangents):
        return None if tangents[0] is None else self._project(tangents[0])


def dot(a: Like, b: Like) -> Variable:
    """The scalar product of two vectors.

    a, b: VECn of one type (two FLOATs multiply). The result is FLOAT. Differentiable. Raises GraphError.

    >>> evaluate(F.dot((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))).item()
    32.0
    """
    return Dot(*floats(a, b)).output


def cross(a: Like, b: Like) -> Variable:
    """The vector product of two directions.

    a, b: VEC3. The result is a VEC3. Differentiable in both. Raises GraphError for other types.

    >>> evaluate(F.cross((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))).ravel().tolist()
    [0.0, 0.0, 1.0]
    """
    return Cross(*floats(a, b)).output


def length(x: Like) -> Variable:
    """The Euclidean length of each vector.

    x: FLOAT or VECn. The result is FLOAT, of its domain. Derivative x / length(x); 0 at 0. Raises GraphError.

    >>> evaluate(F.length((3.0, 4.0))).item()
    5.0
    """
    return Length(*floats(x)).output


def distance(a: Like, b: Like) -> Variable:
    """The Euclidean distance of two points, length(a - b).

    a, b: FLOAT or VECn of one type. The result is FLOAT. Differentiable; 0 where they meet. Raises
    GraphError.

    >>> evaluate(F.distance((1.0, 1.0), (4.0, 5.0))).item()
    5.0
    """
    return length(sub(a, b))


def normalize(x: Like) -> Variable:
    """x / length(x), and 0 where x is 0.

    x: FLOAT or VECn. The result has its type and domain. Differentiable, with 0 at 0. Raises GraphError.

    >>> evaluate(F.normalize((0.0, -2.0, 0.0))).ravel().tolist()
    [0.0, -1.0, 0.0]
    """
    return Normalize(*floats(x)).output


def reflect(i: Like, n: Like) -> Variable:
    """The direction i mirrored at a surface: i - 2 dot(n, i) n.

    i, n: VECn of one type; n the unit normal. The result is a VECn. Differentiable. Raises GraphError.

    >>> evaluate(F.reflect((1.0, -1.0), (0.0, 1.0))).ravel().tolist()
    [1.0, 1.0]
    """
    i, n = floats(i, n)
    return i - n * (2.0 * dot(n, i))


def refract(i: Like, n: Like, eta: Like) -> Variable:
    """The direction i refracted at a surface by Snell's law; 0 at total reflection.

    i, n: unit VECn of one type, i toward the surface and n the normal on its side. eta: FLOAT, the index of
    refraction where i comes from over the one beyond. The result is a unit VECn. Differentiable. Raises
    GraphError.

    >>> evaluate(F.refract((0.0, -1.0), (0.0, 1.0), 0.75)).ravel().tolist()
    [0.0, -1.0]
    """
    i, n, eta = floats(i, n, eta)
    cosine = dot(n, i)
    k = 1.0 - square(eta) * (1.0 - square(cosine))
    bent = i * eta - n * (eta * cosine + sqrt(maximum(k, 0.0)))
    return select(less(k, 0.0), 0.0, bent)
