"""Values read without a step: one small program for each set of Variables asked for, over the leaves of a workspace."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from ...ad.graph import Variable
from ...ad.program import Program
from ...ad.transform.simplify import simplify
from ...ad.traversal import leaves, structure
from .device.transfer import Readback
from .executor import VulkanExecutor

KEPT = 8
"""Programs that are kept ready; the one that was not used for longest makes room."""

MakeExecutor = Callable[[Program], VulkanExecutor]


class Evaluations:
    """Programs without updates: each runs what has changed since it ran last, and nothing where nothing has."""

    def __init__(self, make: MakeExecutor):
        self._make = make
        self._kept: OrderedDict[Hashable, VulkanExecutor] = OrderedDict()

    def read(self, variables: Sequence[Variable]) -> list[Readback]:
        """Computed Variables at the present leaves, queued: nothing waits. Raises GraphError for a leaf without values."""
        return self._read(variables, tuple(leaves(variables)))

    def _read(self, variables: Sequence[Variable], given: Sequence[Variable]) -> list[Readback]:
        executor = self.executor(variables, given)
        executor.run()
        outputs = executor.program.outputs
        return [executor.recv_async(outputs[str(k)]) for k in range(len(variables))]

    def executor(
        self, variables: Sequence[Variable], given: Sequence[Variable] | None = None
    ) -> VulkanExecutor:
        """The program that computes the Variables; an equal graph over the same leaves finds the one made before."""
        given = tuple(leaves(variables)) if given is None else tuple(given)
        key = (given, structure(variables, given))
        if key not in self._kept:
            program = Program({str(k): v for k, v in enumerate(variables)})
            self._kept[key] = self._make(simplify(program))
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)[1].close()
        self._kept.move_to_end(key)
        return self._kept[key]

    def close(self) -> None:
        """Close all of them."""
        while self._kept:
            self._kept.popitem()[1].close()
