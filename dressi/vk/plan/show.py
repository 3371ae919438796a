"""A Plan as a picture: SubStages as boxes, Stages as frames around them."""

from __future__ import annotations

from ...ad.show import COLOURS, draw
from .plan import Plan
from .substage import Binding, Fragment, PrimitiveWork, Scatter, SubStage
from .uses import Uses


def _colour(s: SubStage) -> str:
    kinds = {Fragment: "pixel", Scatter: "scatter", PrimitiveWork: "raster"}
    return next((colour for kind, colour in kinds.items() if isinstance(s.work, kind)), "reduce")


def _label(s: SubStage) -> str:
    names: dict[str, int] = {}
    for f in s.functions:
        names[type(f).__name__] = names.get(type(f).__name__, 0) + 1
    parts = [name if n == 1 else f"{n} {name}" for name, n in names.items()]
    lines = [", ".join(parts[k : k + 5]) for k in range(0, len(parts), 5)]
    writes = ", ".join(str(v.vtype) for v in s.outputs)
    return "\n".join([f"{s.work.name} {s.domain}", *lines, f"writes {writes}"])


def _edges(plan: Plan, name: dict[SubStage, str]) -> list[tuple[str, str, bool]]:
    """(producer, reader, whether through a texture); what is read from outside comes from no box."""
    uses = Uses(plan.sub_stages)
    return [
        (name[uses.sub_stages[uses.maker[r.variable]]], name[s], r.binding is not Binding.ATTACHMENT)
        for s in uses.sub_stages
        for r in s.reads
        if r.variable in uses.maker
    ]


def plan_dot(plan: Plan) -> str:
    """The plan in Graphviz' language; dashed edges go through textures, others through attachments."""
    name = {s: f"s{k}" for k, s in enumerate(plan.sub_stages)}
    lines = [
        "digraph {",
        '  node [shape=box, style="filled,rounded", fontname="monospace", fontsize=10]',
    ]
    for k, stage in enumerate(plan.stages):
        once = "once, " if stage in plan.static.stages else ""
        kind = "render pass" if stage.draws else "dispatch"
        lines.append(f'  subgraph cluster{k} {{ label="stage {k}: {once}{kind}"; fontname="monospace"')
        for s in stage.sub_stages:
            text = _label(s).replace("\n", "\\n")
            lines.append(f'    "{name[s]}" [label="{text}", fillcolor="{COLOURS[_colour(s)]}"]')
        lines.append("  }")
    dashed = " [style=dashed]"
    lines += [f'  "{a}" -> "{b}"{dashed if texture else ""}' for a, b, texture in _edges(plan, name)]
    return "\n".join([*lines, "}"]) + "\n"


def plan_svg(plan: Plan, graphviz: bool = True) -> str:
    """The plan as an SVG text, laid out by Graphviz where it is installed, else in plain layers."""
    name = {s: f"s{k}" for k, s in enumerate(plan.sub_stages)}
    nodes = [(name[s], _colour(s), _label(s)) for s in plan.sub_stages]
    return draw(plan_dot(plan), nodes, _edges(plan, name), graphviz)
