"""Shaders of dispatches of strips."""

from __future__ import annotations

import math
from dataclasses import replace

from .....ad.graph import Variable
from ...limits import DeviceLimits
from ...lowering.tiling.chain import Link, RegionLayout, Staged, grid_of, held_by, is_chain, links_of
from ...lowering.tiling.products import ProductLayout
from ...lowering.tiling.strips import TiledContraction, strips_in
from ...substage import SubStage, TiledCompute
from ..text.outputs import declare_outputs, following, value_after
from ..text.shaders import Shaders, ShaderText
from ..text.source import workgroup_number
from ..text.writer import Writer
from .inner import InRegisters, InWorkgroup, Last, Region, staged
from .products import COOPERATIVE, ProductStrip
from .strip import Strip
from .subgroup import told_in
from .texels import Source


def contract_shaders(
    work: TiledCompute, s: SubStage, limits: DeviceLimits, shader_text: ShaderText
) -> Shaders:
    """``compute`` makes a strip of texels in each invocation, of the contraction that its workgroup belongs to, or of the last one
    of a chain."""
    fs = strips_in(s)
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    names = declare_outputs(w, s)
    width, rows = grid_of(s)
    links = links_of(s) if is_chain(s) else []
    main = [
        f"ivec2 dressi_group = {workgroup_number(limits)};",
        f"int dressi_strip = {'dressi_group.y' if width == 1 else f'dressi_group.y * {width} + dressi_group.x'};",
    ]
    for f in [link.f for link in links] or fs:
        w.include(f.whole)
    groups = links[-1].layout.groups if links else sum(f.layout.groups for f in fs)
    if width * rows > groups:
        main.append(f"if (dressi_strip >= {groups}) return;")
    lanes = links[-1].layout.strips.lanes if links else next(iter(fs)).strips.lanes
    main += _chained(work, links, w, names) if links else _side_by_side(fs, w, names)
    made = w.dispatch(main, f"local_size_x={lanes}")
    return replace(made, matrices=COOPERATIVE in w.extensions)


def _side_by_side(fs: dict[TiledContraction, list], w: Writer, names: dict[Variable, str]) -> list[str]:
    """Contractions that do not read each other: each has workgroups of its own."""
    main: list[str] = []
    for k, (f, others) in enumerate(fs.items()):
        own = Strip(f, w, k, ended=bool(others), sources=told_in(f)).main(
            following(w, f.output, others, names, k) if others else names[f.output]
        )
        if len(fs) > 1:
            last = k + 1 == len(fs)
            own = [*own, "}" * k] if last else [f"if (dressi_strip < {f.layout.groups}) {{", *own]
            own += [] if last else [f"}} else {{ dressi_strip -= {f.layout.groups};"]
        main += own
    return main


def _chained(work: TiledCompute, links: list[Link], w: Writer, names: dict[Variable, str]) -> list[str]:
    """Contractions of which the last one reads what the others make, for all workgroups, and what these hold."""
    *inner, last = links
    sources: dict[Variable, Source] = {}
    number, lanes = len(links) - 1, last.layout.strips.lanes
    ended = following(w, last.f.output, last.others, names, number) if last.others else ""
    if isinstance(last.layout, ProductLayout):
        strip = ProductStrip(last.f, w, number, ended=bool(ended), layout=last.layout)
        return strip.main(ended or names[last.f.output])
    if work.held:
        strip = Last(last, w, number, ended=bool(ended), sources=sources)
    else:
        strip = Strip(last.f, w, number, ended=bool(ended), layout=last.layout, sources=sources)
    held = held_by(links, work.held)
    assert held is not None, "the pass asked for these"
    main = [*strip.origins()] if isinstance(strip, Last) else []
    arrays = {v: f"dressi_region{k}" for k, v in enumerate(held)}
    for v, layout in held.items():
        w.head.append(f"shared {v.vtype.glsl} {arrays[v]}[{math.prod(layout.held)}];")
        if isinstance(layout, Staged):
            main += staged(v, layout, w, arrays[v], lanes)
            sources[v] = InWorkgroup(v, layout, arrays[v])
    main += ["barrier();"] if sources else []
    for k, link in enumerate(inner):
        v = link.result
        assert v is not None, "an inner contraction is read"
        after = "" if v is link.f.output else value_after(w, link.f.output, link.others, v, k)
        layout = held.get(v)
        if not isinstance(layout, RegionLayout):
            sources[v] = InRegisters(link, after, k)
            continue
        items = Region(link, layout, w, sources, after).items(arrays[v], lanes)
        main += ["{", *items, "}", "barrier();"]
        sources[v] = InWorkgroup(v, layout, arrays[v])
    return [*main, *strip.main(ended or names[last.f.output])]
