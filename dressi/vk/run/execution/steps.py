"""Steps of a Procedure: the work of all its Programs, submitted together.

A nonlinear step of least squares consists of hundreds of runs of a few Programs. Each Program has its plan
and its recorded commands as usual. A step is the sequence of these command buffers, and any number of steps
is one submission.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ....ad.graph import Variable
from ....ad.graph.program import Copies, Part, Procedure, Program
from ....ad.graph.user_code import user_level
from ....ad.loops.loop import has_loops
from ....ad.loops.parts import in_parts
from ...plan.execution.plan import Plan
from ...plan.lowering.scatter import Counts
from ..device.commands import LONGEST
from ..device.memory import DeviceImage
from ..device.transfer import Readback
from .built import BuiltPlan, Stages
from .executor import VulkanExecutor
from .gate import Gate, Gating
from .workspace import Workspace


class MakeExecutor(Protocol):
    """Makes the executor of a part of a procedure."""

    def __call__(
        self, program: Program, *, changing: frozenset[Variable], gating: Gating
    ) -> VulkanExecutor: ...


class _Recorded(NamedTuple):
    """Recorded work. recordings: those that the command buffers belong to."""

    buffers: list[Any]
    gates: list[Gate | None]
    recordings: dict[tuple[BuiltPlan, Stages], None]


class Steps:
    """Runs a Procedure. When one of its leaves is sent, its ``restart`` leaves become 1 (``fresh``)."""

    def __init__(self, procedure: Procedure, workspace: Workspace, make: MakeExecutor):
        self.procedure, self._workspace = procedure, workspace
        self._commands = workspace.commands
        self._gates: dict[Variable, Gate] = {}
        self._refresh: Any = None  # commands that look at all flags
        self._copies: dict[Copies, Any] = {}  # their commands
        self._executors: dict[Program, VulkanExecutor] = {}
        self._built: dict[Part, BuiltPlan] = {}
        self._closed = False
        try:
            self._build(make)
        except BaseException:
            self.close()
            raise
        read = {leaf for e in self._executors.values() for leaf in e.leaves}
        self._own = frozenset((*procedure.restart, *procedure.scratch))
        self.leaves = frozenset(read.union(procedure.updated, procedure.stood_for))
        self._shut = False  # by an interrupt
        workspace.device.work.on_interrupt[self._end_early] = None
        self.fresh = True  # something was sent since the last step
        self._noting = False
        self._settled = False  # nothing has happened since the last step
        self._again: _Recorded | None = None  # a step after a step
        workspace.watch(self)

    def _build(self, make: MakeExecutor) -> None:
        parts, workspace = self.procedure.parts, self._workspace
        for flag in dict.fromkeys(part.gate for part in parts if part.gate is not None):
            image = workspace.hold([flag])[flag][0]
            self._gates[flag] = Gate(workspace.device, self._commands, workspace.pipelines, image)
        workspace.pipelines.release_modules()
        for part in parts:
            if part.program in self._executors:
                continue
            own = [leaf for leaf, _ in part.program.updates]
            flags = tuple(gate for flag, gate in self._gates.items() if flag in own)
            gating = Gating(self._gates[part.gate] if part.gate is not None else None, flags)
            changing = self.procedure.changing(part)
            self._executors[part.program] = make(part.program, changing=changing, gating=gating)
        workspace.hold(self.procedure.stood_for)
        for copies in self.procedure.sequence:
            if isinstance(copies, Copies) and copies.pairs and copies not in self._copies:
                self._copies[copies] = self._commands.record(partial(self._write_copies, copies))
        self._refresh = self._commands.record(partial(self._write_refresh, self._gates))

    def _write_copies(self, copies: Copies, buffer: Any) -> None:
        held = self._workspace.hold(leaf for pair in copies.pairs for leaf in pair)
        for source, target in copies.pairs:
            self._commands.copy(buffer, held[source], held[target])
        self._write_refresh(self._gates.keys() & {target for _, target in copies.pairs}, buffer)

    def _write_refresh(self, flags: Iterable[Variable], buffer: Any) -> None:
        for flag in flags:
            self._gates[flag].refresh(buffer)

    @property
    def executors(self) -> dict[str, VulkanExecutor]:
        """The executor of each part by its name, the one that runs most often first."""
        runs: Counter[str] = Counter()
        for part in self.procedure.parts:
            runs[part.name] += part.times
        programs = {part.name: part.program for part in self.procedure.parts}
        return {name: self._executors[programs[name]] for name, _ in runs.most_common()}

    # ---- what is out of date
    def changed(self, leaf: Variable) -> None:
        """A leaf was sent, or another program changed it."""
        if not self._noting and leaf not in self._own:
            self.fresh, self._settled, self._again = True, False, None

    def check_lengths(self, counts: Counts) -> None:
        """The programs check them, each for itself."""

    # ---- running
    def run(self, n: int) -> None:
        """Queue ``n`` steps. After a ctrl-C what is left of them ends without results."""
        try:
            self._run(n)
        except BaseException:
            self._settled, self._again = False, None
            for executor in self._executors.values():
                executor.built().invalidate()
            raise

    def _end_early(self) -> None:
        """Close all gates: a submission may hold minutes of work, and the process wants to go on or exit."""
        self._shut = True
        for gate in self._gates.values():
            gate.shut()

    def _run(self, n: int) -> None:
        if n < 1:
            return
        if self._shut:
            self._commands.wait()
            for gate in self._gates.values():
                gate.unshut()
            self._shut = False
        if self.fresh:
            self._workspace.send_many({leaf: np.ones(leaf.shape) for leaf in self.procedure.restart})
            self.fresh = False
        for executor in self._executors.values():
            if executor.built().refine():
                self._again = None  # its command buffers are gone
        first = _Recorded([], [], {}) if self._settled else self._one_step()
        n -= 0 if self._settled else 1
        self._settled = True
        # A step after a step finds the same values out of date as the one before it: its commands stay the
        # same.
        if n and self._again is None:
            self._again = self._one_step()
        again = self._again or _Recorded([], [], {})
        now = min(n, max((LONGEST - len(first.buffers)) // max(len(again.buffers), 1), 1))
        recordings = first.recordings | (again.recordings if now else {})
        head, unit = 1 + len(first.buffers), max(len(again.buffers), 1)
        gates = [None, *first.gates, *again.gates * now]
        self._submit([self._refresh, *first.buffers, *again.buffers * now], gates, recordings, head, unit)
        while n := n - now:
            now = min(n, max(LONGEST // len(again.buffers), 1))
            self._submit(again.buffers * now, again.gates * now, again.recordings, 0, unit)
        self._tell(self.procedure.updated, None)

    def _submit(
        self,
        buffers: list[Any],
        gates: list[Gate | None],
        recordings: Iterable[tuple[BuiltPlan, Stages]],
        head: int,
        unit: int,
    ) -> None:
        """head, unit: command buffers of the first step, and of each one after it."""
        try:
            self._commands.submit_together(buffers, head, unit, gates)
        finally:  # after a ctrl-C some may be in flight
            for built, key in recordings:
                built.submitted(key, self._commands.last)

    def _one_step(self) -> _Recorded:
        """One step from here. It counts as run."""
        step = _Recorded([], [], {})
        for part in self.procedure.sequence:
            if isinstance(part, Copies):
                if part.pairs:
                    step.buffers.append(self._copies[part])
                    step.gates.append(None)
                self._tell((target for _, target in part.pairs), None)
                continue
            executor = self._executors[part.program]
            if part not in self._built:
                self._built[part] = executor.built(part.at)
            built = self._built[part]
            for key, times in built.pending(part.times):
                step.buffers.extend(built.buffers(key) * times)
                step.gates.extend([built.gate] * (len(step.buffers) - len(step.gates)))
                step.recordings[built, key] = None
            self._tell(part.updated, executor)
        return step

    def _tell(self, leaves: Iterable[Variable], by: VulkanExecutor | None) -> None:
        self._noting = True
        try:
            self._workspace.note(leaves, by=by)
        finally:
            self._noting = False

    # ---- what the last part computes
    @property
    def last(self) -> VulkanExecutor:
        """The executor of the last part, which has the outputs."""
        return self._executors[self.procedure.parts[-1].program]

    @property
    def plan(self) -> Plan:
        """The plan of the program that runs most often."""
        return next(iter(self.executors.values())).plan

    @property
    def program(self) -> Program:
        """The program of the last part, as it is packed."""
        return self.last.program

    def refresh(self) -> None:
        """Queue a step unless all outputs have their present values."""
        if self.fresh:
            self.run(1)

    def recv_async(self, variable: Variable) -> Readback:
        """An output, as of ``VulkanExecutor``."""
        return self.last.recv_async(variable).checked(self._warn)

    def _warn(self) -> None:
        for leaf, text in {} if self._closed else self.procedure.unmet.items():
            if self._workspace.read(leaf).result().any():
                warnings.warn(text, RuntimeWarning, stacklevel=user_level())

    def images(self, variable: Variable) -> list[DeviceImage]:
        """The images of an output, as of ``VulkanExecutor``."""
        return self.last.images(variable)

    def wait(self) -> None:
        """Wait until all steps are done."""
        next(iter(self._executors.values())).wait()  # it waits for all work, and warns of clamped scatters
        self._warn()

    def close(self) -> None:
        """Release everything. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if not self._workspace.device.settle():
            return
        self._workspace.device.work.on_interrupt.pop(self._end_early, None)
        self._workspace.unwatch(self)
        for executor in self._executors.values():
            executor.close()
        for gate in self._gates.values():
            gate.destroy()
        for buffer in (*self._copies.values(), *([] if self._refresh is None else [self._refresh])):
            self._commands.release(buffer)
        self._workspace.release(self.procedure.scratch)


def running(
    program: Program, workspace: Workspace, make: Callable[..., VulkanExecutor]
) -> VulkanExecutor | Steps:
    """What runs a simplified Program: in parts if it has loops."""
    return Steps(in_parts(program), workspace, make) if has_loops(program) else make(program)
