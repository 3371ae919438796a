"""What the plans of one program share on the device: state lives here and survives every change of plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...ad.graph import Variable
from ...ad.program import Program
from ..plan.lifetime import ImageSlot, slot_of
from ..plan.limits import DeviceLimits
from ..plan.plan import Plan
from ..plan.substage import SubStage
from .commands import Commands
from .device import Device
from .memory import DeviceBuffer, DeviceImage, make_image
from .record import copy_images

Images = dict[Variable, list[DeviceImage]]


class Store:
    """Images of leaves and of everything that can be read by name (``of``), transient images, accumulators.

    Only one plan runs at a time, so what lives within one run can serve all of them.
    """

    def __init__(self, program: Program, device: Device, commands: Commands, limits: DeviceLimits):
        self.device, self.commands, self.limits = device, commands, limits
        named = (*program.leaves, *program.outputs.values(), *program.asked.values())
        self.of: Images = {v: self.images(v) for v in dict.fromkeys(named)}
        self._transient: dict[ImageSlot, list[DeviceImage]] = {}
        self._accumulators: list[DeviceBuffer] = []
        self._aside: dict[Variable, tuple[list[DeviceImage], Any]] = {}  # and the commands that copy there
        self._held: set[Variable] = set()
        self.status = DeviceBuffer(device, 4, "status", host=True)
        self.status.mapped[:] = 0
        # What can be read before it was written has zeros.
        readable = [image for images in self.of.values() for image in images]
        commands.make_general(readable, readable)

    def images(self, variable: Variable) -> list[DeviceImage]:
        """New images of the planes of a Variable, undefined."""
        slot = slot_of(variable, self.limits)
        return [make_image(self.device, slot, str(variable)) for _ in variable.vtype.planes]

    # ---- values that can be read by name
    def readable(self, variable: Variable) -> list[DeviceImage]:
        """Where the value is that a reader should see."""
        return self._aside[variable][0] if variable in self._held else self.of[variable]

    def hold(self, variable: Variable) -> None:
        """Readers see the present value until ``let_go``, whatever is written."""
        if variable in self._held:
            return
        if variable not in self._aside:
            with self.device.undo_on_error():
                images, present = self.images(variable), self.of[variable]
                self.commands.make_general(images, [])
                buffer = self.commands.record(lambda b: copy_images(self.device, b, present, images))
            self._aside[variable] = images, buffer
        self.commands.submit(self._aside[variable][1])
        self._held.add(variable)

    def let_go(self) -> None:
        """Readers see what is written from now on."""
        self._held.clear()

    # ---- for plans
    def images_of(self, plan: Plan) -> tuple[list[Images], dict[SubStage, DeviceImage], list[DeviceImage]]:
        """The images of all Variables in each schedule of a plan; depths; and what is the plan's own."""
        slots, numbers = plan.images.slots, plan.images.of
        made = {k: image for v in self.of for k, image in zip(numbers.get(v, ()), self.of[v], strict=False)}
        own = {k for v in plan.kept for k in numbers.get(v, ())} - set(made)
        own |= {k for k, slot in enumerate(slots) if slot.lasting}
        new = [made.setdefault(k, make_image(self.device, slots[k], f"image {k}")) for k in sorted(own)]
        mine, used = list(new), dict[ImageSlot, int]()
        for k, slot in enumerate(slots):
            if k in made:
                continue
            pool, n = self._transient.setdefault(slot, []), used.get(slot, 0)
            if n == len(pool):
                pool.append(make_image(self.device, slot, f"transient {k}"))
                new.append(pool[-1])
            made[k], used[slot] = pool[n], n + 1
        self.commands.make_general(new, [])
        by_schedule = [{v: [made[k] for k in of[v]] for v in of} for of in plan.images.by_schedule]
        return by_schedule, {s: made[k] for s, k in plan.images.depths.items()}, mine

    def buffers_of(self, plan: Plan) -> dict[str, DeviceBuffer]:
        """``buffer`` for the accumulators of any of the plan's scatters, ``status`` for what shaders report."""
        size = max(plan.counts["buffer_bytes"], 4)
        found = next((b for b in self._accumulators if b.size >= size), None)
        if found is None:
            found = DeviceBuffer(self.device, size, "scatter", host=False)
            self._accumulators.append(found)
            self.commands.zero(found)  # as every scatter leaves it
        return {"buffer": found, "status": self.status}

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """A block that, when it fails, leaves nothing behind, on the device or here."""
        lengths = {slot: len(pool) for slot, pool in self._transient.items()}
        count = len(self._accumulators)
        try:
            with self.device.undo_on_error():
                yield
        except BaseException:
            for slot, pool in self._transient.items():
                del pool[lengths.get(slot, 0) :]
            del self._accumulators[count:]
            raise

    def saturated(self) -> bool:
        """Whether a scatter met values beyond its bound since the last call; of steps that are done."""
        status = self.status.mapped.view(np.int32)
        found, status[0] = bool(status[0]), 0
        return found

    def destroy(self) -> None:
        pools = (
            *self.of.values(),
            *self._transient.values(),
            *(images for images, _ in self._aside.values()),
        )
        for image in [image for images in pools for image in images]:
            image.destroy(self.device)
        for buffer in (*self._accumulators, self.status):
            buffer.destroy()
