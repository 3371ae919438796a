"""Jacobians, Hessians and derivatives of any order of computations of one texel, with few operations.

The components of all values become expressions (``table``), in which equal ones are one. Derivatives are
eliminated forward (a pass an input), in reverse (a pass an output) and across; the cheapest way is kept. The
result is Variables with the texels of the outputs: the Jacobian of an image is an image.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from ...errors import GraphError
from ..graph import Function, Variable, as_variable
from ..graph.traversal import topological_order
from ..graph.types import FLOAT, Domain, VType, vector_type
from ..ops.image.reduce import Expand, extents
from ..ops.pixel.arithmetic import hadamard
from ..ops.pixel.constant import constant
from ..ops.pixel.matrix import Columns, component
from ..ops.pixel.vector import Construct
from ..transform.gradient import blocks_derivatives, depending
from ..transform.simplify import paused
from .count import count, fewest_of, shortest
from .reader import Reader, floats, readable
from .steps import CALL, GIVEN, NUMBER, PRODUCT, RECIPROCAL, Steps
from .table import ONE, UNIT, ZERO, Call, Product, Rational, Scaled, Sum, Table, scaled, times

__all__ = ["derivative", "hessian", "jacobian"]


LIMIT = 100_000


@paused()
def jacobian(
    outputs: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    *,
    limit: int | None = LIMIT,
) -> list[list[Variable]]:
    """The derivative of each component of the outputs by each of the inputs, at every texel.

    outputs, inputs: float Variables, one or several; an input may be a leaf or an intermediate. Texels do not
    mix: what the outputs compute from the inputs are Functions of one texel, and an input of one texel counts
    as the value at each texel. Row k is of component k, counted through all outputs (those of a matrix row by
    row); its entry j has the type of input j and the domain of the output. limit: the number of operations
    above which it is refused; None for no limit. Differentiable again. Raises GraphError for integers, for an
    input that reaches an output through other texels, or through a Function that declares no derivative.

    >>> p = Variable.of([[3.0, 4.0]], VEC2)
    >>> ((square,), (product,)) = F.jacobian([F.dot(p, p), p.x * p.y], p)
    >>> evaluate(square).ravel().tolist(), evaluate(product).ravel().tolist()
    ([6.0, 8.0], [4.0, 3.0])
    """
    outputs, inputs = floats(outputs, "a Jacobian", "output"), floats(inputs, "a Jacobian", "input")
    domains = [y.domain for y in outputs for _ in range(y.vtype.components)]
    return _rows(jacobian_steps(outputs, inputs, limit), inputs, domains, limit)


@paused()
def jacobian_steps(
    outputs: Sequence[Variable], inputs: Sequence[Variable], limit: int | None = None
) -> Steps:
    """The steps of a ``jacobian``, row by row."""
    table, reader, roots = _read(outputs, inputs)
    return _best(table, roots, [x for v in inputs for x in reader.leaves[v]], limit)


def jacobian_of_texels(
    outputs: Sequence[Variable], inputs: Sequence[Variable], limit: int | None
) -> Steps | None:
    """The steps of a ``jacobian``; None if texels mix, or if an input has texels that no output has."""
    order, given = topological_order(outputs), set(inputs)
    through = depending(order, inputs) - given
    mixes = any(f.output in through and not blocks_derivatives(f) and not readable(f) for f in order)
    if mixes or not all(any(_fits(x, y) for y in outputs) for x in inputs):
        return None
    steps = jacobian_steps(outputs, inputs, limit)
    _refuse(count(steps).total, limit)
    return steps


@paused()
def hessian(
    y: Variable, inputs: Variable | Sequence[Variable], *, limit: int | None = LIMIT
) -> list[list[Variable]]:
    """The second derivatives of a scalar by all pairs of components of the inputs, at every texel.

    y: FLOAT of any domain. inputs, limit: as for ``jacobian``. Row k is of component k, counted through all
    inputs: the derivative of dy/dx_k; its entry j has the type of input j and the domain of y. Raises
    GraphError as ``jacobian`` does.

    >>> x = Variable.of([[2.0, 3.0]], VEC2)
    >>> rows = F.hessian(x.x**3 * x.y, x)
    >>> [evaluate(row[0]).ravel().tolist() for row in rows]
    [[36.0, 12.0], [12.0, 0.0]]
    """
    outputs, inputs = floats(y, "a Hessian", "output"), floats(inputs, "a Hessian", "input")
    if len(outputs) > 1 or not outputs[0].vtype.is_scalar:
        raise GraphError(f"the Hessian is of one FLOAT, not of {y}: take that of each component")
    (y,) = outputs
    table, reader, (root,) = _read([y], inputs)
    wanted = [x for v in inputs for x in reader.leaves[v]]
    slopes = Derivatives(table).adjoints(root, [x.entry for x in wanted])
    return _rows(_best(table, slopes, wanted, limit), inputs, [y.domain] * len(wanted), limit)


@paused()
def derivative(y: Variable, x: Variable, order: int = 1, *, limit: int | None = LIMIT) -> Variable:
    """The derivative of some order of y by a scalar x, at every texel.

    y: a float Variable. x: FLOAT. order: 0 or more. The result has the type of y and the domain of y and x.
    limit: as for ``jacobian``. Raises GraphError as ``jacobian`` does.

    >>> x = Variable.of([0.0, 1.0, 2.0, 3.0, 4.0])
    >>> evaluate(F.derivative(x**4, x, order=3)).ravel().tolist()
    [0.0, 24.0, 48.0, 72.0, 96.0]
    """
    outputs, inputs = floats(y, "a derivative", "output"), floats(x, "a derivative", "input")
    if len(outputs) + len(inputs) > 2 or not inputs[0].vtype.is_scalar:
        raise GraphError(f"a derivative of an order is of one Variable by one FLOAT, not of {y} by {x}")
    if isinstance(order, bool) or not isinstance(order, int) or order < 0:
        raise GraphError(f"the order of a derivative is 0, 1, ..., not {order!r}")
    (y,), (x,) = outputs, inputs
    table, reader, roots = _read([y], [x])
    derivatives, entry, begun = Derivatives(table), reader.leaves[x][0].entry, len(table)
    for _ in range(order):
        roots = derivatives.tangents(roots, {entry: UNIT})
        _refuse(len(table) - begun, limit)
    steps = shortest(table, roots)
    _refuse(count(steps).total, limit)
    return of_components(Writer(steps).roots(), y.vtype, y.domain)


def _best(table: Table, roots: Sequence[Scaled], wanted: Sequence[Scaled], limit: int | None) -> Steps:
    """The derivatives of the roots by each of the entries wanted, row by row: forward or in reverse, or
    across where that is estimated to be cheaper than both. The growth of the table estimates their operations
    before they are counted."""
    entries, begun = [x.entry for x in wanted], len(table)
    ways = list[Steps]()
    with table.trial():
        derivatives = Derivatives(table)
        if len(wanted) <= 4 * len(roots):
            columns = list[list[Scaled]]()
            for x in entries:
                columns.append(derivatives.tangents(roots, {n: UNIT if n == x else ZERO for n in entries}))
                _refuse(len(table) - begun, limit)
            ways.append(shortest(table, [c[k] for k in range(len(roots)) for c in columns]))
        if len(roots) <= 4 * len(wanted):
            entries_by_row = list[Scaled]()
            for r in roots:
                entries_by_row += derivatives.adjoints(r, entries)
                _refuse(len(table) - begun, limit)
            ways.append(shortest(table, entries_by_row))
    if len(roots) > 1 < len(wanted):
        across = Linearized(table, roots, entries, Derivatives(table).partials)
        rows = across.rows() if across.edges <= LARGEST else None
        if rows is not None:
            ways.append(shortest(table, [d for row in rows for d in row]))
    return fewest_of(ways)


def _rows(
    steps: Steps, inputs: Sequence[Variable], domains: Sequence[Domain], limit: int | None
) -> list[list[Variable]]:
    _refuse(count(steps).total, limit)
    scalars = iter(Writer(steps).roots())
    return [
        [of_components([next(scalars) for _ in range(x.vtype.components)], x.vtype, domain) for x in inputs]
        for domain in domains
    ]


def _refuse(operations: int, limit: int | None) -> None:
    if limit is not None and not isinstance(limit, int | float):
        raise GraphError(f"the limit is a number of operations, or None for no limit, not {limit!r}")
    if limit is not None and operations > limit:
        raise GraphError(
            f"the derivative takes about {operations:,} operations a texel, more than the limit of {limit:,}:"
            " take it by fewer inputs or of a lower order, use jvp or gradient, or pass limit=None"
        )


def _read(outputs: Sequence[Variable], inputs: Sequence[Variable]) -> tuple[Table, Reader, list[Scaled]]:
    reader = Reader(Table(), inputs)
    order = reader.order(outputs)
    reader.run(order)
    classes = {type(f) for _, f in order if f is not None and f.inputs}
    if not all(v.is_leaf for v, f in order if f is None) or any(map(_is_undeclared, classes)):
        _same_texel(reader, outputs, inputs)
    for x in inputs:
        if not any(_fits(x, y) for y in outputs):
            raise GraphError(
                f"{x} has other texels than {outputs[0]}: the inputs of a Jacobian have one texel, or those"
                " of an output"
            )
    return reader.table, reader, [x for y in outputs for x in reader.known[y]]


def _is_undeclared(kind: type[Function]) -> bool:
    return kind.partials is Function.partials and kind.vjp is Function.vjp


def _same_texel(reader: Reader, outputs: Sequence[Variable], inputs: Sequence[Variable]) -> None:
    """Raises GraphError where an input reaches an output in another way than through expressions."""
    reached = set(inputs)
    for f in topological_order(outputs):
        constant_output = f.output.vtype.is_int or f.zero_derivative
        if f.output in reached or reached.isdisjoint(f.inputs) or constant_output:
            continue
        if _is_undeclared(type(f)):
            f.partials(*f.inputs)  # raises, and says why
        if f.output in reader.leaves or (f.output not in reader.known and not readable(f)):
            raise f.fail(
                "is no Function of one texel that a Jacobian can be taken through; use jvp, gradient or hvp"
            )
        reached.add(f.output)


def _fits(x: Variable, y: Variable) -> bool:
    """Whether x has one texel, or those of y, along each axis."""
    return all(n in (1, m) for n, m in zip(extents(x.domain), extents(y.domain), strict=True))


# Steps as Variables: each operation is a Function of one texel again.


class Writer:
    """Writes the values of steps as scalar Variables. Symbols are (Variable, component)."""

    def __init__(self, steps: Steps):
        self.steps, self.made = steps, dict[int, Variable]()
        order = steps.order()
        self.uses = steps.uses(order)
        for n in order:
            self.made[n] = self._value(n)

    def roots(self) -> list[Variable]:
        return [self._term(r) if r else constant(0.0) for r in self.steps.roots]

    def _term(self, m: int) -> Variable:
        return self.made[m] if m >= 0 else -self.made[-m]

    def _value(self, n: int) -> Variable:
        kind, operands = self.steps.kinds[n], self.steps.operands[n]
        of: Any = self.steps.of.get(n)
        if kind == GIVEN:
            return component_of(*of)
        if kind == NUMBER:
            return constant(float(of))
        if kind == RECIPROCAL:
            return 1.0 / self.made[operands[0]]
        if kind == PRODUCT:
            return self._product(operands)
        if kind == CALL:
            function, fields = of
            given = [as_variable(self._term(m)) for m in self.steps.terms[n]]
            return function(*given, **dict(zip(function.fields, fields, strict=True))).output
        first, *rest = sorted(self.steps.terms[n], key=lambda m: m < 0)
        total = self._term(first)
        for m in rest:
            total = total + self.made[m] if m > 0 else total - self.made[-m]
        return total

    def _product(self, factors: Sequence[int]) -> Variable:
        below = [n for n in factors if self.steps.kinds[n] == RECIPROCAL and self.uses[n] == 1]
        above, counted = list[Variable](), Counter(n for n in factors if n not in below[:1])
        while counted:  # x x x x -> (x x)(x x)
            odd = [self.made[n] for n, power in counted.items() if power % 2]
            above += [reduce(hadamard, odd)] if odd else []
            counted = Counter({self._square(n): power // 2 for n, power in counted.items() if power > 1})
        total = reduce(hadamard, above)
        return total / self.made[self.steps.operands[below[0]][0]] if below else total

    def _square(self, n: int) -> int:
        square = self.steps.add(PRODUCT, [n, n])
        self.made[square] = hadamard(self.made[n], self.made[n])
        return square


def component_of(v: Variable, number: int) -> Variable:
    """A component of a Variable, those of a matrix row by row."""
    if v.vtype.is_scalar:
        return v
    return component(v, divmod(number, v.vtype.shape[1]) if v.vtype.is_matrix else number)


def of_components(parts: Sequence[Variable], vtype: VType, domain: Domain) -> Variable:
    """The Variable of a type and domain that has these components, those of a matrix row by row."""
    if vtype.is_scalar:
        (value,) = parts
    elif vtype.is_matrix:
        rows, columns = vtype.shape
        vectors = [parts[j::columns] for j in range(columns)]
        value = Columns(*(Construct(vector_type(rows), *v).output for v in vectors)).output
    else:
        value = Construct(vtype, *parts).output
    return value if value.domain == domain else Expand(value, domain).output


# Derivatives of expressions: forward and reverse elimination, by the derivatives that the Functions declare.


class Derivatives:
    """Derivatives of the entries of a table, by the form of each."""

    def __init__(self, table: Table):
        self.table = table
        self._partials: dict[int, list[tuple[int, Scaled]]] = {}
        self._declared: dict[Hashable, tuple[Function, Sequence[Variable | None], list[Any]]] = {}
        """By class and fields: a Function, its derivatives, and the order in which these are read."""

    def partials(self, entry: int) -> list[tuple[int, Scaled]]:
        """(entry it is made of, derivative by that entry)."""
        known = self._partials.get(entry)
        if known is None:
            known = self._partials[entry] = self._of_form(entry)
        return known

    def _of_form(self, entry: int) -> list[tuple[int, Scaled]]:
        table, form = self.table, self.table.forms[entry]
        if type(form) is Sum:
            return [(n, UNIT if c == 1 else scaled((c, ONE))) for c, n in form.terms if n != ONE]
        if type(form) is Product:
            factors = form.factors
            if len(factors) == 2 and factors[0][1] == factors[1][1] == 1:
                (a, _), (b, _) = factors
                return [(a, scaled((1, b))), (b, scaled((1, a)))]
            slopes = []
            for n, power in factors:
                d = table.product([(Scaled(1, m), p - (m == n)) for m, p in factors])
                slopes.append((n, Scaled(times(d.factor, power), d.entry)))
            return slopes
        if type(form) is Call:
            slopes = self._of_call(entry, form.function, form.arguments)
            return [
                (x.entry, _times(table, d, x.factor))
                for x, d in zip(form.arguments, slopes, strict=True)
                if x.entry != ONE and not d.is_zero
            ]
        return []

    def _of_call(self, entry: int, function: Any, arguments: Sequence[Scaled]) -> list[Scaled]:
        reader = Reader(self.table)
        if function not in self._declared:
            kind, fields = function
            made = kind(*(Variable(FLOAT) for _ in arguments), **dict(zip(kind.fields, fields, strict=True)))
            given = [None] * len(arguments) if made.zero_derivative else declared(made)
            reader.put(dict.fromkeys((*made.inputs, made.output), (ZERO,)))
            self._declared[function] = made, given, reader.order([p for p in given if p is not None])
        made, given, order = self._declared[function]
        known = [*zip(made.inputs, arguments, strict=True), (made.output, Scaled(1, entry))]
        reader.put({v: (x,) for v, x in known})
        reader.run(order)
        return [ZERO if p is None else reader.known[p][0] for p in given]

    def tangents(self, roots: Iterable[Scaled], seeds: Mapping[int, Scaled]) -> list[Scaled]:
        """The derivative of each root along the seeds: (entry, its tangent). Forward mode."""
        known: dict[int, Scaled] = dict(seeds)
        roots = list(roots)
        for entry in self.table.order([r.entry for r in roots]):
            if entry not in known:
                parts = [
                    known[n] if d is UNIT else self.table.multiplied(d, known[n])
                    for n, d in self.partials(entry)
                    if not known[n].is_zero
                ]
                known[entry] = self.table.sum(parts) if parts else ZERO
        return [_times(self.table, known[r.entry], r.factor) for r in roots]

    def adjoints(self, root: Scaled, wanted: Sequence[int]) -> list[Scaled]:
        """The derivative of the root by each of the entries. Reverse mode."""
        order = self.table.order([root.entry])
        active = set(wanted)
        for entry in order:
            if any(n in active for n, _ in self.partials(entry)):
                active.add(entry)
        parts = defaultdict[int, list[Scaled]](list, {root.entry: [Scaled(root.factor, ONE)]})
        totals: dict[int, Scaled] = {}
        for entry in reversed(order):
            if entry not in parts or entry not in active:
                continue
            these = parts.pop(entry)
            total = totals[entry] = self.table.sum(these) if len(these) > 1 else these[0]
            if total.is_zero:
                continue
            for n, d in self.partials(entry):
                if n in active:
                    parts[n].append(total if d is UNIT else self.table.multiplied(total, d))
        return [totals.get(n, ZERO) for n in wanted]


def declared(f: Any) -> Sequence[Variable | None]:
    """The derivative of a Function of scalars by each input: its partials, or its vjp of one."""
    if type(f).vjp is Function.vjp:
        return f.partials(*f.inputs)
    return [f.vjp(constant(1.0), i) for i in range(len(f.inputs))]


def _times(table: Table, x: Scaled, factor: Rational) -> Scaled:
    return x if factor == 1 else table.multiplied(x, Scaled(factor, ONE))


# Cross-country elimination: the order in which vertices leave a graph of partial derivatives, by count.
#
# Vertices are entries of a table, and edges are partial derivatives. Eliminating a vertex multiplies each edge
# that enters it by each that leaves it, and adds the products to the edges between its neighbours; at the end
# edges lead from inputs to outputs alone: the Jacobian. Forward and reverse mode are two orders of many
# (Griewank and Walther, Evaluating Derivatives, chapter 9); the best order is NP-complete to find.

Edges = dict[int, dict[int, Any]]
"""{vertex: {vertex at the other end: what is known of the edge}}."""
LARGEST = 20_000  # edges up to which orders are sought; choosing takes some 10 us an edge and order


class Cost(NamedTuple):
    """Products and sums of an elimination, before equal ones are found."""

    products: int
    adds: int

    @property
    def total(self) -> int:
        return self.products + self.adds


class Linearized:
    """The partial derivatives on the paths from inputs to roots. Root k is the vertex -1 - k.

    below: {vertex: {vertex it is made of: partial derivative}}, operands first.
    """

    def __init__(
        self,
        table: Table,
        roots: Sequence[Scaled],
        inputs: Sequence[int],
        partials: Callable[[int], Sequence[tuple[int, Scaled]]],
    ):
        self.table, self.roots, self.inputs = table, roots, inputs
        given, below = set(inputs), dict[int, dict[int, Scaled]]()
        reached = set(inputs)
        for n in table.order([r.entry for r in roots]):
            if n not in given:
                edges = dict[int, Scaled]()
                for m, d in partials(n):
                    if m in reached and not d.is_zero:
                        edges[m] = table.sum([edges[m], d]) if m in edges else d
                if edges:
                    reached.add(n)
                    below[n] = edges
        for k, (factor, n) in enumerate(roots):
            if n in reached and factor:
                below[-1 - k] = {n: UNIT if factor == 1 else scaled((factor, UNIT.entry))}
        needed = {-1 - k for k in range(len(roots))}
        for n in reversed(below):
            if n in needed:
                needed.update(below[n])
        self.below = {n: edges for n, edges in below.items() if n in needed}
        self.edges = sum(map(len, self.below.values()))

    def sweeps(self) -> tuple[Cost, Cost]:
        """The costs of forward and of reverse mode, a sweep for each input or root that paths lead to."""
        inputs, roots = self._reached()
        given, made = set(self.inputs), Counter[int]()
        forward, reverse = [0, 0], [0, 0]
        for n, edges in reversed(self.below.items()):
            forward[1] -= inputs[n]
            for m, d in edges.items():
                forward[1] += inputs[m]
                reverse[1] += roots[n]
                made[m] += n < 0
                if not _is_free(d):
                    forward[0] += inputs[m] if m not in given else 0
                    reverse[0] += roots[n] - made[n]
        reverse[1] -= sum(count for m, count in roots.items() if m >= 0)
        return Cost(*forward), Cost(*reverse)

    def _reached(self) -> tuple[dict[int, int], dict[int, int]]:
        """By vertex, how many inputs it is made of and how many roots are made of it."""
        inputs = {x: 1 << k for k, x in enumerate(self.inputs)}
        roots = {-1 - k: 1 << k for k in range(len(self.roots))}
        for n, edges in self.below.items():
            inputs[n] = reduce(or_, [inputs[m] for m in edges])
        for n, edges in reversed(self.below.items()):
            for m in edges:
                roots[m] = roots.get(m, 0) | roots[n]
        by_inputs, by_roots = ({n: bits.bit_count() for n, bits in x.items()} for x in (inputs, roots))
        return by_inputs, by_roots

    def order(self, limit: int) -> tuple[list[int], Cost]:
        """The cheapest order found, and what it costs; none is followed further than to the limit."""
        best, cost = list[int](), Cost(limit, 0)
        for sign in (1, -1):
            found = self._greedy(sign, cost.total)
            if found is not None:
                best, cost = found
        return best, cost

    def _greedy(self, sign: int, limit: int) -> tuple[list[int], Cost] | None:
        """Always the vertex with the fewest products: Markowitz's rule; of equal ones that which leaves the
        fewest edges. sign: of two equal ones the first or the last."""
        below = {n: {m: _is_free(d) for m, d in edges.items()} for n, edges in self.below.items()}
        above = _turned(below)
        places = {n: sign * k for k, n in enumerate(self.below)}

        def priced(n: int) -> tuple[int, int, int, int]:
            made_of, readers = list(below[n].values()), list(above[n].values())
            a, b = len(made_of), len(readers)
            return (a - sum(made_of)) * (b - sum(readers)), a * b - a - b, places[n], n

        heap = [priced(n) for n in self.below if n >= 0]
        heapq.heapify(heap)
        order, products, adds = list[int](), 0, 0
        while heap:
            known = heapq.heappop(heap)
            n = known[-1]
            if n not in below or priced(n) != known:
                continue
            order.append(n)
            products += known[0]
            readers, made_of = _removed(n, below, above)
            for r, free in readers.items():
                row = below[r]
                for m, other in made_of.items():
                    adds += m in row
                    row[m] = above[m][r] = free and other and m not in row
            if products + adds >= limit:
                return None
            for v in {v for v in (*readers, *made_of) if v in below and v >= 0}:
                heapq.heappush(heap, priced(v))
        return order, Cost(products, adds)

    def rows(self) -> list[list[Scaled]] | None:
        """The derivatives of each root by each input; None if forward or reverse mode are as cheap."""
        order, cost = self.order(most := min(cost.total for cost in self.sweeps()))
        return self.eliminated(order) if cost.total < most else None

    def eliminated(self, order: Sequence[int]) -> list[list[Scaled]]:
        """The derivatives of each root by each input, with the vertices eliminated in an order."""
        table = self.table
        below = {n: dict(edges) for n, edges in self.below.items()}
        above = _turned(below)
        for n in order:
            readers, made_of = _removed(n, below, above)
            for r, d in readers.items():
                row = below[r]
                for m, other in made_of.items():
                    part = other if d is UNIT else table.multiplied(d, other)
                    row[m] = above[m][r] = table.sum([row[m], part]) if m in row else part
        rows = [below.get(-1 - k, {}) for k in range(len(self.roots))]
        return [[row.get(x, ZERO) for x in self.inputs] for row in rows]


def _is_free(d: Scaled) -> bool:
    """Whether a product with it is none."""
    return d.entry == UNIT.entry and abs(d.factor) == 1


def _turned(below: Mapping[int, Mapping[int, Any]]) -> Edges:
    above = defaultdict[int, dict[int, Any]](dict)
    for n, edges in below.items():
        for m, d in edges.items():
            above[m][n] = d
    return above


def _removed(n: int, below: Edges, above: Edges) -> tuple[dict[int, Any], dict[int, Any]]:
    """The edges to what is made of a vertex, and to what it is made of; both graphs lose it."""
    readers, made_of = above.pop(n), below.pop(n)
    for m in made_of:
        del above[m][n]
    for r in readers:
        del below[r][n]
    return readers, made_of
