"""Which texel an invocation of a compute shader works on: one of a row, or one of an active block; and GLSL that lists
active blocks: an invocation looks at the pixels of one block, or a workgroup does, an invocation at each
pixel. No workgroup waits for another."""

from __future__ import annotations

from ..limits import DeviceLimits
from ..lists import FaceList, WorkList
from ..substage import GROUP, ListBlocks, Sparse, SubStage
from .shaders import Resource, Shaders, ShaderText
from .source import constants, invocation_number, workgroup_number
from .writer import Writer

BLOCK = 8
"""Pixels on each side of the blocks that a sparse dispatch visits; a workgroup visits one."""


def blocks_across(width: int) -> int:
    """Blocks that so many pixels touch along one axis."""
    return -(-width // BLOCK)


def declare_blocks(w: Writer) -> None:
    """The list of active blocks: arguments of an indirect dispatch over them, how many there are, their numbers."""
    w.head.append(
        f"layout(set=0, binding={len(w.resources)}, std430) buffer dressi_Blocks "
        "{ uint dressi_groups_x, dressi_groups_y, dressi_groups_z, dressi_listed; int dressi_blocks[]; };"
    )
    w.resources.append(Resource("blocks"))


def invocation(w: Writer, sparse: Sparse | None) -> tuple[str, list[str]]:
    """Layout and statements of a compute shader: one invocation a texel, in rows, or in the active blocks."""
    t, domain = w.tiling, w.s.domain
    layout = f"layout(local_size_x={GROUP}) in;"
    lines = [f"ivec2 place = {invocation_number(w.limits)};"]
    if sparse is not None:
        declare_blocks(w)
        across = blocks_across(t.width)
        lines = [
            f"uint number = gl_WorkGroupID.y * {w.limits.max_workgroup_count}u + gl_WorkGroupID.x;",
            "if (number >= dressi_listed) return;",
            "int block = dressi_blocks[number], inside = int(gl_LocalInvocationIndex);",
            f"ivec2 place = ivec2(block % {across} * {BLOCK} + inside % {BLOCK}, "
            f"block / {across} * {BLOCK} + inside / {BLOCK});",
        ]
    lines += [
        f"if (place.x >= {t.width} || place.y >= {t.height}) return;",
    ]
    if t.rows * t.columns > domain.batch:
        column = f"place.x / {domain.size[0]}"
        row = f"place.y / {domain.size[1]}"
        lines.append(f"if ({row} + {column} * {t.rows} >= {domain.batch}) return;")
    return layout, lines


def words_of(listed: WorkList, limits: DeviceLimits) -> int:
    """32-bit words of a list."""
    if isinstance(listed, FaceList):
        return listed.words
    tiling = limits.tiling(listed.domain)
    return 4 + blocks_across(tiling.width) * blocks_across(tiling.height)


def block_shaders(work: ListBlocks, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """``compute`` appends the numbers of the active blocks in any order; the buffer starts as (0, 0, 1, 0)."""
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    declare_blocks(w)
    width, height = w.tiling.width, w.tiling.height
    across, down = blocks_across(width), blocks_across(height)
    hit = " || ".join(
        f"{w.load(v, 'ivec2(x, y)')} != {int(value) if v.vtype.is_int else float(value)!r}"
        for v, value in work.blocks.quiet
    )
    most, pushed = limits.max_workgroup_count, constants(limits)
    append = [
        "uint number = atomicAdd(dressi_listed, 1u);",
        f"dressi_blocks[number] = block.y * {across} + block.x;",
        f"atomicMax(dressi_groups_x, min(number + 1u, {most}u));",
        f"atomicMax(dressi_groups_y, number / {most}u + 1u);",
    ]
    if work.blocks.shared:
        w.head.append("shared uint dressi_hits;")
        main = [
            f"ivec2 block = {workgroup_number(w.limits)};",
            f"int x = block.x * {BLOCK} + int(gl_LocalInvocationID.x), y = block.y * {BLOCK} + int(gl_LocalInvocationID.y);",
            "if (gl_LocalInvocationIndex == 0u) dressi_hits = 0u;",
            "barrier();",
            f"if (x < {width} && y < {height} && ({hit})) atomicOr(dressi_hits, 1u);",
            "barrier();",
            "if (gl_LocalInvocationIndex != 0u || dressi_hits == 0u) return;",
            *append,
        ]
        layout = f"layout(local_size_x={BLOCK}, local_size_y={BLOCK}) in;"
        return Shaders(tuple(w.resources), {"compute": w.text(main, [*pushed, layout])}, based=bool(pushed))
    main = [
        f"ivec2 block = {invocation_number(w.limits)};",
        f"if (block.x >= {across} || block.y >= {down}) return;",
        f"ivec2 first = block * {BLOCK}, end = min(first + {BLOCK}, ivec2({width}, {height}));",
        "bool hit = false;",
        "for (int y = first.y; y < end.y && !hit; ++y)",
        f"  for (int x = first.x; x < end.x; ++x) hit = hit || {hit};",
        "if (!hit) return;",
        *append,
    ]
    source = w.text(main, [*pushed, f"layout(local_size_x={GROUP}) in;"])
    return Shaders(tuple(w.resources), {"compute": source}, based=bool(pushed))
