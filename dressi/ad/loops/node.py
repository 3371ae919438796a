"""The nodes of loops: a body that is there once, and how often it is applied; and the gradient, a loop backwards.

A ``Looped`` is one state after the last iteration, a ``Reversed`` one gradient. Procedures run them as Programs that repeat, see
``parts``; ``written_out`` is for plans that cannot repeat anything, and for derivatives of second order.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..graph import Function, Variable
from ..graph.user_code import user_level
from ..ops.hints import store
from ..ops.image.reduce import Expand, fit, zeros_like
from ..ops.image.texels import fetch
from ..transform.gradient import backward, jvp
from ..traversal import topological_order
from ..types import Access
from .body import Loop
from .segment import Segment


class LoopFunction(Function):
    """Kind: one of the results of a loop, whose inputs are read as whole images. ``loop``, ``number``: which."""

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
            f"the loop made at {self.where} did not meet its condition in {self.loop.count} iterations; raise its count, or"
            " loosen the condition"
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
    """Inputs (state..., captured..., seed of each float state...): the gradient of one of the float states, or of one of the
    captured inputs, whose numbers are ``wanted``."""

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
        found = self.loop.gradients(x, self.wanted, x[len(self.loop.body.formals) :])
        return fetch(found[self.number].reshape(self.output.tiled), at)


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
            found = _gradients(made, list(gradients.values()), [inputs[i] for i in wanted], inputs)
            return dict(zip(wanted, found, strict=True))
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
    """The same value, of which loops that keep everything keep so many states for the gradient."""
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
def written_out(roots: Sequence[Variable]) -> list[Variable]:
    """The same values with no node of a loop: bodies are written ``count`` times."""
    known: dict[Variable, Variable] = {}
    runs: dict[tuple[Any, ...], tuple[list[Variable], list[Variable]]] = {}
    results: dict[tuple[Any, ...], list[Variable]] = {}

    def run(loop: Loop, inputs: tuple[Variable, ...]) -> tuple[list[Variable], list[Variable]]:
        """What it starts from, and the last state."""
        if (loop, inputs) not in runs:
            apart = _apart(inputs)
            runs[loop, inputs] = apart, _laid_out(loop, apart)
        return runs[loop, inputs]

    for f in topological_order(roots):
        old = f
        if any(x in known for x in f.inputs):
            f = f.rebuild(*(x if (new := known.get(x)) is None else new for x in f.inputs))
            known[old.output] = f.output
        if isinstance(f, Looped):
            known[old.output] = run(f.loop, f.inputs)[1][f.number]
        elif isinstance(f, Reversed):
            if f.together not in results:
                floats = f.loop.floats
                inputs, made = run(f.loop, f.inputs[: len(f.loop.body.formals)])
                wrt = [inputs[k] for k in (*floats, *f.wanted)]
                results[f.together] = _gradients([made[k] for k in floats], f.seeds, wrt, inputs)
            known[old.output] = results[f.together][f.number]
    return [known.get(r, r) for r in roots]


def _apart(inputs: Sequence[Variable]) -> list[Variable]:
    """The inputs, so that each is another Variable: gradients are those of their places."""
    seen: set[Variable] = set()
    found = []
    for x in inputs:
        found.append(Expand(x, x.domain).output if x in seen else x)
        seen.add(x)
    return found


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
    """The last state. Its gradient reads states at equal distances; what lies between two of them is computed again at once."""
    values, formals = list(inputs[: loop.width]), loop.body.formals[: loop.width]
    one = Segment.between(formals, loop.at(inputs, formals))
    if loop.kept is None:
        return repeated(one, values, loop.count)
    found = [len(part) for part in np.array_split(np.arange(loop.count), min(loop.kept, loop.count))]
    parts = {n: Segment.between(formals, repeated(one, formals, n)) for n in found}
    for n in found[:-1]:
        values = [store(x) for x in parts[n].joined(values, again=True)]
    # The gradient begins with the last part: all of it is there.
    return parts[found[-1]].joined(values, again=False)


def repeated(one: Segment, values: Sequence[Variable], count: int) -> list[Variable]:
    """The segment ``count`` times. States between are stored, so that each time is planned alike, and shaders are shared;
    those of one texel alone are worth one shader together."""
    values = list(values)
    for _ in range(count):
        values = one.at(values)
        values = values if one.is_local else [store(x) for x in values]
    return values
