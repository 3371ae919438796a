"""Values read without a step: one program for each set of Variables that is asked for, over the leaves of a
workspace."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from ....ad.graph import Variable
from ....ad.program import Program
from ....ad.transform.simplify import simplify
from ....ad.traversal import leaves, structure
from ....errors import GraphError
from ..device.memory import DeviceImage
from ..device.transfer import Readback
from ..executor import VulkanExecutor
from ..steps import Steps, running
from ..workspace import Workspace

KEPT = 8
"""Programs that are kept, the least recently used one being dropped."""

MakeExecutor = Callable[..., VulkanExecutor]
Running = VulkanExecutor | Steps


class Evaluations:
    """Programs without updates. Each computes what is out of date since its last run.

    ``outputs``: Variables by name. Those that are computed share one program, which computes all of them when one is
    asked for. Programs whose images were exported are kept until the end.
    """

    def __init__(self, workspace: Workspace, make: MakeExecutor):
        self.outputs: dict[str, Variable] = {}
        self._workspace, self._make = workspace, make
        self._kept: OrderedDict[Hashable, Running] = OrderedDict()
        self._keys: OrderedDict[tuple[Variable, ...], Hashable] = OrderedDict()
        self._exporting: dict[Running, None] = {}

    @property
    def computed(self) -> list[Variable]:
        """The outputs that are no leaves."""
        return list(dict.fromkeys(v for v in self.outputs.values() if not v.is_leaf))

    def read(self, variables: Sequence[Variable]) -> list[Readback]:
        """Present values, queued: nothing waits. Leaves as they are, everything else is computed together. Raises
        GraphError for a leaf without values."""
        computed = list(dict.fromkeys(v for v in variables if not v.is_leaf))
        found: dict[Variable, Readback] = {}
        if computed:
            executor, stored = self._up_to_date(computed)
            found |= {v: executor.recv_async(stored[v]) for v in computed}
        given = list(dict.fromkeys(v for v in variables if v.is_leaf))
        self._workspace.hold(given)
        found |= {v: self._workspace.read(v) for v in given}
        found = {v: value.then(v.as_given) for v, value in found.items()}
        return [found[v] for v in variables]

    def wait(self) -> None:
        """Wait until all programs are done, whichever is asked: they share the device's commands."""
        for executor in list(self._kept.values())[:1]:
            executor.wait()

    def read_one(self, variable: Variable) -> Readback:
        """The present value of a Variable; of an output, together with the others."""
        if variable.is_leaf:
            return self.read([variable])[0]
        executor, stored = self._up_to_date(self._with_outputs(variable))
        return executor.recv_async(stored[variable]).then(variable.as_given)

    def images(self, variable: Variable) -> list[DeviceImage]:
        """The images that hold a Variable, up to date behind everything queued; they stay until ``close``."""
        if variable.is_leaf:
            return self._workspace.keep(variable)
        executor, stored = self._up_to_date(self._with_outputs(variable))
        self._exporting[executor] = None
        return executor.images(stored[variable])

    def _with_outputs(self, variable: Variable) -> list[Variable]:
        computed = self.computed
        return computed if variable in computed else [variable]

    def _up_to_date(self, variables: Sequence[Variable]) -> tuple[Running, dict[Variable, Variable]]:
        """The program that has computed these, and its own Variables for them."""
        executor = self.executor(variables)
        executor.refresh()
        outputs = executor.program.outputs
        return executor, {v: outputs[str(k)] for k, v in enumerate(variables)}

    @property
    def running(self) -> Running:
        """The program that computes all outputs. Raises GraphError where there are none."""
        if not (computed := self.computed):
            raise GraphError("nothing to compute; call set_loss and set_optimizer, or set_output")
        return self.executor(computed)

    def executor(self, variables: Sequence[Variable]) -> Running:
        """The program that computes the Variables; an equal graph over the same leaves finds the one made before."""
        key = self._key(tuple(variables))
        if key not in self._kept:
            program = Program({str(k): v for k, v in enumerate(variables)})
            self._kept[key] = running(simplify(program), self._workspace, self._make)
            spare = [k for k, executor in self._kept.items() if executor not in self._exporting]
            for old in spare[:-KEPT]:
                self._kept.pop(old).close()
        self._kept.move_to_end(key)
        return self._kept[key]

    def _key(self, variables: tuple[Variable, ...]) -> Hashable:
        """The leaves and the structure of a graph. Kept for the Variables read last: a loss that is read after every
        step is not traversed again, which takes longer than a small step."""
        if variables not in self._keys:
            given = tuple(leaves(variables))
            self._keys[variables] = (given, structure(variables, given))
            if len(self._keys) > KEPT:
                self._keys.popitem(last=False)
        self._keys.move_to_end(variables)
        return self._keys[variables]

    def close(self) -> None:
        """Close all of them."""
        self._exporting.clear()
        self._keys.clear()
        while self._kept:
            self._kept.popitem()[1].close()


def named(outputs: dict[str, Variable], name: str) -> Variable:
    """The Variable of a name. Raises GraphError that lists the names there are."""
    if name not in outputs:
        raise GraphError(f"there is no output {name!r}; there are: {', '.join(outputs) or 'none'}")
    return outputs[name]


def in_form(outputs: Any, read: Callable[[list[Variable]], list[Any]], find: Callable[[Any], Any]) -> Any:
    """What ``read`` makes of Variables, in the form in which a user gave them: one, a sequence or a mapping of them.

    find: turns what stands for a Variable, a name for example, into one. Raises GraphError for anything else."""
    if isinstance(outputs, Mapping):
        return dict(zip(outputs, in_form(list(outputs.values()), read, find), strict=True))
    single = isinstance(outputs, Variable | str)
    given = [outputs] if single else outputs
    found = [find(v) for v in given] if isinstance(given, Sequence) else None
    if found is None or not all(isinstance(v, Variable) for v in found):
        raise GraphError(f"evaluate takes Variables, or a list or dict of them, not {outputs!r}")
    values = read(found)
    return values[0] if single else values
