"""What the plans of one program share on the device: outputs live here and survive every change of plan."""

from __future__ import annotations

from ...ad.graph import Variable
from ...ad.program import Program
from ..plan.plan import Plan
from ..plan.substage import SubStage
from .device.memory import DeviceImage, make_image
from .workspace import Workspace

Images = dict[Variable, list[DeviceImage]]


class Store:
    """Images of everything that can be read by name (``of``): leaves, which the workspace owns, and outputs."""

    def __init__(self, program: Program, workspace: Workspace):
        self.workspace, self.device, self.commands = workspace, workspace.device, workspace.commands
        outputs = dict.fromkeys(program.outputs.values())
        self._own: Images = {v: workspace.images(v) for v in outputs if not v.is_leaf}
        self.of: Images = {**workspace.hold(program.leaves), **self._own}
        # What can be read before it was written has zeros.
        readable = [image for images in self._own.values() for image in images]
        self.commands.make_general(readable, readable)

    def images_of(self, plan: Plan) -> tuple[list[Images], dict[SubStage, DeviceImage], list[DeviceImage]]:
        """The images of all Variables in each schedule of a plan; depths; and what is the plan's own."""
        slots, numbers = plan.images.slots, plan.images.of
        made = {k: image for v in self.of for k, image in zip(numbers.get(v, ()), self.of[v], strict=False)}
        own = {k for v in plan.kept for k in numbers.get(v, ())} - set(made)
        own |= {k for k, slot in enumerate(slots) if slot.lasting}
        new = [made.setdefault(k, make_image(self.device, slots[k], f"image {k}")) for k in sorted(own)]
        self.commands.make_general(new, [])
        made |= self.workspace.transients({k: slot for k, slot in enumerate(slots) if k not in made})
        by_schedule = [{v: [made[k] for k in of[v]] for v in of} for of in plan.images.by_schedule]
        return by_schedule, {s: made[k] for s, k in plan.images.depths.items()}, list(new)

    def destroy(self) -> None:
        """Release the outputs; nothing of them may be under way."""
        for image in [image for images in self._own.values() for image in images]:
            image.destroy(self.device)
