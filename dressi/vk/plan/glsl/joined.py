"""GLSL of joined dispatches: the invocations of a workgroup do the texels of one phase after the other, and wait
for each other between two."""

from __future__ import annotations

from ..core.substage import Joined, SubStage
from .pixel import write_work
from .shaders import Shaders, workgroup_number
from .writer import Writer

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
