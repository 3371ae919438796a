"""The three computations whose derivatives are counted: Guenter, Efficient Symbolic Differentiation for Graphics
Applications (2007), sections 5.2 to 5.4, as graphs of scalars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dressi import F, Variable
from dressi.ad.graph.traversal import topological_order
from dressi.ad.graph.types import FLOAT
from dressi.ad.transform.gradient import jvp

Scalar = Any  # a Variable or a number
Motion = tuple[list[Variable], list[Variable], list[Variable]]
"""Joint angles, their velocities and their accelerations."""


def symbol(name: str) -> Variable:
    """A scalar leaf."""
    return Variable(FLOAT, name=name)


def harmonics(order: int, x: Variable, y: Variable, z: Variable) -> list[Scalar]:
    """Real spherical harmonics up to an order, section 5.2, with the sine and cosine recurrence of the angle."""
    legendre: dict[tuple[int, int], Scalar] = {}
    for m in range(order + 1):
        legendre[m, m] = (1 - 2 * m) * legendre[m - 1, m - 1] if m else 1.0
        for n in range(m + 1, order + 1):
            if n == m + 1:
                legendre[n, m] = (2 * m + 1) * z * legendre[m, m]
            else:
                above = (2 * n - 1) * z * legendre[n - 1, m] - (n + m - 1) * legendre[n - 2, m]
                legendre[n, m] = above / (n - m)
    sine: list[Scalar] = [0.0]
    cosine: list[Scalar] = [1.0]
    for m in range(1, order + 1):
        s, c = sine[m - 1], cosine[m - 1]
        sine.append(x * s + y * c)
        cosine.append(x * c - y * s)

    def norm(n: int, m: int) -> float:
        if not m:
            return math.sqrt((2 * n + 1) / (4 * math.pi))
        return math.sqrt((2 * n + 1) / (2 * math.pi) * math.factorial(n - m) / math.factorial(n + m))

    return [
        norm(n, abs(m)) * legendre[n, abs(m)] * (sine if m < 0 else cosine)[abs(m)]
        for n in range(order + 1)
        for m in range(-n, n + 1)
    ]


class Chain:
    """n links with rotary joints, section 5.3.

    axes: "parallel" or "perpendicular". full: inertia tensors and centres of mass have no zeros; else the tensors are diagonal
    and the centres have one element. J, the pseudo-inertia of each link, holds mass times centre of mass in its last column.
    Its elements, the lengths and gravity are values of the user; with ``unit`` the links are 1 long. motion: what the joints
    do; without it angles, velocities and accelerations are leaves.
    """

    def __init__(
        self,
        links: int,
        axes: str = "parallel",
        *,
        full: bool = True,
        unit: bool = False,
        motion: Motion | None = None,
    ):
        self.q, self.dq, self.ddq = motion or [
            [symbol(f"{w}{i}") for i in range(links)] for w in ("q", "v", "a")
        ]
        self.unit = unit
        self.A = [self._joint(i, axes) for i in range(links)]
        self.J = [self._inertia(i, full) for i in range(links)]
        self.gravity = [0.0, symbol("g"), 0.0, 0.0]

    def _inertia(self, i: int, full: bool) -> list[list[Scalar]]:
        found: list[list[Scalar]] = [[0.0] * 4 for _ in range(4)]
        for a in range(4):
            for b in range(a, 4):
                if full or a == b or (a, b) == (0, 3):
                    found[a][b] = found[b][a] = symbol(f"J{i}{a}{b}")
        return found

    def _joint(self, i: int, axes: str) -> list[list[Scalar]]:
        """From link i to the one before, after Denavit, Hartenberg and Craig: along the x axis of the link before to the
        joint, about it by a right angle if axes are perpendicular, and about the joint by q."""
        s, c, offset = (
            F.sin(self.q[i]),
            F.cos(self.q[i]),
            0.0 if not i else 1.0 if self.unit else symbol(f"l{i}"),
        )
        if axes == "perpendicular" and i:
            return [[c, -s, 0.0, offset], [0.0, 0.0, -1.0, 0.0], [s, c, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
        return [[c, -s, 0.0, offset], [s, c, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]

    def torques(self) -> list[Variable]:
        """Equations 14 and 16."""
        links = len(self.q)
        W = [self.A[0]]
        for i in range(1, links):
            W.append(product(W[-1], self.A[i]))
        ddW = self._second(W)
        JW = [product(self.J[i], transpose(ddW[i])) for i in range(links)]
        mr = [[row[3:] for row in inertia] for inertia in self.J]
        found = []
        for i in range(links):
            dA = [[along([a], [self.q[i]], [1.0])[0] for a in row] for row in self.A[i]]
            inner, centre = JW[-1], mr[-1]
            for j in range(links - 1, i, -1):
                inner = added(JW[j - 1], product(self.A[j], inner))
                centre = added(mr[j - 1], product(self.A[j], centre))
            left = dA if i == 0 else product(W[i - 1], dA)
            trace = total([multiplied(left[a][b], inner[b][a]) for a in range(4) for b in range(4)])
            weight = total(
                [multiplied(g, k[0]) for g, k in zip(self.gravity, product(left, centre), strict=True)]
            )
            found.append(trace - weight)
        return found

    def _second(self, matrices: list[list[list[Scalar]]]) -> list[list[list[Scalar]]]:
        """d^2 / dt^2 of 4x4 matrices."""
        flat = [a for w in matrices for row in w for a in row]
        first = along(flat, self.q, self.dq)
        second = along(first, [*self.q, *self.dq], [*self.dq, *self.ddq])
        rows = [second[k : k + 4] for k in range(0, len(second), 4)]
        return [rows[k : k + 4] for k in range(0, len(rows), 4)]


def spacetime(links: int) -> tuple[Variable, list[Variable]]:
    """The sum of the squared torques at a time, of a chain whose joints are cubic polynomials of time, and the coefficients of
    these: section 5.4."""
    t = symbol("t")
    coefficients = [[symbol(f"c{i}{k}") for k in range(4)] for i in range(links)]
    q = [((a * t + b) * t + c) * t + d for a, b, c, d in coefficients]
    dq = [(3.0 * a * t + 2.0 * b) * t + c for a, b, c, _ in coefficients]
    ddq = [6.0 * a * t + 2.0 * b for a, b, _, _ in coefficients]
    torques = Chain(links, motion=(q, dq, ddq)).torques()
    return total([x * x for x in torques]), [c for row in coefficients for c in row]


def shared(functions: int, leaves: int = 16) -> tuple[Variable, list[Variable]]:
    """The sum of the last values of a random graph of at least so many Functions, each of which reads two of the 64 made before
    it, and the leaves."""
    random = np.random.default_rng(0)
    inputs = [symbol(f"x{k}") for k in range(leaves)]
    values = list(inputs)
    kinds = (
        lambda x, y: x + y,
        lambda x, y: x - 0.5 * y,
        lambda x, y: 0.7 * x * y,
        lambda x, _: F.sin(x),
        lambda x, y: x / (1.5 + F.square(y)),
        lambda x, y: F.maximum(x, y),
        lambda x, y: -F.cos(y) * x,
    )
    found = total(values)
    while len(topological_order([found])) < functions:
        for _ in range(max(functions // 100, 1)):
            x, y = (values[-1 - int(k)] for k in random.integers(0, min(64, len(values)), 2))
            values.append(kinds[int(random.integers(len(kinds)))](x, y))
        found = total(values[-8:])
    return found, inputs


def layered(*widths: int) -> tuple[list[Variable], list[Variable]]:
    """Layers of values, each a sum of products of all values of the layer before with factors of their own, and the first
    layer. The best order in which a Jacobian of 3, 2, 5, 2 and 3 is multiplied begins in the middle."""
    inputs = values = [symbol(f"x{k}") for k in range(widths[0])]
    for layer, width in enumerate(widths[1:]):
        values = [
            total([symbol(f"w{layer}_{i}_{j}") * x for j, x in enumerate(values)]) for i in range(width)
        ]
    return values, inputs


def along(values: Sequence[Scalar], x: Sequence[Variable], tangents: Sequence[Scalar]) -> list[Scalar]:
    """Forward derivatives, of numbers too."""
    variables = [v for v in values if isinstance(v, Variable)]
    found = iter(jvp(variables, list(x), list(tangents)) if variables else ())
    return [next(found) if isinstance(v, Variable) else 0.0 for v in values]


def _zero(x: Scalar) -> bool:
    return not isinstance(x, Variable) and x == 0


def multiplied(a: Scalar, b: Scalar) -> Scalar:
    """a * b, without the products that are known."""
    if _zero(a) or _zero(b):
        return 0.0
    return (
        b
        if not isinstance(a, Variable) and a == 1
        else a
        if not isinstance(b, Variable) and b == 1
        else a * b
    )


def total(terms: Sequence[Scalar]) -> Scalar:
    """The sum of what is not zero."""
    found: Scalar = 0.0
    for x in terms:
        found = found if _zero(x) else x if _zero(found) else found + x
    return found


def product(a: list[list[Scalar]], b: list[list[Scalar]]) -> list[list[Scalar]]:
    """a @ b."""
    columns = range(len(b[0]))
    return [[total([multiplied(x, b[k][j]) for k, x in enumerate(row)]) for j in columns] for row in a]


def added(a: list[list[Scalar]], b: list[list[Scalar]]) -> list[list[Scalar]]:
    """a + b."""
    return [[total([x, y]) for x, y in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]


def transpose(a: list[list[Scalar]]) -> list[list[Scalar]]:
    """Rows and columns exchanged."""
    return [list(column) for column in zip(*a, strict=True)]
