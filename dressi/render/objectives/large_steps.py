"""Large steps: gradients of vertices spread over the surface by (I + lambda L)^-1, solved exactly in a few
passes.

Nicolet, Jacobson and Jakob, Large Steps in Inverse Rendering of Geometry (2021), move u = (I + lambda L) x
instead of the vertices x. The gradient by u is (I + lambda L)^-1 times that by x, and x = (I + lambda L)^-1
u. As all of this is linear, u need not be kept: a step du of their variable is a step dx = (I + lambda L)^-1
du of the vertices,

    chain(spread, scale_by_adam_uniform(), spread, scale_by_learning_rate(rate)),

which gives the same numbers up to rounding. Parameters, checkpoints and results remain vertices.

Graphs have no loops, so the matrix is not inverted by iteration but factorised once on the host. A band of
neighbouring vertices cuts the mesh in two, further bands cut the halves, and so on (nested dissection, George
1973). The blocks between the bands do not touch, so the inverse of all of them together is block diagonal.
What remains is a matrix on the bands (a Schur complement), which is factorised in the same way:

    [B  C] -1   [1  -G] [1   0  ] [B^-1  0]        G = B^-1 C,  S = D - C' G
    [C' D]    = [0   1] [0  S^-1] [-G'   1],

each factor a sparse matrix and one pass (Alvarado, Pothen and Schreiber 1993 call it a partitioned inverse).
Of small meshes the product of the factors is one dense matrix, and a solve one pass: of 258 vertices that takes
half the processor time, of 1,026 as much, and a data-centre GPU is predicted to take a quarter of the time.
With lavapipe a solve for spheres of 512, 2048 and 8192 faces takes 3, 5 and 7 passes and 0.4, 2.7 and 26 ms
of processor time, with a residual below 1e-6; Chebyshev's iteration takes 70 passes and 3.4, 12 and 75 ms for
1.3e-4 (`apps/large_steps.py --solvers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy

from ...ad import functional as F
from ...ad import optim
from ...ad.graph import Variable
from ...ad.graph.types import FLOAT
from ...errors import InputError
from .regularizers import Adjacency
from .sparse import Matrix, SparseMatrix, product, sparse_matrix

BLOCK = 32
"""Approximate number of vertices in a block."""
LEVELS = 3
"""Cuts whose bands form one factor. One level more adds two passes; one level less makes longer rows."""
SMALLEST = 1e-8
"""Smaller entries of factors are dropped."""
DENSE = 1200
"""Vertices of a mesh up to which a solve is a product with one dense matrix."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Multiplies by the inverse of a matrix; made by ``spread``."""

    system: Matrix
    """The matrix itself, (V, V)."""
    parts: tuple[Matrix, ...]
    """Sparse factors whose product, the first applied first, is the inverse."""

    @cached_property
    def factors(self) -> tuple[SparseMatrix, ...]:
        """The parts as leaves."""
        return tuple(sparse_matrix(f, f"spread {k}") for k, f in enumerate(self.parts))

    @cached_property
    def inverse(self) -> Variable:
        """The product of the parts as a leaf, an image with a row and a column for each vertex."""
        whole = reduce(lambda product, part: part @ product, self.parts, np.eye(self.system.shape[0]))
        return Variable(FLOAT, whole.shape, name="spread", data=whole[None])

    def __call__(self, values: Variable) -> Variable:
        """List like ``values``, of FLOAT or vectors. Differentiable; the operator is symmetric."""
        if values.size == (self.system.shape[0], 1) and values.size[0] <= DENSE:
            text = "out[y, x] = inverse[k, x] * values[y, k]"
            return F.contract(text, inverse=self.inverse, values=values)
        for factor in self.factors:
            values = product(factor, values)
        return values

    @property
    def optimizer(self) -> optim.Optimizer:
        """A part of an optimizer chain that spreads gradients or moves; parameters are lists of V entries."""
        return optim.Stateless(lambda g, state, p: self(g))


def spread(mesh: Adjacency, strength: float) -> Spread:
    """(I + lambda L)^-1 with L = D - W of the weights of a mesh, D their sums.

    strength: lambda, at least 0; its square root is about the range of the spread in edges. Weights are those
    of ``mesh``. Raises InputError.

    >>> cube = primitives.cube()
    >>> solver = spread(adjacency(cube.faces, 8), 10.0)
    """
    if not 0 <= strength < np.inf:
        raise InputError(f"the strength of the spread is a number from 0 on, not {strength}")
    weights = mesh.weights.array
    own = scipy.sparse.diags_array(1 + strength * weights.sum(1))
    system = scipy.sparse.csr_array(own - strength * weights)
    return Spread(system, tuple(partitioned_inverse(system, levels(system))))


def large_steps(
    mesh: Adjacency, rate: optim.Rate, *, strength: float = 19.0, betas: tuple[float, float] = (0.9, 0.999)
) -> optim.Optimizer:
    """The method at the top of this module with its AdamUniform; for lists of the vertices as parameters.

    rate: of AdamUniform, about how far u moves in a step, in units of the vertices.  strength: lambda. Raises
    InputError, GraphError.

    >>> cube = primitives.cube()
    >>> optimizer = large_steps(adjacency(cube.faces, 8), 0.01)
    """
    spreading = spread(mesh, strength).optimizer
    return optim.chain(
        spreading, optim.scale_by_adam_uniform(betas), spreading, optim.scale_by_learning_rate(rate)
    )


def levels(system: Matrix) -> list[list[np.ndarray]]:
    """Vertices in blocks, level after level: blocks of a level touch none of their own, only those of later
    levels."""
    count = system.shape[0]
    depth = max(round(np.log2(count / BLOCK)), 0)
    starts = np.round(np.linspace(0, depth, -(-depth // LEVELS) + 1)).astype(int)
    blocks: list[dict[int, list[np.ndarray]]] = [{} for _ in starts]
    pattern = abs(system)
    parts = [np.arange(count)]
    for cut in range(depth):
        level = int(np.searchsorted(starts, cut, "right")) - 1
        halves = []
        for number, part in enumerate(parts):
            left, band, right = _cut(pattern, part)
            # Bands inside of one part of the level above make one block.
            blocks[level].setdefault(number >> (cut - int(starts[level])), []).append(band)
            halves += [left, right]
        parts = halves
    blocks[-1] = {number: [part] for number, part in enumerate(parts)}
    joined = [[np.concatenate(pieces) for pieces in level.values()] for level in reversed(blocks)]
    filled = [[block for block in level if len(block)] for level in joined]
    return [level for level in filled if level]


def _cut(pattern: Matrix, part: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two halves of a part without an entry between them, and the band between the halves."""
    from scipy.sparse.csgraph import breadth_first_order  # slow to import and rarely used

    if len(part) < 3:
        return part[:0], part, part[:0]
    inner = pattern[part][:, part]
    order = np.zeros(1, np.int64)
    for _ in range(3):  # three times from end to end, to find a long path
        order = breadth_first_order(inner, order[-1], return_predecessors=False)
    order = np.concatenate([order, np.setdiff1d(np.arange(len(part)), order)])
    first = np.zeros(len(part), bool)
    first[order[: len(part) // 2]] = True
    band = first & (inner @ ~first > 0)
    return part[first & ~band], part[band], part[~first]


def partitioned_inverse(system: Matrix, blocks: Sequence[Sequence[np.ndarray]]) -> list[Matrix]:
    """Sparse factors, the first applied first, whose product is the inverse of a symmetric positive definite
    matrix.

    blocks: of ``levels``; two factors for each level but the last, which has one.
    """
    count, down, up, rest = system.shape[0], [], [], system
    alive = np.ones(count)
    for level in blocks:
        here = np.zeros(count)
        here[np.concatenate(level)] = 1
        alive -= here
        inverse = _scattered(level, [np.linalg.inv(rest[b][:, b].toarray()) for b in level], count)
        across = scipy.sparse.csr_array(inverse @ rest @ scipy.sparse.diags_array(alive))  # G
        down.append(_pruned(inverse + scipy.sparse.diags_array(1 - here) - across.T))
        if alive.any():
            up.append(_pruned(scipy.sparse.eye_array(count) - across))
            remaining = scipy.sparse.diags_array(alive)
            rest = scipy.sparse.csr_array(remaining @ rest @ remaining - remaining @ rest @ across)
    return down + up[::-1]


def _scattered(level: Sequence[np.ndarray], inverses: Sequence[np.ndarray], count: int) -> Matrix:
    rows = np.concatenate([np.repeat(b, len(b)) for b in level])
    columns = np.concatenate([np.tile(b, len(b)) for b in level])
    values = np.concatenate([inverse.reshape(-1) for inverse in inverses])
    return scipy.sparse.csr_array((values, (rows, columns)), shape=(count, count))


def _pruned(matrix: Matrix) -> Matrix:
    matrix = matrix.tocsr()
    matrix.data[np.abs(matrix.data) < SMALLEST] = 0
    matrix.eliminate_zeros()
    return matrix
