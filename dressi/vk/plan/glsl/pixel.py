"""GLSL of SubStages that work on each pixel by itself: subpasses over the whole framebuffer and dispatches,
of every pixel, of active blocks or of active pixels; and of what lists these, an invocation or a workgroup
for each block. No workgroup waits for another.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....ad.graph import Variable
from ..core.limits import DeviceLimits, Tiling
from ..core.lists import BlockHits, FaceList, WorkList
from ..core.substage import GROUP, ONE, Compute, FindHits, Fragment, ListBlocks, Sparse, SubStage
from .writer import Resource, Shaders, Writer, invocation_number, workgroup_number

FULL_SCREEN = """#version 450
void main() {
  // One triangle that covers the framebuffer.
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
}
"""
BLOCK = 8  # pixels on each side of the blocks that a sparse dispatch visits; a workgroup visits one
assert BLOCK * BLOCK == GROUP


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
    if isinstance(listed, BlockHits):
        return 2 * across * down
    return across * down * (GROUP if listed.pixels else 1) + 4


def declare_blocks(w: Writer) -> None:
    """The list of active blocks or pixels: arguments of an indirect dispatch, how many there are, and the
    numbers of blocks, or the places of pixels (x in the lower 16 bits)."""
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
        ]
        if sparse.blocks.pixels:
            lines += [
                f"number = number * {GROUP}u + gl_LocalInvocationIndex;",
                "if (number >= dressi_listed) return;",
                "uint listed = uint(dressi_blocks[number]);",
                "ivec2 place = ivec2(listed & 0xffffu, listed >> 16);",
            ]
        else:
            lines += [
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
    """``compute`` appends active blocks or pixels in any order to the list, which starts as (0, 0, 1, 0)."""
    for _ in work.hits:
        _declare_hits(w, "readonly")
    declare_blocks(w)
    append = _append(work.blocks.pixels, w)
    if work.hits:
        return _each(w, [*_near(work, w), *append])
    (quiet,) = work.blocks.quiet
    return _looking(w, work.blocks.shared, *quiet, append)


def _append(pixels: bool, w: Writer) -> list[str]:
    """Statements that append a block, or its pixels, where ``dressi_found`` has a bit for each of these."""
    most, (across, _) = w.limits.max_workgroup_count, blocks_of(w.tiling)
    found = "bitCount(dressi_found.x) + bitCount(dressi_found.y)"
    lines = [
        "if (dressi_found == uvec2(0u)) return;",
        f"uint count = {f'uint({found})' if pixels else '1u'};",
        "uint number = atomicAdd(dressi_listed, count);",
        f"uint last = (number + count - 1u) / {GROUP if pixels else 1}u;",  # workgroup
        f"atomicMax(dressi_groups_x, min(last + 1u, {most}u));",
        f"atomicMax(dressi_groups_y, last / {most}u + 1u);",
    ]
    if not pixels:
        return [*lines, f"dressi_blocks[number] = block.y * {across} + block.x;"]
    return [
        *lines,
        "for (int part = 0; part < 2; ++part)",
        "  for (uint rest = dressi_found[part]; rest != 0u; rest &= rest - 1u) {",
        f"    ivec2 place = block * {BLOCK} + ivec2(findLSB(rest) & 7, findLSB(rest) >> 3 | part << 2);",
        "    dressi_blocks[number++] = place.y << 16 | place.x;",
        "  }",
    ]


def hits_shaders(work: FindHits, w: Writer) -> Shaders:
    """``compute`` writes the words of each block."""
    _declare_hits(w, "writeonly")
    across, _ = blocks_of(w.tiling)
    store = [f"dressi_hits0[block.y * {across} + block.x] = dressi_found;"]
    return _looking(w, work.hits.shared, work.hits.image, work.hits.quiet, store)


def _declare_hits(w: Writer, access: str) -> None:
    k = len(w.resources)
    w.declare_buffer(Resource(f"hits {k}"), f"dressi_Hits{k}", f"uvec2 dressi_hits{k}[];", access)


def _near(work: ListBlocks, w: Writer) -> list[str]:
    """Statements that set ``dressi_found``: the pixels of a block at which any image has a hit, or within the
    halo of which it has one."""
    (across, down), halo = blocks_of(w.tiling), work.blocks.halo
    words = " | ".join(f"dressi_hits{k}[{{0}}]" for k in range(len(work.hits)))
    if not halo:
        return [f"uvec2 dressi_found = {words.format(f'block.y * {across} + block.x')};"]
    return [
        # First along the rows of this block and of those above and below, then between them.
        "uvec2 rows[3];",
        "for (int j = 0; j < 3; ++j) {",
        "  uvec2 near[3];",
        "  for (int i = 0; i < 3; ++i) {",
        "    ivec2 b = block + ivec2(i, j) - 1;",
        f"    bool inside = b.x >= 0 && b.y >= 0 && b.x < {across} && b.y < {down};",
        f"    int n = inside ? b.y * {across} + b.x : 0;",
        f"    near[i] = inside ? {words.format('n')} : uvec2(0u);",
        "  }",
        "  rows[j] = near[1];",
        f"  for (int k = 1; k <= {halo}; ++k) {{",
        "    uint low = 0x01010101u * ((1u << k) - 1u), high = low << 8 - k;",
        "    rows[j] |= near[1] << k & ~low | near[1] >> k & ~high;",
        "    rows[j] |= near[0] >> 8 - k & low | near[2] << 8 - k & high;",
        "  }",
        "}",
        "uvec2 dressi_found = rows[1];",
        f"for (int k = 8; k <= {8 * halo}; k += 8) {{",
        "  dressi_found |= rows[1] << k | uvec2(rows[0].y, rows[1].x) >> 32 - k;",
        "  dressi_found |= rows[1] >> k | uvec2(rows[1].y, rows[2].x) << 32 - k;",
        "}",
    ]


def _each(w: Writer, main: list[str]) -> Shaders:
    """An invocation for each block."""
    across, down = blocks_of(w.tiling)
    start = [
        f"ivec2 block = {invocation_number(w.limits)};",
        f"if (block.x >= {across} || block.y >= {down}) return;",
    ]
    return w.dispatch([*start, *main], f"local_size_x={GROUP}")


def _looking(w: Writer, shared: bool, image: Variable, quiet: float, then: list[str]) -> Shaders:
    """Sets ``dressi_found`` to a bit for each pixel of a block that differs from ``quiet``, then runs ``then``:
    in one invocation a block, or (shared) in a workgroup for a row of eight."""
    width, height = w.tiling.width, w.tiling.height
    value = int(quiet) if image.vtype.is_int else f"{float(quiet)!r}"
    w.declare_reads()
    look = f"{w.load(image, 'ivec2(x, y)')} != {value}"
    if not shared:
        loops = [
            f"ivec2 first = block * {BLOCK}, end = min(first + {BLOCK}, ivec2({width}, {height}));",
            "uvec2 dressi_found = uvec2(0u);",
            "for (int y = first.y; y < end.y; ++y) {",
            "  uint row = 0u;",
            f"  for (int x = first.x; x < end.x; ++x) row |= {look} ? 1u << x % {BLOCK} : 0u;",
            "  row <<= y % 4 * 8;",
            "  dressi_found |= (y & 4) == 0 ? uvec2(row, 0u) : uvec2(0u, row);",
            "}",
        ]
        return _each(w, [*loops, *then])
    # Each looks at a column of pixels, so that a row of them is read at once; the first of each block go on.
    across, _ = blocks_of(w.tiling)
    w.head.append(f"shared uint dressi_bits[{2 * BLOCK}];")
    main = [
        f"ivec2 first = {workgroup_number(w.limits)} * ivec2({GROUP}, {BLOCK});",
        f"int lane = int(gl_LocalInvocationIndex), x = first.x + lane, low = lane / {BLOCK} * 2;",
        "uvec2 column = uvec2(0u);",
        f"if (lane < {2 * BLOCK}) dressi_bits[lane] = 0u;",
        "barrier();",
        f"for (int row = 0; row < {BLOCK}; ++row) {{",
        "  int y = first.y + row;",
        f"  if (x < {width} && y < {height} && {look})",
        f"    column[row / 4] |= 1u << row % 4 * {BLOCK} + lane % {BLOCK};",
        "}",
        "if (column.x != 0u) atomicOr(dressi_bits[low], column.x);",
        "if (column.y != 0u) atomicOr(dressi_bits[low + 1], column.y);",
        "barrier();",
        f"ivec2 block = first / {BLOCK} + ivec2(lane, 0);",
        f"if (lane >= {BLOCK} || block.x >= {across}) return;",
        "uvec2 dressi_found = uvec2(dressi_bits[2 * lane], dressi_bits[2 * lane + 1]);",
        *then,
    ]
    return w.dispatch(main, f"local_size_x={GROUP}")
