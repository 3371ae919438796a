"""Values that follow from a raster, computed by the fragments that draw it (epilogue fusion of draws).

A raster writes the number of a face, and Functions at the same pixel make of it a distance, a coverage, a colour. Where
no face covers a pixel such values often are constants. If faces cover few pixels, as quads around silhouettes do, their
fragments compute the values, and the images are cleared to the constants:

    edge  -1 -1  7  7 -1   ->   select(edge >= 0, falloff(distance(edge)), 0)   0 0 .3 .8 0

The last fragment that passes the depth test writes number and values together. What only scatters under the raster
need is left to these, which visit few pixels as well; and so is what is cheaper to make from the number than to clear
and to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....ad.graph import (
    PixelFunction,
    RasterFunction,
    ReduceFunction,
    ScatterFunction,
    Variable,
)
from ....ad.ops.image.draws import FragmentGraph, split
from ....ad.program import Program
from ....ad.transform.rewrite import mapped, replaced, rewrite, substitute
from ....ad.types import INT, Access
from ..analysis.dependencies import Dependencies, Leaves
from ..analysis.known_values import HIT_NOTHING, KnownValues, adds_nothing
from ..analysis.rematerialization import is_constant
from ..context import Target
from ..lists import LISTED
from ..model.cost import fetches, operations, planes
from ..model.device import DeviceModel
from .fragment_value import FragmentValue

_READ = (Access.SAME_PIXEL, Access.FETCH)


def fuse_into_draws(program: Program, target: Target) -> Program:
    """The program with FragmentValues of rasters that draw a list of live faces, where the device model finds that faster."""
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
    """The FragmentValues of a raster, by what they stand for. Their graph shares Functions with that of its depth."""
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
    return {
        v: FragmentValue(
            raster, *externals, graph=graph, number=k, background=tuple(np.ravel(missed).tolist())
        ).output
        for k, (v, missed) in enumerate(backgrounds.items())
    }


class _Following:
    """What follows from a raster at its own pixels.

    known: the values where no face covers a pixel, of those that are known there.  inside: the values that a fragment can
    compute: by Functions of the raster's domain from the number of its face and from what does not depend on it.
    """

    def __init__(self, program: Program, raster: Variable, model: DeviceModel, known: KnownValues):
        self.program, self.raster, self.model = program, raster, model
        (self.known,) = known.around({raster: HIT_NOTHING}, 0)
        depends, self.inside = {raster}, {raster}
        for f in program.functions:
            if not depends.isdisjoint(f.inputs):
                depends.add(f.output)
                if isinstance(f, PixelFunction) and not isinstance(f, ReduceFunction):
                    pairs = zip(f.inputs, f.access, strict=True)
                    if f.output.domain == raster.domain and all(
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
        wanted, found = set(self.program.roots), []
        for f in reversed(self.program.functions):
            v = f.output
            if v not in wanted:
                continue
            if v in self.inside and v in self.known and v is not self.raster and not v.vtype.is_matrix:
                found.append(v)
            elif isinstance(f, ScatterFunction) and adds_nothing(f, self.known):
                wanted.add(f.inputs[0])
            else:
                wanted.update(f.inputs)
        return found[::-1]

    def _saves(self, values: Sequence[Variable], fused: Sequence[Variable] = ()) -> float:
        """Seconds a pixel: a shader over all pixels makes the values, from the number and from those that are ``fused``; or
        fragments do, and others clear and read them."""
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
