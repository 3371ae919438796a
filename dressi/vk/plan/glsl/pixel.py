"""GLSL of SubStages that work on each pixel by itself: subpasses over the whole framebuffer and dispatches,
of every pixel or of active blocks; and of what lists active blocks, an invocation or a workgroup for each
block. No workgroup waits for another.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....ad.graph import Variable
from ..core.limits import DeviceLimits, Tiling
from ..core.lists import BlockHits, FaceList, WorkList
from ..core.substage import GROUP, ONE, Compute, FindHits, Fragment, ListBlocks, Sparse, SubStage
from .shaders import Resource, Shaders, invocation_number, workgroup_number
from .writer import Writer

FULL_SCREEN = """#version 450
void main() {
  // One triangle that covers the framebuffer.
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
}
"""
BLOCK = 8  # pixels on each side of the blocks that a sparse dispatch visits; a workgroup visits one


def fragment_shaders(work: Fragment, w: Writer) -> Shaders:
    """The shaders of a subpass: a triangle over the framebuffer, and the work on each pixel."""
    layouts = write_work(w, w.s, w.declare())
    main = ["ivec2 place = ivec2(gl_FragCoord.xy);", *w.place(), *w.lines]
    return Shaders(tuple(w.resources), {"vertex": FULL_SCREEN, "fragment": w.text(main, layouts)})


def compute_shaders(work: Compute, w: Writer) -> Shaders:
    """The shader of a dispatch: the work on each pixel, of all pixels or of active blocks."""
    write_work(w, w.s, w.declare())
    layout, start = invocation(w, work.sparse)
    return w.dispatch([*start, *w.place(), *w.lines], layout)


def write_work(w: Writer, s: SubStage, names: dict[Variable, str]) -> list[str]:
    """Writes the work of a draw or a dispatch at ``place``, then what is fused to it. Returns layouts."""

    def store(outputs: Iterable[Variable], place: str = "place") -> list[str]:
        return [line for v in outputs for line in w.stores(v, names[v], place)]

    for f in s.body:
        w.emit(f)
    layouts, colors = w.colors(s)
    w.lines += colors or store(s.own_outputs)
    for fused in s.fused:
        outer = dict(w.names)
        w.lines.append(f"if ({'place' if fused.domain == ONE else 'pixel'} == ivec2(0)) {{")
        for f in fused.body:
            if f.output not in w.names:
                w.emit(f)
        for v in fused.outputs:
            w.lines += store([v], w.texel(v, "tile", "ivec2(0)"))
        w.lines.append("}")
        w.names = outer
    return layouts


# ---- active blocks
def blocks_of(tiling: Tiling) -> tuple[int, int]:
    """Blocks of an image, across and down."""
    return -(-tiling.width // BLOCK), -(-tiling.height // BLOCK)


def words_of(listed: WorkList, limits: DeviceLimits) -> int:
    """32-bit words of a list."""
    if isinstance(listed, FaceList):
        return listed.words
    across, down = blocks_of(limits.tiling(listed.domain))
    return across * down + (0 if isinstance(listed, BlockHits) else 4)


def declare_blocks(w: Writer) -> None:
    """The list of active blocks: arguments of an indirect dispatch, how many there are, their numbers."""
    members = "uint dressi_groups_x, dressi_groups_y, dressi_groups_z, dressi_listed; int dressi_blocks[];"
    w.declare_buffer(Resource("blocks"), "dressi_Blocks", members)


def invocation(w: Writer, sparse: Sparse | None) -> tuple[str, list[str]]:
    """Layout and statements of a compute shader: one invocation a texel, in rows, or in the active blocks."""
    t, domain = w.tiling, w.s.domain
    lines = [f"ivec2 place = {invocation_number(w.limits)};"]
    if sparse is not None:
        declare_blocks(w)
        across, _ = blocks_of(t)
        lines = [
            f"uvec2 group = uvec2({workgroup_number(w.limits)});",
            f"uint number = group.y * {w.limits.max_workgroup_count}u + group.x;",
            "if (number >= dressi_listed) return;",
            "int block = dressi_blocks[number], inside = int(gl_LocalInvocationIndex);",
            f"ivec2 place = ivec2(block % {across} * {BLOCK} + inside % {BLOCK}, "
            f"block / {across} * {BLOCK} + inside / {BLOCK});",
        ]
    lines.append(f"if (place.x >= {t.width} || place.y >= {t.height}) return;")
    if t.rows * t.columns > domain.tiles:
        width, height = domain.size
        tile = f"place.y / {height} + place.x / {width} * {t.rows}"
        lines.append(f"if ({tile} >= {domain.tiles}) return;")
    return f"local_size_x={GROUP}", lines


def block_shaders(work: ListBlocks, w: Writer) -> Shaders:
    """``compute`` appends active blocks in any order to the list, which starts as (0, 0, 1, 0)."""
    for _ in work.hits:
        _declare_hits(w, "readonly")
    declare_blocks(w)
    most, (across, _) = w.limits.max_workgroup_count, blocks_of(w.tiling)
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


def hits_shaders(work: FindHits, w: Writer) -> Shaders:
    """``compute`` writes the word of each block."""
    _declare_hits(w, "writeonly")
    bits, hits = f"1u << x % {BLOCK} | {1 << BLOCK}u << y % {BLOCK}", work.hits
    across, _ = blocks_of(w.tiling)
    store = [f"dressi_hits0[block.y * {across} + block.x] = dressi_found;"]
    return _looking(w, hits.shared, hits.image, hits.quiet, bits, store)


def _declare_hits(w: Writer, access: str) -> None:
    k = len(w.resources)
    w.declare_buffer(Resource(f"hits {k}"), f"dressi_Hits{k}", f"uint dressi_hits{k}[];", access)


def _near(work: ListBlocks, w: Writer) -> list[str]:
    """Statements that set ``hit``: whether any image has a hit in the block, or within the halo in those
    around it. Hits in the right columns and in the right rows count, wherever these cross."""
    (across, down), halo = blocks_of(w.tiling), work.blocks.halo
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
    across, down = blocks_of(w.tiling)
    start = [
        f"ivec2 block = {invocation_number(w.limits)};",
        f"if (block.x >= {across} || block.y >= {down}) return;",
    ]
    return w.dispatch([*start, *main], f"local_size_x={GROUP}")


def _looking(w: Writer, shared: bool, image: Variable, quiet: float, bits: str, then: list[str]) -> Shaders:
    """Sets ``dressi_found`` to the ``bits`` of the pixels of a block that differ from ``quiet``, then runs
    ``then``: in one invocation, or (shared) in a workgroup of which the first invocation does the rest."""
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
        f"int x = block.x * {BLOCK} + int(gl_LocalInvocationID.x);",
        f"int y = block.y * {BLOCK} + int(gl_LocalInvocationID.y);",
        "if (gl_LocalInvocationIndex == 0u) dressi_found = 0u;",
        "barrier();",
        f"if (x < {width} && y < {height} && {look}) atomicOr(dressi_found, {bits});",
        "barrier();",
        "if (gl_LocalInvocationIndex != 0u) return;",
        *then,
    ]
    return w.dispatch(main, f"local_size_x={BLOCK}, local_size_y={BLOCK}")
