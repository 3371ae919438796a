"""What shaders of dispatches write, and GLSL functions of what follows from a texel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .....ad.graph import Function, Variable
from ...substage import SubStage
from .writer import Writer


def declare_outputs(w: Writer, s: SubStage) -> dict[Variable, str]:
    """Storage images, or ranges of storage buffers, for what is not written as attachments; names of the images."""
    names = {}
    for k, v in enumerate(s.outputs):
        if v in s.colors:
            continue
        leaf = s.replaces.get(v)
        name = names[v] = w.images.get(leaf, f"dressi_output{k}") if leaf is not None else f"dressi_output{k}"
        w.declare_storage(v if leaf is None else leaf, name, "" if leaf in w.images else "writeonly")
    return names


def following(w: Writer, v: Variable, others: list[Function], names: dict[Variable, str], k: int) -> str:
    """The name of a GLSL function (ivec2 pixel, int tile, value of ``v``) that does others at a texel, and stores what is made."""
    made = {v, *(f.output for f in others)}
    return _function(
        w,
        v,
        others,
        f"dressi_following{k}",
        "void",
        lambda: [line for x in w.s.outputs if x in made for line in w.stores(x, names[x])],
    )


def value_after(w: Writer, v: Variable, others: list[Function], result: Variable, k: int) -> str:
    """The name of a GLSL function (ivec2 pixel, int tile, value of ``v``) that does others at a texel, and returns one value."""
    return _function(
        w, v, others, f"dressi_after{k}", result.vtype.glsl, lambda: [f"return {w.names[result]};"]
    )


def _function(
    w: Writer, v: Variable, others: list[Function], name: str, kind: str, end: Callable[[], list[str]]
) -> str:
    outer, w.names, w.lines = (w.s, w.tiling, w.domain, w.names, w.lines), {v: "dressi_texel"}, []
    w.s, w.tiling, w.domain = replace(w.s, domain=v.domain), w.limits.tiling(v), v.domain
    for f in others:
        w.emit(f)
    lines = [f"ivec2 place = {w.texel(v, 'tile', 'pixel')};", *w.lines, *end()]
    body = "\n".join("  " + line for line in lines)
    w.head.append(f"{kind} {name}(ivec2 pixel, int tile, {v.vtype.glsl} dressi_texel) {{\n{body}\n}}")
    w.s, w.tiling, w.domain, w.names, w.lines = outer
    return name
