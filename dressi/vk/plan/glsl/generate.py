"""Shaders of a SubStage, by its kind of work; those that are alike are generated once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace

from ....ad.graph import Function, Variable
from ....ad.graph.includes import versions
from ....ad.graph.traversal import producers_first
from ..core import substage
from ..core.limits import DeviceLimits
from ..core.substage import Compute, Fragment, Joined, SubStage, TiledCompute, Work
from . import compute_raster, pixel, raster, scatter
from .chained_tiles import contract_shaders
from .pixel import write_work
from .writer import Shaders, ShaderSource, ShaderText, Writer, workgroup_number

# GLSL of joined dispatches: the invocations of a workgroup do the texels of one phase after the other, and wait
# for each other between two.

WAIT = "memoryBarrierImage(); memoryBarrierBuffer(); barrier();"


def joined_shaders(work: Joined, w: Writer) -> Shaders:
    """The shader of a dispatch of several phases."""
    names, images = w.declare(), dict(w.images)
    main = [f"int lane = int(gl_LocalInvocationIndex), group = {workgroup_number(w.limits)}.x;"]
    for k, phase in enumerate(work.phases):
        main += [WAIT] * (k > 0)
        for s in phase:
            w.enter(s, images)
            write_work(w, s, names)
            main += [*_texels(work, s, w), *w.lines, "}"]
            if work.beside:  # those of the next part count from 0
                main.append(f"group -= {work.groups_of(s)};")
    return w.dispatch(main, f"local_size_x={work.lanes}")


def _texels(work: Joined, s: SubStage, w: Writer) -> list[str]:
    """The head of the loop over the texels of a part that a workgroup has."""
    (width, _), own = s.domain.size, work.pixels or s.domain.area
    place = f"pixel + {w.corner(s.domain)}" if s.domain.tiles > 1 else "pixel"
    number = f"group * {own} + turn % {own}" if work.pixels else f"turn % {own}"
    first, step = "lane", work.lanes
    if work.beside:
        first, step = f"group < 0 ? {s.domain.texels} : group * {work.lanes} + lane", s.domain.texels
    return [
        f"for (int turn = {first}; turn < {own * s.domain.tiles}; turn += {step}) {{",
        f"int tile = turn / {own}, number = {number};",
        *([f"if (number >= {s.domain.area}) continue;"] if work.pixels else []),
        f"ivec2 pixel = ivec2(number % {width}, number / {width}), place = {place};",
    ]


_SHADERS: dict[type[Work], Callable[..., Shaders]] = {
    Fragment: pixel.fragment_shaders,
    Compute: pixel.compute_shaders,
    TiledCompute: contract_shaders,
    Joined: joined_shaders,
    substage.ListBlocks: pixel.block_shaders,
    substage.FindHits: pixel.hits_shaders,
    substage.Raster: raster.raster_shaders,
    substage.ComputeRaster: compute_raster.compute_raster_shaders,
    substage.ComputeSum: scatter.compute_sum_shaders,
    substage.Accumulate: raster.accumulate_shaders,
    substage.ListFaces: raster.list_shaders,
    substage.FragmentScatter: scatter.fragment_scatter_shaders,
    substage.ScatterDispatch: scatter.scatter_dispatch_shaders,
    substage.FaceSums: scatter.face_sum_shaders,
}


def generate(s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """All shaders of a SubStage, with the descriptors they share."""
    return _SHADERS[type(s.work)](s.work, Writer(s, limits, shader_text))


class Alike:
    """The shaders so far. SubStages that differ only in the values they read and write share them: layers of
    networks and iterations of loops repeat SubStages, and shaders of contractions are long."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[list[Variable], Shaders]] = {}  # by structure
        self._first: dict[Hashable, tuple[SubStage, Shaders] | None] = {}  # by what is quick to compare

    def of(self, s: SubStage, generate: Callable[[], Shaders]) -> Shaders:
        """The shaders of a SubStage: those of one that is alike, with other resources, or generated."""
        if not isinstance(s.work, Compute | Fragment | TiledCompute) or s.work.uses or s.fused:
            return generate()
        outline = type(s.work), s.domain, len(s.reads), len(s.outputs), *map(type, s.body)
        if outline not in self._first:
            self._first[outline] = s, (shaders := generate())
            return shaders
        if (first := self._first[outline]) is not None:  # the second one of its outline
            self._first[outline], number = None, {}
            key = _structure(first[0], number)
            self._known[key] = list(number), first[1]
        number: dict[Variable, int] = {}
        key = _structure(s, number)
        if key not in self._known:
            self._known[key] = list(number), generate()
            return self._known[key][1]
        known, shaders = self._known[key]
        other = dict(zip(known, number, strict=True))
        resources = (
            r if r.variable is None else replace(r, variable=other[r.variable]) for r in shaders.resources
        )
        sources = {
            part: ShaderSource(source, source.statements, source.included, [other[v] for v in source.reads])
            if isinstance(source, ShaderSource)
            else source
            for part, source in shaders.sources.items()
        }
        return replace(shaders, resources=tuple(resources), sources=sources)


def _structure(s: SubStage, number: dict[Variable, int]) -> Hashable:
    """Equal for SubStages with equal shaders. number: gets the number of each Variable, in order."""
    lines: list[Hashable] = []

    def of(v: Variable) -> int:
        if v not in number:
            number[v] = len(number)
            lines.append((v.vtype, v.domain))
        return number[v]

    def all_of(vs: Iterable[Variable]) -> tuple[int, ...]:
        return tuple(map(of, vs))

    lines.append((type(s.work), s.domain))
    lines.append(tuple((of(r.variable), r.binding, r.elsewhere) for r in s.reads))
    read = [r.variable for r in s.reads]
    given = {v.creator for v in (*read, *s.channels)}

    def makers(vs: Iterable[Variable]) -> list[Function]:
        return [v.creator for v in vs if v.creator is not None and v.creator not in given]

    for f in producers_first(makers(s.outputs), lambda f: makers(f.inputs)):
        lines.append((f.identity, *versions(f), *all_of(f.inputs), of(f.output)))
    lines += [all_of(f.output for f in part) for part in (s.functions, s.body)]
    lines.append(frozenset(of(f.output) for f in s.contracted))
    lines.append(all_of(s.outputs))
    lines.append(tuple((of(new), of(leaf)) for new, leaf in s.replaces.items()))
    lines.append(tuple((of(v), of(whole), first) for v, (whole, first) in s.channels.items()))
    lines.append(tuple((of(v), all_of(held.members), held.masks.get(v)) for v, held in s.ranges.items()))
    lines.append(frozenset(of(v) for v in s.narrow))
    if isinstance(s.work, TiledCompute):
        lines.append(tuple((of(f.output), rows) for f, rows in s.work.schedules.items()))
    return tuple(lines)
