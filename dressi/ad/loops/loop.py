"""Loops and checkpoints: a body that is applied many times, and segments that the gradient computes again.

The gradient of a loop is a loop backwards. Nodes: a ``Looped`` is one state after the last iteration, a
``Reversed`` one gradient. Procedures run them as Programs that repeat, see ``parts``; ``written_out`` is for
plans that cannot repeat anything, and for derivatives of second order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import sqrt
from typing import Any

import numpy as np

from ...errors import GraphError
from ..graph import Function, Variable
from ..graph.evaluation import Evaluator
from ..graph.program import Program
from ..graph.traversal import rebuilt, structure, topological_order
from ..graph.types import FLOAT, INT, Access, whole
from ..graph.user_code import check_function, user_level
from ..ops.image.coordinates import fetch
from ..ops.image.reduce import Expand, fit, zeros_like
from ..ops.pixel.compare import select
from ..ops.pixel.constant import Constant, Like, operands
from ..ops.pixel.hints import Later, store
from ..ops.pixel.kinds import AliasBeside
from ..transform.gradient import backward, jvp, vjp
from ..transform.simplify import simplify

__all__ = ["checkpoint", "loop"]


def loop(
    body: Callable[..., Variable | Sequence[Variable]],
    state: Like | Sequence[Like],
    count: int,
    *,
    until: Callable[..., Variable] | None = None,
    checkpoints: int | None = None,
) -> Variable | tuple[Variable, ...]:
    """A body applied ``count`` times to a state: iterations of a solver, steps along a ray, recurrent layers.

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


# The nodes of loops.


class LoopFunction(Function):
    """Kind: one of the results of a loop. It reads its inputs as whole images."""

    fields: tuple[str, ...] = ("loop", "number")
    loop: Loop
    number: int
    glsl = ""
    operations, fetches = 0.0, 0.0

    @cached_property
    def access(self):
        return (Access.FETCH,) * len(self.inputs)

    @property
    def of(self) -> Variable:
        """What has the type and domain of the output."""
        raise NotImplementedError

    def infer(self):
        return self.of.vtype, self.of.domain

    @property
    def together(self) -> tuple[Any, ...]:
        """Equal for all results of one loop."""
        return (type(self), self.loop, self.inputs)

    @cached_property
    def joint(self) -> Any:
        return Pulled(self.together)

    @property
    def unfinished(self) -> str:
        """What is said of a loop whose condition was not met."""
        return (
            f"the loop made at {self.where} did not meet its condition in {self.loop.count} iterations; raise"
            " its count, or loosen the condition"
        )

    def jvp(self, tangents):
        inputs = _apart(self.inputs)
        known = [(x, t) for x, t in zip(inputs, tangents, strict=True) if t is not None]
        made = written_out([self.rebuild(*inputs).output])
        return jvp(made, *map(list, zip(*known, strict=True)))[0] if known else None


class Looped(LoopFunction):
    """Inputs (state..., captured...): a state after the last iteration."""

    @property
    def of(self):
        return self.loop.body.formals[self.number]

    def evaluate(self, at, *x):
        last = self.loop.states(x)[-1]
        if self.loop.ends and not np.all(last[-1]):
            warnings.warn(self.unfinished, RuntimeWarning, stacklevel=user_level())
        return fetch(last[self.number].reshape(self.output.tiled), at)


class Reversed(LoopFunction):
    """Inputs (state..., captured..., seed of each float state...): the gradient of one of the float states,
    or of one of the captured inputs numbered in ``wanted``."""

    fields = ("loop", "wanted", "number")
    wanted: tuple[int, ...]

    @property
    def of(self):
        return self.loop.body.formals[[*self.loop.floats, *self.wanted][self.number]]

    @property
    def together(self):
        return (type(self), self.loop, self.wanted, self.inputs)

    @property
    def seeds(self) -> tuple[Variable, ...]:
        return self.inputs[len(self.loop.body.formals) :]

    @property
    def run(self) -> tuple[Any, ...]:
        """``together`` of the loop that this goes back."""
        return (Looped, self.loop, self.inputs[: len(self.loop.body.formals)])

    def evaluate(self, at, *x):
        slopes = self.loop.gradients(x, self.wanted, x[len(self.loop.body.formals) :])
        return fetch(slopes[self.number].reshape(self.output.tiled), at)


@dataclass(frozen=True)
class Pulled:
    """What the results of one loop share, for their gradients. together: as of ``LoopFunction``."""

    together: tuple[Any, ...]

    def pull(
        self, function: LoopFunction, gradients: Mapping[LoopFunction, Variable], wanted: Sequence[int]
    ) -> dict[int, Variable]:
        """The gradients of the inputs numbered in ``wanted``, from those of the results."""
        loop, inputs = function.loop, function.inputs
        if isinstance(function, Reversed):
            inputs = _apart(inputs)
            made = written_out([f.rebuild(*inputs).output for f in gradients])
            slopes = _gradients(made, list(gradients.values()), [inputs[i] for i in wanted], inputs)
            return dict(zip(wanted, slopes, strict=True))
        given = {f.number: g for f, g in gradients.items()}
        seeds_of = [given[k] if k in given else zeros_like(inputs[k]) for k in loop.floats]
        captured = tuple(i for i in wanted if i >= loop.width)
        order = [*loop.floats, *captured]
        return {
            i: Reversed(*inputs, *seeds_of, loop=loop, wanted=captured, number=order.index(i)).output
            for i in wanted
        }


def longest_loop(roots: Sequence[Variable]) -> int:
    """Iterations of the longest loop whose checkpoints can be chosen; 0 where there is none."""
    loops = (f.loop for f in topological_order(roots) if isinstance(f, LoopFunction))
    return max((loop.count for loop in loops if loop.checkpoints is None), default=0)


def with_checkpoints(root: Variable, checkpoints: int) -> Variable:
    """The same value; loops that keep everything now keep so many states for the gradient."""
    known: dict[Variable, Variable] = {}
    for f in topological_order([root]):
        inputs = [x if (new := known.get(x)) is None else new for x in f.inputs]
        if isinstance(f, Looped) and f.loop.checkpoints is None:
            loop = replace(f.loop, checkpoints=min(checkpoints, f.loop.count))
            known[f.output] = Looped(*inputs, loop=loop, number=f.number).output
        elif any(x in known for x in f.inputs):
            known[f.output] = f.rebuild(*inputs).output
    return known.get(root, root)


# ---- without repetition
def has_loops(program: Program) -> bool:
    return any(isinstance(f, LoopFunction) for f in program.functions)


def without_loops(program: Program) -> Program:
    """The program with all bodies written out; itself where it has no loop."""
    if not has_loops(program):
        return program
    new = dict(zip(program.roots, written_out(program.roots), strict=True))
    outputs = {name: new[v] for name, v in program.outputs.items()}
    return simplify(Program(outputs, tuple((leaf, new[v]) for leaf, v in program.updates)))


def written_out(roots: Sequence[Variable]) -> list[Variable]:
    """The same values with no node of a loop: bodies are written ``count`` times."""
    known: dict[Variable, Variable] = {}
    results: dict[tuple[Any, ...], list[Variable]] = {}

    @cache
    def run(loop: Loop, inputs: tuple[Variable, ...]) -> tuple[list[Variable], list[Variable]]:
        """(inputs, the last state)."""
        apart = _apart(inputs)
        return apart, _laid_out(loop, apart)

    for f in topological_order(roots):
        old = f
        if any(x in known for x in f.inputs):
            inputs = [x if (new := known.get(x)) is None else new for x in f.inputs]
            f = f.rebuild(*inputs)
            known[old.output] = f.output
        if isinstance(f, Looped):
            known[old.output] = run(f.loop, f.inputs)[1][f.number]
        elif isinstance(f, Reversed):
            if f.together not in results:
                floats = f.loop.floats
                first, made = run(f.loop, f.inputs[: len(f.loop.body.formals)])
                wrt = [first[k] for k in (*floats, *f.wanted)]
                results[f.together] = _gradients([made[k] for k in floats], f.seeds, wrt, first)
            known[old.output] = results[f.together][f.number]
    return [known.get(r, r) for r in roots]


def _apart(inputs: Sequence[Variable]) -> list[Variable]:
    """The inputs, each another Variable, so that each place has its own gradient."""
    return [Expand(x, x.domain).output if x in inputs[:k] else x for k, x in enumerate(inputs)]


def _gradients(
    made: Sequence[Variable], seeds: Sequence[Variable], wrt: Sequence[Variable], given: Sequence[Variable]
) -> list[Variable]:
    """The gradients by some of the ``given`` Variables, none of which counts as computed from the others."""
    parts: dict[Variable, list[Variable]] = {}
    for y, g in zip(made, seeds, strict=True):
        parts.setdefault(y, []).append(g)
    totals = backward(parts, wrt, given)
    return [fit(totals[x], x) if x in totals else zeros_like(x) for x in wrt]


def _laid_out(loop: Loop, inputs: Sequence[Variable]) -> list[Variable]:
    """The last state. With checkpoints its gradient reads stored states at equal distances, and computes what
    lies between two of them again at once."""
    values, formals = list(inputs[: loop.width]), loop.body.formals[: loop.width]
    one = Segment.between(formals, loop.at(inputs, formals))
    if loop.kept is None:
        return repeated(one, values, loop.count)
    lengths = [len(part) for part in np.array_split(np.arange(loop.count), min(loop.kept, loop.count))]
    parts = {n: Segment.between(formals, repeated(one, formals, n)) for n in lengths}
    for n in lengths[:-1]:
        values = [store(x) for x in parts[n].joined(values, again=True)]
    # The gradient begins with the last part: all of it is there.
    return parts[lengths[-1]].joined(values, again=False)


def repeated(one: Segment, values: Sequence[Variable], count: int) -> list[Variable]:
    """The segment ``count`` times. States between are stored, so that all are planned alike and share
    shaders; segments without reads of other texels become one shader together."""
    values = list(values)
    for _ in range(count):
        values = one.at(values)
        values = values if one.is_local else [store(x) for x in values]
    return values


# The body of a loop and how often it is applied, its meaning in NumPy, and the gradient of one iteration.


@dataclass(frozen=True, eq=False)
class Loop:
    """A body between formal states and their next values, applied ``count`` times. Equal for equal structure.

    body: its formals are the state, then what the body reads beside it, so that it captures nothing.
    checkpoints: states that are kept at a time for the gradient; None: everything is kept. ends: whether the
    last state is a mask: where it is not 0 the loop has ended, and all states stay as they are.
    """

    body: Segment
    count: int
    checkpoints: int | None = None
    ends: bool = False

    @cached_property
    def key(self) -> tuple[Any, ...]:
        return structure(self.body.roots, self.body.formals), self.count, self.checkpoints, self.ends

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Loop) and self.key == other.key)

    def __repr__(self) -> str:
        return f"{self.count} x {len(self.body.functions)} functions"

    @property
    def width(self) -> int:
        return len(self.body.roots)

    @cached_property
    def floats(self) -> tuple[int, ...]:
        """The numbers of the states that have gradients."""
        return tuple(k for k, x in enumerate(self.body.roots) if not x.vtype.is_int)

    @property
    def kept(self) -> int | None:
        """How many states are kept at a time for the gradient; None: all."""
        return round(2 * sqrt(self.count)) if self.checkpoints == 0 else self.checkpoints

    def at(self, inputs: Sequence[Variable], state: Sequence[Variable]) -> list[Variable]:
        """The next state. inputs: those of the nodes, the first state among them."""
        return self.body.at([*state, *inputs[self.width : len(self.body.formals)]])

    def reverse(self, wanted: tuple[int, ...]) -> Segment:
        """Gradients of one iteration, made once for each ``wanted``. Formals: those of the body, then the
        gradients of the next float states. Roots: gradients of the float states, then of ``wanted``
        formals."""
        if wanted not in self._reverses:
            formals, roots = self.body.formals, self.body.roots
            seeds = [formal(roots[k]) for k in self.floats]
            wrt = [formals[k] for k in (*self.floats, *wanted)]
            slopes = vjp([roots[k] for k in self.floats], wrt, seeds)
            self._reverses[wanted] = Segment.between([*formals, *seeds], slopes)
        return self._reverses[wanted]

    @cached_property
    def _reverses(self) -> dict[tuple[int, ...], Segment]:
        return {}

    # ---- the meaning, in NumPy
    def states(self, inputs: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """The first state, and the one after each iteration."""
        formals, run = self.body.formals, self.body.evaluator
        inputs = [a.reshape(x.shape) for a, x in zip(inputs, formals)]
        states = [list(inputs[: self.width])]
        for _ in range(self.count):
            states.append(run(dict(zip(formals, [*states[-1], *inputs[self.width :]], strict=True))))
        return states

    def gradients(
        self, inputs: Sequence[np.ndarray], wanted: tuple[int, ...], seeds: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """The gradients of the first float states, then of the inputs numbered in ``wanted``."""
        reverse, of = self.reverse(wanted), self.body.formals
        given = [a.reshape(x.shape) for a, x in zip(inputs, of)]
        moving = [a.reshape(of[k].shape) for a, k in zip(seeds, self.floats, strict=True)]
        sums = [np.zeros(of[k].shape) for k in wanted]
        for state in reversed(self.states(inputs)[:-1]):
            values = zip(reverse.formals, [*state, *given[self.width :], *moving], strict=True)
            slopes = reverse.evaluator(dict(values))
            moving, parts = slopes[: len(moving)], slopes[len(moving) :]
            sums = [a + b for a, b in zip(sums, parts, strict=True)]
        return [*moving, *sums]


def formal(x: Variable) -> Variable:
    return Variable(x.vtype, x.size, x.batch, channels=x.channels, count=x.count)


# Segments: parts of a graph between given values and results, which are put in at several places.

TOGETHER = 4  # gradients that one ``After`` waits for: shaders have a limited number of inputs


@dataclass(frozen=True, eq=False)
class Segment:
    """Functions between ``formals``, leaves that stand for given values, and ``roots``.

    functions: those that depend on the formals, producers first. captured: what they read from outside.
    """

    formals: tuple[Variable, ...]
    roots: tuple[Variable, ...]
    functions: tuple[Function, ...]
    captured: tuple[Variable, ...]

    @classmethod
    def between(cls, formals: Sequence[Variable], roots: Sequence[Variable]) -> Segment:
        inside = set(formals)
        functions = []
        for f in topological_order(roots):
            if not inside.isdisjoint(f.inputs):
                inside.add(f.output)
                functions.append(f)
        read = dict.fromkeys(x for f in functions for x in f.inputs if x not in inside)
        read |= dict.fromkeys(r for r in roots if r not in inside)
        captured = tuple(x for x in read if not isinstance(x.creator, Constant))
        return cls(tuple(formals), tuple(roots), tuple(functions), captured)

    @cached_property
    def evaluator(self) -> Evaluator:
        return Evaluator(self.roots)

    @property
    def is_local(self) -> bool:
        """Whether every texel of the results depends on the same texel of the given values."""
        reads = [pair for f in self.functions for pair in zip(f.inputs, f.access, strict=True)]
        return all(access is Access.SAME_PIXEL for x, access in reads if x not in self.captured)

    def at(
        self, given: Sequence[Variable], captured: Mapping[Variable, Variable] | None = None
    ) -> list[Variable]:
        """The roots where the formals have these values. captured: what stands for Variables from outside."""
        known: dict[Variable, Variable] = dict(captured or {})
        known.update(zip(self.formals, given, strict=True))
        rebuilt(self.functions, known)
        return [known.get(r, r) for r in self.roots]

    def joined(self, given: Sequence[Variable], *, again: bool) -> list[Variable]:
        """The roots, whose gradients are taken together, before those of what comes before the segment.
        again: the gradients compute the segment again from the given values; else they read it."""
        made = self.at(given)
        shared, reads = Joint(self, None if again else tuple(made)), (*given, *self.captured)
        return [Recomputed(x, *reads, joint=shared, number=k).output for k, x in enumerate(made)]


@dataclass(frozen=True, eq=False)
class Joint:
    """What the results of one segment at one place share. stored: its roots, None to compute them again."""

    segment: Segment
    stored: tuple[Variable, ...] | None

    def pull(
        self, function: Function, gradients: Mapping[Function, Variable], wanted: Sequence[int]
    ) -> dict[int, Variable]:
        """The gradients of ``wanted`` inputs by number, from those of the results. function: any of them."""
        count = len(self.segment.formals)
        later = max(gradients.values(), key=lambda g: g.size[0] * g.size[1] * g.tiles)
        given, outside = list(function.inputs[1 : 1 + count]), function.inputs[1 + count :]
        made: Sequence[Variable] | None = self.stored
        if made is None:
            given = [After(x, later).output for x in given]
            made = self.segment.at(given, dict(zip(self.segment.captured, outside, strict=True)))
        inputs = [made[0], *given, *outside]
        seeds: dict[Variable, list[Variable]] = {}
        for f, g in gradients.items():
            assert isinstance(f, Recomputed)
            seeds.setdefault(made[f.number], []).append(g)
        slopes = backward(seeds, [inputs[i] for i in wanted if i > 0], inputs[1:])
        pulled = {i: slopes[inputs[i]] for i in wanted if i > 0 and inputs[i] in slopes}
        # What comes before waits for the gradients of what is captured, which need all that was stored here.
        own = [g for i, g in pulled.items() if i > count and g.creator is not None]
        for i in [i for i in pulled if i <= count]:
            for k in range(0, len(own), TOGETHER):
                pulled[i] = After(pulled[i], *own[k : k + TOGETHER]).output
        return pulled


class Recomputed(AliasBeside):
    """Inputs (value, given..., captured...): the value, with the gradient of its segment."""

    fields = ("joint", "number")
    joint: Joint
    number: int

    def vjp(self, gy, i):
        raise GraphError("the gradients of a segment's results are taken together")


class After(Later):
    """Keeps what the readers compute again from being computed, and stored, together with x."""

    operations = 0.0
    saves_memory = True
