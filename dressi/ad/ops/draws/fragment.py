"""The sub-graph that a draw runs in every fragment, over the number of the face and the images that it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...graph import Domain, Function, PixelFunction, ReduceFunction, Variable
from ...sub_graph import SubGraph
from ...traversal import reached, topological_order
from ...types import Access

Fragment = Callable[[Variable], tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class FragmentGraph(SubGraph):
    """A graph over the face and the images that fragments read.

    formals: one leaf for each external image of the draw, in order. roots: of a rasterization the depth, FLOAT in [0, 1], and
    maybe a FLOAT mask, 0 where the fragment is discarded; see the kinds of draws. face: INT, the number of the face. z: FLOAT,
    the depth z / w that the rasterizer interpolates at the pixel, where fragments may use it.
    """

    face: Variable
    z: Variable | None = None

    @property
    def depth(self) -> Variable:
        return self.roots[0]

    @property
    def keep(self) -> Variable | None:
        """None keeps all fragments."""
        return self.roots[1] if len(self.roots) > 1 else None

    @property
    def given(self) -> tuple[Variable, ...]:
        """What the rasterizer knows of a fragment: the face, and its depth."""
        return (self.face,) if self.z is None else (self.face, self.z)

    @cached_property
    def fetched(self) -> tuple[bool, ...]:
        """For each formal, whether a Function inside reads it at other texels than that of the fragment."""
        found = {
            x
            for f in self.functions
            for x, a in zip(f.inputs, f.access, strict=True)
            if a is not Access.SAME_PIXEL
        }
        return tuple(x in found for x in self.formals)


def split(
    face: Variable, roots: Sequence[Variable], z: Variable | None = None
) -> tuple[FragmentGraph, tuple[Variable, ...]]:
    """The fragment graph of ``roots``, and the outer Variables that its formals stand for."""
    order = topological_order(roots)
    given = (face,) if z is None else (face, z)
    moving: set[Variable] = {*given}
    free: set[Variable] = set()
    for f in order:
        local = isinstance(f, PixelFunction) and not isinstance(f, ReduceFunction)
        for x, access in zip(f.inputs, f.access, strict=True):
            if x in moving and (access is not Access.SAME_PIXEL or not local):
                raise f.fail(
                    "inside a fragment the face, and what follows from it, can only be used texel by texel, by PixelFunctions"
                )
        if not moving.isdisjoint(f.inputs):
            moving.add(f.output)
            continue
        # It is cheaper to compute constants and coordinates in the fragment than to read them.
        if local and free.issuperset(f.inputs) and _movable(f, face.domain):
            free.add(f.output)
    inner = moving | free

    def inside(v: Variable) -> list[Variable]:
        edges = v.creator.edges if v.creator is not None and v not in given else ()
        return [e.variable for e in edges if e.variable in inner and e.access is Access.SAME_PIXEL]

    needed = reached((r for r in roots if r in inner), inside)
    built: dict[Variable, Variable] = {v: v for v in given}
    formals: dict[Variable, Variable] = {}

    def formal(v: Variable) -> Variable:
        if v not in formals:
            formals[v] = Variable(
                v.vtype, v.size, v.batch, channels=v.channels, name=v.name or f"external{len(formals)}"
            )
        return formals[v]

    for f in order:
        if f.output in needed:
            built[f.output] = f.rebuild(
                *(
                    built[x] if x in inner and a is Access.SAME_PIXEL else formal(x)
                    for x, a in zip(f.inputs, f.access, strict=True)
                )
            ).output
    made = tuple(built[r] if r in inner else formal(r) for r in roots)
    return FragmentGraph(tuple(formals.values()), made, face, z), tuple(formals)


def _movable(f: Function, domain: Domain) -> bool:
    """Whether f has the same values if it is computed in the fragments of ``domain`` instead of in an image of its own."""
    if any(a is not Access.SAME_PIXEL for a in f.access):
        return False
    own = f.output.domain
    same_size = own.size == domain.size or ("pixel" not in f.places and own.size == (1, 1))
    return same_size and (own.tiles == domain.tiles or ("tile" not in f.places and own.tiles == 1))
