"""Loops and checkpoints: a body that is applied many times, and segments that the gradient computes again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from ...errors import GraphError
from ..graph import Variable
from ..ops.hints import store
from ..ops.pixel.compare import select
from ..ops.pixel.constant import operands
from ..ops.pixel.shortcut import AliasBeside
from ..traversal import topological_order
from ..types import whole
from .segment import Segment

__all__ = ["checkpoint", "loop"]


def loop(
    body: Callable[..., Variable | Sequence[Variable]],
    state: Variable | Sequence[Variable],
    count: int,
    *,
    until: Callable[..., Variable] | None = None,
    checkpoints: int | None = None,
) -> Variable | tuple[Variable, ...]:
    """A body applied ``count`` times to a state: iterations of a solver, steps along a ray, layers of a recurrent network.

    body: gets the state, one Variable or several of any type, and returns the new one, of the same types and domains. It is
    called once; what it reads beside the state, such as weights, are Variables of the graph around it. until: gets the state
    and returns INT or FLOAT, of one texel, a tile or all of the domain: where it is not 0 the state stays as it is from there
    on; so count is the largest number of iterations. checkpoints: None stores what each iteration needs for the gradient;
    a number has so many states kept, and what lies between is computed again: nearly the time of another forward pass, and
    memory of count / checkpoints iterations; 0 means about sqrt(count). ``PlanOptions(memory=...)`` chooses a number where
    None is given. The result is the last state: a Variable,
    or a tuple. Differentiable in the state and in all that the body reads; values and gradients are those of the body written
    count times; iterations that are planned alike share their shaders. Raises GraphError.

    >>> (root,) = F.loop(lambda x: 0.5 * (x + 2.0 / x), [Variable.of(1.0)], 6)
    >>> round(evaluate(root).item(), 6)
    1.414214
    >>> a = Variable.of(2.0)
    >>> root = F.loop(lambda x: 0.5 * (x + a / x), Variable.of(1.0), 50, until=lambda x: F.abs(x * x - a) < 1e-6, checkpoints=0)
    >>> round(evaluate(gradient(root, [a])[0]).item(), 4)
    0.3536
    """
    count = whole(count, "the count of a loop", 1)
    single = isinstance(state, Variable)
    values = list(operands(state) if single else operands(*state))
    formals = [_formal(x) for x in values]
    made = _several(body(*formals), "the body of a loop")
    _check(values, made)
    if until is not None:
        done = until(*formals)
        made = [select(done, old, new) for old, new in zip(formals, made, strict=True)]
        _check(values, made)
    found = Loop(Segment.between(formals, made), count)
    if checkpoints is None:
        last = found.laid_out(values, None)
        beside = (*values, *found.body.captured)
        values = [Looped(v, *beside, loop=found, number=k).output for k, v in enumerate(last)]
    else:
        values = found.laid_out(values, whole(checkpoints, "the number of checkpoints", 0))
    return values[0] if single else tuple(values)


@dataclass(frozen=True, eq=False)
class Loop:
    """A body between formal states, and how often it is applied."""

    body: Segment
    count: int

    def laid_out(
        self, state: Sequence[Variable], checkpoints: int | None, captured: Sequence[Variable] = ()
    ) -> list[Variable]:
        """The last state, written out. checkpoints: as of ``loop``.  captured: what the body reads beside the state, if not
        what it read when it was made."""
        body, values, formals = self.body, list(state), self.body.formals
        if tuple(captured) not in ((), body.captured):
            known = dict(zip(body.captured, captured, strict=True))
            body = Segment.between(formals, body.at(formals, known))
        if checkpoints is None:
            return _repeated(body, values, self.count)
        lengths = _lengths(self.count, checkpoints or max(round(sqrt(self.count)), 1))
        parts = {n: Segment.between(formals, _repeated(body, formals, n)) for n in lengths}
        for n in lengths[:-1]:
            values = [store(x) for x in parts[n].joined(values, again=True)]
        # The gradient begins with the last part: all of it is there.
        return parts[lengths[-1]].joined(values, again=False)


def _lengths(count: int, kept: int) -> list[int]:
    """Iterations between ``kept`` states, in order. The gradient walks back, and frees a state after each part: earlier parts may
    be longer. A part needs about two images an iteration for each that is a kept state.

    7 iterations, 3 states: 3, 2, 2
    """
    lengths = [1] * min(kept, count)
    for _ in range(count - len(lengths)):
        lengths[min(range(len(lengths)), key=lambda k: k + 2 * lengths[k])] += 1
    return lengths


class Looped(AliasBeside):
    """Inputs (value, state..., captured...): a result of a loop that stores all it needs, which can be laid out again."""

    fields = ("loop", "number")
    loop: Loop
    number: int

    def vjp(self, gy, i):
        return gy if i == 0 else None


def longest_loop(roots: Sequence[Variable]) -> int:
    """Iterations of the longest loop that can be laid out with other checkpoints; 0 where there is none."""
    loops = (f.loop.count for f in topological_order(roots) if isinstance(f, Looped))
    return max(loops, default=0)


def with_checkpoints(root: Variable, checkpoints: int) -> Variable:
    """The same value; of loops that store all they need so many states are kept for the gradient."""
    known: dict[Variable, Variable] = {}
    laid_out: dict[Any, list[Variable]] = {}
    for f in topological_order([root]):
        inputs = [x if (new := known.get(x)) is None else new for x in f.inputs]
        if isinstance(f, Looped):
            n = 1 + len(f.loop.body.formals)
            key = f.loop, *inputs[1:]
            if key not in laid_out:
                laid_out[key] = f.loop.laid_out(inputs[1:n], checkpoints, inputs[n:])
            known[f.output] = laid_out[key][f.number]
        elif any(x in known for x in f.inputs):
            known[f.output] = f.rebuild(*inputs).output
    return known.get(root, root)


def _repeated(one: Segment, values: Sequence[Variable], count: int) -> list[Variable]:
    """The segment ``count`` times. States between are stored, so that each time is planned alike, and shaders are shared;
    those of one texel alone are worth one shader together."""
    values = list(values)
    for _ in range(count):
        values = one.at(values)
        values = values if one.is_local else [store(x) for x in values]
    return values


def checkpoint(
    function: Callable[..., Variable | Sequence[Variable]], *inputs: Variable
) -> Variable | tuple[Variable, ...]:
    """function(*inputs), of which the gradient keeps only the inputs: what lies between is computed again when it is needed.

    A long chain of segments so needs the memory of one of them and of their inputs, for the time of another forward pass.
    function: gets Variables and returns one or several, of any type. inputs: any types. The result is what the function
    returns, a Variable or a tuple. Differentiable in the inputs and all else that the function reads. Raises GraphError.

    >>> x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> y = F.checkpoint(lambda x: F.square(F.square(x)), x)
    >>> evaluate(gradient(F.sum(y), [x])[0]).tolist()
    [4.0, 32.0, 108.0, 256.0, 500.0]
    """
    given = operands(*inputs)
    formals = [_formal(x) for x in given]
    found = function(*formals)
    made = Segment.between(formals, _several(found, "a function with a checkpoint")).joined(given, again=True)
    return made[0] if isinstance(found, Variable) else tuple(made)


def _formal(x: Variable) -> Variable:
    return Variable(x.vtype, x.size, x.batch, channels=x.channels, count=x.count)


def _several(found: Any, what: str) -> list[Variable]:
    found = list(found) if isinstance(found, list | tuple) else [found]
    for x in found:
        if not isinstance(x, Variable):
            raise GraphError(f"{what} returns Variables, not {x!r}")
    return found


def _check(values: Sequence[Variable], made: Sequence[Variable]) -> None:
    if len(values) != len(made):
        raise GraphError(f"the body of a loop returns {len(made)} Variables for a state of {len(values)}")
    for old, new in zip(values, made, strict=True):
        if (old.vtype, old.domain) != (new.vtype, new.domain):
            raise GraphError(
                f"the body of a loop makes {new} of {old}; type, size, batch and channels stay the same, see F.expand"
            )
