"""Preconditioners of conjugate gradients: what they know of the system, and their product with a residual."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ... import functional as F
from ...contract.contraction import ContractFunction
from ...graph import Variable
from ...graph.index_map import Affine
from ...ops.image.gather import Gather
from ...optim.optimizer import VANISHED, State
from ...transform.gradient import blocks_derivatives, total
from ...traversal import topological_order
from ...types import Size
from .coarse import Layout
from .jacobian import Jacobian
from .pyramid import Prolong, Restrict, coarser
from .vectors import Vector, like, reciprocal, units

Values = dict[str, Variable]
"""What a preconditioner knows of a system, by the names of the state leaves that keep it."""
Operator = Callable[[Vector], list[Variable]]


class Preconditioner(ABC):
    """Approximates the inverse of J^T J + D. It is set up once for a system and used in every iteration."""

    def states(self, unknowns: Sequence[Variable], names: Sequence[str]) -> State:
        """State leaves for what ``setup`` finds."""
        return {}

    def setup(self, apply: Operator, diagonal: Vector, names: Sequence[str], jacobian: Jacobian) -> Values:
        """The values of the state leaves. apply: multiplies by the system; diagonal: of the system. jacobian: of the residuals by
        the unknowns."""
        return {}

    @abstractmethod
    def apply(self, r: Vector, diagonal: Vector, names: Sequence[str], values: Values) -> list[Variable]:
        """The product with a residual."""

    def layout(self, unknowns: Sequence[Variable], names: Sequence[str]) -> Layout | None:
        """The coarse space of those unknowns that are lists, if there is one. Its inverse is added to ``apply``."""
        return None


@dataclass(frozen=True)
class Plain(Preconditioner):
    """None: plain conjugate gradients."""

    def apply(self, r, diagonal, names, values):
        return list(r)


@dataclass(frozen=True)
class Jacobi(Preconditioner):
    """Divides by the diagonal.

    >>> GaussNewton(preconditioner=least_squares.Jacobi()).preconditioner
    Jacobi()
    """

    def apply(self, r, diagonal, names, values):
        return [F.hadamard(x, reciprocal(d)) for x, d in zip(r, diagonal, strict=True)]


@dataclass(frozen=True)
class Multilevel(Preconditioner):
    """Jacobi on every level of a pyramid, added up (Bramble, Pasciak and Xu), for unknowns that are images; for lists, Jacobi
    and a coarse space.

    Smooth errors take as many iterations of plain conjugate gradients as an image has texels across; levels take them at
    once. With P_l the bilinear prolongations, R = P^T, and the diagonal d of the system A:

        z = r / d + m P_1 (W_1 s_1 + P_2 (W_2 s_2 + ...)),  s_1 = R m r,  s_l = R s_(l-1)

    The weights W_l approximate the inverse of the diagonal of the coarse system without computing it. A constant e shows
    which part of d constants feel: mass = m A m e; the rest, ell = m^2 d - mass, comes from differences. A hat function of
    half width 2^l has h = 2^(l+1)/3 + 2^-l/3 as the sum of squares along one axis and 2^(1-l) as that of differences, so

        a = sigma h 2^-l R^l ell / 4^l,  b = h^2 R^l mass / 4^l,  W_l = a / (a + b)^2

    where W_l is 1/(a + b) times the elliptic part a / (a + b): levels help nothing where constants are held. The factor m =
    min(1, theta ell / mass) takes texels that are held, by constraints for example, out of the levels.

    Each channel of an image has its own pyramid. smallest: an axis with fewer nodes ends it. Unknowns whose neighbours no residual reads get Jacobi alone. In a
    system of J^T J of 512x512 texels an iteration takes about 16 short passes more.

    Lists whose entries residuals read together, as ``F.lookup`` does along the edges of a mesh, get a coarse space instead:
    smooth functions around a few centres of the graph, and for vectors these times the coordinates from which the unknown
    starts. The inverse of the system on them is added to Jacobi. It takes as many products with the system as there are
    coefficients, and is made in the first solve that takes more than ten iterations, and anew when as many iterations have
    passed. The graph is that of the data the indices have when the solver is set up; it stays when others are sent.

    coefficients: of the coarse space at most. Jacobi alone is for lists of fewer than 128 entries, lists with a batch, graphs
    of more parts than centres, indices that follow from the unknowns or have no data, and solvers of at most 128
    ``iterations``, whose systems are easy.

    >>> GaussNewton(preconditioner=least_squares.Multilevel(smallest=16)).preconditioner.smallest
    16
    """

    theta: float = 0.5
    sigma: float = 1.3
    smallest: int = 8
    coefficients: int = 64

    def layout(self, unknowns, names):
        return Layout.of(unknowns, names, self.coefficients)

    def _sizes(self, size: Size) -> list[Size]:
        found: list[Size] = []
        while min(size) > self.smallest:
            size = coarser(size)
            found.append(size)
        return found

    def states(self, unknowns, names):
        found: State = {}
        for x, n in zip(unknowns, names, strict=True):
            levels = self._sizes(x.size)
            if levels:
                found[f"{n}.free"] = like(x, f"{n}.free")
            for k, size in enumerate(levels):
                name = f"{n}.level{k + 1}"
                found[name] = like(Variable(x.vtype, size, x.batch, channels=x.channels), name)
        layout = self.layout(unknowns, names)
        return found if layout is None else {**found, **layout.states(unknowns, names)}

    def setup(self, apply, diagonal, names, jacobian):
        values: Values = {}
        for k, n in enumerate(names):
            d = diagonal[k]
            sizes = self._sizes(d.size)
            unknown = jacobian.unknowns[k]
            if not sizes or not any(reads_neighbours(r, unknown) for r in jacobian.residuals):
                continue
            free = F.greater(d, VANISHED)
            mass, ell = self._split(apply, diagonal, k, free)
            free = F.hadamard(
                free,
                F.minimum(1.0, self.theta * F.hadamard(ell, reciprocal(mass)) + F.less_equal(mass, VANISHED)),
            )
            mass, ell = self._split(apply, diagonal, k, free)
            values[f"{n}.free"] = free
            for i in range(len(sizes)):
                level = i + 1
                ell, mass = Restrict(ell).output * 0.25, Restrict(mass).output * 0.25
                h = 2.0 ** (level + 1) / 3.0 + 1.0 / (3.0 * 2.0**level)
                a, b = ell * (self.sigma * h / 2.0**level), mass * (h * h)
                inverse = reciprocal(a + b)
                values[f"{n}.level{level}"] = F.hadamard(F.hadamard(a, inverse), inverse)
        return values

    def _split(self, apply: Operator, diagonal: Vector, k: int, free: Variable) -> tuple[Variable, Variable]:
        """(mass, ell) of unknown k."""
        d, parts = diagonal[k], []
        for unit in units(d.vtype):
            vector = [F.zeros_like(x) for x in diagonal]
            vector[k] = F.hadamard(free, unit)
            product = F.maximum(F.hadamard(free, apply(vector)[k]), 0.0)
            parts.append(F.hadamard(product, unit))
        mass = total(parts)
        return mass, F.maximum(F.hadamard(F.hadamard(free, free), d) - mass, 0.0)

    def apply(self, r, diagonal, names, values):
        z = Jacobi().apply(r, diagonal, names, values)
        return [
            y if f"{n}.free" not in values else y + self._levels(x, n, values)
            for y, x, n in zip(z, r, names, strict=True)
        ]

    def _levels(self, r: Variable, name: str, values: Values) -> Variable:
        free = values[f"{name}.free"]
        fine, sums = F.hadamard(free, r), []
        s = fine
        for _ in self._sizes(r.size):
            s = Restrict(s).output
            sums.append(s)
        t = None
        for k in reversed(range(len(sums))):
            own = F.hadamard(values[f"{name}.level{k + 1}"], sums[k])
            t = own if t is None else own + Prolong(t, own.size).output
        assert t is not None
        return F.hadamard(free, Prolong(t, r.size).output)


def reads_neighbours(residual: Variable, unknown: Variable) -> bool:
    """Whether a residual reads texels of an image at a fixed distance, as stencils do."""
    active = {unknown}
    for function in topological_order([residual]):
        if active.isdisjoint(function.inputs) or blocks_derivatives(function):
            continue
        if isinstance(function, Gather) and function.moves:
            return True
        if isinstance(function, ContractFunction) and _shifts(function, active):
            return True
        active.add(function.output)
    return False


def _shifts(function: ContractFunction, active: set[Variable]) -> bool:
    """Whether it reads other rows or columns of some of its inputs at a fixed distance, in whichever channels."""
    same = {"border": "zero", "n": Affine.axis(0), "c": Affine()}
    far = [
        m._replace(**same).footprint(function.extents)
        for x, m in zip(function.inputs, function.maps, strict=True)
        if x in active
    ]
    return all(len(axes) == 1 for axes in function.parallel) and any(0.0 < f < math.inf for f in far)
