"""Runs a Program on a device: plans and builds it, with specialised plans for leaves that change often."""

from __future__ import annotations

import hashlib
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ....ad.graph import Variable
from ....ad.graph.program import Program
from ....ad.show import dot
from ....config import config, shader_path, shader_text
from ....errors import DeviceError, GraphError, InputError, PlanError
from ...plan.analysis.dependencies import copied_by_work
from ...plan.core.limits import DeviceLimits, most_restrictive
from ...plan.core.options import DEFAULT, PlanOptions
from ...plan.execution.plan import Plan, plan_dot
from ...plan.execution.text import NotRead, NotWritten, Writer, read
from ...plan.glsl.writer import stage_of
from ...plan.lowering.scatter import Counts, check_lengths, counts_of
from ...plan.model.device import DeviceModel
from ..device.device import Device
from ..device.memory import DeviceImage
from ..device.transfer import Readback
from ..host import cache as disk
from ..shaders.pyglslang import compile_glsl
from .built import BuiltPlan
from .gate import UNGATED, Gating, can_be_gated, copies_new_values, draws_lists
from .workspace import Store, Workspace, check_memory

ITSELF: Mapping[Variable, Variable] = {}  # every leaf stands for itself
PLANS = 3  # built plans that are kept, for patterns of sends that come back


class VulkanExecutor:
    """``send`` leaves, ``run(n)`` steps, ``recv`` leaves and outputs, ``close``.

    Reactive cache: values that no step changes are computed once; after a ``send`` only those that depend on
    the sent leaves are computed again. Leaves that are sent before every step get a specialised plan, which
    is dropped when the sends stop; leaves and outputs stay in their images. workspace: holds the leaves and
    is shared with other executors; None: the executor has its own. cost: the device model to plan with, by
    default the record of the device's class. changing: leaves that others write before every step. gating:
    gates of the program. Raises PlanError when the program does not fit the limits, OutOfMemoryError when it
    does not fit the memory.
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        *,
        options: PlanOptions = DEFAULT,
        limits: DeviceLimits | None = None,
        cost: DeviceModel | None = None,
        workspace: Workspace | None = None,
        changing: frozenset[Variable] = frozenset(),
        gating: Gating = UNGATED,
    ):
        device.check_thread()
        self.program, self.device = program, device
        self._options, self._cost = options, cost or device.record
        self._limits = workspace.limits if workspace is not None else limits_of(device, limits)
        gated = gating.gate is not None
        if gated:
            self._limits = replace(self._limits, dispatch_base=False)
        self._closed = False
        self._every = bool(changing)
        self._gated = False  # plans copy leaves when a step begins, so that a gate can skip it
        try:
            plan = self._first_plan(changing, workspace, gated=gated)
        except InputError:  # lists grew since the leaves got their data
            self._options = replace(self._options, gather_at_lists=False)
            plan = self._first_plan(changing, workspace, gated=gated)
        self._gating = gating if can_be_gated(plan) else gating._replace(gate=None)
        self.program = plan.program  # may differ: the planner splits scatters and copies leaves
        self._stands_for = {v: self.program.outputs[name] for name, v in program.outputs.items()}
        # Indices that the plan reads through their inverse lists alone can be sent and read all the same.
        self.leaves = frozenset((*program.leaves, *self.program.leaves))
        self._updated = tuple(leaf for leaf, _ in self.program.updates)
        self._owns_workspace = workspace is None
        self.workspace = workspace or Workspace(device, self._limits)
        self.commands = self.workspace.commands
        try:
            check_memory(plan, self.workspace)
            self.workspace.hold(self.program.leaves)
            with self.workspace.undo_on_error():
                self._store = Store(self.program, self.workspace)
                self._built = BuiltPlan(plan, self._store, self._gating, fresh=True)
        except BaseException:
            self.workspace.release_unchanged(self.leaves)
            if self._owns_workspace:
                self.workspace.close()
            raise
        self._plans = OrderedDict({plan.changing: self._built})  # the last one used comes last
        self._reactive = Reactive()
        self._computed = False  # whether a run would find nothing to do
        self._refused: set[frozenset[Variable]] = set()  # could not be built
        self.workspace.watch(self)

    @property
    def plan(self) -> Plan:
        """The plan of the last step, or of the first one."""
        return self._built.plan

    @property
    def missing(self) -> set[Variable]:
        """Leaves of the program to which nothing was ever sent."""
        return self.workspace.missing & self.leaves

    # ---- values
    def send(self, variable: Variable, values: Any) -> None:
        """Set a leaf, after all steps so far. Raises GraphError for other Variables, and for arrays that do
        not fit."""
        self.send_many({variable: values})

    def send_many(self, values: Mapping[Variable, Any]) -> None:
        """Set several leaves in one submission."""
        self._check_open()
        for variable in values:
            if variable.is_leaf and variable not in self.leaves:
                raise GraphError(f"{variable} is not part of this program")
        self.workspace.send_many(values)

    def changed(self, leaf: Variable) -> None:
        """A leaf has a new value, sent or made by another program."""
        self._reactive.sent(leaf)
        self._computed = False
        for built in self._plans.values():
            built.touch(leaf)

    def check_lengths(self, counts: Counts) -> None:
        """Raises InputError if a plan of the program cannot loop over lists of these lengths."""
        for built in self._plans.values():
            check_lengths(built.plan, counts)

    def recv(self, variable: Variable) -> np.ndarray:
        """A leaf (after the last step) or an output (before its update), (batch, H, W) + vtype.shape."""
        return self.recv_async(variable).result()

    def recv_async(self, variable: Variable) -> Readback:
        """``recv`` as a handle. The copy is queued after all work so far; nothing waits for it."""
        self._check_open()
        variable = self._stands_for.get(variable, variable)
        return self.workspace.download(variable, self.images(variable))

    @property
    def executors(self) -> dict[str, VulkanExecutor]:
        """Itself by a name, as ``Steps`` has one for each of its parts."""
        return {"step": self}

    def images(self, variable: Variable) -> list[DeviceImage]:
        """The images of a leaf or output, which every plan uses. Raises GraphError for other Variables."""
        variable = self._stands_for.get(variable, variable)
        if variable in self.leaves:
            return self.workspace.hold([variable])[variable]
        if variable not in self._store.of:
            raise GraphError(f"{variable} is not kept; name it among the outputs to read it")
        return self._store.of[variable]

    # ---- running
    def run(self, n: int = 1) -> None:
        """Queue ``n`` steps in few submissions; reading waits for them."""
        self._check_open()
        if n < 1:
            return
        self._check_sent()
        if self._options.cache_static and self._options.adapt:
            self._use(self._reactive.step(n, self.plan.movable))
        try:
            self._built.run(n)
            self._computed = not self._updated
        finally:  # after a ctrl-C some of the steps may run
            self.workspace.note(self._updated, by=self)

    def refresh(self) -> None:
        """Queue a step unless all outputs have their present values."""
        if not self._computed:
            self.run()

    def built(self, at: Mapping[Variable, Variable] = ITSELF) -> BuiltPlan:
        """What ``run`` would submit, for callers that submit several programs at once. at: leaves of the
        program -> others whose images it uses; all of them are ``changing``. Raises as ``run``."""
        self._check_open()
        self._check_sent(at)
        held = self.workspace.hold(at.values())
        return self._built.at({leaf: held[other] for leaf, other in at.items()}) if at else self._built

    def _check_sent(self, at: Mapping[Variable, Variable] = ITSELF) -> None:
        missing = self.missing | self.workspace.missing.intersection(at.values())
        if missing:
            names = ", ".join(str(v) for v in sorted(missing, key=lambda v: v.id))
            raise GraphError(f"nothing was ever sent to {names}; send an array or give the Variable data")

    def wait(self) -> None:
        """Wait until all steps are done. Warns when a scatter had to clamp values beyond its bound."""
        self.commands.wait()
        self.workspace.warn_of_clamped()

    # ---- plans
    def _first_plan(self, changing: frozenset[Variable], workspace: Workspace | None, *, gated: bool) -> Plan:
        """A plan whose loops over lists the device can run. Raises InputError."""
        plan = self._gatable(self._plan(changing)) if gated else self._plan(changing)
        leaves = plan.program.leaves
        own = {v: v.data for v in leaves if v.data is not None}
        check_lengths(plan, counts_of(own) if workspace is None else workspace.lengths(leaves))
        return plan

    def _gatable(self, plan: Plan) -> Plan:
        """A plan that a gate can switch off, in place of one whose new values are copied; if there is one."""
        if not copies_new_values(plan) or draws_lists(plan):
            return plan
        # A dispatch computes new values on the side.
        packed, without = self._options, (*self._options.without, "fuse_horizontally")
        self._options = replace(packed, without=without)
        plan = self._plan(plan.changing)
        if copies_new_values(plan):
            # One dispatch reads leaves at other texels and computes their new values.
            self._options, self._gated = packed, True
            plan = self._plan(plan.changing)
        if copies_new_values(plan) and self._options.runs("update_in_place"):
            # Register tiles and draws do not write into leaves: work on pixels copies what they make, one
            # dispatch more.
            self.program = copied_by_work(self.program, {leaf for leaf, _ in plan.step.copies})
            plan = self._plan(plan.changing)
        return plan

    def _plan(self, changing: frozenset[Variable]) -> Plan:
        how = self._limits, self._options, self._cost
        plan = planned(self.program, *how, changing, self._gated, self._every)
        _debug(plan, self.device)
        return plan

    def _use(self, changing: frozenset[Variable]) -> None:
        """Run the plan for these changing leaves from now on; the present one if it cannot be built."""
        if changing == self.plan.changing or changing in self._refused:
            return
        if changing not in self._plans:
            try:
                plan = self._plan(changing)
                if plan.program is not self.program:
                    raise PlanError("its scatters would have to be done in other parts")
                check_lengths(plan, self.workspace.counts)
                check_memory(plan, self.workspace, self._store.of)
                with self.workspace.undo_on_error():
                    built = BuiltPlan(plan, self._store, self._gating)
            except (PlanError, DeviceError, InputError) as error:
                self._refused.add(changing)
                if config.debug >= 1:
                    print(f"dressi: the plan stays as it is: {error}")
                return
            self._plans[changing] = built
        self._plans.move_to_end(changing)
        self._built = self._plans[changing]
        while len(self._plans) > PLANS:
            self.commands.wait()
            self._plans.popitem(last=False)[1].destroy()

    def record_step(self, begin: Callable[[Any], None], after_stage: Callable[[Any, int], None]) -> list[Any]:
        """The command buffers of a step before which nothing was sent. ``begin(buffer)`` is called before all
        else, ``after_stage(buffer, number)`` after each Stage."""
        return self._built.record_step(begin, after_stage)

    # ---- the end
    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this executor is closed")
        self.device.check_thread()

    def close(self) -> None:
        """Release everything on the device. Idempotent. Values on their way to the host arrive first."""
        if self._closed:
            return
        self._closed = True
        if not self.device.settle():
            return
        self.workspace.unwatch(self)
        for built in self._plans.values():
            built.destroy()
        self._store.destroy()
        if self._owns_workspace:
            self.workspace.close()

    def __enter__(self) -> VulkanExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def limits_of(device: Device, imposed: DeviceLimits | None) -> DeviceLimits:
    """The limits of a device, made smaller by others."""
    return device.limits if imposed is None else most_restrictive(device.limits, imposed)


def _debug(plan: Plan, device: Device) -> None:
    """Print and write what DRESSI_DEBUG and DRESSI_DUMP ask for."""
    if config.dump:
        folder, key = Path(config.dump), plan.key[:12]
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"plan.txt": str(plan), "plan.dot": plan_dot(plan), "graph.dot": dot(plan.program)}
        for k, s in enumerate(plan.sub_stages):
            for part, source in plan.shaders[s].sources.items():
                texts[f"{k:03d}.{part}.glsl"] = source
                code = compile_glsl(source, stage_of(part), part, matrices=plan.shaders[s].matrices)
                (folder / f"{key}.{k:03d}.{part}.spv").write_bytes(code)
        for name, text in texts.items():
            (folder / f"{key}.{name}").write_text(text, encoding="utf-8")
    if config.debug >= 1:
        print(f"dressi: {device.name}: {str(plan).splitlines()[0]}")
    if config.debug >= 3:
        print(plan)
    if config.debug >= 4:
        for shaders in plan.shaders.values():
            print("\n".join(shaders.sources.values()))


# Which leaves are sent before every step (second half of the reactive cache; paper, figure 3).
#
# At first every leaf counts as static: a plan stores the values that depend on it alone and computes them
# again only when it is sent. If a leaf is sent before every step, it is better planned as *changing*: those
# values are then packed together with the step. When the sends stop, the same plan skips them at once; after
# more steps without a send the leaf becomes static.

PROMPT = 4  # consecutive steps, each after a send, from which on a leaf is changing
PATIENCE = 32  # steps without a send after which a changing leaf becomes static; doubles with every change


class Reactive:
    """Counts sends and steps. ``changing``: the leaves to plan as changing now. The patience with a leaf
    doubles, so it changes at most log2(steps / PATIENCE) times, whatever the pattern of sends."""

    def __init__(self) -> None:
        self.changing: frozenset[Variable] = frozenset()
        self._sent: set[Variable] = set()  # since the last step
        self._streak: dict[Variable, int] = {}  # steps in a row, of leaves sent before the last one
        self._quiet: dict[Variable, int] = {}  # steps since the last send, of changing leaves
        self._patience: dict[Variable, int] = {}

    def sent(self, leaf: Variable) -> None:
        """A leaf has new values."""
        self._sent.add(leaf)

    def step(self, n: int, movable: Container[Variable]) -> frozenset[Variable]:
        """``n`` steps follow: returns ``changing`` for them. Only ``movable`` leaves become changing."""
        ready = {leaf for leaf in self._sent if self._streak.get(leaf, 0) >= PROMPT and leaf in movable}
        bored = {leaf for leaf, quiet in self._quiet.items() if quiet >= self._patience[leaf]} - self._sent
        for leaf in ready - self.changing:
            self._patience[leaf] = 2 * self._patience.get(leaf, PATIENCE // 2)
        if ready or bored:
            self.changing = (self.changing | ready) - bored
        self._streak = {leaf: self._streak.get(leaf, 0) + 1 for leaf in self._sent} if n == 1 else {}
        self._quiet = {
            leaf: n - 1 if leaf in self._sent else self._quiet.get(leaf, 0) + n for leaf in self.changing
        }
        self._sent.clear()
        return self.changing


# Plans kept on disk: a program is planned once for a device, by the first process that builds it.
#
# The name of an entry is a digest of all that a plan is made from: the structure of the program, the limits and
# the model of the device, the options, and the version of dressi's sources. An entry that is damaged, or that
# this version cannot read, is made again. With DRESSI_CHECK, and with DRESSI_DEBUG=2, which shows the passes,
# every plan is made anew and none is kept; DRESSI_CHECK also compares each with what its text gives back.

FOLDER = "plans"
Given = tuple[Program, DeviceLimits, PlanOptions, DeviceModel, frozenset[Variable], bool, bool]
"""What a plan is made from: with the model of the device, the leaves that change, and whether there are gates and
whether every value is kept, as in ``build_plan``."""
MOST = 64 << 20
"""Bytes of all plans together; those that were used last are kept."""
LARGEST = 8 << 20
"""Bytes of one."""


def anew(*given: *Given) -> Plan:
    """``build_plan`` of the same. Its module is slow to import, and kept plans do not need it."""
    from ...plan.compiler import build_plan

    program, limits, options, cost, changing, gated, every = given
    plan = build_plan(program, limits, shader_text, options, cost, changing, gated=gated, every=every)
    if config.check:
        _check(plan, given)
    return plan


def planned(*given: *Given) -> Plan:
    """The plan that ``anew`` makes, from the cache if it is there. Raises PlanErrors."""
    if config.cache is None or config.debug >= 2 or config.check:
        return anew(*given)
    writer = Writer()
    try:
        name = f"{writer.digest(*given, sources())}.json"
    except NotWritten:
        return anew(*given)
    plan = _kept(name, tuple(writer.objects))
    if plan is None:
        plan = anew(*given)
        with suppress(NotWritten):
            text = writer.text(plan).encode()
            if len(text) <= LARGEST:
                disk.save(FOLDER, name, text, durable=False)
                disk.shrink(FOLDER, MOST)
    return plan


def _kept(name: str, objects: Sequence[Any]) -> Plan | None:
    """The plan in the cache; None where there is none."""
    data = disk.load(FOLDER, name)
    if data is None:
        return None
    try:
        plan = read(data.decode(), objects)
    except (NotRead, UnicodeDecodeError):
        return None
    disk.touch(FOLDER, name)
    return plan if isinstance(plan, Plan) else None


def _check(plan: Plan, given: Sequence[Any]) -> None:
    """Raises PlanError if what the text of a plan gives back is another plan."""
    first, second = Writer(), Writer()
    try:
        first.digest(*given)
        objects = tuple(first.objects)
        text = first.text(plan)
    except NotWritten:
        return
    second.digest(*given)
    if second.text(read(text, objects)) != text:
        raise PlanError("a plan that was read from its text differs from it; please report the program")


@cache
def sources() -> str:
    """A digest of all that decides about plans: the versions of Python and dressi, and dressi's files, which
    change in a checkout while the version stays."""
    package = sys.modules[__name__.partition(".")[0]]
    root = Path(package.__file__ or "").parent
    lines = [sys.version, package.__version__]
    for folder in (root / "ad", root / "render", root / "vk" / "plan", shader_path("face.glsl").parent):
        lines += _files(str(folder))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _files(folder: str) -> Iterator[str]:
    """Path, length and time of each file of Python or GLSL, in the order of their names."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.endswith((".py", ".glsl")):
            status = entry.stat()
            yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _files(entry.path)
