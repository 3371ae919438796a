"""What the programs of one optimisation share on a device: the values of leaves, scratch memory, commands, pipelines.

A program that steps and those that only read (``DressiAD.recv``, ``evaluate``) work on the same leaves: nothing is
copied between them, and what one of them changes is out of date for the others at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from ...ad.graph import Variable
from ...errors import GraphError
from ..plan.images import NOTHING, ImageSlot, slot_of
from ..plan.limits import DeviceLimits
from ..plan.plan import Plan
from .device.commands import Commands
from .device.deferred import close_deferred
from .device.device import Device
from .device.memory import DeviceBuffer, DeviceImage, from_planes, make_image, to_planes
from .device.transfer import Readback, Transfers
from .shaders.pipeline import PipelineCache


class Watcher(Protocol):
    """A program over the leaves."""

    leaves: frozenset[Variable]

    def changed(self, leaf: Variable) -> None:
        """One of its leaves has a new value."""

    def close(self) -> None:
        """Release what it has on the device."""


class Workspace:
    """Images of leaves, transient images, accumulators. Only one plan runs at a time, so what lives within one run
    serves all of them."""

    def __init__(self, device: Device, limits: DeviceLimits):
        device.check_thread()
        close_deferred()
        self.device, self.limits = device, limits
        with device.undo_on_error():
            self.commands = Commands(device)
            self.transfers = Transfers(device, self.commands)
            self.pipelines = PipelineCache(device)
            self.status = DeviceBuffer(device, 4, "status", host=True)
        self.status.mapped[:] = 0
        self.missing: set[Variable] = set()  # leaves to which nothing was sent
        self._of: dict[Variable, list[DeviceImage]] = {}
        self._moved: set[Variable] = set()  # leaves that may differ from their own data
        self._exported: set[Variable] = set()  # leaves whose images are used outside
        self._watchers: list[Watcher] = []
        self._transient: dict[ImageSlot, list[DeviceImage]] = {}  # by slot, without its usage
        self._accumulators: list[DeviceBuffer] = []

    # ---- leaves
    def __contains__(self, leaf: Variable) -> bool:
        return leaf in self._of

    def images(self, variable: Variable) -> list[DeviceImage]:
        """New images of the planes of a Variable, undefined."""
        slot = slot_of(variable, self.limits)
        return [make_image(self.device, slot, str(variable)) for _ in variable.vtype.planes]

    def hold(self, leaves: Iterable[Variable]) -> dict[Variable, list[DeviceImage]]:
        """The images of these leaves; new ones hold the leaf's data, or zeros until something is sent."""
        leaves = list(leaves)
        new = [v for v in leaves if v not in self._of]
        with self.device.undo_on_error():
            made = {v: self.images(v) for v in new}
            flat = [image for images in made.values() for image in images]
            self.commands.initialize(flat, flat)
        self._of.update(made)
        self.missing.update(v for v in new if v.data is None)
        self._upload({v: v.data for v in new if v.data is not None and v.data.any()})
        return {v: self._of[v] for v in leaves}

    def send_many(self, values: Mapping[Variable, Any]) -> None:
        """Set several leaves in one submission, behind all steps so far. All or none. Raises GraphError."""
        arrays: dict[Variable, np.ndarray] = {}
        for variable, array in values.items():
            if not variable.is_leaf:
                raise GraphError(f"{variable} is computed; only leaves can be sent")
            arrays[variable] = variable.conform(array, copy=False)
        self.hold(arrays)
        self._upload(arrays)
        self.missing.difference_update(arrays)
        self.note(arrays)

    def note(self, leaves: Iterable[Variable], by: Watcher | None = None) -> None:
        """These leaves have new values: whoever else reads them is out of date."""
        for leaf in leaves:
            self._moved.add(leaf)
            for watcher in self._watchers:
                if watcher is not by and leaf in watcher.leaves:
                    watcher.changed(leaf)

    def read(self, leaf: Variable) -> Readback:
        """The value of a leaf behind everything so far. Raises GraphError where there is none."""
        self._check_sent(leaf)
        return self.download(leaf, self._of[leaf])

    def keep(self, leaf: Variable) -> list[DeviceImage]:
        """The images of a leaf, which stay from now on until ``close``. Raises GraphError where it has no value."""
        images = self.hold([leaf])[leaf]
        self._check_sent(leaf)
        self._exported.add(leaf)
        return images

    def _check_sent(self, leaf: Variable) -> None:
        if leaf in self.missing:
            raise GraphError(f"nothing was ever sent to {leaf}; send an array or give the Variable data")

    def download(self, variable: Variable, images: list[DeviceImage]) -> Readback:
        """A value that lies in these images."""
        tiling = self.limits.tiling(variable)
        return self.transfers.download(images, lambda planes: from_planes(variable, planes, tiling))

    def _upload(self, arrays: Mapping[Variable, np.ndarray]) -> None:
        def fill(texels: list[np.ndarray]) -> None:
            rest = iter(texels)
            for v, array in arrays.items():
                to_planes(v, array, self.limits.tiling(v), islice(rest, len(self._of[v])))

        if arrays:
            self.transfers.upload([image for v in arrays for image in self._of[v]], fill)

    # ---- programs
    def watch(self, watcher: Watcher) -> None:
        """Tell a program from now on what changes."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """A program has ended: leaves that only it read, and that hold their own data still, need no image."""
        if watcher not in self._watchers:
            return
        self._watchers.remove(watcher)
        self.release(v for v in watcher.leaves - self._moved if v.data is not None)

    def release(self, leaves: Iterable[Variable]) -> None:
        """Give up the images, and the values, of leaves that no program reads, here or outside."""
        read = self._exported.union(*(w.leaves for w in self._watchers))
        idle = [v for v in leaves if v in self._of and v not in read]
        if idle and self.device.work.lost is None:
            self.commands.wait()
        for leaf in idle:
            for image in self._of.pop(leaf):
                image.destroy(self.device)
        self._moved.difference_update(idle)
        self.missing.difference_update(idle)

    def transients(self, slots: Mapping[int, ImageSlot], names: Sequence[str]) -> dict[int, DeviceImage]:
        """An image for each slot number, which other plans use before and after."""
        found, lacking = self._match(slots)
        for k in lacking:
            pool = self._transient.setdefault(replace(slots[k], usage=NOTHING), [])
            found[k] = make_image(self.device, slots[k], names[k])
            pool.append(found[k])
        self.commands.initialize([found[k] for k in lacking], [])
        return found

    def lacking(self, slots: Mapping[int, ImageSlot]) -> list[int]:
        """The slot numbers for which ``transients`` would make new images."""
        return self._match(slots)[1]

    def _match(self, slots: Mapping[int, ImageSlot]) -> tuple[dict[int, DeviceImage], list[int]]:
        """Images of other plans that may be used for all that these slots are, and the slot numbers without one."""
        found: dict[int, DeviceImage] = {}
        lacking = []
        free = {kind: list(pool) for kind, pool in self._transient.items()}
        for k, slot in slots.items():
            pool = free.get(replace(slot, usage=NOTHING), [])
            fitting = [image for image in pool if not slot.usage & ~image.slot.usage]
            if fitting:
                found[k] = min(fitting, key=lambda image: image.slot.usage.value.bit_count())
                pool.remove(found[k])
            else:
                lacking.append(k)
        return found, lacking

    def buffers_of(self, plan: Plan) -> dict[str, DeviceBuffer]:
        """``buffer`` for the accumulators of any of the plan's scatters, ``status`` for what shaders report."""
        size = max(plan.counts["buffer_bytes"], 4)
        found = self.accumulators(size)
        if found is None:
            found = DeviceBuffer(self.device, size, "accumulators of scatters", host=False)
            self._accumulators.append(found)
            self.commands.zero(found)  # as every scatter leaves it
        return {"buffer": found, "status": self.status}

    def accumulators(self, size: int) -> DeviceBuffer | None:
        """A buffer for accumulators of so many bytes, if there is one."""
        return next((b for b in self._accumulators if b.size >= size), None)

    def saturated(self) -> bool:
        """Whether a scatter met values beyond its bound since the last call; of steps that are done."""
        status = self.status.mapped.view(np.int32)
        found, status[0] = bool(status[0]), 0
        return found

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """A block that, when it fails, leaves nothing behind, on the device or here. It must not move values."""
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

    def end(self, with_device: bool) -> None:
        """Close the programs that are left, this, and where asked for the device."""
        for watcher in list(self._watchers):
            watcher.close()
        self.close()
        if with_device:
            self.device.close()

    def close(self) -> None:
        """Release everything; values on their way to the host arrive first. What a ctrl-C left under way is left to the
        device's end."""
        if not self.device.settle():
            return
        self.transfers.destroy()
        self.pipelines.save()
        for pool in (*self._of.values(), *self._transient.values()):
            for image in pool:
                image.destroy(self.device)
        for buffer in (*self._accumulators, self.status):
            buffer.destroy()
        self.device.destroy(self.pipelines.handle)
        self.commands.destroy()
