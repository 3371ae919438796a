"""Which texel an invocation of a compute shader works on: one of a row, or one of an active block."""

from __future__ import annotations

from ..substage import GROUP, Sparse
from .shaders import Resource
from .writer import Writer

BLOCK = 8
"""Pixels on each side of the blocks that a sparse dispatch visits; a workgroup visits one."""


def blocks_across(width: int) -> int:
    """Blocks that so many pixels touch along one axis."""
    return -(-width // BLOCK)


def declare_blocks(w: Writer) -> None:
    """The list of active blocks: arguments of an indirect dispatch over them, how many there are, their numbers."""
    w.head.append(
        f"layout(set=0, binding={len(w.resources)}, std430) buffer Blocks "
        "{ uint groups_x, groups_y, groups_z, count; int blocks[]; };"
    )
    w.resources.append(Resource("blocks"))


def invocation(w: Writer, sparse: Sparse | None) -> tuple[str, list[str]]:
    """Layout and statements of a compute shader: one invocation a texel, in rows, or in the active blocks."""
    t, domain = w.tiling, w.s.domain
    layout = f"layout(local_size_x={GROUP}) in;"
    lines = ["ivec2 place = ivec2(gl_GlobalInvocationID.xy);"]
    if sparse is not None:
        declare_blocks(w)
        across = blocks_across(t.width)
        lines = [
            f"uint number = gl_WorkGroupID.y * {w.limits.max_workgroup_count}u + gl_WorkGroupID.x;",
            "if (number >= count) return;",
            "int block = blocks[number], inside = int(gl_LocalInvocationIndex);",
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
