"""Constants, which are written into the shader, and how Python numbers become Variables."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ....errors import GraphError
from ...graph import Domain, PixelFunction, Variable, user_line
from ...graph.arrays import array_of
from ...graph.operators import operator
from ...graph.types import FLOAT, MAT2, MAT3, MAT4, VType, vector_type

__all__ = ["Like", "constant", "constant_value"]

Like = Any
"""What operations accept: a Variable, a number, a tuple of numbers, or an array."""

SINGLE = Domain((1, 1), 1)


def float_literal(value: float) -> str:
    """A GLSL expression whose value is the float32 nearest to ``value``."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if not np.isfinite(single) or (single != 0 and abs(single) < np.finfo(np.float32).tiny):
        return f"uintBitsToFloat(0x{struct.unpack('<I', struct.pack('<f', single))[0]:08x}u)"
    short = str(single)
    text = short if np.float32(float(short)) == single else repr(float(single))
    return text if "." in text or "e" in text else text + ".0"


def int_literal(value: int) -> str:
    return str(value) if value > -(2**31) else "int(0x80000000u)"


class Constant(PixelFunction):
    """One texel that is the value of all, written into the shader as a literal.

    value: a flat tuple of the components, matrices row by row. Devices use the nearest float32.
    """

    operations = 1.0
    zero_derivative = True
    fields = ("vtype", "value")

    def __init__(self, value: np.ndarray | tuple[float, ...], vtype: VType):
        self.vtype = vtype
        numbers = value if type(value) is tuple else np.asarray(value).ravel().tolist()
        self.value = tuple(map(int if vtype.is_int else float, numbers))
        super().__init__()

    @property
    def attributes(self) -> tuple[Any, ...]:
        # Bytes instead of numbers: 0.0 and -0.0 are different constants, and NaN equals itself.
        return (self.vtype, np.asarray(self.value).tobytes())

    @property
    def array(self) -> np.ndarray:
        dtype = np.int64 if self.vtype.is_int else np.float64
        return np.array(self.value, dtype).reshape(self.vtype.shape)

    def known_value(self, known):
        return self.array

    def infer(self):
        return self.vtype, SINGLE

    @cached_property
    def glsl(self) -> str:
        literal = int_literal if self.vtype.is_int else float_literal
        numbers = [literal(v) for v in self.array.T.ravel()]  # GLSL counts a matrix column by column
        if self.vtype.is_scalar:
            return numbers[0]
        if not self.vtype.is_matrix and len(set(numbers)) == 1:
            numbers = numbers[:1]
        return f"{self.vtype.glsl}({', '.join(numbers)})"

    def eval(self):
        return self.array.reshape((1, 1, 1) + self.vtype.shape)

    def __repr__(self) -> str:
        return f"Constant({self.value[0] if len(set(self.value)) == 1 else self.value})"


@operator
def constant(value: Like, vtype: VType | None = None) -> Variable:
    """A constant of one texel, written into the shader.

    value: a number, a tuple of 2 to 4 numbers, or a square matrix ``[row][column]`` of order 2 to 4. Without
    ``vtype`` integers make INT and IVECn, anything else FLOAT, VECn and MATn; a single number fills all
    components of ``vtype``. No derivative. Raises GraphError for other shapes, and for integers of more than
    32 bits. A value that changes is a leaf: ``Variable.of``.

    >>> F.constant((1.0, 2.0, 3.0)), F.constant(7), F.constant(0.5, VEC2)
    (VEC3 Constant#... (1x1), INT Constant#... (1x1), VEC2 Constant#... (1x1))
    """
    array = array_of(value)
    if array.size == 0:
        raise GraphError(
            f"an array of shape {array.shape} is empty; give a number to be a constant (at {user_line()})"
        )
    if array.dtype.kind not in "biuf":
        raise GraphError(f"a constant is made of numbers, not of {value!r} (at {user_line()})")
    if vtype is None:
        integer = array.dtype.kind in "iu"
        if array.ndim == 0:
            vtype = vector_type(1, integer=integer)
        elif array.ndim == 1 and 2 <= len(array) <= 4:
            vtype = vector_type(len(array), integer=integer)
        elif array.shape in {(2, 2), (3, 3), (4, 4)}:
            vtype = (MAT2, MAT3, MAT4)[len(array) - 2]
        else:
            raise GraphError(
                f"an array of shape {array.shape} is too large for a constant, and no Variable is beside it:"
                " make it one by Variable.of(array), or, if it is a picture of `render`, pass `render` the"
                f" Variable, such as positions= (at {user_line()})"
            )
    if vtype.is_int and array.dtype.kind == "f" and not np.array_equal(array, np.trunc(array)):
        raise GraphError(f"{value!r} is not a constant of type {vtype} (at {user_line()})")
    if vtype.is_int and np.any((array < -(2**31)) | (array >= 2**31)):
        raise GraphError(f"{value!r} does not fit {vtype}, whose integers have 32 bits (at {user_line()})")
    if array.shape != vtype.shape:
        if array.ndim:
            raise GraphError(f"{value!r} does not have the shape of {vtype} (at {user_line()})")
        array = np.full(vtype.shape, array)
    return Constant(array, vtype).output


def constant_value(x: Variable) -> np.ndarray | None:
    """The value of a constant, a NumPy array of the shape of its type; None if x is not a constant. The array
    is not part of the graph and has no derivative.

    >>> F.constant_value(F.constant((1.0, 2.0))), F.constant_value(Variable.of(1.0))
    (array([1., 2.]), None)
    """
    return x.creator.array if isinstance(x.creator, Constant) else None


def is_constant(x: Variable, number: float) -> bool:
    """Whether x is a constant with every component equal to ``number``."""
    return isinstance(x.creator, Constant) and all(v == number for v in x.creator.value)


def operands(*values: Like, beside: Sequence[Variable] = (), matrices: bool = False) -> list[Variable]:
    """The values as Variables. Numbers become constants: integers if all Variables among the values hold
    integers, else floats. Arrays as large as a Variable among the values or ``beside`` them become leaves.
    Square arrays of order 2 to 4 are matrices if the operation takes ``matrices`` or one of these Variables
    is one; elsewhere they may be small images, and GraphError asks which."""
    variables = [v for v in values if isinstance(v, Variable)]
    integer = bool(variables) and all(v.vtype.is_int for v in variables)
    forms = (*variables, *beside)
    return [v if isinstance(v, Variable) else _literal(v, integer, forms, matrices) for v in values]


def floats(*values: Like, matrices: bool = False) -> list[Variable]:
    variables = [v for v in values if isinstance(v, Variable)]
    return [v if isinstance(v, Variable) else _literal(v, False, variables, matrices) for v in values]


def integers(*values: Like) -> list[Variable]:
    """The values as Variables; numbers become INT constants. Raises GraphError for fractions."""
    return [v if isinstance(v, Variable) else constant(_whole(v)) for v in values]


def check_masks(*values: Like) -> None:
    """Raises GraphError for truth values of Python, as ``is``, ``in`` and ``not`` give: no mask is meant."""
    for value in values:
        if isinstance(value, (bool, np.bool_)):
            raise GraphError(
                f"a mask or an image is needed, not the truth value {value!s}: comparisons such as x == y and"
                " x < y are masks of 1.0 and 0.0, while `is`, `in` and `not` compare objects when the graph"
                f" is built (at {user_line()})"
            )


def _whole(value: Like) -> np.ndarray:
    array = array_of(value)
    if array.dtype.kind == "f" and not np.array_equal(array, np.trunc(array)):
        raise GraphError(
            f"{value!r} is combined with integers; convert those with F.to_float (at {user_line()})"
        )
    return array.astype(np.int64)


def _literal(value: Like, integer: bool, beside: Sequence[Variable] = (), matrices: bool = False) -> Variable:
    if type(value) is float and not integer:
        return Constant((value,), FLOAT).output
    if not beside:
        check_masks(value)
    array = array_of(value)
    if array.dtype.kind not in "biuf":
        raise GraphError(f"expected a Variable or numbers, not {value!r} (at {user_line()})")
    if integer:
        array = _whole(value)
    elif array.dtype.kind != "f":
        array = array.astype(np.float64)
    image = _image(array, beside)
    if image is not None:
        return image
    if beside and array.size > 4 and array.shape not in {(3, 3), (4, 4)}:
        shapes = ", ".join(f"{v} of shape {v.as_given(np.broadcast_to(0.0, v.shape)).shape}" for v in beside)
        raise GraphError(
            f"an array of shape {array.shape} does not fit {shapes}; resize or transpose one of them (at"
            f" {user_line()})"
        )
    square = array.ndim == 2 and array.shape[0] == array.shape[1] and 2 <= len(array) <= 4
    if square and not matrices and not any(v.vtype.is_matrix for v in beside):
        n = len(array)
        raise GraphError(
            f"an array of shape {array.shape} may be one MAT{n} or an image of {n}x{n} numbers here: write"
            f" F.constant(values) for the matrix, Variable.of(values, FLOAT) for the image (at {user_line()})"
        )
    return constant(array)


def _image(array: np.ndarray, beside: Sequence[Variable]) -> Variable | None:
    """A leaf that holds the array, if it has the form of one of the Variables."""
    for v in beside:
        for vtype in dict.fromkeys((v.vtype, vector_type(1, integer=array.dtype.kind == "i"))):
            lead = array.shape[: array.ndim - len(vtype.shape)]
            if lead + vtype.shape != array.shape or vtype.is_int != (array.dtype.kind == "i"):
                continue
            if len(lead) == 1 and (v.count, v.tiles) == (lead[0], 1):
                return Variable.of(array, vtype)
            if len(lead) == 2 and v.count is not None and lead == (v.tiles, v.count):
                return Variable.of(array, vtype, batched=True)
            if v.channels > 1 and len(lead) > 2:
                # (3, H, W) is one image of three channels here, not three images, which would broadcast
                # against them.
                if (1,) * (4 - len(lead)) + lead == (v.batch, v.channels, v.size[1], v.size[0]):
                    return Variable(vtype, v.size, v.batch, channels=v.channels, data=array)
            elif lead in ((v.size[1], v.size[0]), (v.tiles, v.size[1], v.size[0])):
                return Variable.of(array, vtype)
    return None
