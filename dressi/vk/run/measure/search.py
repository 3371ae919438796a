"""The search for the options of the fastest plan, measured on the device (``PlanOptions.search``).

Trial plans run in a workspace of their own, on copies of the leaves: nothing that belongs to the user
changes. From the given options on, one pass after the other is switched; a switch that gains stays while the
next ones are tried, until none gains or the time is over. The cache keeps what was found.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import warnings
from collections.abc import Hashable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import reduce
from itertools import cycle
from statistics import median
from typing import NamedTuple

import numpy as np

from ....ad.graph import Variable
from ....ad.graph.program import Program
from ....ad.graph.traversal import structure
from ....ad.graph.types import FLOAT
from ....ad.graph.user_code import user_level
from ....config import config, dressi_version, shader_text
from ....errors import DressiError
from ...plan.compiler import build_plan
from ...plan.core.options import PlanOptions
from ...plan.model.device import DeviceModel
from ..execution.executor import VulkanExecutor
from ..execution.gate import UNGATED, Gate, Gating
from ..execution.workspace import Workspace
from ..host import cache

SWITCHED = (
    "tile_contractions", "fuse_into_draws", "keep_what_pays", "rematerialize", "store_operands", "fuse_epilogues",
    "gather_at_lists", "run_on_active_blocks", "compact_live_faces", "pack_channels", "store_in_buffers",
    "load_images", "fuse_horizontally", "overlap_tiles", "tile_products",
)  # fmt: skip
"""The options that are tried both ways, those that tend to matter most first. No result rounds differently by
more than the last bits of sums."""
FOLDER = "search"
LARGEST = 1024
"""Bytes of a file in the cache."""
BLOCK, ROUNDS, RACE = 0.01, 5, 1.5
"""Seconds of steps that are timed together: on a busy machine some short ones are not disturbed. Two plans
take turns, at least so many times and for so many seconds, unless the new one is behind."""
MOST_STEPS = 1000
GAIN = 0.95
"""A plan is faster if its best and its median time are less than this part of the other's."""
HOPELESS = 3.0
"""A plan whose first step takes so many times as long is dropped at once."""

Switches = list[str]
"""The names of what is switched."""
_known: dict[str, Switches] = {}  # choices of this process, by the names of their files


def searched(
    program: Program,
    options: PlanOptions,
    workspace: Workspace,
    cost: DeviceModel,
    changing: frozenset[Variable] = frozenset(),
    gating: Gating = UNGATED,
) -> PlanOptions:
    """The options of the fastest plan: those found before for an equal program, else found now. Without
    values of all leaves nothing is measured, and a RuntimeWarning names one of them."""
    if not options.search:
        return options
    how = _How(cost, changing, gating.gate is not None)
    name = _name(program, workspace, options, how)
    switches = _known[name] if name in _known else _kept(name)
    if switches is None:
        lacking = [
            v for v in program.leaves if (v in workspace.missing if v in workspace else v.data is None)
        ]
        if lacking:
            text = "has no value yet, so no plan is measured; send values before the plan is built"
            _warn(f"{lacking[0]} {text}")
            return options
        switches = _search(program, workspace, options, how)
        if switches is None:
            return options
        cache.write(FOLDER, name, json.dumps(switches).encode())
    _known[name] = switches
    return reduce(PlanOptions.switched, switches, options)


def _name(program: Program, workspace: Workspace, options: PlanOptions, how: _How) -> str:
    """The name of the file of a choice: equal for programs of equal structure, in every process."""
    leaves, roots = list(program.leaves), list(program.roots)
    numbers = [(leaves.index(leaf), roots.index(new)) for leaf, new in program.updates]
    changing = [k for k, leaf in enumerate(leaves) if leaf in how.changing]
    where = (dressi_version(), workspace.device.key, workspace.limits, how.cost, how.gated)
    key = (*where, options, structure(roots, leaves), numbers, changing)
    return f"{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.json"


def _kept(name: str) -> Switches | None:
    """The choice in the cache; None where there is none, with a RuntimeWarning where it is damaged."""
    data = cache.read(FOLDER, name, LARGEST + 1)
    if data is None:
        return None
    try:
        found = json.loads(data) if len(data) <= LARGEST else None
        if isinstance(found, list) and all(name in SWITCHED for name in found):
            return found
    except (ValueError, RecursionError):
        pass
    _warn(f"the file {name} in the folder {FOLDER!r} of the cache holds no choice of a plan and is ignored")
    return None


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=user_level())


class _How(NamedTuple):
    """What the user's plan is made of but options. gated: whether it is behind a gate."""

    cost: DeviceModel
    changing: frozenset[Variable]
    gated: bool


class _Trials:
    """Runs plans of a program on copies of its leaves. ending: ends what is made here, the latest first."""

    def __init__(self, program: Program, user: Workspace, how: _How, ending: ExitStack):
        self._program, self._how, self._ending = program, how, ending
        self._workspace = Workspace(user.device, user.limits)
        ending.callback(self._workspace.end)
        values = {v: user.read(v).result() if v in user else v.data for v in program.leaves}
        self._workspace.send_many(values)
        self._start = {leaf: values[leaf] for leaf, _ in program.updates}

    def structure(self, options: PlanOptions) -> Hashable:
        """Equal for plans that do the same: Variables are numbered through. Raises PlanError."""
        how = self._how
        limits, every = self._workspace.limits, bool(how.changing)
        plan = build_plan(self._program, limits, shader_text, options, how.cost, how.changing, every=every)
        numbers: dict[str, int] = {}
        text = re.sub(r"#\d+", lambda found: f"#{numbers.setdefault(found[0], len(numbers))}", str(plan))
        return plan.key, text, tuple(plan.images.slots)

    def make(self, options: PlanOptions) -> VulkanExecutor:
        """What runs the plan of these options, behind a gate that is always open where the user's has a gate.
        Raises DressiErrors."""
        workspace, gating = self._workspace, UNGATED
        if self._how.gated:
            flag = Variable(FLOAT, name="open", data=np.ones((1, 1, 1)))
            (image,) = workspace.hold([flag])[flag]
            gate = Gate(workspace.device, workspace.commands, workspace.pipelines, image)
            self._ending.callback(lambda: workspace.device.settle() and gate.destroy())
            workspace.pipelines.release_modules()
            workspace.commands.once(gate.refresh)
            gating = Gating(gate, (gate,))
        more = {"cost": self._how.cost, "changing": self._how.changing, "gating": gating}
        return VulkanExecutor(self._program, workspace.device, options=options, workspace=workspace, **more)

    def faster(self, options: PlanOptions, fastest: VulkanExecutor, deadline: float) -> VulkanExecutor | None:
        """What runs the plan of these options, if it can be built and is faster than the fastest so far."""
        trial = None
        with suppress(DressiError, MemoryError):
            trial = self.make(options)
            if self._is_faster(trial, fastest, deadline):
                return trial
        if trial is not None:
            trial.close()
        return None

    def _is_faster(self, new: VulkanExecutor, old: VulkanExecutor, deadline: float) -> bool:
        one = self.seconds(old, 1)
        if self.seconds(new, 1) > HOPELESS * one + BLOCK:
            return False
        n, times, begun = _steps_in(BLOCK, one), ([], []), time.perf_counter()
        best = usual = 1.0
        while len(times[0]) < ROUNDS or time.perf_counter() < begun + RACE:
            for executor, found in zip((new, old), times, strict=True):
                found.append(self.seconds(executor, n))
            best, usual = (_share(of(times[0]), of(times[1])) for of in (min, median))
            if time.perf_counter() > deadline or (len(times[0]) >= ROUNDS and min(best, usual) > 1.0):
                return False
        return max(best, usual) < GAIN

    def seconds(self, executor: VulkanExecutor, n: int) -> float:
        """Seconds of each of ``n`` steps, after one from the start."""
        self._workspace.send_many(self._start)
        self._run(executor, 1)
        start = time.perf_counter()
        self._run(executor, n)
        return (time.perf_counter() - start) / n

    def _run(self, executor: VulkanExecutor, n: int) -> None:
        """What is sent or changed by other programs before every step is out of date in each."""
        again = self._how.changing if self._program.updates else executor.leaves
        for _ in range(n if again else 1):
            for leaf in again:
                executor.changed(leaf)
            executor.run(1 if again else n)
        self._workspace.commands.wait()


def _steps_in(seconds: float, one: float) -> int:
    """How many steps, of which one takes so long, are timed together. A clock may see no time pass at all."""
    return min(max(int(seconds / max(one, 1e-9)), 1), MOST_STEPS)


def _share(new: float, old: float) -> float:
    """The part of the old time that the new one is; nothing is gained where neither takes any."""
    return new / old if old > 0 else 1.0


def _search(program: Program, workspace: Workspace, options: PlanOptions, how: _How) -> Switches | None:
    """What to switch. None where the given plan itself has no trial, for want of memory perhaps."""
    begun, pace = time.perf_counter(), workspace.device.work.pace
    longest = pace.longest
    try:
        with ExitStack() as ending:
            return _descend(_Trials(program, workspace, how, ending), options, begun)
    except (DressiError, MemoryError):
        return None
    except KeyboardInterrupt as error:
        error.add_note(
            "the search for a plan (PlanOptions.search) was interrupted; the engine can be used, and "
            "searches again"
        )
        raise
    finally:
        pace.longest = longest


def _descend(trials: _Trials, options: PlanOptions, begun: float) -> Switches:
    """Switch one option after the other, from what is the fastest so far."""
    best, deadline = replace(options, search=0.0, adapt=False), begun + options.search
    fastest = trials.make(best)
    trials.seconds(fastest, 1)
    spent, seen, quiet = time.perf_counter() - begun, {trials.structure(best)}, 0
    for name in cycle(SWITCHED):
        if quiet == len(SWITCHED) or time.perf_counter() + spent > deadline:
            break
        quiet += 1
        other = best.switched(name)
        with suppress(DressiError, MemoryError):
            structure = trials.structure(other)
            if structure in seen:
                continue
            seen.add(structure)
            found = trials.faster(other, fastest, deadline)
            if found is not None:
                fastest.close()
                fastest, best, quiet = found, other, 0
    fastest.device.work.check()
    switches = [name for name in SWITCHED if best.runs(name) != options.runs(name)]
    if config.debug >= 1:
        seconds = time.perf_counter() - begun
        print(f"dressi: search: {len(seen)} plans in {seconds:.3g} s; switched: {switches or 'nothing'}")
    return switches
