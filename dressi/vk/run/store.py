"""What the plans of one program share on the device: the images of its outputs outlive every change of plan."""

from __future__ import annotations

from collections.abc import Container
from typing import cast

from ...ad.graph import Variable
from ...ad.program import Program
from ..plan.plan import Plan
from ..plan.substage import SubStage
from .device.memory import DeviceImage, Stored, make_stored
from .workspace import Workspace

Images = dict[Variable, list[DeviceImage]]


class Store:
    """``of``: the images of everything that can be read: leaves, which the workspace owns, and outputs, which this
    owns."""

    def __init__(self, program: Program, workspace: Workspace):
        self.workspace, self.device, self.commands = workspace, workspace.device, workspace.commands
        outputs = dict.fromkeys(program.outputs.values())
        self._own: Images = {v: workspace.images(v) for v in outputs if not v.is_leaf}
        self.of: Images = {**workspace.hold(program.leaves), **self._own}
        # Outputs that are read before they are written have zeros.
        readable = [image for images in self._own.values() for image in images]
        self.commands.initialize(readable, readable)

    def images_of(self, plan: Plan) -> tuple[list[Images], dict[SubStage, DeviceImage], list[Stored]]:
        """The images of all Variables in each schedule of a plan; the depths of SubStages; the images that belong to
        the plan alone."""
        slots, numbers, names = plan.images.slots, plan.images.of, plan.images.names
        made: dict[int, Stored] = {}
        for v, images in self.of.items():
            made.update(zip(numbers.get(v, ()), images, strict=False))
        own = sorted(_kept(plan) - set(made))
        new = [made.setdefault(k, make_stored(self.device, slots[k], names[k])) for k in own]
        self.commands.initialize(new, [])
        rest = {k: slot for k, slot in enumerate(slots) if k not in made}
        made |= self.workspace.transients(rest, names)
        # What attaches, samples or copies a Variable asks for images: a range is bound where a shader reads a buffer.
        placed = cast(dict[int, DeviceImage], made)
        by_schedule = [{v: [placed[k] for k in of[v]] for v in of} for of in plan.images.by_schedule]
        return by_schedule, {s: placed[k] for s, k in plan.images.depths.items()}, new

    def destroy(self) -> None:
        """Destroy the images of the outputs. The work on them must have ended."""
        for image in [image for images in self._own.values() for image in images]:
            image.destroy(self.device)


def _kept(plan: Plan) -> set[int]:
    """Slots with values that must outlive a run."""
    kept = {k for v in plan.kept for k in plan.images.of.get(v, ())}
    return kept | {k for k, slot in enumerate(plan.images.slots) if slot.lasting}


def check_memory(plan: Plan, workspace: Workspace, held: Container[Variable] = ()) -> None:
    """Raises OutOfMemoryError when the images and accumulators of a plan do not fit into the memory budget, before
    any of them is made. held: outputs that have images; leaves have them in the workspace."""
    images = plan.images
    shared = {*plan.program.leaves, *plan.program.outputs.values()}
    there = {k for v in shared if v in workspace or v in held for k in images.of.get(v, ())}
    lasting = _kept(plan) | {k for v in shared for k in images.of.get(v, ())}
    rest = {k: slot for k, slot in enumerate(images.slots) if k not in lasting}
    needed: dict[str, int] = {}
    for k in sorted(lasting - there) + workspace.lacking(rest):
        if not images.slots[k].passing:
            name = images.names[k]
            needed[name] = needed.get(name, 0) + images.slots[k].bytes
    if workspace.accumulators(plan.counts["buffer_bytes"]) is None:
        needed["accumulators of scatters"] = plan.counts["buffer_bytes"]
    workspace.device.memory.expect(needed)
