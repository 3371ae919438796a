"""Flat varyings: the vertex shader computes what is the same in all fragments of a primitive (hoisting)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ....ad.graph import Function, Variable
from ....ad.traversal import reached
from ....ad.types import Access
from .text.writer import Writer, component

FLAT_COMPONENTS = 60  # 15 of the 16 locations that Vulkan guarantees
FACE = "dressi_face"
"""The name of the number of the face in shaders of draws."""
_FIXED = (FACE, "tile")


@dataclass(frozen=True)
class Flat:
    """functions: those that the vertex shader runs, producers first.  values: what it passes on.

    They travel as bits in as few locations as can be, after the face and the tile: CPU drivers load every location for
    every block of pixels, whether it is shaded or not.
    """

    functions: tuple[Function, ...] = ()
    values: tuple[Variable, ...] = ()

    @property
    def locations(self) -> int:
        return -(-(len(_FIXED) + sum(v.vtype.components for v in self.values)) // 4)

    def layouts(self, direction: str) -> list[str]:
        """Declarations; direction: "out" or "in"."""
        return [f"layout(location={k}) flat {direction} ivec4 dressi_flat{k};" for k in range(self.locations)]

    def send(
        self, w: Writer, face: str, tile: str, actual: Mapping[Variable, Variable] | None = None
    ) -> list[str]:
        """Writes the Functions into a vertex shader. Returns the statements that pass the values on."""
        for g in self.functions:
            w.emit(g, dict(actual or {}))
        actual = actual or {}
        parts = [face, tile]
        for v in self.values:
            name = w.names.get(v) or w.value(actual.get(v, v))
            bits = "{}" if v.vtype.is_int else "floatBitsToInt({})"
            parts += [bits.format(component(name, v.vtype, k)) for k in range(v.vtype.components)]
        parts += ["0"] * (-len(parts) % 4)
        return [
            f"dressi_flat{k} = ivec4({', '.join(parts[4 * k : 4 * k + 4])});" for k in range(self.locations)
        ]

    def receive(self, w: Writer, actual: Mapping[Variable, Variable] | None = None) -> list[str]:
        """Statements of a fragment shader that unpack the values; names them in its writer."""
        parts = [f"dressi_flat{k}.{c}" for k in range(self.locations) for c in "xyzw"]
        lines = [f"int {name} = {part};" for name, part in zip(_FIXED, parts, strict=False)]
        start = len(_FIXED)
        for k, v in enumerate(self.values):
            bits = "{}" if v.vtype.is_int else "intBitsToFloat({})"
            own = [bits.format(part) for part in parts[start : start + v.vtype.components]]
            start += len(own)
            w.names[v] = f"dressi_passed{k}"
            if actual and v in actual:
                w.names[actual[v]] = f"dressi_passed{k}"
            lines.append(f"{v.vtype.glsl} dressi_passed{k} = {v.vtype.glsl}({', '.join(own)});")
        return lines


def find_flat(
    functions: Sequence[Function], face: Variable, uniform: Iterable[Variable], roots: Iterable[Variable]
) -> Flat:
    """The Functions of a fragment that depend on the number of the face and on ``uniform`` Variables alone.

    Passed on is what was fetched; what follows from it without another fetch is recomputed in the fragments.
    """
    hoisted, constant = hoist(functions, face, uniform)
    known = {face, *uniform, *(g.output for g in hoisted)}
    inside = set(hoisted)
    read = dict.fromkeys(x for g in functions if g not in inside for x in _at_pixel(g))
    read.update(dict.fromkeys(roots))
    values = [x for x in read if x in known and x is not face]
    for v in reversed(values[:]):
        given = {face, *constant, *values} - {v}
        for g in hoisted:
            if _fetches(g) == 0 and given.issuperset(g.inputs):
                given.add(g.output)
        if v in given:
            values.remove(v)
    while sum(v.vtype.components for v in values) > FLAT_COMPONENTS - len(_FIXED):
        passed = set(values)

        def makers(g: Function, passed: set[Variable] = passed) -> list[Function]:
            return [x.creator for x in g.inputs if x.creator in inside and x not in passed]

        def saved(v: Variable) -> float:
            """Fetches that make a component from the other values."""
            cone = reached([v.creator] if v.creator in inside else [], makers)
            return sum(map(_fetches, cone)) / v.vtype.components

        values.remove(min(values, key=saved))
    return Flat(tuple(needed(functions, [v for v in values if v.creator in inside])), tuple(values))


def hoist(
    functions: Sequence[Function], face: Variable, uniform: Iterable[Variable]
) -> tuple[list[Function], set[Variable]]:
    """The Functions of a fragment that all fragments of a face compute alike, and what they compute from nothing."""
    known, constant = {face, *uniform}, set()
    hoisted: list[Function] = []
    for g in functions:
        if "pixel" in g.places or not all(x in known or x in constant for x in _at_pixel(g)):
            continue
        if all(x in constant for x in g.inputs):
            constant.add(g.output)
        else:
            known.add(g.output)
            hoisted.append(g)
    return hoisted, constant


def needed(
    functions: Sequence[Function], roots: Iterable[Variable], given: Iterable[Variable] = ()
) -> list[Function]:
    """The Functions (producers first) that are needed to make the roots from what is given."""
    given = frozenset(given)
    wanted = set(roots) - given
    found = []
    for g in reversed(functions):
        if g.output in wanted:
            found.append(g)
            wanted.update(x for x in g.inputs if x not in given)
    return found[::-1]


def _at_pixel(g: Function) -> list[Variable]:
    return [x for x, access in zip(g.inputs, g.access, strict=True) if access is Access.SAME_PIXEL]


def _fetches(g: Function) -> int:
    return len(g.inputs) - len(_at_pixel(g))
