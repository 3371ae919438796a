"""Compute shaders for a convolution and a matrix product, written by hand, in the ways that are fast on CPU drivers."""

from collections.abc import Iterator
from typing import NamedTuple

N, C, SIDE = 4, 16, 256
"""Images, channels, and texels along a side."""
PITCH = SIDE + 8
"""Of a row with its margin of zeros; a power of two would be slow."""
_GROUP = "layout(local_size_x=64) in;"
_BUFFER = "layout(std430, binding={}) {} buffer B{} {{ {} {}[]; }};"
_IMAGE = "layout(binding={}, rgba32f) uniform readonly image2D {};"


class HandWritten(NamedTuple):
    """operands: names of what is bound, in order.  groups: workgroups along both axes."""

    name: str
    source: str
    operands: tuple[str, str, str]
    groups: tuple[int, int]


def _source(bindings: list[str], body: list[str]) -> str:
    return "\n".join(["#version 450", _GROUP, *bindings, "void main() {", *body, "}"])


def convolutions(longest: int) -> Iterator[HandWritten]:
    """Shaders whose invocations make some rows of some outputs, by blocks of at most so many products. Operands: ``padded`` (n, c, SIDE + 2, PITCH), ``weights`` (c, dy,
    dx, o), or ``texels`` and ``kernel``, images of four channels a texel; ``result`` (n, o, y, x)."""
    for rows, outputs, straight in ((1, 16, True), (1, 16, False), (4, 8, False), (8, 8, False)):
        if rows * outputs * 9 * (C if straight else 1) <= longest:
            yield _by_buffers(rows, outputs, straight)
    for rows in (4, 8):
        yield _by_images(rows, 8)


def _strip(rows: int, outputs: int) -> tuple[list[str], list[str], tuple[int, int]]:
    """Statements before and after the sums of an invocation, and the workgroups."""
    parts, high = C // outputs, SIDE // rows
    before = [
        "int column = int(gl_GlobalInvocationID.x), rest = int(gl_WorkGroupID.y);",
        f"int part = rest % {parts}; rest /= {parts};",
        f"int row = rest % {high} * {rows}, n = rest / {high};",
        *(f"float s{r}_{o} = 0.0;" for r in range(rows) for o in range(outputs)),
    ]
    after = [
        f"y[((n * {C} + part * {outputs} + {o}) * {SIDE} + row + {r}) * {SIDE} + column] = s{r}_{o};"
        for r in range(rows)
        for o in range(outputs)
    ]
    return before, after, (SIDE // 64, N * high * parts)


def _by_buffers(rows: int, outputs: int, straight: bool) -> HandWritten:
    bindings = [
        _BUFFER.format(0, "readonly", 0, "float", "x"),
        _BUFFER.format(1, "readonly", 1, "vec4", "w"),
        _BUFFER.format(2, "writeonly", 2, "float", "y"),
    ]
    before, after, groups = _strip(rows, outputs)
    lines = [] if straight else [f"for (int c = 0; c < {C}; c++)"]
    for c in map(str, range(C)) if straight else ["c"]:
        lines += ["{", f"int b = ((n * {C} + {c}) * {SIDE + 2} + row) * {PITCH} + column;"]
        lines += [f"float v{dx}_{k} = x[b + {k * PITCH + dx}];" for dx in range(3) for k in range(rows + 2)]
        for tap in range(9):
            for o in range(0, outputs, 4):
                place = f"({c} * 9 + {tap}) * {C // 4} + part * {outputs // 4} + {o // 4}"
                lines.append(f"vec4 w{tap}_{o} = w[{place}];")
                lines += [
                    f"s{r}_{o + k} = fma(v{tap % 3}_{r + tap // 3}, w{tap}_{o}.{'xyzw'[k]}, s{r}_{o + k});"
                    for r in range(rows)
                    for k in range(4)
                ]
        lines.append("}")
    name = f"buffers, {rows} rows x {outputs} outputs{', straight' if straight else ''}"
    source = _source(bindings, [*before, *lines, *after])
    return HandWritten(name, source, ("padded", "weights", "result"), groups)


def _by_images(rows: int, outputs: int) -> HandWritten:
    bindings = [
        _IMAGE.format(0, "x"),
        _IMAGE.format(1, "w"),
        _BUFFER.format(2, "writeonly", 2, "float", "y"),
    ]
    before, after, groups = _strip(rows, outputs)
    lines = [
        f"for (int c = 0; c < {C // 4}; c++) for (int dx = 0; dx < 3; dx++) {{",
        f"ivec2 b = ivec2(column + dx, (n * {C // 4} + c) * {SIDE + 2} + row);",
        *(f"vec4 v{k} = imageLoad(x, b + ivec2(0, {k}));" for k in range(rows + 2)),
    ]
    for dy in range(3):
        for o in range(outputs):
            lines.append(f"{{ vec4 k = imageLoad(w, ivec2(c * 9 + {dy * 3} + dx, part * {outputs} + {o}));")
            lines += [*(f"s{r}_{o} += dot(v{r + dy}, k);" for r in range(rows)), "}"]
    source = _source(bindings, [*before, *lines, "}", *after])
    return HandWritten(
        f"images, {rows} rows x {outputs} outputs", source, ("texels", "kernel", "result"), groups
    )


def products(size: int) -> Iterator[HandWritten]:
    """Shaders whose invocations make some rows of a column, or of four. Operands: ``left`` and ``right``, or ``left texels`` and
    ``right texels``, images of four columns a texel; ``result``."""
    for rows, terms, image in ((16, 4, False), (16, 16, False), (32, 4, False), (8, 4, True), (16, 4, True)):
        yield _of_a_column(size, rows, terms, image)
    for rows in (4, 8):
        yield _of_four_columns(size, rows)
    for rows, columns in ((8, 8), (16, 4)):
        yield _of_columns_apart(size, rows, columns)


def _of_a_column(size: int, rows: int, terms: int, image: bool) -> HandWritten:
    bindings = [
        _IMAGE.format(0, "a") if image else _BUFFER.format(0, "readonly", 0, "vec4", "a"),
        _BUFFER.format(1, "readonly", 1, "float", "b"),
        _BUFFER.format(2, "writeonly", 2, "float", "y"),
    ]
    lines = [
        f"int column = int(gl_GlobalInvocationID.x), row = int(gl_WorkGroupID.y) * {rows};",
        *(f"float s{r} = 0.0;" for r in range(rows)),
        f"for (int k = 0; k < {size}; k += {terms}) {{",
        *(f"float v{k} = b[(k + {k}) * {size} + column];" for k in range(terms)),
    ]
    for q in range(terms // 4):
        for r in range(rows):
            place = f"ivec2(k / 4 + {q}, row + {r})" if image else f"(row + {r}) * {size // 4} + k / 4 + {q}"
            lines.append(f"{{ vec4 u = {f'imageLoad(a, {place})' if image else f'a[{place}]'};")
            lines += [*(f"s{r} = fma(u.{'xyzw'[k]}, v{4 * q + k}, s{r});" for k in range(4)), "}"]
    lines += ["}", *(f"y[(row + {r}) * {size} + column] = s{r};" for r in range(rows))]
    name = f"{'image and buffer' if image else 'buffers'}, {rows} rows, {terms} terms"
    operands = ("left texels" if image else "left", "right", "result")
    return HandWritten(name, _source(bindings, lines), operands, (size // 64, size // rows))


def _of_four_columns(size: int, rows: int) -> HandWritten:
    bindings = [
        _IMAGE.format(0, "a"),
        _IMAGE.format(1, "b"),
        _BUFFER.format(2, "writeonly", 2, "vec4", "y"),
    ]
    lines = [
        f"int column = int(gl_GlobalInvocationID.x), row = int(gl_WorkGroupID.y) * {rows};",
        *(f"vec4 s{r} = vec4(0.0);" for r in range(rows)),
        f"for (int k = 0; k < {size}; k += 4) {{",
        *(f"vec4 v{k} = imageLoad(b, ivec2(column, k + {k}));" for k in range(4)),
    ]
    for r in range(rows):
        lines.append(f"{{ vec4 u = imageLoad(a, ivec2(k / 4, row + {r}));")
        lines += [*(f"s{r} = fma(vec4(u.{'xyzw'[k]}), v{k}, s{r});" for k in range(4)), "}"]
    lines += ["}", *(f"y[(row + {r}) * {size // 4} + column] = s{r};" for r in range(rows))]
    operands = ("left texels", "right texels", "result")
    name = f"images, {rows} rows x 4 columns"
    return HandWritten(name, _source(bindings, lines), operands, (size // 256, size // rows))


def _of_columns_apart(size: int, rows: int, columns: int) -> HandWritten:
    bindings = [
        _BUFFER.format(0, "readonly", 0, "vec4", "a"),
        _BUFFER.format(1, "readonly", 1, "float", "b"),
        _BUFFER.format(2, "writeonly", 2, "float", "y"),
    ]
    every = [(r, c) for r in range(rows) for c in range(columns)]
    lines = [
        f"int column = int(gl_WorkGroupID.x) * {16 * columns} + int(gl_LocalInvocationIndex);",
        f"int row = int(gl_WorkGroupID.y) * {rows};",
        *(f"float s{r}_{c} = 0.0;" for r, c in every),
        f"for (int k = 0; k < {size}; k += 4) {{",
        *(f"vec4 u{r} = a[(row + {r}) * {size // 4} + k / 4];" for r in range(rows)),
    ]
    for k in range(4):
        lines += [f"float v{k}_{c} = b[(k + {k}) * {size} + column + {16 * c}];" for c in range(columns)]
        lines += [f"s{r}_{c} = fma(u{r}.{'xyzw'[k]}, v{k}_{c}, s{r}_{c});" for r, c in every]
    lines += ["}", *(f"y[(row + {r}) * {size} + column + {16 * c}] = s{r}_{c};" for r, c in every)]
    source = _source(bindings, lines).replace(_GROUP, "layout(local_size_x=16) in;")
    name = f"buffers, {rows} rows x {columns} columns"
    return HandWritten(name, source, ("left", "right", "result"), (size // (16 * columns), size // rows))
