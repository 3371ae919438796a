"""Loops and checkpoints: a body that is applied many times, and segments that the gradient computes again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import GraphError
from ..graph import Variable
from ..graph.user_code import check_function
from ..ops.pixel.compare import select
from ..ops.pixel.constant import Like, operands
from ..types import FLOAT, INT, whole
from .node import Loop, Looped, Segment, formal, repeated

__all__ = ["checkpoint", "loop"]


def loop(
    body: Callable[..., Variable | Sequence[Variable]],
    state: Like | Sequence[Like],
    count: int,
    *,
    until: Callable[..., Variable] | None = None,
    checkpoints: int | None = None,
) -> Variable | tuple[Variable, ...]:
    """A body applied ``count`` times to a state: iterations of a solver, steps along a ray, layers of a
    recurrent network.

    body: gets the state, one Variable or several of any type, and returns the new one, of the same types and
    domains. It gets no number of the iteration: a counter is one more state. It is called once; what it reads
    beside the state, such as weights, are Variables of the graph around it. until: gets the state and returns
    INT or FLOAT, of one texel, a tile or all of the domain: where it is not 0 the state stays as it is from
    then on; so count is the largest number of iterations. Once it is met everywhere devices skip the
    remaining iterations; if it never is, a RuntimeWarning says so. checkpoints: None stores what each
    iteration needs for the gradient. A number, at least 2, bounds the states, or as much beside them, that
    are stored at a time; what lies between is computed again as rarely as can be: if an iteration leaves as
    much as its state, 20 of them run 39 times with 9, 49 with 6, and 54 with 5. 0 means about 2 sqrt(count):
    nearly the time of another forward pass. ``PlanOptions(memory=...)`` chooses a number where None is given.

    The result is the last state: a Variable, or a tuple. Differentiable in the state and in all that the body
    reads; values and gradients are those of the body written count times. In an engine the graph, the plan
    and the shaders have the body once, and its commands repeat; so has the gradient. Bodies that read no
    other texel of the state become one shader of all iterations, which ends texel by texel and warns of
    nothing. Raises GraphError.

    >>> (root,) = F.loop(lambda x: 0.5 * (x + 2.0 / x), [Variable.of(1.0)], 6)
    >>> round(evaluate(root).item(), 6)
    1.414214
    >>> a, x = Variable.of(2.0), Variable.of(1.0)
    >>> done = lambda x: F.abs(x * x - a) < 1e-6
    >>> root = F.loop(lambda x: 0.5 * (x + a / x), x, 50, until=done, checkpoints=0)
    >>> round(evaluate(gradient(root, [a])[0]).item(), 4)
    0.3536
    """
    count = whole(count, "the count of a loop", 1)
    if checkpoints is not None:
        checkpoints = whole(checkpoints, "the number of checkpoints", 0)
    single = not isinstance(state, list | tuple)
    values = operands(state) if single else operands(*state)
    width, formals = len(values), [formal(x) for x in values]
    if not values:
        raise GraphError("the state of a loop is empty; give one Variable at least")
    check_function(
        body,
        width,
        "the body of a loop",
        "it gets the state alone: a counter of the iterations is one more state, F.loop(lambda k, x: (k + 1,"
        " ...), (F.constant(0), x), count)",
    )
    if until is not None:
        check_function(until, width, "the condition that ends a loop", "it gets the state, as the body does")
    made = _several(body(*formals), "the body of a loop")
    _check(values, made)
    if until is not None:
        # Whether the loop has ended is one more state: each iteration tests the condition once.
        values.append(_condition(until, values))
        formals.append(formal(values[-1]))
        made = [select(formals[-1], old, new) for old, new in zip(formals, made)]
        _check(values[:-1], made)
        made.append(_condition(until, made))
    one = Segment.between(formals, made)
    if one.is_local or count == 1:
        last = repeated(one, values, count)
    else:
        outside = [formal(x) for x in one.captured]
        closed = one.at(formals, dict(zip(one.captured, outside, strict=True)))
        node = Loop(Segment.between([*formals, *outside], closed), count, checkpoints, until is not None)
        last = [Looped(*values, *one.captured, loop=node, number=k).output for k in range(width)]
    return last[0] if single else tuple(last[:width])


def checkpoint(
    function: Callable[..., Variable | Sequence[Variable]], *inputs: Variable
) -> Variable | tuple[Variable, ...]:
    """function(*inputs). Its gradient keeps only the inputs, and computes what lies between again.

    A chain of such segments needs the memory of one of them and of the inputs of all, for the time of another
    forward pass. function: gets Variables and returns one or several, of any type. inputs: any types. The
    result is what the function returns, a Variable or a tuple. Differentiable in the inputs and all else that
    the function reads. Raises GraphError.

    >>> x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> y = F.checkpoint(lambda x: F.square(F.square(x)), x)
    >>> evaluate(gradient(F.sum(y), [x])[0]).tolist()
    [4.0, 32.0, 108.0, 256.0, 500.0]
    """
    given = operands(*inputs)
    cure = "F.checkpoint(function, *inputs) passes each input on"
    check_function(function, len(given), "the function of a checkpoint", cure)
    formals = [formal(x) for x in given]
    result = function(*formals)
    roots = _several(result, "a function with a checkpoint")
    made = Segment.between(formals, roots).joined(given, again=True)
    return made[0] if isinstance(result, Variable) else tuple(made)


def _several(result: Any, what: str) -> list[Variable]:
    several = list(result) if isinstance(result, list | tuple) else [result]
    for x in several:
        if not isinstance(x, Variable):
            raise GraphError(f"{what} returns Variables, not {x!r}")
    return several


def _condition(until: Callable[..., Variable], values: Sequence[Variable]) -> Variable:
    done = until(*values)
    if not isinstance(done, Variable) or done.vtype not in (FLOAT, INT):
        raise GraphError(f"the condition that ends a loop is an INT or a FLOAT, not {done!r}")
    return done


def _check(values: Sequence[Variable], made: Sequence[Variable]) -> None:
    if len(values) != len(made):
        raise GraphError(f"the body of a loop returns {len(made)} Variables for a state of {len(values)}")
    for old, new in zip(values, made, strict=True):
        if (old.vtype, old.domain) != (new.vtype, new.domain):
            raise GraphError(
                f"the body of a loop makes {new} of {old}; type, size, batch and channels stay the same, see"
                " F.expand"
            )
