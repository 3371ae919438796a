"""A coarse space for lists: a few smooth functions on a graph, with the exact inverse of the system on them.

Smooth errors of a long chain of entries take plain conjugate gradients as many iterations as the chain is
long, and those of elastic meshes many times more. They are nearly affine in pieces. With the functions as
columns of P,

    z = r / d + P (P^T A P)^-1 P^T r.

A list gets the shares of the centres of a graph, and for vectors these times its first coordinates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....errors import GraphError
from ... import functional as F
from ...graph import Function, Variable
from ...graph.evaluation import evaluate
from ...graph.traversal import topological_order
from ...graph.types import FLOAT, INT, VType
from ...optim.optimizer import VANISHED, State, state_leaf
from ...transform.gradient import total
from .diagonal import Paths, selections
from .vectors import WHOLE, Updates, Vector, dot, inner, joined, scalar, set_flag

AGE, OPEN, NUMBER = "coarse_age", "coarse_open", "coarse_number"
"""State leaves: iterations since the inverse was made, whether it is being made, and the next row of it."""
FUNCTIONS = 16  # of a list at most: each is a product at all entries in every iteration
LEAST, ENTRIES = 128, 16  # entries of all lists, and for each centre, at least
TOGETHER = 2048  # entries of all lists up to which a pass costs more than empty functions
SHORT = 128  # iterations of a solver up to which a coarse space would hardly pay
SINGULAR = 1e-5  # functions with a smaller independent part are left out


@dataclass(frozen=True)
class Layout:
    """How many functions there are. functions: of each list, and the number of its first coefficient. count:
    coefficients. tiles: of each list. Short lists are padded to as many, so that they share passes."""

    centres: int
    functions: dict[str, tuple[int, int]]
    count: int
    tiles: dict[str, int]

    @staticmethod
    def of(unknowns: Sequence[Variable], names: Sequence[str], most: int) -> Layout | None:
        """For those unknowns that are lists; None if there is too little of them. most: coefficients."""
        lists = {n: x for x, n in zip(unknowns, names, strict=True) if x.count is not None and x.tiles == 1}
        if not lists:
            return None
        kinds = {n: 1 + _coordinates(x) for n, x in lists.items()}
        each = sum(kinds[n] * x.vtype.components for n, x in lists.items())
        entries = sum(x.count or 0 for x in lists.values())
        centres = min(most // each, FUNCTIONS // max(kinds.values()), entries // ENTRIES)
        if centres < 2 or entries < LEAST:
            return None
        functions, count = {}, 0
        for n, x in lists.items():
            functions[n] = centres * kinds[n], count
            count += centres * kinds[n] * x.vtype.components
        tiles = {n: own for n, (own, _) in functions.items()}
        if entries <= TOGETHER:
            tiles = dict.fromkeys(tiles, max(tiles.values()))
        return Layout(centres, functions, count, tiles)

    def states(self, unknowns: Sequence[Variable], names: Sequence[str]) -> State:
        """State leaves: the rows of the inverse, and when it was made."""
        state: State = {AGE: scalar(AGE, 1, self.count), OPEN: scalar(OPEN, 1)}
        state[NUMBER] = Variable(INT, name=NUMBER, data=np.zeros((1, 1, 1), np.int64))
        for x, n in zip(unknowns, names, strict=True):
            if n in self.functions:
                name = f"{n}.coarse"
                state[name] = state_leaf(Variable(x.vtype, (self.count, 1), self.tiles[n]), name)
        return state


@dataclass
class Functions:
    """The functions of a list, and the places of their coefficients among all.

    tiles: FLOAT, a tile for each function. columns: the same, a function a texel along x and the entries
    along y, a row of the list a tile. begin: INT tiles, the number of the first coefficient of each function.
    index, unit: along the coefficients, the function and the component that each belongs to. Numbers below
    zero are none.
    """

    tiles: Variable
    columns: Variable
    begin: Variable
    index: Variable
    unit: Variable

    @staticmethod
    def of(values: np.ndarray, x: Variable, name: str, layout: Layout) -> Functions:
        """values: (functions, H, W)."""
        (own, first), parts = layout.functions[name], x.vtype.components
        number = np.arange(layout.count) - first
        inside = (number >= 0) & (number < own * parts)
        unit = np.eye(parts)[number % parts].reshape(1, 1, layout.count, *x.vtype.shape)
        tile = np.arange(layout.tiles[name])
        begin = np.where(tile < own, tile * parts + first, -parts)
        values = np.pad(values, ((0, len(tile) - own), (0, 0), (0, 0)))
        return Functions(
            _constant(values, f"{name}.functions"),
            _constant(values.transpose(1, 2, 0), f"{name}.columns"),
            _constant(begin[:, None, None], f"{name}.begin", INT),
            _constant(np.where(inside, number // parts, -1)[None, None], f"{name}.index", INT),
            _constant(unit, f"{name}.unit", x.vtype),
        )

    def coefficients(self, x: Variable) -> Variable:
        """The sums of x times each function, along the coefficients, FLOAT; 0 for those of other lists."""
        (_, width), height = self.columns.size, self.columns.batch
        along = F.pixel_coordinates((1, width), height).y + F.tile_index((1, width), height) * width
        return inner(F.lookup(F.sum(self.columns * F.lookup(x, along), "yn"), self.index), self.unit)

    def across(self, s: Variable) -> Variable:
        """Coefficients along x as a tile for each function."""
        vtype = self.unit.vtype
        return joined([F.lookup(s, self.begin + c) for c in range(vtype.components)], vtype)

    def place(self, k: Variable) -> Variable:
        """Coefficient k alone, 1, a tile for each function."""
        vtype = self.unit.vtype
        masks = [F.select(F.equal(self.begin + c, k), 1.0, 0.0) for c in range(vtype.components)]
        return joined(masks, vtype)


@dataclass
class Coarse:
    """The coarse space of a solve. functions: of each unknown; None for those without."""

    layout: Layout
    names: Sequence[str]
    functions: Sequence[Functions | None]
    state: State

    def __post_init__(self) -> None:
        """Leaves for what one Program of the set-up finds and the next one reads."""
        self.along = state_leaf(Variable(FLOAT, (self.layout.count, 1)), "coarse column")
        self.column = [state_leaf(Variable(x.vtype, (1, 1), x.tiles), "coarse tiles") for x in self._rows()]
        self.added = [state_leaf(Variable(x.vtype, (1, 1), x.tiles), "coarse added") for x in self._rows()]
        self.across = state_leaf(Variable(FLOAT, (self.layout.count, 1)), "coarse across")

    @staticmethod
    def of(
        residuals: Sequence[Variable], unknowns: Sequence[Variable], names: Sequence[str], layout: Layout,
        state: State,
    ) -> Coarse | None:  # fmt: skip
        """None if the residuals connect no entries of lists."""
        lists = [(x, n) for x, n in zip(unknowns, names, strict=True) if n in layout.functions]
        by_list = shares(residuals, [x for x, _ in lists], layout.centres) if lists else None
        if by_list is None:
            return None
        pairs = zip(by_list, lists, strict=True)
        made = {n: Functions.of(_values(share, x), x, n, layout) for share, (x, n) in pairs}
        return Coarse(layout, names, [made.get(n) for n in names], state)

    def _own(self, r: Vector) -> list[tuple[Functions, Variable]]:
        """The lists that have functions, with their part of a vector."""
        return [(f, x) for f, x in zip(self.functions, r, strict=True) if f is not None]

    def _rows(self) -> list[Variable]:
        """The inverse, of the state: a tile for each function, and a coefficient a texel along x."""
        return [self.state[f"{n}.coarse"] for f, n in zip(self.functions, self.names, strict=True) if f]

    def _coefficients(self, r: Vector) -> Variable:
        """P^T r along x."""
        return total([f.coefficients(x) for f, x in self._own(r)])

    def _prolonged(self, s: Vector, diagonal: Vector) -> list[Variable]:
        """P s, a tile of s for each function. diagonal: of J^T J; where it is zero, P is zero."""
        rest, parts = iter(s), []
        for f, d in zip(self.functions, diagonal, strict=True):
            if f is None:
                parts.append(F.zeros_like(d))
            else:
                parts.append(F.hadamard(F.greater(d, VANISHED), F.sum(f.tiles * next(rest), "n")))
        return parts

    def apply(self, r: Vector, diagonal: Vector) -> tuple[list[Variable], Updates]:
        """P (P^T A P)^-1 P^T r: zero as long as the inverse is not made. And updates of leaves that hold its
        coefficients: what is an update is stored, and not computed again for each entry."""
        along = self._coefficients(r)
        column = [F.sum(rows * along, "x") for rows in self._rows()]
        return self._prolonged(column, diagonal), list(zip(self.column, column, strict=True))

    # ---- when the inverse is made, and how
    def older(self, iterations: Variable) -> Updates:
        """Updates when a solve begins, with the iterations of the one before."""
        return [(self.state[AGE], self.state[AGE] + iterations)]

    def due(self, active: Variable, iterations: Variable) -> Variable:
        """FLOAT mask: whether the inverse is made now. active: whether the solve goes on after its first
        iterations. It is made at once in the beginning, and anew after as many iterations as it costs."""
        return F.logical_and(active, F.greater_equal(self.state[AGE] + iterations, float(self.layout.count)))

    def begun(self, due: Variable, direction: Vector, diagonal: Vector) -> Updates:
        """Updates before the inverse is made, if it is."""
        number = self.state[NUMBER]
        return [
            *set_flag(self.state, OPEN, due),
            (number, number * 0),
            *self._function(F.constant(0), direction, diagonal, due),
        ]

    def made(self, iterations: Variable) -> Updates:
        """Updates when the inverse has been made, after so many iterations of this solve."""
        return [(self.state[AGE], -iterations), (self.state[OPEN], self.state[OPEN] * 0.0)]

    def _function(self, k: Variable, direction: Vector, diagonal: Vector, chosen: Variable) -> Updates:
        """Stores function k in the direction, with which products are cheap."""
        function = self._prolonged([f.place(k) for f in self.functions if f is not None], diagonal)
        return [(p, F.select(chosen, x, p)) for p, x in zip(direction, function, strict=True)]

    def bordered(self, apply: Callable[[Vector], list[Variable]], direction: Vector) -> Updates:
        """What one more row and column of C = P^T A P, column c for number k, adds to its inverse:

            v = e_k - C^-1 c,  C^-1 + v v^T / (c_k - c . C^-1 c)

        apply: multiplies by the system. direction: the leaves that hold function k.
        """
        number, rows = self.state[NUMBER], self._rows()
        known = [F.select(F.equal(number, 0), F.zeros_like(x), x) for x in rows]
        own = [f for f in self.functions if f is not None]
        along = self._coefficients(apply(direction))
        unit, column = [f.place(number) for f in own], [f.across(along) for f in own]
        new = [e - F.sum(x * along, "x") for e, x in zip(unit, known, strict=True)]
        across = F.select(F.equal(F.linear_index((self.layout.count, 1)), number), 1.0, 0.0)
        across = across - total([F.sum(inner(x, c), "n") for x, c in zip(known, column, strict=True)])
        whole, left = dot(unit, column, WHOLE), dot(new, column, WHOLE)
        good = F.greater(left, SINGULAR * whole)
        across = across * F.select(good, 1.0 / F.select(good, left, 1.0), 0.0)
        # What is an update is stored, and not computed again by each of its readers.
        held = [(self.along, along), *zip(self.column, column, strict=True)]
        return [*held, *zip(self.added, new, strict=True), (self.across, across), (number, number + 1)]

    def grown(self, direction: Vector, diagonal: Vector) -> Updates:
        """The inverse with that, and the next function in the place of the direction."""
        number, opened, rows = self.state[NUMBER], self.state[OPEN], self._rows()
        known = [F.select(F.equal(number, 1), F.zeros_like(x), x) for x in rows]
        grown = [x + v * self.across for x, v in zip(known, self.added, strict=True)]
        return [
            *((x, F.select(opened, y, x)) for x, y in zip(rows, grown, strict=True)),
            *self._function(number, direction, diagonal, opened),
        ]


def _constant(values: np.ndarray, name: str, vtype: VType = FLOAT) -> Variable:
    """A leaf of values (batch, H, W, ...)."""
    return Variable(vtype, (values.shape[2], values.shape[1]), len(values), name=name, data=values)


def _coordinates(x: Variable) -> int:
    """How many coordinates the functions of a list have: none if it starts the same everywhere."""
    if x.data is None or x.vtype.is_scalar or x.vtype.is_matrix:
        return 0
    return x.vtype.components if np.ptp(np.asarray(x.data), axis=(0, 1, 2)).max() > 0 else 0


def _values(share: np.ndarray, x: Variable) -> np.ndarray:
    """(functions, H, W): the shares of the centres, and these times the coordinates around each centre."""
    columns, count = [share], _coordinates(x)
    if count:
        at = np.reshape(x.data, (-1, count))  # type: ignore[arg-type]
        for centre in share.T:
            mass = max(float(centre.sum()), 1e-30)
            local = at - (centre @ at) / mass
            spread = np.sqrt((centre @ local**2).sum() / mass)
            columns.append(centre[:, None] * local / (spread if spread > 0 else 1.0))
    return np.concatenate(columns, 1).T.reshape(-1, x.size[1], x.size[0])


# Lists as the nodes of a graph: which entries residuals read together, and shares of a few centres in all.
#
# Computed once, on the host, from the data that the indices have when the solver is set up.

POWER = 4.0  # of the distance, by which the share of a centre falls


def shares(residuals: Sequence[Variable], lists: Sequence[Variable], centres: int) -> list[np.ndarray] | None:
    """The share of each centre in the entries of each list, (entries, centres), rows that add up to 1; 0 for
    entries that no residual reads together with others. None if no edge exists, and if a part has no centre: then
    it warns.

    The first centre lies at an end of the graph, each further one as far from the others as possible. The
    shares are (h + 1/2)^-4 of the edges h to the centre, divided by their sum (Shepard).
    """
    ends = [0, *np.cumsum([int(np.prod(x.size)) for x in lists]).tolist()]
    edges = [pair for r in residuals for pair in _edges(r, lists, ends[:-1])]
    if not edges:
        return None
    distance = _distances(np.concatenate(edges, 1), ends[-1], centres)
    if distance is None:
        names = ", ".join(x.name or "a list" for x in lists)
        warnings.warn(
            f"residuals connect the entries of {names} in more parts than the {centres} centres of the coarse space of"
            " Multilevel(): Jacobi alone preconditions them, and long parts take many iterations; solve fewer parts"
            " together, or give preconditioner=Jacobi(), which does the same",
            stacklevel=2,
        )
        return None
    near = (distance + 0.5) ** -POWER
    sums = near.sum(1, keepdims=True)
    near = np.divide(near, sums, out=np.zeros_like(near), where=sums > 0)
    return np.split(near, ends[1:-1])


def _distances(pairs: np.ndarray, count: int, centres: int) -> np.ndarray | None:
    """(entries, centres) edges between each entry and each centre; infinite for other parts of the graph.
    None if a part has no centre. pairs: (2, E) entries."""
    start, end = np.concatenate([pairs, pairs[::-1]], 1)
    order = np.argsort(start, kind="stable")
    offsets, end = np.searchsorted(start[order], np.arange(count + 1)), end[order]
    nodes = np.unique(start)
    first = _away(nodes[0], offsets, end)
    columns = [_away(np.argmax(np.where(np.isfinite(first), first, -1.0)), offsets, end)]
    while len(columns) < centres:
        nearest = np.min(columns, 0)[nodes]
        columns.append(_away(nodes[np.argmax(nearest)], offsets, end))
    distance = np.stack(columns, 1)
    return distance if np.isfinite(distance[nodes]).any(1).all() else None


def _away(node: np.intp, offsets: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Edges from one entry to each other, breadth first. The edges of entry n lead to
    end[offsets[n]:offsets[n + 1]]."""
    distance = np.full(len(offsets) - 1, np.inf)
    distance[node] = level = 0
    front = np.array([node])
    while front.size:
        level += 1
        counts = offsets[front + 1] - offsets[front]
        before = np.cumsum(counts) - counts
        near = np.unique(end[np.repeat(offsets[front] - before, counts) + np.arange(counts.sum())])
        front = near[np.isinf(distance[near])]
        distance[front] = level
    return distance


def _edges(residual: Variable, lists: Sequence[Variable], first: Sequence[int]) -> list[np.ndarray]:
    """Pairs (2, E) of entries that one texel of a residual reads: a star from the first one."""
    read = [at for x, k in zip(lists, first, strict=True) for at in _entries(residual, x, lists, k)]
    if len(read) < 2:
        return []
    entries = np.stack([np.broadcast_to(at, residual.tiled[:3]).ravel() for at in read])
    inside = entries >= 0
    hub = entries[np.argmax(inside, 0), np.arange(entries.shape[1])]
    pairs = [np.stack([hub, at])[:, there & (at != hub)] for at, there in zip(entries, inside, strict=True)]
    return [pair for pair in pairs if pair.size]


def _entries(residual: Variable, x: Variable, lists: Sequence[Variable], first: int) -> list[np.ndarray]:
    """The entries of one list that each texel of a residual reads, plus ``first``, for each path; -1 for
    none. None at all where the indices follow from the unknowns, or have no values."""
    functions = selections(residual, x)
    if functions is None or any(_moves(f, lists) for f in functions):
        return []
    paths = Paths(x, functions)
    read = [paths.read[path] for path in paths.flow(residual)]
    number = np.arange(1, np.prod(x.size) + 1).reshape(1, x.size[1], x.size[0])
    number[number > (x.count or 0)] = 0  # texels behind the last entry are no nodes
    ids = np.broadcast_to(number.reshape(number.shape + (1,) * (len(x.shape) - 3)), x.shape)
    try:
        values = evaluate(read, {x: ids})
    except GraphError:
        return []
    first_components = [v.reshape(*y.tiled[:3], -1)[..., 0] for v, y in zip(values, read, strict=True)]
    places = [np.rint(v).astype(np.int64) for v in first_components]
    return [np.where(at > 0, at - 1 + first, -1) for at in places]


def _moves(selection: Function, lists: Sequence[Variable]) -> bool:
    """Whether the indices of a selection follow from the unknowns."""
    others = selection.inputs[1:]
    leaves = {x for f in topological_order(others) for x in f.inputs} | set(others)
    return not leaves.isdisjoint(lists)
