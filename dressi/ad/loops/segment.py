"""Segments: parts of a graph between given values and results, which are put in at several places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import GraphError
from ..graph import Function, Variable
from ..ops.hints import Later
from ..ops.pixel.constant import Constant
from ..ops.pixel.shortcut import AliasBeside
from ..transform.gradient import backward
from ..traversal import rebuilt, topological_order
from ..types import Access

TOGETHER = 4
"""Gradients that one ``After`` waits for: shaders have a limited number of inputs."""


@dataclass(frozen=True, eq=False)
class Segment:
    """Functions between ``formals``, leaves that stand for given values, and ``roots``.

    functions: those that depend on the formals, producers first. captured: Variables from outside that they read.
    """

    formals: tuple[Variable, ...]
    roots: tuple[Variable, ...]
    functions: tuple[Function, ...]
    captured: tuple[Variable, ...]

    @classmethod
    def between(cls, formals: Sequence[Variable], roots: Sequence[Variable]) -> Segment:
        inside = set(formals)
        functions = []
        for f in topological_order(roots):
            if not inside.isdisjoint(f.inputs):
                inside.add(f.output)
                functions.append(f)
        read = dict.fromkeys(x for f in functions for x in f.inputs if x not in inside)
        read |= dict.fromkeys(r for r in roots if r not in inside)
        captured = tuple(x for x in read if not isinstance(x.creator, Constant))
        return cls(tuple(formals), tuple(roots), tuple(functions), captured)

    @property
    def is_local(self) -> bool:
        """Whether every texel of the results depends on the same texel of the given values."""
        return all(
            access is Access.SAME_PIXEL
            for f in self.functions
            for x, access in zip(f.inputs, f.access, strict=True)
            if x not in self.captured
        )

    def at(
        self, given: Sequence[Variable], captured: Mapping[Variable, Variable] | None = None
    ) -> list[Variable]:
        """The roots where the formals have these values. captured: what stands for Variables from outside."""
        known: dict[Variable, Variable] = dict(captured or {})
        known.update(zip(self.formals, given, strict=True))
        rebuilt(self.functions, known)
        return [known.get(r, r) for r in self.roots]

    def joined(self, given: Sequence[Variable], *, again: bool) -> list[Variable]:
        """The roots, whose gradients are taken together, before those of what comes before the segment. again: for them the
        segment is computed again from the given values, instead of being read as it was stored."""
        made = self.at(given)
        shared = Joint(self, None if again else tuple(made))
        return [
            Recomputed(value, *given, *self.captured, joint=shared, number=k).output
            for k, value in enumerate(made)
        ]


@dataclass(frozen=True, eq=False)
class Joint:
    """What the results of one segment at one place share. stored: its roots there, None where they are computed again."""

    segment: Segment
    stored: tuple[Variable, ...] | None

    def pull(
        self, function: Function, gradients: Mapping[Function, Variable], wanted: Sequence[int]
    ) -> dict[int, Variable]:
        """The gradients of the inputs numbered in ``wanted``, from those of the results. function: that makes any of them."""
        count = len(self.segment.formals)
        later = max(gradients.values(), key=lambda g: g.size[0] * g.size[1] * g.tiles)
        given, outside = list(function.inputs[1 : 1 + count]), function.inputs[1 + count :]
        made: Sequence[Variable] | None = self.stored
        if made is None:
            given = [After(x, later).output for x in given]
            made = self.segment.at(given, dict(zip(self.segment.captured, outside, strict=True)))
        inputs = [made[0], *given, *outside]
        seeds: dict[Variable, list[Variable]] = {}
        for f, g in gradients.items():
            assert isinstance(f, Recomputed)
            seeds.setdefault(made[f.number], []).append(g)
        found = backward(seeds, [inputs[i] for i in wanted if i > 0], inputs[1:])
        pulled = {i: found[inputs[i]] for i in wanted if i > 0 and inputs[i] in found}
        # What comes before waits for the gradients of what is captured, which need all that was stored here.
        own = [g for i, g in pulled.items() if i > count and g.creator is not None]
        for i in [i for i in pulled if i <= count]:
            for k in range(0, len(own), TOGETHER):
                pulled[i] = After(pulled[i], *own[k : k + TOGETHER]).output
        return pulled


class Recomputed(AliasBeside):
    """Inputs (value, given..., captured...): the value, with the gradient of its segment at the given values."""

    fields = ("joint", "number")
    joint: Joint
    number: int

    def vjp(self, gy, i):
        raise GraphError("the gradients of a segment's results are taken together")


class After(Later):
    """What the readers compute again is so not computed, and stored, when x is."""

    operations = 0.0
    saves_memory = True
