"""A Program with loops as a Procedure: what comes before a loop, its body as often as it is applied, and what follows.

What one part makes and another reads lies in leaves between them. Each body is one Program over the leaves of its state: it is
planned once. For the gradient the states of iterations, and what is costly to make again from them, are copied aside, as a Schedule
says, and copied back one after the other for the Program of the gradient of one iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from ..graph import Function, PixelFunction, Variable
from ..ops.image.extremes import ReduceMax
from ..ops.image.reduce import EVERY_AXIS, Expand, reduce_axes, zeros_like
from ..ops.pixel.compare import select
from ..ops.pixel.constant import Constant
from ..procedure import Copies, Part, Procedure
from ..program import Program
from ..transform.rewrite import substitute
from ..transform.simplify import simplify
from ..types import FLOAT, Access
from .body import formal
from .node import LoopFunction, Reversed, written_out
from .schedule import Schedule
from .segment import Segment

Pairs = list[tuple[Variable, Variable]]
CHEAP = 4
"""Iterations in the snippet of a Function that reads other texels: up to so many, its values are made again for the gradient."""


def has_loops(program: Program) -> bool:
    """Whether a program has nodes of loops."""
    return any(isinstance(f, LoopFunction) for f in program.functions)


def without_loops(program: Program) -> Program:
    """The program with all bodies written out; itself where it has no loop."""
    if not has_loops(program):
        return program
    new = dict(zip(program.roots, written_out(program.roots), strict=True))
    outputs = {name: new[v] for name, v in program.outputs.items()}
    return simplify(Program(outputs, tuple((leaf, new[v]) for leaf, v in program.updates)))


def in_parts(program: Program) -> Procedure:
    """What runs a program with loops. The last part has its outputs, and its updates."""
    return _Layout(program).procedure()


class _Layout:
    """What runs when. What is made before the first loop has level 0, and what needs loops one more than the last of these."""

    def __init__(self, program: Program):
        self.program, self.scratch = program, list[Variable]()
        self.held: dict[Variable, Variable] = {}  # leaves of values that one part makes and another reads
        self.loops: dict[Any, _Run | _Back] = {}
        level: dict[Variable, int] = {}
        for f in program.functions:
            level[f.output] = max((level.get(x, 0) for x in f.inputs), default=0)
            if isinstance(f, LoopFunction):
                level[f.output] = self._place(f, level)
        self.last = max(level.values())
        self.made = self._made()

    def leaf(self, like: Variable, name: str) -> Variable:
        """A leaf of this procedure, of zeros that take no memory here."""
        found = formal(like)
        found.name, found.data = name, np.broadcast_to(np.zeros((), like.vtype.dtype), found.shape)
        self.scratch.append(found)
        return found

    def _place(self, f: LoopFunction, level: dict[Variable, int]) -> int:
        """The level of a result of a loop, which is noted."""
        before = level[f.output]
        if f.together not in self.loops:
            if isinstance(f, Reversed):
                run = self.loops.get(f.run)
                if (
                    not isinstance(run, _Run) or run.back is not None
                ):  # a gradient of its own, or a second one
                    inputs = f.inputs[: len(f.loop.body.formals)]
                    run = _Run(f, max((level.get(x, 0) for x in inputs), default=0) + 1, self.leaf)
                    self.loops[f.run if f.run not in self.loops else (f.run, f.together)] = run
                self.loops[f.together] = run.back = _Back(f, max(run.level, before) + 1, run, self.leaf)
            else:
                self.loops[f.together] = _Run(f, before + 1, self.leaf)
        found = self.loops[f.together]
        self.held[f.output] = found.results[f.number]
        return found.level

    def _made(self) -> list[Pairs]:
        """Pairs (leaf, value) that the program of each level makes, as late as it can."""
        read = dict.fromkeys(self.program.roots, self.last)  # the first level at which a value is read
        handed: dict[Variable, None] = {}  # from one level to another, or to a loop
        readers = [(f, f.inputs) for f in self.program.functions]
        for f, inputs in reversed(readers):
            loop = self.loops[f.together] if isinstance(f, LoopFunction) else None
            now = read[f.output] if loop is None else loop.level - 1
            for x in inputs:
                if read.setdefault(x, now) != now or (loop is not None and x in loop.captured):
                    handed[x] = None
                read[x] = min(read[x], now)
        for root in self.program.roots:
            if read[root] < self.last:
                handed[root] = None
        made: list[Pairs] = [[] for _ in range(self.last + 1)]
        for x in reversed(handed):
            if x not in self.held and not x.is_leaf and not isinstance(x.creator, Constant):
                self.held[x] = self.leaf(x, "handed on")
                made[read[x]].append((self.held[x], x))
        for loop in self.loops.values():
            made[loop.level - 1] += loop.start()
        self.made_at = read
        return made

    def _keeps_last(self, back: _Back) -> bool:
        """Whether something reads what the loop made, after its gradient was taken."""
        made = {x for x, leaf in self.held.items() if leaf in back.run.results}
        readers = [f for f in self.program.functions if not made.isdisjoint(f.inputs)]
        return (
            back.run.flag is not None
            or not made.isdisjoint(self.program.roots)
            or any(
                self.loops[f.together].level >= back.level
                if isinstance(f, LoopFunction)
                else self.made_at[f.output] >= back.level
                for f in readers
            )
        )

    def _program(self, level: int) -> Program:
        last = level == self.last
        outputs = dict(self.program.outputs) if last else {}
        pairs = [*self.made[level], *(self.program.updates if last else ())]
        roots = list(dict.fromkeys([*outputs.values(), *(x for _, x in pairs)]))
        known = {
            x: leaf
            for x, leaf in self.held.items()
            if isinstance(x.creator, LoopFunction) or self.made_at[x] < level
        }
        new = dict(zip(roots, substitute(roots, known), strict=True))
        return simplify(
            Program({n: new[x] for n, x in outputs.items()}, tuple((leaf, new[x]) for leaf, x in pairs))
        )

    def procedure(self) -> Procedure:
        """All parts, in order."""
        parts: list[Part | Copies] = []
        for loop in self.loops.values():
            if isinstance(loop, _Back):
                loop.keeps_last = self._keeps_last(loop)
        for level in range(self.last + 1):
            for loop in self.loops.values():
                if loop.level == level:
                    parts += loop.parts([self.held.get(x, x) for x in loop.captured])
            program = self._program(level)
            if program.updates or level == self.last:
                parts.append(Part("step" if level == self.last else "before a loop", program))
        runs = [run for run in self.loops.values() if isinstance(run, _Run) and run.flag is not None]
        unmet = {run.flag: run.node.unfinished for run in runs if run.flag is not None}
        return Procedure(tuple(parts), scratch=tuple(self.scratch), unmet=unmet)


class _Run:
    """A loop at one place. state: leaves. flag: a leaf that is not 0 while the loop goes on; None where no condition ends it."""

    def __init__(self, node: LoopFunction, level: int, leaf: Any):
        self.node, self.level, self._leaf, self.loop = node, level, leaf, node.loop
        self.results = [leaf(x, "state of a loop") for x in self.loop.body.formals[: self.loop.width]]
        self.flag = leaf(Variable(FLOAT), "a loop goes on") if self.loop.ends else None
        self.all = [
            *self.results,
            *([] if self.flag is None else [self.flag]),
        ]  # an iteration starts from them
        self.back: _Back | None = None
        self._kept: dict[tuple[int, Variable], Variable] = {}
        self._free: dict[Any, list[Variable]] = {}  # leaves that keep nothing now, by type and domain
        # A leaf is the first state as long as the loops run.
        for x, first in zip(self.results, node.inputs, strict=False):
            if first.is_leaf:
                self._kept[0, x] = first

    @property
    def captured(self) -> Sequence[Variable]:
        """What the body reads beside the state."""
        return self.node.inputs[self.loop.width : len(self.loop.body.formals)]

    def start(self) -> Pairs:
        """What the program before the loop makes for it."""
        values = self.node.inputs[: self.loop.width]
        return [*zip(self.results, values, strict=True), *self._going(values[-1])]

    def _going(self, done: Variable) -> Pairs:
        if self.flag is None:
            return []
        return [(self.flag, reduce_axes(ReduceMax, select(done, 0.0, 1.0), EVERY_AXIS))]

    def aside(self, leaves: Iterable[Variable], slot: int) -> Copies:
        """Their values go into a slot, from where ``again`` gets them."""
        pairs = []
        for x in leaves:
            if (slot, x) not in self._kept:
                free = self._free.get((x.vtype, x.domain))
                self._kept[slot, x] = free.pop() if free else self._leaf(x, f"{x.name}, kept")
                pairs.append((x, self._kept[slot, x]))
        return Copies(tuple(pairs))

    def again(self, leaves: Iterable[Variable], slot: int) -> Copies:
        """They get their values back."""
        return Copies(tuple((self._kept[slot, x], x) for x in leaves))

    def forget(self, leaves: Iterable[Variable], slot: int) -> None:
        """The slot is free for others from here on."""
        for x in leaves:
            kept = self._kept.pop((slot, x), None)
            if kept is not None and kept not in self.node.inputs:
                self._free.setdefault((x.vtype, x.domain), []).append(kept)

    def parts(self, captured: Sequence[Variable]) -> list[Part | Copies]:
        """The iterations. captured: leaves and constants."""
        back, loop = self.back, self.loop
        if back is None:
            return [Part("loop", self._iteration(captured, {}), loop.count, self.flag)]
        tape = back.prepared(captured)
        self.body = Part("loop", self._iteration(captured, tape), 1, self.flag)
        self.ahead = self.body  # leaves nothing for a gradient
        if tape and loop.kept is not None:
            self.ahead = Part("loop ahead", self._iteration(captured, {}), 1, self.flag)
        there, back.way = back.walk()
        return there

    def _iteration(self, captured: Sequence[Variable], tape: dict[Variable, Variable]) -> Program:
        """The body, once. tape: values in it -> leaves that keep them."""
        one = Segment.between(self.loop.body.formals, [*self.loop.body.roots, *tape])
        made = one.at([*self.results, *captured])
        updates = [*zip([*self.results, *tape.values()], made, strict=True)]
        updates += self._going(made[self.loop.width - 1])
        return _passed_on(simplify(Program({}, tuple(updates))))


class _Back:
    """The gradient of a run. results: leaves of the gradients of the float states, then of the sums of the gradients of what is
    captured."""

    def __init__(self, node: Reversed, level: int, run: _Run, leaf: Any):
        self.node, self.level, self.run, self._leaf = node, level, run, leaf
        loop = node.loop
        of = [loop.body.formals[k] for k in (*loop.floats, *node.wanted)]
        self.results = [leaf(x, "gradient of a loop") for x in of]
        self.moving, self.sums = self.results[: len(loop.floats)], self.results[len(loop.floats) :]
        self.tape: dict[Variable, Variable] = {}
        self.keeps_last = True  # others read the results of the run afterwards
        self.way: list[Part | Copies] = []  # the gradients, once the iterations are laid out

    @property
    def captured(self) -> Sequence[Variable]:
        return self.run.captured

    def start(self) -> Pairs:
        """What the program before the gradient makes for it."""
        seeds = self.node.inputs[len(self.node.loop.body.formals) :]
        return [*zip(self.moving, seeds, strict=True), *((x, zeros_like(x)) for x in self.sums)]

    def prepared(self, captured: Sequence[Variable]) -> dict[Variable, Variable]:
        """Makes the program of one iteration. Returns what it reads beside the state: values in the body of the loop that are
        costly, and the leaves for them."""
        run, body = self.run, self.node.loop.body
        reverse = self.node.loop.reverse(self.node.wanted)
        used = {f.output for f in reverse.functions}
        tape = {f.output: formal(f.output) for f in body.functions if f.output in used and _is_costly(f)}
        one = Segment.between([*reverse.formals, *tape.values()], substitute(reverse.roots, tape))
        leaves = [self._leaf(x, "made by an iteration") for x in tape]
        made = one.at([*run.results, *captured, *self.moving, *leaves])
        parts = zip(self.sums, made[len(self.moving) :], strict=True)
        updates = [*zip(self.moving, made[: len(self.moving)], strict=True), *((x, x + g) for x, g in parts)]
        self.program = _passed_on(simplify(Program({}, tuple(updates))))
        read = set(self.program.leaves)
        self.read = [x for x in run.all if x in read or x is run.flag]
        self.tape = {x: leaf for x, leaf in zip(tape, leaves, strict=True) if leaf in read}
        return self.tape

    def walk(self) -> tuple[list[Part | Copies], list[Part | Copies]]:
        """The iterations up to the last state, and from there the gradients of all of them, the last one first."""
        run, loop = self.run, self.node.loop
        step = Part("gradient of a loop", self.program, 1, run.flag)
        taped = [*self.tape.values()]
        sizes = [sum(prod(x.shape) for x in leaves) for leaves in (taped, run.results)]
        schedule = Schedule(loop.count, loop.kept, ceil(sizes[0] / sizes[1]))
        # Iterations to go back over: the first, how many, the states that may be kept, whether what one leaves is kept.
        todo: list[tuple[int, int, int, bool]] = [(0, loop.count, schedule.room, False)]
        found: list[Part | Copies] = [run.aside(run.all, 0)]
        there: list[Part | Copies] = []
        held = 0  # the state that the leaves of the loop have
        while todo:
            first, count, free, kept = todo.pop()
            if count == 1:
                last = not there and first == loop.count - 1
                if last or (taped and not kept):
                    found += [] if held == first else [run.again(run.all, first)]
                    found.append(run.body)
                    held = first + 1
                if last:
                    there, found = found, [run.aside(run.all, -1)] if self.keeps_last else []
                read = [*(self.read if held != first else ()), *(taped if kept else ())]
                found += [run.again(read, first), step]
                held = first
                run.forget([*run.all, *taped], first)
                continue
            ahead = schedule.ahead(count, free)
            found += [] if held == first else [run.again(run.all, first)]
            held = first + (ahead or 1)
            found += [run.ahead] * ahead if ahead else [run.body]
            rest, room = count - (ahead or 1), free - 1
            if ahead:
                todo.append((first, ahead, free, False))
            else:
                found.append(run.aside(taped, first))
                todo.append((first, 1, free, bool(taped)))
                room -= schedule.beside
            # A state from which no iteration starts again is kept for its gradient alone.
            starts = rest > 1 and schedule.ahead(rest, room) > 0
            found.append(run.aside(run.all if starts else self.read, held))
            todo.append((held, rest, room, False))
        return there, found

    def parts(self, captured: Sequence[Variable]) -> list[Part | Copies]:
        """The gradients of the iterations, the last one first."""
        return [*self.way, self.run.again(self.run.all, -1)] if self.keeps_last else self.way


def _passed_on(program: Program) -> Program:
    """New values that contractions and the like make reach their leaves through a pass that can write into these: a copy behind
    the others could not be skipped when the loop has ended."""
    pairs = [
        (leaf, Expand(new, new.domain).output if new.creator and _is_costly(new.creator) else new)
        for leaf, new in program.updates
    ]
    return Program({}, tuple(pairs))


def _is_costly(f: Function) -> bool:
    """Whether its values are rather kept for the gradient than made again."""
    local = all(access is Access.SAME_PIXEL for access in f.access)
    return not local and (not isinstance(f, PixelFunction) or f.iterations > CHEAP)
