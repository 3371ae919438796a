"""Preconditioners of conjugate gradients: diagonals, blocks, levels of images, and coarse spaces of lists."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ... import functional as F
from ...contract.contraction import ContractFunction
from ...graph import Variable
from ...graph.index_map import Affine
from ...graph.traversal import topological_order
from ...graph.types import MAT2, MAT3, MAT4, Size, VType
from ...ops.pixel.constant import constant
from ...optim.optimizer import VANISHED, State, state_leaf
from ...transform.gradient import blocks_derivatives, gradient, total
from . import vectors
from .coarse import Layout
from .diagonal import Paths, selections, unrolled
from .vectors import Jacobian, Vector, inner, joined, reciprocal, units

__all__ = ["BlockJacobi", "Jacobi", "Multilevel", "Preconditioner"]

Values = dict[str, Variable]
"""What a preconditioner knows of a system, by the names of the state leaves that keep it."""
Operator = Callable[[Vector], list[Variable]]


class Preconditioner(ABC):
    """Approximates the inverse of J^T J + D. It is set up once for a system and used in every iteration."""

    def states(self, unknowns: Sequence[Variable], names: Sequence[str]) -> State:
        """State leaves for what ``setup`` finds."""
        return {}

    def setup(self, apply: Operator, diagonal: Vector, names: Sequence[str], jacobian: Jacobian) -> Values:
        """The values of the state leaves. apply: multiplies by the system; diagonal: of the system. jacobian:
        of the residuals by the unknowns."""
        return {}

    @abstractmethod
    def apply(self, r: Vector, diagonal: Vector, names: Sequence[str], values: Values) -> list[Variable]:
        """The product with a residual."""

    def layout(self, unknowns: Sequence[Variable], names: Sequence[str]) -> Layout | None:
        """The coarse space of the lists among the unknowns, if any. Its inverse is added to ``apply``."""
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
    """Jacobi on every level of a pyramid, added up (Bramble, Pasciak and Xu), for unknowns that are images;
    for lists, Jacobi and a coarse space.

    Smooth errors take as many iterations of plain conjugate gradients as an image has texels across; levels
    take them at once. With P_l the bilinear prolongations, R = P^T, and the diagonal d of the system A:

        z = r / d + m P_1 (W_1 s_1 + P_2 (W_2 s_2 + ...)),  s_1 = R m r,  s_l = R s_(l-1)

    The weights W_l approximate the inverse of the diagonal of the coarse system without computing it. A
    constant e shows which part of d constants feel: mass = m A m e; the rest, ell = m^2 d - mass, comes from
    differences. A hat function of half width 2^l has h = 2^(l+1)/3 + 2^-l/3 as the sum of squares along one
    axis and 2^(1-l) as that of differences, so

        a = sigma h 2^-l R^l ell / 4^l,  b = h^2 R^l mass / 4^l,  W_l = a / (a + b)^2

    where W_l is 1/(a + b) times the elliptic part a / (a + b): levels help nothing where constants are held.
    The factor m = min(1, theta ell / mass) takes texels that are held out of the levels.

    Each channel of an image has its own pyramid. smallest: an axis with fewer nodes ends it. Unknowns whose
    neighbours no residual reads get Jacobi alone. In a system of J^T J of 512x512 texels an iteration takes
    about 16 short passes more.

    Lists whose entries residuals read together, as ``F.lookup`` does along the edges of a mesh, get a coarse
    space instead: smooth functions around a few centres of the graph, and for vectors these times the
    coordinates from which the unknown starts. The inverse of the system on them is added to Jacobi. It takes
    as many products with the system as there are coefficients, and is made in the first solve that takes more
    than ten iterations, and anew when as many iterations have passed. The graph is that of the data the
    indices have when the solver is set up; it stays when others are sent.

    coefficients: of the coarse space at most. Jacobi alone is for lists of fewer than 128 entries, lists with
    a batch, graphs of more parts than centres, indices that follow from the unknowns or have no data, and
    solvers of at most 128 ``iterations``, whose systems are easy.

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
        sizes: list[Size] = []
        while min(size) > self.smallest:
            size = coarser(size)
            sizes.append(size)
        return sizes

    def states(self, unknowns, names):
        state: State = {}
        for x, n in zip(unknowns, names, strict=True):
            levels = self._sizes(x.size)
            if levels:
                state[f"{n}.free"] = state_leaf(x, f"{n}.free")
            for level, size in enumerate(levels, 1):
                name = f"{n}.level{level}"
                state[name] = state_leaf(Variable(x.vtype, size, x.batch, channels=x.channels), name)
        layout = self.layout(unknowns, names)
        return state if layout is None else state | layout.states(unknowns, names)

    def setup(self, apply, diagonal, names, jacobian):
        values: Values = {}
        for k, (n, d) in enumerate(zip(names, diagonal, strict=True)):
            sizes, unknown = self._sizes(d.size), jacobian.unknowns[k]
            if not sizes or not any(reads_neighbours(r, unknown) for r in jacobian.residuals):
                continue
            free = F.greater(d, VANISHED)
            mass, ell = self._split(apply, diagonal, k, free)
            ratio = self.theta * F.hadamard(ell, reciprocal(mass)) + F.less_equal(mass, VANISHED)
            free = F.hadamard(free, F.minimum(1.0, ratio))
            mass, ell = self._split(apply, diagonal, k, free)
            values[f"{n}.free"] = free
            for level in range(1, len(sizes) + 1):
                ell, mass = restricted(ell) * 0.25, restricted(mass) * 0.25
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
        sums = [F.hadamard(free, r)]
        for _ in self._sizes(r.size):
            sums.append(restricted(sums[-1]))
        levels = [F.hadamard(values[f"{name}.level{k}"], s) for k, s in enumerate(sums[1:], 1)]
        t = levels.pop()
        for own in reversed(levels):
            t = own + prolonged(t, own.size)
        return F.hadamard(free, prolonged(t, r.size))


# ---- levels of an image: nodes on the even texels
def coarser(size: Size) -> Size:
    """The nodes of the next level of an image of this size. Node I lies on texel 2 I; for an even size the
    last one lies beyond the end."""
    return size[0] // 2 + 1, size[1] // 2 + 1


def prolonged(nodes: Variable, size: Size) -> Variable:
    """An image of ``size`` from its nodes: a node on even texels, the mean of two or four between."""
    extents = {"y": size[1], "x": size[0], "j": 2, "i": 2}
    return F.contract("out[y, x] = nodes[(y + j) // 2, (x + i) // 2] * 0.25", extents=extents, nodes=nodes)


def restricted(x: Variable) -> Variable:
    """Nodes from texels, the transpose of ``prolonged``: the sum over the 3x3 texels around each node with
    weights 1, 1/2 and 1/4; zero outside."""
    width, height = coarser(x.size)
    return F.contract(
        "out[y, x] = image[2 * y + j - 1, 2 * x + i - 1]"
        " * (1.0 if j == 1 else 0.5) * (1.0 if i == 1 else 0.5)",
        border="zero",
        extents={"y": height, "x": width, "j": 3, "i": 3},
        image=x,
    )


def reads_neighbours(residual: Variable, unknown: Variable) -> bool:
    """Whether a residual reads texels of an image at a fixed distance, as stencils do."""
    active = {unknown}
    for function in topological_order([residual]):
        if active.isdisjoint(function.inputs) or blocks_derivatives(function):
            continue
        if isinstance(function, ContractFunction) and _shifts(function, active):
            return True
        active.add(function.output)
    return False


def _shifts(function: ContractFunction, active: set[Variable]) -> bool:
    """Whether it reads other rows or columns of active inputs at a fixed distance, in any channel."""
    same = {"border": "zero", "n": Affine.axis(0), "c": Affine()}
    far = [
        m._replace(**same).footprint(function.extents)
        for x, m in zip(function.inputs, function.maps, strict=True)
        if x in active
    ]
    return all(len(axes) == 1 for axes in function.parallel) and any(0.0 < f < math.inf for f in far)


# Blocks of J^T J: the products of the derivatives by all components of one unknown at one texel.

ORDERS: dict[int, VType] = {2: MAT2, 3: MAT3, 4: MAT4}  # types of blocks, by components
NEAR, ROUNDED = 1e-3, 1e-6
"""Parts of the diagonal: NEAR is added before a block is inverted, ROUNDED is its rounding error."""


def block_type(unknown: Variable) -> VType | None:
    """The type of the blocks of an unknown; None unless it is a vector."""
    return None if unknown.vtype.is_matrix else ORDERS.get(unknown.vtype.components)


def couplings(residuals: Sequence[Variable], unknown: Variable) -> Variable | None:
    """The blocks of J^T J for one unknown, MATn of its domain, with a zero diagonal; None if there are none.
    Of residuals that read the unknown along paths; see ``diagonal``."""
    shares: list[Variable] = []
    for r in (unrolled(r, [unknown]) for r in residuals):
        functions = selections(r, unknown)
        paths = Paths(unknown, functions or [])
        for path, tangents in paths.flow(r).items() if functions is not None else ():
            columns = [F.fit(t, r) for t in tangents]
            for j, unit in enumerate(units(unknown.vtype)):
                products = [
                    inner(columns[j], other) if i != j else F.constant(0.0) for i, other in enumerate(columns)
                ]
                seed = F.stop_gradient(joined(products, unknown.vtype))
                # The gradient of a linear function of the unknown is the transpose of the path.
                (column,) = gradient(F.sum(inner(paths.read[path], seed)), [unknown])
                shares.append(F.outer(column, unit))
    return total(shares) if shares else None


def inverse(diagonal: Variable, rest: Variable | None, vtype: VType) -> Variable:
    """About the inverse of the blocks B with a diagonal D, MATn, symmetric and positive definite:

        2 M - M B M,    M = C^-1 (B + ROUNDED D) C^-1,    C = B + NEAR D

    It is B^-1 where B is not nearly singular, and about D^-1 along what B does not determine. There B^-1
    would multiply the rounding errors of a residual until conjugate gradients diverge. Components that no
    residual determines get 1, and stay where they are: their part of a residual is zero.
    """
    n = vtype.shape[0]
    own = F.select(F.greater(diagonal, VANISHED), diagonal, 1.0)
    rounded = own * (1.0 + ROUNDED)
    block = total([rounded[k] * constant(np.diag(np.eye(n)[k]), vtype) for k in range(n)])
    block = block if rest is None else block + rest
    c = {(i, j): F.component(block, (i, j)) for i in range(n) for j in range(i + 1)}
    c |= {(k, k): F.component(own, k) * (1.0 + NEAR) for k in range(n)}
    # L P L^T: cofactors, as in ``F.inverse``, lose three digits more of four components.
    lower, pivots = vectors.factorised(c, n, lambda entry, i: 1.0 / F.maximum(entry, 0.1 * NEAR * c[i, i]))
    columns = [[F.constant(1.0 if k == column else 0.0) for k in range(n)] for column in range(n)]
    solutions = [vectors.substituted(lower, pivots, x, k) for k, x in enumerate(columns)]
    near = joined([entry for column in solutions for entry in column], vtype)
    about = near @ block @ near
    about = 2.0 * about - about @ block @ about  # a step of Newton's iteration for the inverse
    return 0.5 * (about + F.transpose(about))


@dataclass(frozen=True)
class BlockJacobi(Preconditioner):
    """Multiplies by the inverse of the block of each texel: components of an unknown that act together, as
    the coordinates of a point on a plane, are solved together. Unknowns that are no vectors get Jacobi.

    >>> LevenbergMarquardt(preconditioner=least_squares.BlockJacobi()).preconditioner
    BlockJacobi()
    """

    def states(self, unknowns, names):
        state: State = {}
        for x, n in zip(unknowns, names, strict=True):
            if vtype := block_type(x):
                block = Variable(vtype, x.size, x.batch, channels=x.channels)
                state[f"{n}.block"] = state_leaf(block, f"{n}.block")
        return state

    def setup(self, apply, diagonal, names, jacobian):
        values = {}
        for x, d, n in zip(jacobian.unknowns, diagonal, names, strict=True):
            if vtype := block_type(x):
                values[f"{n}.block"] = inverse(d, couplings(jacobian.residuals, x), vtype)
        return values

    def apply(self, r, diagonal, names, values):
        alone = Jacobi().apply(r, diagonal, names, values)
        blocks = [values.get(f"{n}.block") for n in names]
        return [y if b is None else b @ x for x, y, b in zip(r, alone, blocks, strict=True)]
