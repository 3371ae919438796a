"""Which texel an invocation of a compute shader works on: one of a row, or one of an active block; and GLSL that lists
active blocks: an invocation looks at the pixels of one block, or a workgroup does, an invocation at each
pixel. No workgroup waits for another."""

from __future__ import annotations

from ....ad.graph import Variable
from ..limits import DeviceLimits
from ..lists import BlockHits, FaceList, WorkList
from ..substage import GROUP, FindHits, ListBlocks, Sparse, SubStage
from .text.shaders import Resource, Shaders, ShaderText
from .text.source import invocation_number, workgroup_number
from .text.writer import Writer

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
    layout = f"local_size_x={GROUP}"
    lines = [f"ivec2 place = {invocation_number(w.limits)};"]
    if sparse is not None:
        declare_blocks(w)
        across = blocks_across(t.width)
        lines = [
            f"uvec2 group = uvec2({workgroup_number(w.limits)});",
            f"uint number = group.y * {w.limits.max_workgroup_count}u + group.x;",
            "if (number >= dressi_listed) return;",
            "int block = dressi_blocks[number], inside = int(gl_LocalInvocationIndex);",
            f"ivec2 place = ivec2(block % {across} * {BLOCK} + inside % {BLOCK}, "
            f"block / {across} * {BLOCK} + inside / {BLOCK});",
        ]
    lines += [
        f"if (place.x >= {t.width} || place.y >= {t.height}) return;",
    ]
    if t.rows * t.columns > domain.tiles:
        column = f"place.x / {domain.size[0]}"
        row = f"place.y / {domain.size[1]}"
        lines.append(f"if ({row} + {column} * {t.rows} >= {domain.tiles}) return;")
    return layout, lines


def words_of(listed: WorkList, limits: DeviceLimits) -> int:
    """32-bit words of a list."""
    if isinstance(listed, FaceList):
        return listed.words
    tiling = limits.tiling(listed.domain)
    blocks = blocks_across(tiling.width) * blocks_across(tiling.height)
    return blocks if isinstance(listed, BlockHits) else 4 + blocks


def block_shaders(work: ListBlocks, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """``compute`` appends the numbers of the active blocks in any order; the buffer starts as (0, 0, 1, 0)."""
    w = Writer(s, limits, shader_text)
    for _ in work.hits:
        _declare_hits(w, "readonly")
    declare_blocks(w)
    most, across = limits.max_workgroup_count, blocks_across(w.tiling.width)
    append = [
        "uint number = atomicAdd(dressi_listed, 1u);",
        f"dressi_blocks[number] = block.y * {across} + block.x;",
        f"atomicMax(dressi_groups_x, min(number + 1u, {most}u));",
        f"atomicMax(dressi_groups_y, number / {most}u + 1u);",
    ]
    if work.hits:
        return _each(w, [*_near(work, w), "if (!hit) return;", *append])
    (quiet,) = work.blocks.quiet
    return _looking(w, work.blocks.shared, *quiet, "1u", ["if (dressi_found == 0u) return;", *append])


def hits_shaders(work: FindHits, s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """``compute`` writes the word of each block."""
    w = Writer(s, limits, shader_text)
    _declare_hits(w, "writeonly")
    bits, hits = f"1u << x % {BLOCK} | {1 << BLOCK}u << y % {BLOCK}", work.hits
    store = [f"dressi_hits0[block.y * {blocks_across(w.tiling.width)} + block.x] = dressi_found;"]
    return _looking(w, hits.shared, hits.image, hits.quiet, bits, store)


def _declare_hits(w: Writer, access: str) -> None:
    k = len(w.resources)
    w.head.append(
        f"layout(set=0, binding={k}, std430) {access} buffer dressi_Hits{k} {{ uint dressi_hits{k}[]; }};"
    )
    w.resources.append(Resource(f"hits {k}"))


def _near(work: ListBlocks, w: Writer) -> list[str]:
    """Statements that set ``hit``: whether any image has a hit in the block, or in those around it that close to it. A
    block whose hits are in the right columns and in the right rows counts, wherever these cross."""
    across, down, halo = blocks_across(w.tiling.width), blocks_across(w.tiling.height), work.blocks.halo
    word = " | ".join(f"dressi_hits{k}[b.y * {across} + b.x]" for k in range(len(work.hits)))
    if not halo:
        return ["ivec2 b = block;", f"bool hit = ({word}) != 0u;"]
    every, low = (1 << BLOCK) - 1, (1 << halo) - 1
    high = low << BLOCK - halo
    return [
        f"const uint sides[3] = uint[3]({high}u, {every}u, {low}u);",
        "bool hit = false;",
        f"for (int j = max(-block.y, -1); j <= min({down - 1} - block.y, 1) && !hit; ++j)",
        f"  for (int i = max(-block.x, -1); i <= min({across - 1} - block.x, 1); ++i) {{",
        "    ivec2 b = block + ivec2(i, j);",
        f"    uint found = {word};",
        f"    hit = hit || ((found & sides[i + 1]) != 0u && (found >> {BLOCK} & sides[j + 1]) != 0u);",
        "  }",
    ]


def _each(w: Writer, main: list[str]) -> Shaders:
    """An invocation for each block."""
    across, down = blocks_across(w.tiling.width), blocks_across(w.tiling.height)
    start = [
        f"ivec2 block = {invocation_number(w.limits)};",
        f"if (block.x >= {across} || block.y >= {down}) return;",
    ]
    return w.dispatch([*start, *main], f"local_size_x={GROUP}")


def _looking(w: Writer, shared: bool, image: Variable, quiet: float, bits: str, then: list[str]) -> Shaders:
    """What looks at all pixels of a block: ``dressi_found`` are the ``bits`` of those that differ. An invocation does, or a
    workgroup together, of which the first invocation does the rest."""
    width, height = w.tiling.width, w.tiling.height
    value = int(quiet) if image.vtype.is_int else f"{float(quiet)!r}"
    w.declare_reads()
    look = f"{w.load(image, 'ivec2(x, y)')} != {value}"
    if not shared:
        loops = [
            f"ivec2 first = block * {BLOCK}, end = min(first + {BLOCK}, ivec2({width}, {height}));",
            "uint dressi_found = 0u;",
            "for (int y = first.y; y < end.y; ++y)",
            f"  for (int x = first.x; x < end.x; ++x) dressi_found |= {look} ? {bits} : 0u;",
        ]
        return _each(w, [*loops, *then])
    w.head.append("shared uint dressi_found;")
    main = [
        f"ivec2 block = {workgroup_number(w.limits)};",
        f"int x = block.x * {BLOCK} + int(gl_LocalInvocationID.x), y = block.y * {BLOCK} + int(gl_LocalInvocationID.y);",
        "if (gl_LocalInvocationIndex == 0u) dressi_found = 0u;",
        "barrier();",
        f"if (x < {width} && y < {height} && {look}) atomicOr(dressi_found, {bits});",
        "barrier();",
        "if (gl_LocalInvocationIndex != 0u) return;",
        *then,
    ]
    return w.dispatch(main, f"local_size_x={BLOCK}, local_size_y={BLOCK}")
