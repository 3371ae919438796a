"""Jacobians, Hessians and derivatives of any order of computations of one texel, with few operations.

The components of all values become expressions (``table``), in which equal ones are one. Derivatives are eliminated forward
(a pass an input) and in reverse (a pass an output), and the way with fewer operations is kept. The result is Variables
again, of as many texels as the outputs have: a Jacobian of an image is an image.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import GraphError
from ..graph import Function, Variable
from ..transform.garbage_collection import paused
from ..traversal import topological_order
from ..types import Domain
from .operations.count import count
from .operations.shortest import fewest_of, shortest
from .operations.steps import Steps
from .terms.derivatives import Derivatives
from .terms.forms import UNIT, ZERO, Scaled
from .terms.reader import Reader, floats, readable
from .terms.table import Table
from .writer import Writer, of_components

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

    outputs, inputs: float Variables, one or several; an input may be a leaf or an intermediate. Texels do not mix: what the
    outputs compute from the inputs are Functions of one texel, and an input of one texel counts as the value at each texel.
    Row k is of component k, counted through all outputs (those of a matrix row by row); its entry j has the type of input j
    and the domain of the output. limit: the number of operations above which it is refused; None for no limit.
    Differentiable again. Raises GraphError for integers, for an input that reaches an output through other texels, or
    through a Function that declares no derivative.

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


@paused()
def hessian(
    y: Variable, inputs: Variable | Sequence[Variable], *, limit: int | None = LIMIT
) -> list[list[Variable]]:
    """The second derivatives of a scalar by all pairs of components of the inputs, at every texel.

    y: FLOAT of any domain. inputs, limit: as for ``jacobian``. Row k is of component k, counted through all inputs: the
    derivative of dy/dx_k; its entry j has the type of input j and the domain of y. Raises GraphError as ``jacobian`` does.

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
    found = Derivatives(table)
    first = found.adjoints(root, [x.entry for x in wanted])
    steps = _best(table, first, wanted, limit)
    return _rows(steps, inputs, [y.domain] * len(wanted), limit)


@paused()
def derivative(y: Variable, x: Variable, order: int = 1, *, limit: int | None = LIMIT) -> Variable:
    """The derivative of some order of y by a scalar x, at every texel.

    y: a float Variable. x: FLOAT. order: 0 or more. The result has the type of y and the domain of y and x. limit: as for
    ``jacobian``. Raises GraphError as ``jacobian`` does, and if the derivative takes more operations than the limit.

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
    found, entry, begun = Derivatives(table), reader.leaves[x][0].entry, len(table)
    for _ in range(order):
        roots = found.tangents(roots, {entry: UNIT})
        _refuse(len(table) - begun, limit)
    steps = shortest(table, roots)
    _refuse(count(steps).total, limit)
    return of_components(Writer(steps).roots(), y.vtype, y.domain)


def _best(table: Table, roots: Sequence[Scaled], wanted: Sequence[Scaled], limit: int | None) -> Steps:
    """The derivatives of the roots by each of the entries wanted, row by row: forward or in reverse. What they add to the table
    estimates their operations, before any is counted."""
    found, entries, begun = Derivatives(table), [x.entry for x in wanted], len(table)
    ways = list[Steps]()
    if len(wanted) <= 4 * len(roots):
        columns = list[list[Scaled]]()
        for x in entries:
            columns.append(found.tangents(roots, {n: UNIT if n == x else ZERO for n in entries}))
            _refuse(len(table) - begun, limit)
        ways.append(shortest(table, [c[k] for k in range(len(roots)) for c in columns]))
    if len(roots) <= 4 * len(wanted):
        rows = list[list[Scaled]]()
        for r in roots:
            rows.append(found.adjoints(r, entries))
            _refuse(len(table) - begun, limit)
        ways.append(shortest(table, [x for row in rows for x in row]))
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
            f"the derivative takes about {operations:,} operations a texel, more than the limit of {limit:,}: take it by fewer "
            "inputs or of a lower order, use jvp or gradient, or pass limit=None"
        )


def _read(outputs: Sequence[Variable], inputs: Sequence[Variable]) -> tuple[Table, Reader, list[Scaled]]:
    reader = Reader(Table(), inputs)
    order = reader.order(outputs)
    reader.run(order)
    classes = {type(f) for _, f in order if f is not None and f.inputs}
    if not all(v.is_leaf for v, f in order if f is None) or any(map(_is_undeclared, classes)):
        _same_texel(reader, outputs, inputs)
    for x in inputs:
        if not any(all(n in (1, m) for n, m in zip(_extents(x), _extents(y), strict=True)) for y in outputs):
            raise GraphError(
                f"{x} has other texels than {outputs[0]}: the inputs of a Jacobian have one texel, or those of an output"
            )
    return reader.table, reader, [x for y in outputs for x in reader.known[y]]


def _is_undeclared(kind: type[Function]) -> bool:
    return kind.partials is Function.partials and kind.vjp is Function.vjp


def _same_texel(reader: Reader, outputs: Sequence[Variable], inputs: Sequence[Variable]) -> None:
    """Raises GraphError where an input reaches an output in another way than through expressions."""
    reached = set(inputs)
    for f in topological_order(outputs):
        if f.output in reached or reached.isdisjoint(f.inputs):
            continue
        if f.output.vtype.is_int or f.zero_derivative:
            continue
        if _is_undeclared(type(f)):
            f.partials(*f.inputs)  # raises, and says why
        if f.output in reader.leaves or (f.output not in reader.known and not readable(f)):
            raise f.fail(
                "is no Function of one texel that a Jacobian can be taken through; use jvp, gradient or hvp"
            )
        reached.add(f.output)


def _extents(v: Variable) -> tuple[int, ...]:
    (width, height), tiles, channels = v.domain
    return width, height, tiles, channels
