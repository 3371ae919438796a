"""Derivatives as graphs: reverse mode (gradient) and forward mode (jvp), from those of each Function.

Both results are graphs of Functions and can be differentiated again. If a docstring says that a Function is
differentiable, derivatives of every order exist, or the docstring says which raise GraphError. Derivatives
are those almost everywhere: comparisons, rounding and integers have derivative zero, and jumps are ignored.

Gradients stay as small as they are: the gradient of a mean is one texel, not an image. Where an input was
broadcast, its gradient is summed over the axes on which the input has extent 1. If the gradient itself has
extent 1 on such an axis, it is multiplied by the number of texels instead.

    y = a + b, a one texel, b 4x4, loss = sum(y):  gy = 1 (one texel),  d/da = 16 * gy,  d/db = gy
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...errors import GraphError
from ..graph import Domain, Function, PixelFunction, Variable
from ..graph.operators import operator
from ..graph.traversal import rebuilt, topological_order
from ..graph.types import FLOAT, Access, VType
from ..ops.image.coordinates import entries_only
from ..ops.image.reduce import EVERY_AXIS, Expand, Sum, extents, fit, reduce_axes, zeros_like
from ..ops.pixel.arithmetic import hadamard, total
from ..ops.pixel.constant import Like, constant, is_constant, operands
from ..ops.pixel.vector import fill, sum_components


@operator
def gradient(
    loss: Variable,
    wrt: Variable | Sequence[Variable],
    seed: Variable | None = None,
    *,
    allow_unused: bool = True,
) -> list[Variable]:
    """d loss / d each of ``wrt`` (leaves or intermediates), with the type, size and batch of each.

    loss: FLOAT, one texel, batch 1. With a ``seed`` of the same type, and of a domain that broadcasts to that
    of the loss, the loss may be any image, and the result is the gradient of sum(seed * loss). If the loss
    does not depend on a Variable, its gradient is zero, or, without ``allow_unused``, an error. No gradient
    flows through integers, nor through Functions whose derivative is declared zero. Gradients of gradients,
    and ``jvp`` of gradients, are second derivatives. Raises GraphError, also if the loss depends on a
    Variable through a Function that declares no derivative.

    >>> x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> (slope,) = gradient(F.sum(F.square(x)), [x])
    >>> evaluate(slope).tolist()
    [2.0, 4.0, 6.0, 8.0, 10.0]
    """
    wrt = _variables(wrt, "the gradient is taken by Variables")
    _variables(loss, "the gradient is taken of a Variable", one=True)
    if seed is None:
        if loss.vtype is not FLOAT or loss.domain != Domain((1, 1), 1):
            raise GraphError(
                f"the gradient needs a FLOAT loss of one texel, not {loss}; reduce it with F.sum or F.mean"
                f"{'' if loss.vtype.is_scalar else ' of F.sum_components'}, or give a seed"
            )
        seed = constant(1.0)
    else:
        _check_seed(seed, loss)
    _check_floats(wrt)
    totals = backward({loss: [entries_only(seed, of=loss)]}, wrt)
    unused = [x for x in wrt if x not in totals]
    if unused and not allow_unused:
        raise GraphError(
            f"the loss {loss} (made at {loss.where}) does not depend on {', '.join(map(str, unused))}; leave"
            " out what is not to be optimised, and look for integers, comparisons or F.stop_gradient on the"
            " way"
        )
    return _like(wrt, totals)


def backward(
    seeds: Mapping[Variable, Sequence[Variable]], wrt: Sequence[Variable], given: Sequence[Variable] = ()
) -> dict[Variable, Variable]:
    """The gradients of all Variables between ``wrt`` and those with seeds. seeds: the parts of their
    gradients. given: Variables that count as leaves."""
    order = topological_order(list(seeds), given)
    active = depending(order, wrt)
    parts = {y: list(given) for y, given in seeds.items() if y in active}
    totals: dict[Variable, Variable] = {}
    first = {f.joint: f for f in reversed(order) if f.joint is not None}
    together: dict[Any, dict[Function, Variable]] = {}
    for function in reversed(order):
        joint, pulled = function.joint, []
        if function.output in parts:
            gy = totals[function.output] = total(parts.pop(function.output))
            if joint is None:
                pulled = _pull(function, gy, active)
            else:
                gy = fit(_widen(gy, function.output.vtype), function.output)
                together.setdefault(joint, {})[function] = gy
        if joint is not None and joint in together and first[joint] is function:
            # All that reads one of them lies behind the first of them, and has been passed.
            wanted = [i for i, x in enumerate(function.inputs) if x in active and not x.vtype.is_int]
            gradients = joint.pull(function, together.pop(joint), wanted)
            pulled = [(function.inputs[i], g) for i, g in gradients.items()]
        for x, g in pulled:
            parts.setdefault(x, []).append(g)
    totals.update((x, total(g)) for x, g in parts.items())
    return totals


@operator
def jvp(
    outputs: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    tangents: Like | Sequence[Like],
) -> list[Variable]:
    """The derivatives of the outputs along ``tangents`` of ``inputs``, with their types and domains.

    outputs, inputs: one Variable or several. tangents: one for each input, a Variable, number or array that
    broadcasts to its type and domain; None is zero. Applied to a ``gradient`` this is the product of the
    Hessian with the tangents. Raises GraphError, also if an output depends on an input through a Function
    that declares no derivative.

    >>> x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> evaluate(jvp([F.square(x)], [x], [0.5])[0]).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0]
    """
    known: dict[Variable, Variable] = {}
    outputs = _variables(outputs, "the forward derivative is taken of Variables")
    inputs = _variables(inputs, "the forward derivative is taken by Variables")
    for x, tangent in _paired(inputs, "input", tangents, "tangents"):
        t = None if tangent is None else operands(tangent, beside=(x,))[0]
        if x.vtype.is_int or (t is not None and t.vtype not in (x.vtype, FLOAT)):
            raise GraphError(f"{t} cannot be the tangent of {x}")
        if t is not None:
            known[x] = _widen(t, x.vtype)
    order = topological_order(outputs)
    needed = _needed(order, outputs)
    for function in order:
        y = function.output
        if y in known or y not in needed or known.keys().isdisjoint(function.inputs):
            continue
        if blocks_derivatives(function):
            continue
        local = [known.get(x) for x in function.inputs]
        if not _is_local(function):
            local = [None if t is None else fit(t, x) for t, x in zip(local, function.inputs)]
        tangent = _push(function, local)
        if tangent is not None:
            known[y] = _widen(tangent, y.vtype)
    return [fit(known[y], y) if y in known else zeros_like(y) for y in outputs]


def hvp(loss: Variable, wrt: Variable | Sequence[Variable], along: Like | Sequence[Like]) -> list[Variable]:
    """The product of the Hessian by ``wrt`` with the directions ``along``: a Variable like each of ``wrt``.

    It is the forward derivative of the ``gradient``, exact where the loss is smooth. loss: FLOAT, one texel.
    along: as the tangents of ``jvp``. Raises GraphError, which names the Function if one has no second
    derivative.

    >>> x = Variable.of(2.0)
    >>> evaluate(hvp(x**3, [x], [1.0]))[0].item()
    12.0
    """
    return jvp(gradient(loss, wrt), wrt, along)


def vjp(
    outputs: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    seeds: Like | Sequence[Like],
) -> list[Variable]:
    """The products of the seeds with the Jacobian: the gradient of the sum of seed * output by each input.

    outputs, inputs: one Variable or several. seeds: one for each output, a Variable, number or array that
    broadcasts to its type and domain; None is zero. The results have the types and domains of the inputs. It
    is the transpose of ``jvp``. Raises GraphError as ``gradient`` does.

    >>> x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> evaluate(vjp([F.square(x)], [x], [0.5])[0]).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0]
    """
    outputs = _variables(outputs, "the seeds multiply Variables")
    inputs = _variables(inputs, "the gradient is taken by Variables")
    parts: dict[Variable, list[Variable]] = {}
    for y, given in _paired(outputs, "output", seeds, "seeds"):
        if given is not None:
            seed = _widen(operands(given, beside=(y,))[0], y.vtype)
            _check_seed(seed, y)
            parts.setdefault(y, []).append(entries_only(seed, of=y))
    _check_floats(inputs)
    return _like(inputs, backward(parts, inputs))


def _paired(
    variables: Sequence[Variable], kind: str, given: Any, what: str
) -> Iterable[tuple[Variable, Any]]:
    """Each Variable with what is given for it. kind, what: their names in the error."""
    several = list(given) if isinstance(given, list | tuple) else [given]
    if len(variables) != len(several):
        raise GraphError(
            f"{len(variables)} {kind}s but {len(several)} {what}; give one for each {kind}, None for zero"
        )
    return zip(variables, several, strict=True)


def _like(wrt: Sequence[Variable], totals: Mapping[Variable, Variable]) -> list[Variable]:
    """The gradients with type and domain of each Variable; zero where there is none."""
    gradients = [fit(totals[x], x) if x in totals else zeros_like(x) for x in wrt]
    for x, g in zip(wrt, gradients, strict=True):
        g.count = g.count if x.count is None else x.count  # the gradient of a list is a list
    return gradients


def _check_seed(seed: Variable, y: Variable) -> None:
    if y.vtype.is_int or seed.vtype is not y.vtype:
        raise GraphError(
            f"the seed {seed} of the gradient must have the type of the loss {y}, and not be integer"
        )


def _check_floats(wrt: Sequence[Variable]) -> None:
    for x in wrt:
        if x.vtype.is_int:
            raise GraphError(f"{x} holds integers: there is no gradient by it")


def _variables(given: Any, purpose: str, *, one: bool = False) -> list[Variable]:
    """One Variable, or without ``one`` several, as a list. purpose: the start of the error message."""
    single = one or isinstance(given, Variable) or not isinstance(given, Iterable)
    variables: list[Any] = [given] if single else [*given]
    for x in variables:
        if not isinstance(x, Variable):
            raise GraphError(f"{purpose}, not {x!r}")
    return variables


def blocks_derivatives(function: Function) -> bool:
    """Whether no derivative passes: the output is integer, or the derivative is declared zero."""
    return function.output.vtype.is_int or function.zero_derivative


def _needed(order: Sequence[Function], outputs: Sequence[Variable]) -> set[Variable]:
    """The Variables through which a derivative reaches the outputs."""
    needed = set(outputs)
    for function in reversed(order):
        if function.output in needed and not blocks_derivatives(function):
            needed.update(function.inputs)
    return needed


def depending(order: Sequence[Function], wrt: Sequence[Variable]) -> set[Variable]:
    """The Variables through which a gradient has to flow to reach ``wrt``."""
    active = set(wrt)
    for function in order:
        if not blocks_derivatives(function) and not active.isdisjoint(function.inputs):
            active.add(function.output)
    return active


def _pull(function: Function, gy: Variable, active: set[Variable]) -> list[tuple[Variable, Variable]]:
    """(input, its part of the gradient) for each active input, in order. gy: the gradient of the output."""
    gy = _widen(gy, function.output.vtype)
    if not _is_local(function) and not isinstance(function, Sum):
        gy = fit(gy, function.output)
    wanted = [i for i, x in enumerate(function.inputs) if x in active and not x.vtype.is_int]
    if isinstance(function, Sum):
        parts = [(i, gy) for i in wanted]  # its transpose is an Expand, but the gradient may stay small
    elif type(function).vjp is Function.vjp:
        partials = function.partials(*function.inputs)
        parts = [(i, None if p is None else _scaled(gy, p)) for i in wanted for p in (partials[i],)]
    else:
        parts = [(i, function.vjp(gy, i)) for i in wanted]
    result = []
    for i, g in parts:
        if g is not None:
            x = function.inputs[i]
            if function.access[i] is Access.SAME_PIXEL and not isinstance(function, Expand):
                g = unbroadcast(g, x, function.working_domain)
            elif g.vtype is not x.vtype:
                raise function.fail(f"the gradient {g} of its input {x} has another type")
            result.append((x, g))
    return result


def _push(function: Function, tangents: Sequence[Variable | None]) -> Variable | None:
    """The derivative of the output along the tangents of the inputs; None is zero."""
    if type(function).jvp is not Function.jvp:
        return function.jvp(tangents)
    partials = function.partials(*function.inputs)
    pairs = [(t, p) for t, p in zip(tangents, partials, strict=True) if t is not None and p is not None]
    return total([_scaled(t, p) for t, p in pairs]) if pairs else None


def _scaled(x: Variable, partial: Variable) -> Variable:
    """x * partial by components, without the multiplication when the partial is 1 or -1."""
    if partial.vtype.is_scalar and is_constant(partial, 1.0):
        return x
    if partial.vtype.is_scalar and is_constant(partial, -1.0):
        return -x
    return hadamard(x, partial)


def _is_local(function: Function) -> bool:
    """Whether each texel depends only on that texel of the inputs, so that derivatives may stay small."""
    if isinstance(function, Expand) or not isinstance(function, PixelFunction):
        return False
    return all(a is Access.SAME_PIXEL for a in function.access)


def unbroadcast(g: Variable, x: Variable, ran_over: Domain) -> Variable:
    """The gradient of x: ``g``, over the domain ``ran_over``, summed over the axes where x was broadcast."""
    if x.vtype is FLOAT and g.vtype is not FLOAT:
        g = sum_components(g)
    factor, axes = 1, ""
    for axis, whole, own, extent in zip(
        EVERY_AXIS, extents(ran_over), extents(x.domain), extents(g.domain), strict=True
    ):
        if own == 1 and whole > 1:
            if extent == 1:
                factor *= whole
            else:
                axes += axis
    if axes:
        g = reduce_axes(Sum, g, axes)
    if factor > 1:
        g = g * float(factor)
    return _widen(g, x.vtype)


def _widen(g: Variable, vtype: VType) -> Variable:
    """``g`` as ``vtype``; a FLOAT stands for all components of a vector or matrix."""
    if g.vtype is vtype:
        return g
    if g.vtype is not FLOAT:
        raise GraphError(f"the derivative {g} must be of type {vtype} or FLOAT (at {g.where})")
    return fill(g, vtype)


# Derivatives of a small graph by its own inputs.

Build = Callable[..., Variable]
"""Builds a Variable from Variables with ordinary Functions."""


def local_gradient(build: Build, inputs: Sequence[Variable], i: int, seed: Variable) -> Variable:
    """The gradient of sum(seed * build(*inputs)) by input ``i``, as if the inputs were leaves."""
    *x, s = placeholders = [_placeholder(v) for v in (*inputs, seed)]
    (slope,) = gradient(build(*x), [x[i]], s)
    return _filled(slope, dict(zip(placeholders, (*inputs, seed), strict=True)))


def local_jvp(
    build: Build, inputs: Sequence[Variable], tangents: Sequence[Variable | None]
) -> Variable | None:
    """The derivative of build(*inputs) along the tangents, as if inputs were leaves; None if it is zero."""
    moved = [(i, t) for i, t in enumerate(tangents) if t is not None]
    if not moved:
        return None
    x, along = [_placeholder(v) for v in inputs], [_placeholder(t) for _, t in moved]
    (tangent,) = jvp([build(*x)], [x[i] for i, _ in moved], along)
    values = (*zip(x, inputs, strict=True), *zip(along, (t for _, t in moved), strict=True))
    return _filled(tangent, dict(values))


def _placeholder(like: Variable) -> Variable:
    return Variable(like.vtype, like.size, like.batch, channels=like.channels)


def _filled(y: Variable, values: dict[Variable, Variable]) -> Variable:
    made = dict(values)
    rebuilt(topological_order([y]), made)
    return made.get(y, y)
