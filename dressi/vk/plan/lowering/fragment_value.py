"""Values that follow from a raster, computed by the fragments that draw it (epilogue fusion of draws).

A raster writes the number of a face, and Functions at the same pixel make of it a distance, a coverage, a
colour. Where no face covers a pixel such values often are constants. If faces cover few pixels, as quads
around silhouettes do, their fragments compute the values, and the images are cleared to the constants:

    edge  -1 -1  7  7 -1   ->   select(edge >= 0, falloff(distance(edge)), 0)   0 0 .3 .8 0

The last fragment that passes the depth test writes number and values together. Not fused are values that only
scatters under the raster need, which visit few pixels as well, and those that are cheaper to make from the
number than to clear and to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from ....ad.graph import (
    Domain,
    Function,
    PixelFunction,
    RasterFunction,
    ReduceFunction,
    ScatterFunction,
    Variable,
)
from ....ad.graph.program import Program
from ....ad.graph.types import INT, Access, VType
from ....ad.ops.image.coordinates import fetch
from ....ad.ops.image.draws import FragmentGraph, split
from ....ad.transform.rewrite import mapped, replaced, rewrite, substitute
from ..analysis.context import Target
from ..analysis.dependencies import Dependencies, Leaves
from ..analysis.known_values import HIT_NOTHING, KnownValues, adds_nothing
from ..analysis.rematerialization import is_constant
from ..core.lists import LISTED
from ..model.device import DeviceModel, fetches, operations, planes


class FragmentValue(Function):
    """Inputs (raster, *externals): root ``number`` of a graph over the number of the winning face where a
    face covers the pixel, else ``background``. The subpass that draws the raster writes it."""

    fields = ("graph", "number", "background")
    operations = 0.0  # those of the graph count
    no_derivative = "is made when a plan is built; take derivatives of what it stands for"
    graph: FragmentGraph
    number: int
    background: tuple[float, ...]

    @property
    def raster(self) -> RasterFunction:
        raster = self.inputs[0].creator
        assert isinstance(raster, RasterFunction), f"{raster!r} draws nothing"
        return raster

    @property
    def root(self) -> Variable:
        return self.graph.roots[self.number]

    @property
    def actual(self) -> dict[Variable, Variable]:
        """The image that each formal input of the graph stands for."""
        return dict(zip(self.graph.formals, self.inputs[1:], strict=True))

    @property
    def everywhere(self) -> Variable:
        """The same value from the number of the face by Functions at each pixel."""
        return substitute([self.root], {self.graph.face: self.inputs[0], **self.actual})[0]

    @cached_property
    def access(self):
        fetched = (Access.FETCH if f else Access.SAME_PIXEL for f in self.graph.fetched)
        return (Access.SAME_PIXEL, *fetched)

    def reads(self, k: int) -> float:
        """Texels of an external."""
        formal = self.graph.formals[k - 1] if k else self.graph.face
        return sum(f.reads(n) for f in self.graph.functions for n, x in enumerate(f.inputs) if x is formal)

    @property
    def iterations(self) -> int:
        return sum(f.iterations for f in self.graph.functions)

    @property
    def places(self) -> frozenset[str]:
        return frozenset(("pixel",))

    def infer(self) -> tuple[VType, Domain]:
        return self.root.vtype, self.inputs[0].domain

    def known_value(self, known):
        return self.missed if 0 in known and known[0] < 0 else None

    @property
    def missed(self) -> np.ndarray:
        """The value where no face covers the pixel."""
        return np.reshape(self.background, self.root.vtype.shape)

    def evaluate(self, at, face, *externals):
        given = dict(zip(self.graph.formals, zip(externals, self.graph.fetched, strict=True), strict=True))

        def read(v: Variable, access: Access) -> np.ndarray:
            values, whole = (face, False) if v is self.graph.face else given[v]
            return fetch(values, at) if whole and access is Access.SAME_PIXEL else values

        inside = replace(self.graph, roots=(self.root,))
        (values,) = inside.evaluate(at, read, np.result_type(*externals, np.float32))
        covered = np.reshape(face >= 0, (*face.shape, *(1 for _ in self.root.vtype.shape)))
        return np.where(covered, values, self.missed)


_READ = (Access.SAME_PIXEL, Access.FETCH)


def fuse_into_draws(program: Program, target: Target) -> Program:
    """The program with FragmentValues of rasters that draw a list of live faces, where that is faster."""
    limits, model, options, changing = target
    drawn = [f.output for f in program.functions if isinstance(f, RasterFunction) and f.masked and f.fragment]
    known = KnownValues(())
    for k in range(len(drawn) if options.runs("fuse_into_draws") else 0):
        if known.functions != program.functions:
            known = KnownValues(program.functions)
        following = _Following(program, drawn[k], model, known)
        values = following.worth_fusing()
        if options.cache_static:
            values = _made_at_once(values, drawn[k], program, changing)
        if values and 1 + planes(values) <= limits.max_color_attachments:
            rewriting = rewrite(program.roots, (), _fused(drawn[k], {v: following.known[v] for v in values}))
            program, drawn = mapped(program, rewriting), [rewriting[v] for v in drawn]
    return program


def without(program: Program, raster: Variable) -> Program:
    """The program with Functions at each pixel instead of the FragmentValues of a raster."""
    fused = [f for f in program.functions if isinstance(f, FragmentValue) and f.inputs[0] is raster]
    return replaced(program, {f.output: f.everywhere for f in fused})


def _made_at_once(
    values: list[Variable], raster: Variable, program: Program, changing: Leaves
) -> list[Variable]:
    """The values that a step computes anew exactly if it draws the raster anew."""
    moving = changing.union(leaf for leaf, _ in program.updates)
    dependencies = Dependencies(program.functions)
    static = [moving.isdisjoint(dependencies.of(v)) for v in (raster, *values)]
    return [v for v, own in zip(values, static[1:], strict=True) if own == static[0]]


def _fused(raster: Variable, backgrounds: Mapping[Variable, np.ndarray]) -> dict[Variable, Variable]:
    """The FragmentValues of a raster, by what they stand for. Their graph shares Functions with its depth."""
    f = raster.creator
    assert isinstance(f, RasterFunction)
    own: FragmentGraph = f.fragment
    face = own.face
    if face.domain != raster.domain:
        face = Variable(INT, raster.size, raster.batch, channels=raster.channels, name="face")
    graph, externals = split(face, substitute(list(backgrounds), {raster: face}))
    known = dict(zip(f.externals, own.formals, strict=True))
    shared = {old: known[x] for old, x in zip(graph.formals, externals, strict=True) if x in known}
    same = rewrite((*own.roots, *graph.roots), (), shared)
    graph = FragmentGraph(tuple(same[v] for v in graph.formals), tuple(same[v] for v in graph.roots), face)
    values = {}
    for k, (v, missed) in enumerate(backgrounds.items()):
        background = tuple(np.ravel(missed).tolist())
        values[v] = FragmentValue(raster, *externals, graph=graph, number=k, background=background).output
    return values


class _Following:
    """What follows from a raster at its own pixels.

    known: values that are known where no face covers a pixel.  inside: values that a fragment can compute, by
    Functions of the raster's domain, from the number of its face and from what does not depend on it.
    """

    def __init__(self, program: Program, raster: Variable, model: DeviceModel, known: KnownValues):
        self.program, self.raster, self.model = program, raster, model
        (self.known,) = known.around({raster: HIT_NOTHING}, 0)
        depends, self.inside = {raster}, {raster}
        for f in program.functions:
            if depends.isdisjoint(f.inputs):
                continue
            depends.add(f.output)
            on_pixels = isinstance(f, PixelFunction) and not isinstance(f, ReduceFunction)
            if on_pixels and f.output.domain == raster.domain:
                pairs = zip(f.inputs, f.access, strict=True)
                if all(
                    a is Access.SAME_PIXEL if x in self.inside else x not in depends and a in _READ
                    for x, a in pairs
                ):
                    self.inside.add(f.output)

    def worth_fusing(self) -> list[Variable]:
        """The values that are read everywhere and made sooner in the fragments."""
        values: list[Variable] = []
        for v in self._read_everywhere():
            if self._saves([v], values) > 0:
                values.append(v)
        return values if values and self._saves(values) > 0 else []

    def _read_everywhere(self) -> list[Variable]:
        """The last values inside, on the way to whatever visits all pixels."""
        wanted, last = set(self.program.roots), []
        for f in reversed(self.program.functions):
            v = f.output
            if v not in wanted:
                continue
            if v in self.inside and v in self.known and v is not self.raster and not v.vtype.is_matrix:
                last.append(v)
            elif isinstance(f, ScatterFunction) and adds_nothing(f, self.known):
                wanted.add(f.inputs[0])
            else:
                wanted.update(f.inputs)
        return last[::-1]

    def _saves(self, values: Sequence[Variable], fused: Sequence[Variable] = ()) -> float:
        """Seconds a pixel that fragments save: a shader over all pixels would make the values from the number
        and from those ``fused``; with fragments, images are cleared and read."""
        model, stored = self.model, planes(values)
        cone: set[Variable] = set()
        stack, work, read = list(values), 0.0, 0.0
        while stack:
            v = stack.pop()
            if v in cone or v.creator is None:
                continue
            cone.add(v)
            if v is self.raster or v in fused:
                read += planes([v])
                continue
            work += operations(v.creator)
            for k, (x, access) in enumerate(zip(v.creator.inputs, v.creator.access, strict=True)):
                if x in self.inside:
                    stack.append(x)
                elif not is_constant(x):
                    read += planes([x]) * (1.0 if access is Access.SAME_PIXEL else fetches(v.creator, k))
        everywhere = work / model.rate + read / model.fetch_rate
        fragment = work / model.fragment_rate + read / model.fetch_rate + stored / model.store_rate
        return everywhere - stored / model.fill_rate - stored / model.fetch_rate - LISTED * fragment
