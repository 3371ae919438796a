"""Computed arrays: values whose derivatives are images, made once for all products with the Jacobian (Opt, section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from ..ops.pixel.shortcut import shortcut
from ..transform.gradient import jvp, total
from ..traversal import topological_order
from .linear.diagonal import texel_by_texel
from .linear.vectors import inner, units


def linearized(y: Variable, inputs: Variable | Sequence[Variable]) -> Variable:
    """``y``, with its derivative by ``inputs`` as images that are computed once in a nonlinear step.

    An iteration of conjugate gradients multiplies by the Jacobian twice, and computes again what is cheaper than to read.
    Where long arithmetic stands between a few values and ``y``, as in the shading of a normal, the product needs only the
    slopes S_k = dy / dx_k at each texel:  dy = sum_k S_k dx_k.

    y: any float type, computed texel by texel from ``inputs``. inputs: computed Variables or leaves of float types. All else
    that y reads is held constant. Type, size, channels and batch are those of y. First derivatives are exact, second ones are zero.
    Raises GraphError where y reads an input at other texels, or reads none of them.

    >>> x = Variable.of([1.0, 2.0, 4.0, 7.0, 11.0], name="x")
    >>> step = x - F.shift(x, 1, 0)
    >>> jacobian = least_squares.Jacobian([least_squares.linearized(F.square(F.square(step)), step)], [x])
    >>> evaluate(jacobian.forward([F.to_float(F.pixel_coordinates(x.size).x)])[0]).tolist()  # 4 step^3, times 1
    [0.0, 4.0, 32.0, 108.0, 256.0]
    """
    inputs = [inputs] if isinstance(inputs, Variable) else list(inputs)
    for v in (y, *inputs):
        if not isinstance(v, Variable) or v.vtype.is_int:
            raise GraphError(f"linearized takes Variables of float types, not {v!r}")
    _check(y, inputs)
    changes = []
    for k, x in enumerate(inputs):
        for unit in units(x.vtype):
            along = [unit if j == k else 0.0 for j in range(len(inputs))]
            slope = F.stop_gradient(jvp(y, inputs, along)[0])
            changes.append(slope * (x if x.vtype.is_scalar else inner(x, unit)))
    return shortcut(F.stop_gradient(y), F.fit(total(changes), y))


def _check(y: Variable, inputs: Sequence[Variable]) -> None:
    """Raises GraphError unless y is computed texel by texel from the inputs."""
    ends, depending = set(inputs), set(inputs)
    for function in topological_order([y], ends):
        read = [i for i, x in enumerate(function.inputs) if x in depending]
        if not read or function.zero_derivative:
            continue
        if not texel_by_texel(function, read):
            raise GraphError(
                f"{y} is not computed texel by texel from the inputs of linearized: {type(function).__name__} (made at"
                f" {function.output.where}) reads other texels; make its output an input"
            )
        depending.add(function.output)
    if y not in depending or y in ends:
        raise GraphError(f"{y} is not computed from the inputs of linearized, {', '.join(map(str, inputs))}")
