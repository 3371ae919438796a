"""Vectors: construction, swizzles, one value for all components, sums of components."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ...graph import PixelFunction, Variable
from ...graph.operators import operator
from ...graph.types import VType, vector_type
from .constant import Like, constant, floats, operands
from .kinds import Linear, component_sum
from .math import to_float, to_int

__all__ = ["fill", "ivec2", "ivec3", "ivec4", "sum_components", "swizzle", "vec2", "vec3", "vec4"]

XYZW = "xyzw"


class Assembly(PixelFunction):
    """The base of vectors and matrices made of their inputs."""

    operations, decides_on = 2.0, ()
    exact = True

    def jvp(self, tangents):
        if self.output.vtype.is_int or all(t is None for t in tangents):
            return None
        pairs = zip(tangents, self.inputs, strict=True)
        return self.rebuild(*(constant(0.0, x.vtype) if t is None else t for t, x in pairs)).output


class Construct(Assembly):
    """The components of the inputs, in order. A single scalar fills all components."""

    fields = ("vtype",)

    def __init__(self, vtype: VType, *inputs: Variable):
        self.vtype = vtype
        super().__init__(*inputs)

    @property
    def fills(self) -> bool:
        return len(self.inputs) == 1 and self.inputs[0].vtype.is_scalar

    def infer(self):
        width = 0
        for x in self.inputs:
            if x.vtype.is_matrix or x.vtype.is_int != self.vtype.is_int:
                raise self.fail(f"{x} cannot be a part of {self.vtype}")
            width += x.vtype.components
        if not self.fills and width != self.vtype.components:
            raise self.fail(f"{self.vtype} needs {self.vtype.components} components, not {width}")
        return self.vtype, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        return f"{self.vtype.glsl}({', '.join(f'${i}' for i in range(len(self.inputs)))})"

    def eval(self, *x):
        parts = [a[..., None] if v.vtype.is_scalar else a for a, v in zip(x, self.inputs, strict=True)]
        if self.fills:
            return np.repeat(parts[0], self.vtype.components, axis=-1)
        shape = np.broadcast_shapes(*(a.shape[:-1] for a in parts))
        return np.concatenate([np.broadcast_to(a, (*shape, a.shape[-1])) for a in parts], axis=-1)

    def vjp(self, gy, i):
        if self.vtype.is_int:
            return None
        if self.fills:
            return sum_components(gy)
        start = sum(x.vtype.components for x in self.inputs[:i])
        return swizzle(gy, XYZW[start : start + self.inputs[i].vtype.components])


class Swizzle(Linear):
    """Output component k is input component ``keys[k]``."""

    operations = 1.0
    exact = True
    fields = ("keys",)
    keys: tuple[int, ...]

    def infer(self):
        x = self.inputs[0].vtype
        if x.is_matrix or x.is_scalar:
            raise self.fail("only vectors have components; use F.column for matrices")
        if not 1 <= len(self.keys) <= 4 or not all(0 <= k < x.components for k in self.keys):
            raise self.fail(f"{x} has no components {self.keys}")
        return vector_type(len(self.keys), integer=x.is_int), self.broadcast()

    @cached_property
    def glsl(self) -> str:
        return "$0." + "".join(XYZW[k] for k in self.keys)

    def eval(self, x):
        return x[..., self.keys[0]] if len(self.keys) == 1 else x[..., list(self.keys)]

    def transpose(self, gy):
        return Spread(gy, self.keys, self.inputs[0].vtype.components).output


class Spread(Linear):
    """Transpose of Swizzle: adds input component k to output component ``keys[k]``; others are 0."""

    operations = 2.0
    fields = ("keys", "width")
    keys: tuple[int, ...]
    width: int

    def infer(self):
        if self.inputs[0].vtype is not vector_type(len(self.keys)):
            raise self.fail(f"needs a float input of {len(self.keys)} components")
        return vector_type(self.width), self.broadcast()

    @cached_property
    def glsl(self) -> str:
        names = ["$0"] if len(self.keys) == 1 else [f"$0.{XYZW[k]}" for k in range(len(self.keys))]
        parts = []
        for c in range(self.width):
            terms = [name for name, k in zip(names, self.keys, strict=True) if k == c]
            parts.append(" + ".join(terms) or "0.0")
        return f"{vector_type(self.width).glsl}({', '.join(parts)})"

    def eval(self, x):
        x = x[..., None] if len(self.keys) == 1 else x
        out = np.zeros((*x.shape[:-1], self.width), x.dtype)
        for c, k in enumerate(self.keys):
            out[..., k] += x[..., c]
        return out

    def transpose(self, gy):
        return Swizzle(gy, self.keys).output


class SumComponents(Linear):
    @property
    def operations(self) -> float:
        return float(self.inputs[0].vtype.components)

    def infer(self):
        x = self.inputs[0].vtype
        return vector_type(1, integer=x.is_int), self.broadcast()

    @cached_property
    def glsl(self) -> str:
        x = self.inputs[0].vtype
        if x.is_scalar:
            return "$0"
        if x.is_matrix:
            rows, columns = x.shape
            return " + ".join(f"$0[{j}].{XYZW[i]}" for j in range(columns) for i in range(rows))
        return " + ".join(f"$0.{c}" for c in XYZW[: x.components])

    def eval(self, x):
        return component_sum(x) if x.ndim == 4 else x.sum(axis=tuple(range(3, x.ndim)))

    def transpose(self, gy):
        return fill(gy, self.inputs[0].vtype)


class Fill(Linear):
    operations = 2.0
    exact = True
    fields = ("vtype",)
    vtype: VType

    def infer(self):
        if not self.inputs[0].vtype.is_scalar or not self.vtype.is_matrix:
            raise self.fail("fills a matrix with a scalar")
        return self.vtype, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        rows, columns = self.vtype.shape
        return f"{self.vtype.glsl}({', '.join([f'vec{rows}($0)'] * columns)})"

    def eval(self, x):
        return np.broadcast_to(x[..., None, None], x.shape + self.vtype.shape)

    def transpose(self, gy):
        return sum_components(gy)


def _vector(vtype: VType, parts: tuple[Like, ...]) -> Variable:
    variables = operands(*parts) if any(isinstance(p, Variable) for p in parts) else floats(*parts)
    convert = to_int if vtype.is_int else to_float
    variables = [convert(v) for v in variables]
    if len(variables) == 1 and not variables[0].vtype.is_scalar:
        (x,) = variables
        if not x.vtype.is_matrix and x.vtype.components >= vtype.components:
            return x if x.vtype is vtype else swizzle(x, XYZW[: vtype.components])
    return Construct(vtype, *variables).output


def vector(parts: Sequence[Variable]) -> Variable:
    """Scalars and vectors of up to four components together as one vector; one of them as it is."""
    width = sum(part.vtype.components for part in parts)
    return parts[0] if len(parts) == 1 else _vector(vector_type(width), tuple(parts))


def vec2(*parts: Like) -> Variable:
    """VEC2 of scalars, as in GLSL.

    parts: two scalars, one that fills both components, or one longer vector that is cut. Integers are
    converted. Domains broadcast. Differentiable in float parts. Raises GraphError if the components do not
    add up.

    >>> evaluate(F.vec2(1.0, 2.0)).ravel().tolist()
    [1.0, 2.0]
    """
    return _vector(vector_type(2), parts)


def vec3(*parts: Like) -> Variable:
    """VEC3 of scalars and vectors, as in GLSL.

    parts: three components in all, one scalar that fills them, or a VEC4 that is cut. Integers are converted.
    Domains broadcast. Differentiable in float parts. Raises GraphError if the components do not add up.

    >>> evaluate(F.vec3((1.0, 2.0), 3.0)).ravel().tolist()
    [1.0, 2.0, 3.0]
    """
    return _vector(vector_type(3), parts)


def vec4(*parts: Like) -> Variable:
    """VEC4 of scalars and vectors, as in GLSL.

    parts: four components in all, or one scalar that fills them. Integers are converted. Domains broadcast.
    Differentiable in float parts. Raises GraphError if the components do not add up.

    >>> evaluate(F.vec4((1.0, 2.0, 3.0), 1.0)).ravel().tolist()
    [1.0, 2.0, 3.0, 1.0]
    """
    return _vector(vector_type(4), parts)


def ivec2(*parts: Like) -> Variable:
    """IVEC2 of scalars and vectors, as in GLSL; floats are truncated toward zero.

    parts: as for ``vec2``. No derivative. Raises GraphError if the components do not add up.

    >>> evaluate(F.ivec2(1.75, -2.5)).ravel().tolist()
    [1, -2]
    """
    return _vector(vector_type(2, integer=True), parts)


def ivec3(*parts: Like) -> Variable:
    """IVEC3 of scalars and vectors, as in GLSL; floats are truncated toward zero.

    parts: as for ``vec3``. No derivative. Raises GraphError if the components do not add up.

    >>> evaluate(F.ivec3((1, 2), 3)).ravel().tolist()
    [1, 2, 3]
    """
    return _vector(vector_type(3, integer=True), parts)


def ivec4(*parts: Like) -> Variable:
    """IVEC4 of scalars and vectors, as in GLSL; floats are truncated toward zero.

    parts: as for ``vec4``. No derivative. Raises GraphError if the components do not add up.

    >>> evaluate(F.ivec4(7)).ravel().tolist()
    [7, 7, 7, 7]
    """
    return _vector(vector_type(4, integer=True), parts)


@operator
def swizzle(x: Like, names: str) -> Variable:
    """Components of a vector by name, in any order and repeated; the attribute ``x.zyx``.

    x: VECn or IVECn; a scalar has ``"x"`` only. names: 1 to 4 letters of ``"xyzw"`` or of ``"rgba"``. The
    result is a vector of as many components, of the domain of x. Differentiable. Raises GraphError for
    components that x lacks.

    >>> evaluate(F.swizzle((1.0, 2.0, 3.0), "zzx")).ravel().tolist()
    [3.0, 3.0, 1.0]
    """
    (x,) = floats(x)
    keys = tuple((XYZW if n in XYZW else "rgba").find(n) for n in names)
    if x.vtype.is_scalar and set(keys) == {0}:
        if len(keys) == 1:
            return x
        return Construct(vector_type(len(keys), integer=x.vtype.is_int), x).output
    return (
        x if keys == tuple(range(x.vtype.components)) and not x.vtype.is_matrix else Swizzle(x, keys).output
    )


def sum_components(x: Variable) -> Variable:
    """All components of a vector or matrix added up.

    x: any type. The result is FLOAT (INT), of the domain of x. Differentiable.

    >>> evaluate(F.sum_components(Variable.of([1.0, 2.0, 3.0], VEC3))).item()
    6.0
    """
    return x if x.vtype.is_scalar else SumComponents(x).output


def fill(x: Variable, vtype: VType) -> Variable:
    """The scalar x in every component of a type.

    x: FLOAT (INT). vtype: the type of the result, of the domain of x. Differentiable. Raises GraphError.

    >>> evaluate(F.fill(Variable.of(2.0), VEC3)).ravel().tolist()
    [2.0, 2.0, 2.0]
    """
    if vtype.is_scalar:
        return x
    return Fill(x, vtype).output if vtype.is_matrix else Construct(vtype, x).output
