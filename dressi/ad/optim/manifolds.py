"""Manifolds by name: how a parameter moves by an increment that starts at zero and has no constraint.

"unit"      VEC2, VEC3, VEC4    x <- normalize(x + d - x (x . d))       also quaternions
"rotation"  MAT3                R <- exp(d) R                           d: VEC3, axis times angle
"se3"       MAT4                T <- exp(turn, shift) T                 two VEC3
"log"       any float type      x <- x exp(d)                           x stays above, or below, 0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from ..graph.types import MAT3, MAT4, VEC2, VEC3, VEC4, VType

SMALL = 0.25
"""Squares of angles up to this, half a radian, take the series: the closed forms lose digits near zero."""
SERIES = (
    (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880),
    (1 / 2, -1 / 24, 1 / 720, -1 / 40320, 1 / 3628800),
    (1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800),
)
"""Of sin(t) / t, (1 - cos(t)) / t^2 and (t - sin(t)) / t^3 in powers of t^2."""


def coefficients(square: Variable) -> list[Variable]:
    """sin(t) / t, (1 - cos(t)) / t^2 and (t - sin(t)) / t^3 of the square of an angle t, exact near zero."""
    small = F.less(square, SMALL)
    safe = F.select(small, 1.0, square)
    angle = F.sqrt(safe)
    sine = F.sin(angle)
    closed = (sine / angle, (1.0 - F.cos(angle)) / safe, (angle - sine) / (safe * angle))
    return [F.select(small, polynomial(s, square), c) for s, c in zip(SERIES, closed, strict=True)]


def polynomial(terms: Sequence[float], x: Variable) -> Variable:
    """The polynomial of x with these coefficients, the constant one first (Horner)."""
    total = x * terms[-1] + terms[-2]
    for term in terms[-3::-1]:
        total = total * x + term
    return total


def rotation_and_shift(rotation: Variable) -> tuple[Variable, Variable]:
    """MAT3 R and V of the exponential of a twist, x -> R x + V translation, of Variables (VEC3)."""
    x, y, z = rotation.x, rotation.y, rotation.z
    square = F.dot(rotation, rotation)
    skew = F.mat3(F.vec3(0.0, z, -y), F.vec3(-z, 0.0, x), F.vec3(y, -x, 0.0))
    twice = F.outer(rotation, rotation)  # skew @ skew + square
    one = F.constant(np.eye(3), MAT3)
    a, b, c = coefficients(square)
    turn = one * (1.0 - b * square) + skew * a + twice * b
    return turn, one * (1.0 - c * square) + skew * b + twice * c


def _unit(x: Variable, d: Variable) -> Variable:
    return F.normalize(x + d - x * F.dot(x, d))


def _orthogonal(turn: Variable) -> Variable:
    """A nearly orthogonal matrix made more so: a step of Newton's iteration, against rounding drift."""
    return 1.5 * turn - 0.5 * (turn @ (F.transpose(turn) @ turn))


def _rotation(x: Variable, d: Variable) -> Variable:
    return _orthogonal(rotation_and_shift(d)[0] @ x)


def _se3(x: Variable, turn: Variable, shift: Variable) -> Variable:
    by, across = rotation_and_shift(turn)
    old = F.mat3(*(F.column(x, k).xyz for k in range(3)))
    place = by @ F.column(x, 3).xyz + across @ shift
    new = _orthogonal(by @ old)
    return F.mat4(*(F.vec4(F.column(new, k), 0.0) for k in range(3)), F.vec4(place, 1.0))


def _log(x: Variable, d: Variable) -> Variable:
    return F.hadamard(x, F.exp(d))


class Manifold(NamedTuple):
    """moved: (x, increments) -> x. types: those it takes. increments: the name and type of each; None: as x.
    off: how far values lie off the manifold, for numpy arrays with the components last."""

    moved: Callable[..., Variable]
    types: tuple[VType, ...]
    increments: tuple[tuple[str, VType | None], ...]
    off: Callable[[np.ndarray], np.ndarray]


def _off_rotation(x: np.ndarray) -> np.ndarray:
    turn = x[..., :3, :3]
    return np.abs(np.swapaxes(turn, -1, -2) @ turn - np.eye(3)).max((-1, -2)) + (np.linalg.det(turn) < 0)


MANIFOLDS = {
    "unit": Manifold(
        _unit, (VEC2, VEC3, VEC4), (("turn", None),), lambda x: np.abs(np.linalg.norm(x, axis=-1) - 1)
    ),
    "rotation": Manifold(_rotation, (MAT3,), (("turn", VEC3),), _off_rotation),
    "se3": Manifold(
        _se3,
        (MAT4,),
        (("turn", VEC3), ("shift", VEC3)),
        lambda x: _off_rotation(x) + np.abs(x[..., 3, :] - (0, 0, 0, 1)).max(-1),
    ),
    "log": Manifold(_log, (), (("log", None),), lambda x: 1.0 * (x == 0)),
}


def manifold(name: Any, of: Variable) -> Manifold:
    """The manifold of a name, for a parameter. Raises GraphError."""
    found = MANIFOLDS.get(name) if isinstance(name, str) else None
    if found is None:
        raise GraphError(f"a manifold is one of {', '.join(MANIFOLDS)}, not {name!r}")
    if found.types and of.vtype not in found.types:
        kinds = ", ".join(map(str, found.types))
        raise GraphError(f"the manifold {name!r} is for parameters of type {kinds}, not {of}")
    return found
