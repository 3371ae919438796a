"""What the programs of one optimisation share on a device: images of leaves, transient images, commands,
pipelines.

The program of the steps and the programs that only read (``DressiAD.recv``, ``evaluate``) work on the same
images of leaves. Nothing is copied between them. When one of them changes a leaf, it tells the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol, cast

import numpy as np

from ....ad.graph import Variable
from ....ad.graph.program import Program
from ....ad.graph.types import IVEC2
from ....ad.graph.user_code import user_level
from ....errors import GraphError
from ...plan.core.limits import DeviceLimits
from ...plan.core.substage import SubStage
from ...plan.execution.images import NOTHING, ImageSlot, slot_of
from ...plan.execution.plan import Plan
from ...plan.lowering.scatter import Counts, InverseList, counts_of
from ..device.commands import Commands
from ..device.device import Device, close_deferred
from ..device.export import SharedValue
from ..device.memory import DeviceBuffer, DeviceImage, Stored, from_planes, make_image, make_stored, to_planes
from ..device.transfer import Exchange, Readback, Transfers
from ..shaders.pipeline import PipelineCache


class Watcher(Protocol):
    """A program that reads leaves."""

    leaves: frozenset[Variable]

    def changed(self, leaf: Variable) -> None:
        """A leaf of the program has a new value."""

    def check_lengths(self, counts: Counts) -> None:
        """Raises InputError if leaves with lists of these lengths cannot be sent."""

    def close(self) -> None:
        """Release the program's objects."""


MakeExchange = Callable[..., Exchange]
"""``Exchange``, or what makes one between other memory and the images: (commands, images, upload=...)."""


class Inlet:
    """Sends the same leaves without data again and again, for less than ``Workspace.send_many`` costs:
    ``fill``, then ``submit``."""

    def __init__(
        self,
        workspace: Workspace,
        leaves: Sequence[Variable],
        held: Mapping[Variable, list[DeviceImage]],
        make: MakeExchange,
    ):
        self._workspace, self._leaves = workspace, list(leaves)
        images = [image for leaf in leaves for image in held[leaf]]
        self._exchange = make(workspace.commands, images, upload=True)
        self._fill([None] * len(self._leaves))

    def fill(self, values: Sequence[Any]) -> None:
        """Take arrays of the leaves' shapes. Raises InputError."""
        self._exchange.wait()
        self._workspace.counts |= self._workspace.check_lengths(dict(zip(self._leaves, values, strict=True)))
        self._fill(values)

    def _fill(self, values: Sequence[Any]) -> None:
        """None: the texels that no value fills get zeros, once and for all."""
        texels = iter(self._exchange.texels)
        for leaf, array in zip(self._leaves, values, strict=True):
            planes = list(islice(texels, len(leaf.vtype.planes)))
            if array is None:
                for plane in planes:
                    plane[:] = 0
            else:
                to_planes(leaf, array, self._workspace.limits.tiling(leaf), planes, clear=False)

    def submit(self) -> None:
        """Set the leaves, after all steps so far."""
        self._exchange.submit()
        self._workspace.missing.difference_update(self._leaves)
        self._workspace.note(self._leaves)

    def destroy(self) -> None:
        """Release everything. Nothing may be under way."""
        self._exchange.destroy()


class Workspace:
    """Images of leaves, transient images, accumulators. Only one plan runs at a time, so all plans share the
    images and buffers whose contents need not outlive a run."""

    def __init__(self, device: Device, limits: DeviceLimits):
        device.check_thread()
        close_deferred()
        self.device, self.limits, self._closed = device, limits, False
        with device.undo_on_error():
            self.commands = Commands(device)
            self.transfers = Transfers(device, self.commands)
            self.pipelines = PipelineCache(device)
            self.status = DeviceBuffer(device, 4, "status", host=True)
        self.status.mapped[:] = 0
        self._clamped = False  # what ``status`` said when this was closed
        self.missing: set[Variable] = set()  # leaves without data to which nothing was sent
        self._of: dict[Variable, list[DeviceImage]] = {}
        self._moved: set[Variable] = set()  # leaves that may differ from their own data
        self._lists: dict[Variable, list[InverseList]] = {}  # those that are held, by their indices
        self.counts: dict[Variable, int] = {}  # longest lists of the leaves that may be ranges
        self._exported: set[Variable] = set()  # leaves whose images are used outside
        self._shared: list[SharedValue] = []
        self._watchers: list[Watcher] = []
        self._transient: dict[ImageSlot, list[Stored]] = {}  # by slot, without its usage
        self._accumulators: list[DeviceBuffer] = []

    # ---- leaves
    def __contains__(self, leaf: Variable) -> bool:
        return leaf in self._of

    def images(self, variable: Variable) -> list[DeviceImage]:
        """New images for the planes of a Variable, with undefined contents."""
        slot = slot_of(variable, self.limits)
        return [make_image(self.device, slot, str(variable)) for _ in variable.vtype.planes]

    def hold(self, leaves: Iterable[Variable]) -> dict[Variable, list[DeviceImage]]:
        """The images of these leaves. New ones get the leaf's data, or zeros if it has none."""
        leaves = list(leaves)
        new = [v for v in leaves if v not in self._of]
        data = {v: self._present(v) for v in new}
        with self.device.undo_on_error():
            made = {v: self.images(v) for v in new}
            flat = [image for images in made.values() for image in images]
            self.commands.initialize(flat, flat)
        self._of.update(made)
        try:
            self._upload({v: array for v, array in data.items() if array is not None and array.any()})
            self.transfers.trim()
        except BaseException:  # a leaf that is held has its data
            self._drop(made)
            raise
        self.missing.update(v for v in new if v.data is None)
        self.counts |= counts_of({v: array for v, array in data.items() if array is not None})
        for v in new:
            if isinstance(v, InverseList):
                self._lists.setdefault(v.indices, []).append(v)
        return {v: self._of[v] for v in leaves}

    def _present(self, leaf: Variable) -> np.ndarray | None:
        """What a new leaf starts with: its data; lists of indices that were sent follow from these."""
        if isinstance(leaf, InverseList) and leaf.indices in self._moved:
            return leaf.of(self.read(leaf.indices).result())
        return leaf.data

    def lengths(self, leaves: Iterable[Variable]) -> Counts:
        """The longest lists of these leaves as they are or would be held, and of all that are held."""
        new = {v: array for v in leaves if v not in self._of and (array := self._present(v)) is not None}
        return {**self.counts, **counts_of(new)}

    def followers(self, values: Mapping[Variable, np.ndarray]) -> dict[Variable, np.ndarray]:
        """The new values of inverse lists that are held and follow from these leaves. Raises InputError."""
        return {one: one.of(array) for leaf, array in values.items() for one in self._lists.get(leaf, ())}

    def send_many(self, values: Mapping[Variable, Any]) -> None:
        """Set several leaves after all steps so far. Raises GraphError or InputError before any is set."""
        arrays: dict[Variable, np.ndarray] = {}
        for variable, array in values.items():
            if not variable.is_leaf:
                raise GraphError(f"{variable} is computed; only leaves can be sent")
            arrays[variable] = variable.conform(array, copy=False)
        arrays |= self.followers(arrays)
        counts = self.check_lengths(arrays)
        self.hold(arrays)
        self.counts |= counts
        try:
            self._upload(arrays)
            self.missing.difference_update(arrays)
        finally:  # after a ctrl-C the values may be there
            self.note(arrays)

    def check_lengths(self, arrays: Mapping[Variable, np.ndarray]) -> dict[Variable, int]:
        """The lengths of the lists among these. Raises InputError if a program cannot take them."""
        counts = counts_of(arrays)
        for watcher in self._watchers if counts else ():
            watcher.check_lengths({**self.counts, **counts})
        return counts

    def inlet(self, leaves: Sequence[Variable], make: MakeExchange = Exchange) -> Inlet:
        """What sends these leaves together, again and again."""
        return Inlet(self, leaves, self.hold(leaves), make)

    def note(self, leaves: Iterable[Variable], by: Watcher | None = None) -> None:
        """Tell all programs but ``by`` that these leaves have new values."""
        for leaf in leaves:
            self._moved.add(leaf)
            for watcher in self._watchers:
                if watcher is not by and leaf in watcher.leaves:
                    watcher.changed(leaf)

    def read(self, leaf: Variable) -> Readback:
        """The value of a leaf after all work so far. Raises GraphError if nothing was ever sent to it."""
        self._check_sent(leaf)
        return self.download(leaf, self._of[leaf])

    def keep(self, leaf: Variable) -> list[DeviceImage]:
        """The images of a leaf, kept from now on until ``close``. Raises GraphError where it has no value."""
        images = self.hold([leaf])[leaf]
        self._check_sent(leaf)
        self._exported.add(leaf)
        return images

    def share(
        self, v: Variable, images: list[DeviceImage] | None, refresh: Callable[[], object], handle: int | None
    ) -> SharedValue:
        """Memory with the texels of a Variable, kept until ``close``. images: where a computed one lies.
        refresh: brings it up to date."""
        if images is None:
            images = self.hold([v])[v]
            self._exported.add(v)

        def check() -> None:
            if v in self._of:
                self._check_sent(v)
            refresh()

        def changed() -> None:
            if v not in self._of:
                raise GraphError(f"{v} is computed; only leaves can be set from shared memory")
            if v in self._lists or v.vtype is IVEC2:
                raise GraphError(f"the host makes lists of {v}, or counts them; send its values instead")
            self.missing.discard(v)
            self.note([v])

        found = SharedValue(v, images, self.commands, self.limits, check, changed, handle)
        self._shared.append(found)
        return found

    def _check_sent(self, leaf: Variable) -> None:
        if leaf in self.missing:
            raise GraphError(f"nothing was ever sent to {leaf}; send an array or give the Variable data")

    def download(self, variable: Variable, images: list[DeviceImage]) -> Readback:
        """Read the value of a Variable from its images."""
        tiling = self.limits.tiling(variable)
        value = self.transfers.download(images, lambda planes: from_planes(variable, planes, tiling))
        return value.checked(self.warn_of_clamped)

    def _upload(self, arrays: Mapping[Variable, np.ndarray]) -> None:
        def fill(texels: list[np.ndarray]) -> None:
            rest = iter(texels)
            for v, array in arrays.items():
                to_planes(v, array, self.limits.tiling(v), islice(rest, len(self._of[v])))

        if arrays:
            self.transfers.upload([image for v in arrays for image in self._of[v]], fill)

    # ---- programs
    def watch(self, watcher: Watcher) -> None:
        """Tell a program about changes from now on."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Forget a program. Leaves that only it read and that hold their own data give up their images."""
        if watcher not in self._watchers:
            return
        self._watchers.remove(watcher)
        self.release_unchanged(watcher.leaves)

    def release_unchanged(self, leaves: Iterable[Variable]) -> None:
        """``release`` those that still hold their own data."""
        self.release(v for v in leaves if v not in self._moved and v.data is not None)

    def release(self, leaves: Iterable[Variable]) -> None:
        """Destroy the images of those leaves that nothing reads, here or outside; their values are lost."""
        read = self._exported.union(*(w.leaves for w in self._watchers))
        read |= {v.indices for v in read if isinstance(v, InverseList)}
        idle = [v for v in leaves if v in self._of and v not in read]
        if idle and self.device.work.lost is None:
            self.commands.wait()
        self._drop(idle)
        for leaf in idle:
            if isinstance(leaf, InverseList):
                self._lists[leaf.indices].remove(leaf)
        self._moved.difference_update(idle)
        self.missing.difference_update(idle)

    def _drop(self, leaves: Iterable[Variable]) -> None:
        """Forget the images of leaves, and destroy them unless work that may use them does not end."""
        images = [image for leaf in leaves for image in self._of.pop(leaf)]
        if self.device.work.lost is not None or self.device.settle():
            for image in images:
                image.destroy(self.device)

    def transients(self, slots: Mapping[int, ImageSlot], names: Sequence[str]) -> dict[int, Stored]:
        """An image or range for each slot number, which other plans use before and after."""
        stored, lacking = self._match(slots)
        for k in lacking:
            pool = self._transient.setdefault(replace(slots[k], usage=NOTHING), [])
            stored[k] = make_stored(self.device, slots[k], names[k])
            pool.append(stored[k])
        self.commands.initialize([stored[k] for k in lacking], [])
        return stored

    def lacking(self, slots: Mapping[int, ImageSlot]) -> list[int]:
        """The slot numbers for which ``transients`` would make new images."""
        return self._match(slots)[1]

    def _match(self, slots: Mapping[int, ImageSlot]) -> tuple[dict[int, Stored], list[int]]:
        """Images of other plans that can be these slots, and the slot numbers without one."""
        stored: dict[int, Stored] = {}
        lacking = []
        free = {kind: list(pool) for kind, pool in self._transient.items()}
        for k, slot in slots.items():
            pool = free.get(replace(slot, usage=NOTHING), [])
            fitting = [image for image in pool if not slot.usage & ~image.slot.usage]
            if fitting:
                stored[k] = min(fitting, key=lambda image: image.slot.usage.value.bit_count())
                pool.remove(stored[k])
            else:
                lacking.append(k)
        return stored, lacking

    def buffers_of(self, plan: Plan) -> dict[str, DeviceBuffer]:
        """``buffer``: accumulators of the scatters, one by one. ``status``: a flag that shaders set."""
        size = max(plan.counts["buffer_bytes"], 4)
        buffer = self.accumulators(size)
        if buffer is None:
            buffer = DeviceBuffer(self.device, size, "accumulators of scatters", host=False)
            self._accumulators.append(buffer)
            self.commands.zero(buffer)  # every scatter leaves zeros behind
        return {"buffer": buffer, "status": self.status}

    def accumulators(self, size: int) -> DeviceBuffer | None:
        """A buffer for accumulators of so many bytes, if there is one."""
        return next((b for b in self._accumulators if b.size >= size), None)

    def saturated(self) -> bool:
        """Whether a scatter had to clamp values since the last call. Wait for the steps first."""
        if self._closed:
            clamped, self._clamped = self._clamped, False
            return clamped
        status = self.status.mapped.view(np.int32)
        clamped, status[0] = bool(status[0]), 0
        return clamped

    def warn_of_clamped(self) -> None:
        """Warns if a scatter had to clamp values since the last call. Whatever reads values calls it."""
        if self.saturated():
            warnings.warn(
                "a scatter_add met values above its bound, or NaN: they were clamped or left out; give it a larger `bound`, or"
                " none, and look for NaN among its values",
                RuntimeWarning,
                stacklevel=user_level(),
            )

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """If the block raises, all that it made is destroyed and forgotten. It must not change values."""
        lengths = {slot: len(pool) for slot, pool in self._transient.items()}
        count = len(self._accumulators)
        try:
            with self.device.undo_on_error():
                yield
        except BaseException:
            for slot, pool in self._transient.items():
                del pool[lengths.get(slot, 0) :]
            del self._accumulators[count:]
            self.pipelines.modules.clear()  # a plan that is built keeps none
            raise

    def end(self) -> None:
        """Close the remaining programs and this workspace."""
        for watcher in list(self._watchers):
            watcher.close()
        self.close()

    def close(self) -> None:
        """Release everything; values on their way to the host arrive first. If work does not end after a
        ctrl-C, the Device releases it. Idempotent: a generator that the collector ends may close its engine
        twice."""
        if self._closed or not self.device.settle():
            return
        self._clamped = self.saturated()
        self._closed = True
        self.transfers.destroy()
        self.pipelines.save()
        for pool in (*self._of.values(), *self._transient.values()):
            for image in pool:
                image.destroy(self.device)
        for owner in (*self._accumulators, self.status, *self._shared):
            owner.destroy()
        self.device.destroy(self.pipelines.handle)
        self.commands.destroy()


# What the plans of one program share on the device: the images of its outputs outlive every change of plan.

Images = dict[Variable, list[DeviceImage]]


class Store:
    """of: the images of all that can be read: leaves, owned by the workspace, and outputs, owned by this."""

    def __init__(self, program: Program, workspace: Workspace):
        self.workspace, self.device, self.commands = workspace, workspace.device, workspace.commands
        outputs = dict.fromkeys(program.outputs.values())
        self._own: Images = {v: workspace.images(v) for v in outputs if not v.is_leaf}
        self.of: Images = {**workspace.hold(program.leaves), **self._own}
        # Outputs that are read before they are written have zeros.
        readable = [image for images in self._own.values() for image in images]
        self.commands.initialize(readable, readable)

    def images_of(self, plan: Plan) -> tuple[list[Images], dict[SubStage, DeviceImage], list[Stored]]:
        """The images of Variables by schedule of a plan, the depths of SubStages, the plan's own images."""
        slots, numbers, names = plan.images.slots, plan.images.of, plan.images.names
        made: dict[int, Stored] = {}
        for v, images in self.of.items():
            made.update(zip(numbers.get(v, ()), images, strict=False))
        own = sorted(_kept(plan) - set(made))
        new = [made.setdefault(k, make_stored(self.device, slots[k], names[k])) for k in own]
        self.commands.initialize(new, [])
        rest = {k: slot for k, slot in enumerate(slots) if k not in made}
        made |= self.workspace.transients(rest, names)
        # Attachments, samplers and copies ask for images alone; a range is bound where a shader reads a
        # buffer.
        placed = cast(dict[int, DeviceImage], made)
        by_schedule = [{v: [placed[k] for k in of[v]] for v in of} for of in plan.images.by_schedule]
        return by_schedule, {s: placed[k] for s, k in plan.images.depths.items()}, new

    def destroy(self) -> None:
        """Destroy the images of the outputs. The work on them must have ended."""
        for images in self._own.values():
            for image in images:
                image.destroy(self.device)


def _kept(plan: Plan) -> set[int]:
    """Slots with values that must outlive a run."""
    return {k for v in plan.kept for of in plan.images.by_schedule for k in of.get(v, ())}


def check_memory(plan: Plan, workspace: Workspace, held: Container[Variable] = ()) -> None:
    """Raises OutOfMemoryError when the images and accumulators of a plan do not fit into the memory budget,
    before any of them is made. held: outputs that have images; leaves have them in the workspace."""
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
