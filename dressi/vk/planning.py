"""An engine that plans and runs nothing, for ``--plan`` and predictions on machines without a driver; and
plans under a bound of memory, for which loops keep few states for gradients and recompute others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from ..ad.graph import Variable
from ..ad.graph.program import Part, Procedure, Program
from ..ad.least_squares.objective import Objective
from ..ad.loops.loop import has_loops
from ..ad.loops.parts import in_parts
from ..ad.optim.optimizer import Optimizer
from ..errors import InputError
from .plan.core.limits import DeviceLimits
from .plan.core.options import DEFAULT, PlanOptions
from .plan.execution.images import NOTHING, ImageSlot
from .plan.execution.plan import Plan, TooLarge
from .plan.glsl.writer import ShaderText
from .plan.model.device import DeviceModel


class PlanningEngine:
    """The part of ``dressi.DressiAD`` that describes an optimisation, and its plan.

    limits, model: of the device to plan for; no device is opened. What needs one (``step``, ``send``,
    ``recv``, ...) raises InputError.
    """

    def __init__(
        self,
        limits: DeviceLimits,
        model: DeviceModel,
        shader_text: ShaderText,
        *,
        options: PlanOptions = DEFAULT,
    ):
        self._limits, self._model, self._shader_text, self._options = limits, model, shader_text, options
        self._objective = Objective()
        self._plan: Plan | None = None

    def set_loss(self, loss: Variable, *, record: bool = True) -> None:
        """The FLOAT of one texel to be minimised. record: whether every step computes its value."""
        self._objective.set_loss(loss, record)
        self._plan = None

    def set_optimizer(self, optimizer: Optimizer, parameters: Sequence[Variable]) -> None:
        """What moves which leaves."""
        self._objective.set_optimizer(optimizer, parameters, False)
        self._plan = None

    def set_output(self, name: str, variable: Variable) -> None:
        """Outputs are computed when they are read; the plan of a step has nothing of them."""

    def program(self) -> Program:
        """What a step computes, simplified."""
        return program_within(self._objective, self._options.memory, self._taken)

    @property
    def plan(self) -> Plan:
        """How a step is packed. Raises PlanError where something cannot fit the limits."""
        if self._plan is None:
            self._plan = self._planned(self.program())
        return self._plan

    def _planned(self, program: Program) -> Plan:
        from .plan.compiler import build_plan  # an engine with a device may need none of it

        return build_plan(program, self._limits, self._shader_text, self._options, self._model)

    def _taken(self, program: Program) -> int:
        counts = self._planned(program).counts
        return counts["image_bytes"] + counts["buffer_bytes"]

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """What needs a device."""
        raise InputError("this engine plans and runs nothing; use DressiAD, which opens a device")

    send = recv = evaluate = step = losses = state = restore = _refuse

    def close(self) -> None:
        """Nothing to release."""


def program_within(objective: Objective, memory: int, taken: Callable[[Program], int]) -> Program:
    """The program of a step that takes at most ``memory`` bytes, 0 for any: with the most checkpoints, since
    then the fewest iterations run again. taken: the bytes of a program, or raises TooLarge. Raises TooLarge
    with the least found."""
    program = objective.program()
    if not memory:
        return program
    count, least = objective.iterations, _taken(program, taken)
    if least <= memory:
        return program
    # Any loop has a gradient with two checkpoints, and none takes more than its states and what is made from
    # each.
    few, many, fits = 2, 2 * count, None
    while few <= many:
        checkpoints = (few + many) // 2
        program = objective.program(checkpoints)
        found = _taken(program, taken)
        if found <= memory:
            fits, few = program, checkpoints + 1
        else:
            least, many = min(least, found), checkpoints - 1
    if fits is None:
        after = " even where loops keep 2 states" if count else ", and no loop could compute states again"
        raise TooLarge(least, memory, after)
    return fits


def _taken(program: Program, taken: Callable[[Program], int]) -> int:
    try:
        return taken(program)
    except TooLarge as error:
        return error.bytes


def bytes_in_parts(program: Program, plan: Callable[[Program, frozenset[Variable]], Plan]) -> int:
    """What a program takes on a device: its loops run as parts, which share leaves and transient images.
    plan: plans one part, of which some leaves change between its runs. Raises TooLarge."""
    procedure = in_parts(program) if has_loops(program) else Procedure((Part("step", program),))
    of = {part.program: part for part in reversed(procedure.parts)}
    plans = [plan(one, procedure.changing(part)) for one, part in of.items()]
    shared = Counter[ImageSlot]()
    held = {*procedure.stood_for}.union(*(p.program.leaves for p in plans))
    for each in plans:
        of_leaves = {k for v in each.program.leaves for k in each.images.of.get(v, ())}
        own = [slot for k, slot in enumerate(each.images.slots) if k not in of_leaves and not slot.passing]
        shared |= Counter(replace(slot, usage=NOTHING) for slot in own)
    return (
        sum(map(plans[0].limits.bytes_of, held))
        + sum(slot.bytes * count for slot, count in shared.items())
        + max(p.counts["buffer_bytes"] for p in plans)
    )
