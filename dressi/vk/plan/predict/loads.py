"""The work of shaders: how many invocations run, what each does and stores, and what that takes on a device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ....ad.graph import Variable
from ..model.device import DeviceModel
from ..substage import SubStage
from .invocation import Invocation


@dataclass(frozen=True)
class Stores:
    """What an invocation writes: texels of attachments, of storage images and of storage buffers, and values that it adds
    with atomics."""

    attachments: float = 0.0
    images: float = 0.0
    buffers: float = 0.0
    atomics: float = 0.0

    @classmethod
    def of(cls, s: SubStage, values: Iterable[Variable]) -> Stores:
        """Of values that a SubStage writes."""
        count = {"attachments": 0.0, "images": 0.0, "buffers": 0.0}
        for v in values:
            kind = "buffers" if v in s.ranges else "attachments" if v in s.colors or s.draws else "images"
            count[kind] += len(v.vtype.planes)
        return cls(**count)

    def times(self, n: float) -> Stores:
        return Stores(n * self.attachments, n * self.images, n * self.buffers, n * self.atomics)

    def seconds(self, model: DeviceModel) -> float:
        """Of one invocation while all lanes are busy, for each of them."""
        return (
            self.attachments / model.store_rate
            + self.images / model.image_store_rate
            + self.buffers / model.buffer_store_rate
            + self.atomics / model.atomic_rate
        )


@dataclass(frozen=True)
class Load:
    """Work of one kind of shader: invocations, what each does, and what it stores.

    dispatched: as compute shader.  vertices, filled: what the fixed-function part transforms, and the pixels of attachments
    that it clears and tests.
    """

    invocations: int
    each: Invocation
    stores: Stores = Stores()
    dispatched: bool = False
    vertices: int = 0
    filled: int = 0

    def seconds(self, model: DeviceModel) -> float:
        """Of work and dependent fetches, whichever takes longer."""
        rate = model.compute_rate if self.dispatched else model.fragment_rate
        one = (
            self.each.operations / rate
            + self.each.fetches / model.fetch_rate
            + self.each.image_loads / model.image_load_rate
            + self.each.loads / model.buffer_fetch_rate
            + self.each.shared / model.shared_rate
            + self.each.products / model.matrix_rate
            + self.stores.seconds(model)
        )
        work = model.rounds(self.invocations) * model.lanes * one
        fixed = self.vertices / model.vertex_rate + self.filled / model.fill_rate
        return max(work, self.each.chain * model.fetch_latency) + fixed
