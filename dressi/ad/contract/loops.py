"""GLSL of contractions: one loop for each reduced axis, nested; none where the terms are few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from ..graph.index_map import Affine
from ..graph.snippet import LOST, add_compensated
from ..graph.work import UNROLLED
from .derivative import term_number
from .terms import Guard, Terms, nothing_glsl, shape_of

LONG_READERS = 256
"""The same of loops between bounds, as of the terms that add to a texel."""


def contraction_glsl(f: Terms) -> str:
    """Statements that set ``$y``. Every loop has its own sum: errors grow with the longest axis."""
    if f.selects:
        return _selection(f)
    inner = "$y += dressi_term;" if f.combine == "add" else f"$y = {f.combine}($y, dressi_term);"
    start = f"{decoded(f)}\n$y = {nothing_glsl(f.combine, f.body.root.vtype)};"
    if f.place is not None:
        return f"{start}\n{_read(f, inner)}"
    if f.writes_out:
        first, *more = _each(f)
        begin = term(f, "$y = dressi_term;" if f.combine == "add" else inner, first)
        return "\n".join([start, begin, *(term(f, inner, names) for names in more)])
    return f"{decoded(f)}\n{_summed(f, 0)}" if f.combine == "add" else f"{start}\n{_nested(f, inner)}"


def _selection(f: Terms) -> str:
    """An expression: the one texel that is read, or 0."""
    names = dict.fromkeys(f.reduced_axes, "0") | dict(enumerate(_places(f)))
    tests, texel = _texel(f, 0, names)
    tests = [*(test for guard in f.guards for test in _tests(f, guard, names)), *tests]
    return f"{' && '.join(dict.fromkeys(tests))} ? {texel} : $type(0)" if tests else texel


def unrolled_glsl(f: Terms) -> str:
    """The same sum, to the bit, along one axis by iterations of ``UNROLLED`` texels and a rest without
    loop."""
    names, (axis,), (extent,) = names_of(range(len(f.extents))), f.reduced_axes, f.reduced
    kind, end = f.output.vtype.glsl, extent - extent % UNROLLED
    lost, add = _adder(f, axis, "$y", "dressi_lost0")

    def read(index: str) -> str:
        return _texel(f, 0, names | {axis: index})[1]

    texels = [f"x{k}" for k in range(UNROLLED)]
    reads = " ".join(f"{kind} {x} = {read(f'i + {k}')};" for k, x in enumerate(texels))
    loop = f"for (int i = 0; i < {end}; i += {UNROLLED}) {{ {reads} {' '.join(map(add, texels))} }}"
    rest = [add(read(str(k))) for k in range(end, extent)]
    return "\n".join([decoded(f), f"$y = {kind}(0);{lost}", loop, *rest])


def index_glsl(f: Terms) -> str:
    """Statements that set ``$y`` to the number of the first of the largest or smallest terms."""
    number, vtype = term_number(f).glsl(names_of(f.reduced_axes)), f.body.root.vtype
    if vtype.is_scalar:
        better = f"dressi_term {'>' if f.combine == 'max' else '<'} dressi_best"
        inner = f"if ({better}) {{ dressi_best = dressi_term; $y = {number}; }}"
    else:
        better = f"{'greaterThan' if f.combine == 'max' else 'lessThan'}(dressi_term, dressi_best)"
        inner = (
            f"{{ bvec{vtype.components} better = {better};"
            f" dressi_best = mix(dressi_best, dressi_term, better); $y = mix($y, $type({number}), better); }}"
        )
    # Without guards there is a first term, which wins where all are the worst there is.
    best = (
        f"{vtype.glsl} dressi_best = {nothing_glsl(f.combine, vtype)}; $y = $type({-1 if f.guards else 0});"
    )
    return f"{decoded(f)}\n{best}\n{_nested(f, inner)}"


def names_of(axes: Iterable[int]) -> dict[int, str]:
    return {axis: f"dressi_a{axis}" for axis in axes}


def decoded(f: Terms) -> str:
    """Statements that set the parallel axes from ``pixel`` and ``tile``."""
    lines = []
    for place, radix, axes in zip(_places(f), f.shape, f.axes, strict=True):
        for axis in axes:
            extent = f.extents[axis]
            radix //= extent
            value = place if radix == 1 else f"({place}) / {radix}"
            value = value if axis == axes[0] else f"({value}) % {extent}"
            lines.append(f"int {names_of([axis])[axis]} = {'0' if extent == 1 else value};")
    return " ".join(lines)


def _places(f: Terms) -> tuple[str, str, str, str]:
    """The texel n, c, y, x of the output that is computed."""
    n, c, _, _ = f.shape
    return ("tile" if c == 1 else f"tile / {c}", "tile" if n == 1 else f"tile % {c}", "pixel.y", "pixel.x")


def _texel(f: Terms, k: int, names: Mapping[int, str]) -> tuple[list[str], str]:
    """(tests that the texel of input k is inside, an expression that reads it)."""
    x, m = f.inputs[k], f.maps[k]
    shape = shape_of(x)
    n, c, y, column = m.glsl(names, shape, f.extents)
    tiles, channels, _, _ = shape
    tile = n if channels == 1 else c if tiles == 1 else f"({n}) * {channels} + {c}"
    if m[:2] == tuple(Affine.axis(axes[0]) for axes in f.axes[:2]) and (tiles, channels) == f.shape[:2]:
        tile = "tile"
    tests = [
        test
        for guard in zip(m.affines, shape, strict=True)
        if m.border == "zero" and guard not in f.guards
        for test in _tests(f, guard, names)
    ]
    return tests, f"${k}(ivec2({column}, {y}), {tile})".replace("ivec2(pixel.x, pixel.y)", "pixel")


def term(f: Terms, then: str, names: Mapping[int, str] | None = None) -> str:
    """Sets ``dressi_term`` to the value of the body and runs ``then`` where the guards are met."""
    names = names_of(range(len(f.extents))) if names is None else names
    tests = [test for guard in f.guards for test in _tests(f, guard, names)]
    lines, values = [], {}
    for k, x in enumerate(f.inputs):
        inside, value = _texel(f, k, names)
        kind = x.vtype.glsl
        value = f"{' && '.join(dict.fromkeys(inside))} ? {value} : {kind}(0)" if inside else value
        values[f.body.formals[k]] = f"dressi_r{k}"
        lines.append(f"{kind} dressi_r{k} = {value};")
    for k, affine in enumerate(f.indices, len(f.inputs)):
        values[f.body.formals[k]] = f"dressi_r{k}"
        lines.append(f"int dressi_r{k} = {affine.glsl(names)};")
    statements, root = f.body.glsl(values, "dressi_b")
    kind = f.body.root.vtype.glsl
    text = "\n".join([*lines, *statements, f"precise {kind} dressi_term = {root};", then])
    return f"if ({' && '.join(dict.fromkeys(tests))}) {{\n{text}\n}}" if tests else f"{{\n{text}\n}}"


def _tests(f: Terms, guard: Guard, names: Mapping[int, str]) -> list[str]:
    affine, extent = guard
    return affine.inside_glsl(names, extent, affine.bounds(f.extents))


def _each(f: Terms) -> Iterable[dict[int, str]]:
    """The names of the axes for each term; reduced ones are numbers."""
    outer = names_of(range(f.reduced_axes.start))
    for index in np.ndindex(*f.reduced):
        yield outer | {a: str(i) for a, i in zip(f.reduced_axes, index, strict=True)}


def _read(f: Terms, add: str) -> str:
    """Adds the terms whose place is the texel: unrolled where their number is known, else in loops."""
    known = names_of(range(f.reduced_axes.start)) | {a: "0" for a in f.reduced_axes if f.extents[a] == 1}
    tests, several = f.readers.unrolled(known) or ([], [])
    unrolled = "\n".join(term(f, add if k else "$y = dressi_term;", names) for k, names in enumerate(several))
    if several and not tests:
        return unrolled
    start = ""
    if f.readers.iterations > LONG_READERS:
        start, add = LOST, f"{{ {add_compensated('dressi_term')} }}"
    loops = start + f.readers.glsl(known, lambda names: term(f, add, names))
    return f"if ({' && '.join(tests)}) {{ {unrolled} }}\nelse {{ {loops} }}" if several else loops


def _loop(f: Terms, axis: int) -> str:
    name = names_of([axis])[axis]
    return f"for (int {name} = 0; {name} < {f.extents[axis]}; ++{name})"


def _nested(f: Terms, inner: str) -> str:
    """Runs ``inner`` for every term."""
    text = term(f, inner)
    for axis in reversed(f.reduced_axes):
        text = f"{_loop(f, axis)} {text}"
    return text


def _summed(f: Terms, level: int) -> str:
    """Sets the sum of a level (``$y`` for the outermost) to the sum over its axis and all axes inside."""
    kind, total = f.output.vtype.glsl, f"dressi_s{level}" if level else "$y"
    start = f"precise {kind} {total} = {kind}(0);" if level else f"{total} = {kind}(0);"
    if level == len(f.reduced):
        return f"{start}\n{term(f, f'{total} = dressi_term;')}"
    axis, last = f.reduced_axes[level], level == len(f.reduced) - 1
    declared, add = _adder(f, axis, total, f"dressi_lost{level}")
    inner = (
        term(f, add("dressi_term"))
        if last
        else f"{{\n{_summed(f, level + 1)}\n{add(f'dressi_s{level + 1}')}\n}}"
    )
    return f"{start}{declared}\n{_loop(f, axis)} {inner}"


def _adder(f: Terms, axis: int, total: str, lost: str) -> tuple[str, Callable[[str], str]]:
    """(the declarations of a sum along an axis, statements that add a value to it)."""
    if f.extents[axis] < f.long or f.output.vtype.is_int:
        return "", lambda value: f"{total} += {value};"
    kind = f.output.vtype.glsl
    return (
        f" precise {kind} {lost} = {kind}(0);",
        lambda value: f"{{ {add_compensated(value, total, lost, kind)} }}",
    )
