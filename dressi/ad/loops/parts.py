"""A Program with loops as a Procedure: what comes before a loop, its body many times, and what follows.

Leaves hold what one part makes and another reads. Each body is one Program, which is planned once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil, prod
from typing import Any

import numpy as np

from ..graph import Function, PixelFunction, Variable
from ..graph.program import Copies, Part, Procedure, Program
from ..graph.types import FLOAT, Access
from ..ops.image.reduce import EVERY_AXIS, Expand, ReduceMax, reduce_axes, zeros_like
from ..ops.pixel.compare import select
from ..ops.pixel.constant import Constant
from ..transform.rewrite import substitute
from ..transform.simplify import simplify
from .loop import LoopFunction, Reversed, Segment, formal


def in_parts(program: Program) -> Procedure:
    """What runs a program with loops. The last part has its outputs, and its updates."""
    return _Layout(program).procedure()


class _Layout:
    """What runs when. Level 0 comes before the first loop; readers of loops are a level behind them."""

    def __init__(self, program: Program):
        self.program, self.scratch = program, list[Variable]()
        self.held: dict[Variable, Variable] = {}  # leaves of values that one part makes and another reads
        self.loops: dict[Any, Run | Back] = {}
        level: dict[Variable, int] = {}
        for f in program.functions:
            level[f.output] = max((level.get(x, 0) for x in f.inputs), default=0)
            if isinstance(f, LoopFunction):
                level[f.output] = self._place(f, level)
        self.last = max(level.values())
        self.made = self._made()

    def leaf(self, like: Variable, name: str) -> Variable:
        """A leaf of this procedure, of zeros that take no memory here."""
        leaf = formal(like)
        leaf.name, leaf.data = name, np.broadcast_to(np.zeros((), like.vtype.dtype), leaf.shape)
        self.scratch.append(leaf)
        return leaf

    def _place(self, f: LoopFunction, level: dict[Variable, int]) -> int:
        """Notes the loop that a node is a result of, and gives its level."""
        before = level[f.output]
        if f.together not in self.loops:
            if isinstance(f, Reversed):
                run = self.loops.get(f.run)
                if not isinstance(run, Run) or run.back is not None:  # a gradient of its own, or a second one
                    inputs = f.inputs[: len(f.loop.body.formals)]
                    run = Run(f, max((level.get(x, 0) for x in inputs), default=0) + 1, self.leaf)
                    self.loops[f.run if f.run not in self.loops else (f.run, f.together)] = run
                self.loops[f.together] = run.back = Back(f, max(run.level, before) + 1, run, self.leaf)
            else:
                self.loops[f.together] = Run(f, before + 1, self.leaf)
        loop = self.loops[f.together]
        self.held[f.output] = loop.results[f.number]
        return loop.level

    def _made(self) -> list[Pairs]:
        """Pairs (leaf, value) that the program of each level makes, as late as it can."""
        read = dict.fromkeys(self.program.roots, self.last)  # the first level at which a value is read
        handed: dict[Variable, None] = {}  # from one level to another, or to a loop
        for f in reversed(self.program.functions):
            loop = self.loops[f.together] if isinstance(f, LoopFunction) else None
            now = read[f.output] if loop is None else loop.level - 1
            for x in f.inputs:
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

    def _keeps_last(self, back: Back) -> bool:
        """Whether something reads what the loop made, after its gradient was taken."""
        made = {x for x, leaf in self.held.items() if leaf in back.run.results}
        if back.run.flag is not None or not made.isdisjoint(self.program.roots):
            return True
        readers = [f for f in self.program.functions if not made.isdisjoint(f.inputs)]
        loops = [self.loops[f.together].level for f in readers if isinstance(f, LoopFunction)]
        others = [self.made_at[f.output] for f in readers if not isinstance(f, LoopFunction)]
        return any(level >= back.level for level in loops + others)

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
        outputs = {name: new[x] for name, x in outputs.items()}
        return simplify(Program(outputs, tuple((leaf, new[x]) for leaf, x in pairs)))

    def procedure(self) -> Procedure:
        parts: list[Part | Copies] = []
        for loop in self.loops.values():
            if isinstance(loop, Back):
                loop.keeps_last = self._keeps_last(loop)
        for level in range(self.last + 1):
            for loop in self.loops.values():
                if loop.level == level:
                    parts += loop.parts([self.held.get(x, x) for x in loop.captured])
            program = self._program(level)
            if program.updates or level == self.last:
                parts.append(Part("step" if level == self.last else "before a loop", program))
        runs = [run for run in self.loops.values() if isinstance(run, Run)]
        unmet = {run.flag: run.node.unfinished for run in runs if run.flag is not None}
        return Procedure(tuple(parts), scratch=tuple(self.scratch), unmet=unmet)


# One loop at its place in a Procedure: its iterations, and its gradient by them, as a Schedule says.
#
# A slot is the leaves that hold one state. A Program of one iteration reads a slot and writes another; each
# run says which, so that kept states are not copied. Only where a condition ends the loop an iteration starts
# from a copy of the state, in the slot of the next one, since a skipped iteration changes nothing.

Pairs = list[tuple[Variable, Variable]]
Leaf = Callable[[Variable, str], Variable]
Slot = tuple[Variable, ...]
Tape = dict[Variable, Variable]  # values of a body -> leaves for them
CHEAP = 4
"""Iterations of a snippet that reads other texels up to which the gradient computes its values again."""


class Run:
    """A loop at one place. results: leaves of the last state. flag: a leaf that is not 0 while the loop goes
    on; None where no condition ends it. all: what a slot has leaves for."""

    def __init__(self, node: LoopFunction, level: int, leaf: Leaf):
        self.node, self.level, self._leaf, self.loop = node, level, leaf, node.loop
        self.results: Slot = tuple(
            leaf(x, "state of a loop") for x in self.loop.body.formals[: self.loop.width]
        )
        self.flag = leaf(Variable(FLOAT), "a loop goes on") if self.loop.ends else None
        self.all = self.results if self.flag is None else (*self.results, self.flag)
        self.back: Back | None = None
        self._free: dict[Any, list[Variable]] = {}  # leaves that hold nothing now, by type and domain

    @property
    def captured(self) -> Sequence[Variable]:
        """What the body reads beside the state."""
        return self.node.inputs[self.loop.width : len(self.loop.body.formals)]

    def start(self) -> Pairs:
        """What the program before the loop makes for it."""
        values = self.node.inputs[: self.loop.width]
        self.first = self.results
        if self.back is not None:
            # A leaf is the first state itself, as long as the loop runs.
            leaves = {k: x for k, x in enumerate(values) if x.is_leaf}
            self.first = tuple(
                leaves[k] if k in leaves else self.take([x])[0] for k, x in enumerate(self.all)
            )
        made = zip(self.first, values, strict=False)
        return [*((x, value) for x, value in made if x is not value), *self._going(values[-1])]

    def _going(self, done: Variable) -> Pairs:
        if self.flag is None:
            return []
        return [(self.flag, reduce_axes(ReduceMax, select(done, 0.0, 1.0), EVERY_AXIS))]

    # ---- slots
    @cached_property
    def next(self) -> Slot:
        """Where a program of one iteration puts the next state: over the old one if it may be skipped."""
        if self.flag is not None:
            return self.results
        slot = tuple(self._leaf(x, f"next {x.name}") for x in self.results)
        self.give(slot)
        return slot

    def take(self, like: Iterable[Variable]) -> Slot:
        """Free leaves for values like these."""
        slot = []
        for x in like:
            free = self._free.get((x.vtype, x.domain))
            slot.append(free.pop() if free else self._leaf(x, f"{x.name}, kept"))
        return tuple(slot)

    def give(self, slot: Iterable[Variable]) -> None:
        for x in slot:
            if x not in self.node.inputs:
                self._free.setdefault((x.vtype, x.domain), []).append(x)

    # ---- iterations
    def parts(self, captured: Sequence[Variable]) -> list[Part | Copies]:
        """The iterations. captured: leaves and constants."""
        if self.back is None:
            program = self._iteration(captured, self.results, {})
            return [Part("loop", program, self.loop.count, self.flag)]
        self.back.prepare(captured)
        self.body = self._iteration(captured, self.next, self.back.tape)
        self.ahead = self._iteration(captured, self.next, {}) if self.back.tape else self.body
        there, self.back.way = self.back.walk()
        return there

    def _iteration(self, captured: Sequence[Variable], target: Slot, tape: Tape) -> Program:
        """The body, once, from the state in ``results``."""
        one = Segment.between(self.loop.body.formals, [*self.loop.body.roots, *tape])
        made = one.at([*self.results, *captured])
        updates = [*zip([*target, *tape.values()], made, strict=True)]
        updates += self._going(made[self.loop.width - 1])
        return passed_on(simplify(Program({}, tuple(updates))))

    def run(
        self, source: Slot, target: Slot, count: int = 1, *, between: Slot = (), tape: Slot = ()
    ) -> list[Part | Copies]:
        """From the state in one slot to that in another, ``count`` iterations later. between: a slot for
        states on the way. tape: leaves for what an iteration leaves for the gradient; () drops it."""
        assert self.back is not None
        leaves = self.back.tape.values() if tape else ()
        name, program = ("loop", self.body) if tape or not self.back.tape else ("loop ahead", self.ahead)
        beside = dict(zip(leaves, tape, strict=True))
        if self.flag is not None:
            pairs = (*zip(source[:-1], target, strict=False), (source[-1], self.flag))
            at = {**dict(zip(self.results, target, strict=False)), **beside}
            part = Part(name, program, count, self.flag, at)
            return [Copies(pairs), part, Copies(((self.flag, target[-1]),))]
        parts: list[Part | Copies] = []
        for left in range(count, 0, -1):
            into = target if left % 2 else between
            at = dict(zip((*self.results, *self.next), (*source, *into), strict=True))
            parts.append(Part(name, program, at={**at, **beside}))
            source = into
        return parts


class Back:
    """The gradient of a run. results: leaves of gradients, of the float states, then of captured values."""

    def __init__(self, node: Reversed, level: int, run: Run, leaf: Leaf):
        self.node, self.level, self.run, self._leaf = node, level, run, leaf
        loop = node.loop
        of = [loop.body.formals[k] for k in (*loop.floats, *node.wanted)]
        self.results = [leaf(x, "gradient of a loop") for x in of]
        self.moving, self.sums = self.results[: len(loop.floats)], self.results[len(loop.floats) :]
        self.keeps_last = True  # others read the results of the run afterwards
        self.way: list[Part | Copies] = []  # the gradients, once the iterations are laid out

    @property
    def captured(self) -> Sequence[Variable]:
        return self.run.captured

    def start(self) -> Pairs:
        seeds = self.node.inputs[len(self.node.loop.body.formals) :]
        return [*zip(self.moving, seeds, strict=True), *((x, zeros_like(x)) for x in self.sums)]

    def prepare(self, captured: Sequence[Variable]) -> None:
        """Makes two programs of the gradient of an iteration: ``program`` reads its state and the costly
        values of the body, ``tape``; ``again`` reads the state alone."""
        run, body, reverse = self.run, self.node.loop.body, self.node.loop.reverse(self.node.wanted)
        used = {f.output for f in reverse.functions}
        costly = [f.output for f in body.functions if f.output in used and _is_costly(f)]
        tape = {x: self._leaf(x, "made by an iteration") for x in costly}
        self.program = self._gradient(captured, tape)
        read = set(self.program.leaves)
        self.tape = {x: leaf for x, leaf in tape.items() if leaf in read}
        self.again = self._gradient(captured, {}) if self.tape else self.program
        self.read = {x for x in run.all if x in read or x is run.flag}
        run.give(self.tape.values())

    def _gradient(self, captured: Sequence[Variable], tape: Tape) -> Program:
        reverse = self.node.loop.reverse(self.node.wanted)
        formals = {x: formal(x) for x in tape}
        one = Segment.between([*reverse.formals, *formals.values()], substitute(reverse.roots, formals))
        made = one.at([*self.run.results, *captured, *self.moving, *tape.values()])
        parts = zip(self.sums, made[len(self.moving) :], strict=True)
        updates = [*zip(self.moving, made[: len(self.moving)], strict=True), *((x, x + g) for x, g in parts)]
        return passed_on(simplify(Program({}, tuple(updates))))

    def parts(self, captured: Sequence[Variable]) -> list[Part | Copies]:
        """The gradients of the iterations, the last one first, once these are laid out."""
        return self.way

    def walk(self) -> tuple[list[Part | Copies], list[Part | Copies]]:
        """The iterations up to the last state, and then the gradients of all of them, the last one first."""
        run, loop, taped = self.run, self.node.loop, [*self.tape.values()]
        sizes = [sum(prod(x.shape) for x in leaves) for leaves in (taped, run.results)]
        schedule = Schedule(loop.count, loop.kept, ceil(sizes[0] / sizes[1]))
        slots, tapes = {0: run.first}, dict[int, Slot]()  # by the number of the iteration that reads them
        last = (*run.results, *run.take(run.all[loop.width :]))
        parts: list[Part | Copies] = [] if run.flag is None else [Copies(((run.flag, run.first[-1]),))]
        there: list[Part | Copies] = []
        todo = [(0, loop.count, schedule.room)]  # iterations to go back over, and the states that may be kept
        while todo:
            first, count, free = todo.pop()
            slot = slots[first]
            if count == 1:
                if not there:
                    stores = schedule.stores or free > schedule.beside
                    tapes[first] = run.take(taped) if stores else ()
                    there, parts = [*parts, *run.run(slot, last, tape=tapes[first])], []
                    run.give(() if self.keeps_last else last)
                parts += self._step(slot, tapes.get(first, ()))
                kept = self.read if first in tapes and first < loop.count - 1 else run.all
                run.give([x for x, like in zip(slot, run.all, strict=True) if like in kept])
                run.give(tapes.get(first, ()))
                continue
            ahead = schedule.ahead(count, free)
            rest, room, target = count - (ahead or 1), free - 1, run.take(run.all)
            if ahead:
                apart = there and ahead > 1 and run.flag is None
                between = run.take(run.all) if apart else () if there else last
                parts += run.run(slot, target, ahead, between=between)
                run.give(between if apart else ())
                todo.append((first, ahead, free))
            else:
                tapes[first] = run.take(taped)
                parts += run.run(slot, target, tape=tapes[first])
                run.give([x for x, like in zip(slot, run.all, strict=True) if like not in self.read])
                todo.append((first, 1, free))
                room -= schedule.beside
            slots[first + (ahead or 1)] = target
            todo.append((first + (ahead or 1), rest, room))
        if self.keeps_last and run.flag is not None:
            parts.append(Copies(((last[-1], run.flag),)))
        return there, parts

    def _step(self, slot: Slot, tape: Slot) -> list[Part | Copies]:
        """The gradient of the iteration that starts from a slot."""
        run, program = self.run, self.program if tape else self.again
        read = set(program.leaves)
        at = {x: y for x, y in zip(run.results, slot, strict=False) if x in read}
        at |= dict(zip(self.tape.values(), tape, strict=False))
        name = "gradient of a loop" if program is self.program else "gradient of a loop, with its iteration"
        part = Part(name, program, 1, run.flag, at)
        return [part] if run.flag is None else [Copies(((slot[-1], run.flag),)), part]


def passed_on(program: Program) -> Program:
    """Copies new values that contractions and the like make in a pass that writes into their leaves: a copy
    behind the program could not be skipped when the loop has ended."""
    pairs = []
    for leaf, new in program.updates:
        costly = new.creator is not None and _is_costly(new.creator)
        pairs.append((leaf, Expand(new, new.domain).output if costly else new))
    return Program({}, tuple(pairs))


def _is_costly(f: Function) -> bool:
    """Whether the gradient keeps its values, and does not compute them again."""
    local = all(access is Access.SAME_PIXEL for access in f.access)
    return not local and (not isinstance(f, PixelFunction) or f.iterations > CHEAP)


# Which states of a loop its gradient keeps: the schedule that runs the fewest iterations again.
#
# With few states kept at a time the gradient runs from one of them up to the middle of what is left, keeps
# that state too, and goes back over what comes after it first (Griewank and Walther, "Revolve", ACM TOMS 26,
# 2000). Here an iteration may also leave values that its gradient reads; with enough room these are kept as
# well, and nothing runs again.

NEVER = 1 << 40
MOST = 128  # states for which schedules are computed; more free ones count as so many


@dataclass(frozen=True)
class Schedule:
    """How the gradient walks back over ``count`` iterations. kept: states that may be kept at a time, with
    the first one; None: all. beside: the size of what an iteration leaves for its gradient, in states."""

    count: int
    kept: int | None
    beside: int

    @property
    def room(self) -> int:
        """States that may be kept: at least two, and no more than the walk could use."""
        everything = self._everything(self.count)
        return everything if self.kept is None else max(min(self.kept, everything), 2)

    @property
    def stores(self) -> bool:
        """Whether no iteration runs again."""
        return self.room == self._everything(self.count)

    def ahead(self, count: int, free: int) -> int:
        """How many of the last ``count`` iterations of a part, at least 2, run from a kept state before the
        next one is kept; 0: one, and what it leaves is kept as well. free: states that may be kept."""
        if free >= self._everything(count):
            return 0
        return int(_best(self.count, self.beside, min(free, MOST))[count])

    def _everything(self, count: int) -> int:
        """States with which none of so many iterations runs again."""
        return 1 + (count - 1) * (1 + self.beside)


@cache
def _rows(count: int, beside: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each number of states, from 0 on, what ``_best`` has found so far: of 0 to ``count`` iterations the
    fewest that run, and ``ahead``. With one state two iterations have no gradient: what the second starts
    from must be kept while it runs."""
    none, one, ahead = np.full(count + 1, NEVER), np.full(count + 1, NEVER), np.zeros(count + 1, int)
    one[:2] = 0, min(beside, 1)
    return [(none, ahead), (one, ahead)]


def _best(count: int, beside: int, free: int) -> np.ndarray:
    """``Schedule.ahead`` with so many states, for 0 to ``count`` iterations."""
    rows = _rows(count, beside)
    while len(rows) <= free:
        behind, stored = rows[-1][0], rows[max(len(rows) - 1 - beside, 0)][0]
        runs, ahead = behind.copy(), np.zeros(count + 1, int)
        for n in range(2, count + 1):
            totals = np.arange(1, n) + behind[n - 1 : 0 : -1] + runs[1:n]
            k = int(totals.argmin())
            runs[n], ahead[n] = totals[k], k + 1
            if 1 + stored[n - 1] <= runs[n]:
                runs[n], ahead[n] = 1 + stored[n - 1], 0
        rows.append((runs, ahead))
    return rows[free][1]
