"""GLSL that lists active blocks: an invocation looks at the pixels of one block, or a workgroup does, an invocation at each
pixel. No workgroup waits for another."""

from __future__ import annotations

from ..limits import DeviceLimits
from ..lists import FaceList, WorkList
from ..substage import GROUP, ListBlocks, SubStage
from .invocation import BLOCK, blocks_across, declare_blocks
from .shaders import Shaders, ShaderText
from .writer import Writer


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
    most = limits.max_workgroup_count
    append = [
        "uint number = atomicAdd(count, 1u);",
        f"blocks[number] = block.y * {across} + block.x;",
        f"atomicMax(groups_x, min(number + 1u, {most}u));",
        f"atomicMax(groups_y, number / {most}u + 1u);",
    ]
    if work.blocks.shared:
        w.head.append("shared uint hits;")
        main = [
            "ivec2 block = ivec2(gl_WorkGroupID.xy);",
            f"int x = block.x * {BLOCK} + int(gl_LocalInvocationID.x), y = block.y * {BLOCK} + int(gl_LocalInvocationID.y);",
            "if (gl_LocalInvocationIndex == 0u) hits = 0u;",
            "barrier();",
            f"if (x < {width} && y < {height} && ({hit})) atomicOr(hits, 1u);",
            "barrier();",
            "if (gl_LocalInvocationIndex != 0u || hits == 0u) return;",
            *append,
        ]
        layout = f"layout(local_size_x={BLOCK}, local_size_y={BLOCK}) in;"
        return Shaders(tuple(w.resources), {"compute": w.text(main, [layout])})
    main = [
        "ivec2 block = ivec2(gl_GlobalInvocationID.xy);",
        f"if (block.x >= {across} || block.y >= {down}) return;",
        f"ivec2 first = block * {BLOCK}, end = min(first + {BLOCK}, ivec2({width}, {height}));",
        "bool hit = false;",
        "for (int y = first.y; y < end.y && !hit; ++y)",
        f"  for (int x = first.x; x < end.x; ++x) hit = hit || {hit};",
        "if (!hit) return;",
        *append,
    ]
    return Shaders(tuple(w.resources), {"compute": w.text(main, [f"layout(local_size_x={GROUP}) in;"])})
