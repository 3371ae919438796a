"""A Program with loops as a Procedure: what comes before a loop, its body as often as it is applied, and what follows.

What one part makes and another reads lies in leaves between them. Each body is one Program over the leaves of its state: it is
planned once, see ``runs``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import Variable
from ..ops.pixel.constant import Constant
from ..procedure import Copies, Part, Procedure
from ..program import Program
from ..transform.rewrite import substitute
from ..transform.simplify import simplify
from .body import formal
from .node import LoopFunction, Reversed, written_out
from .runs import Back, Pairs, Run


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
                if not isinstance(run, Run) or run.back is not None:  # a gradient of its own, or a second one
                    inputs = f.inputs[: len(f.loop.body.formals)]
                    run = Run(f, max((level.get(x, 0) for x in inputs), default=0) + 1, self.leaf)
                    self.loops[f.run if f.run not in self.loops else (f.run, f.together)] = run
                self.loops[f.together] = run.back = Back(f, max(run.level, before) + 1, run, self.leaf)
            else:
                self.loops[f.together] = Run(f, before + 1, self.leaf)
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

    def _keeps_last(self, back: Back) -> bool:
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
            if isinstance(loop, Back):
                loop.keeps_last = self._keeps_last(loop)
        for level in range(self.last + 1):
            for loop in self.loops.values():
                if loop.level == level:
                    parts += loop.parts([self.held.get(x, x) for x in loop.captured])
            program = self._program(level)
            if program.updates or level == self.last:
                parts.append(Part("step" if level == self.last else "before a loop", program))
        runs = [run for run in self.loops.values() if isinstance(run, Run) and run.flag is not None]
        unmet = {run.flag: run.node.unfinished for run in runs if run.flag is not None}
        return Procedure(tuple(parts), scratch=tuple(self.scratch), unmet=unmet)
