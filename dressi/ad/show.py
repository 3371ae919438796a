"""Pictures of a computation: a listing, Graphviz dot, SVG."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from .graph import DrawFunction, FragmentScatterFunction, Function, ReduceFunction, ScatterFunction, Variable
from .graph.program import Program
from .graph.traversal import leaves, topological_order
from .graph.types import Access
from .ops.pixel.constant import Constant

Shown = Program | Sequence[Variable] | Variable
Node = tuple[str, str, str]
Edge = tuple[str, str, bool]


def _parts(shown: Shown) -> tuple[list[Variable], dict[Variable, list[str]]]:
    """The roots and their labels: the name of an output, ``-> leaf`` for a new value."""
    labels: dict[Variable, list[str]] = {}
    if isinstance(shown, Program):
        for name, v in shown.outputs.items():
            labels.setdefault(v, []).append(name)
        for leaf, new in shown.updates:
            labels.setdefault(new, []).append(f"-> {leaf.name or f'#{leaf.id}'}")
        return list(shown.roots), labels
    roots = [shown] if isinstance(shown, Variable) else list(shown)
    for i, v in enumerate(roots):
        labels.setdefault(v, []).append(v.name or f"out{i}")
    return roots, labels


def _numbers(roots: Sequence[Variable]) -> dict[Variable, str]:
    """Names, the same in every run: $name for leaves, numbers for constants, %0, %1, ... for the rest."""
    names: dict[Variable, str] = {}
    count = itertools.count()
    for leaf in leaves(roots):
        name = leaf.name or "leaf"
        names[leaf] = f"${name}" if f"${name}" not in names.values() else f"${name}.{len(names)}"
    for f in topological_order(roots):
        names[f.output] = _number(f) if isinstance(f, Constant) else f"%{next(count)}"
    return names


def _number(f: Constant) -> str:
    return repr(f).removeprefix("Constant(").removesuffix(")")


def _operation(f: Function, names: dict[Variable, str]) -> str:
    marks = {Access.FETCH: "[]", Access.PULL: "[v]"}
    inputs = ", ".join(names[x] + marks.get(a, "") for x, a in zip(f.inputs, f.access, strict=True))
    return f"{_title(f)}({inputs})" if f.inputs else _title(f)


def _title(f: Function) -> str:
    if isinstance(f, Constant):
        return repr(f)
    values = ", ".join(f"{k}={_short(str(v))}" for k, v in zip(f.fields, f.attributes, strict=True))
    return type(f).__name__ + (f"<{values}>" if values else "")


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def listing(shown: Shown) -> str:
    """One line for each Function, producers first: ``%3  FLOAT 64x64 x 2  Mul(%1, %2)  : loss``.

    ``$name`` is a leaf. ``[]`` marks inputs that are read at other texels, ``[v]`` those of the vertex
    shader.
    """
    roots, labels = _parts(shown)
    names = _numbers(roots)
    rows = [(v, "leaf") for v in leaves(roots)]
    rows += [
        (f.output, _operation(f, names))
        for f in topological_order(roots)
        if not isinstance(f, Constant) or f.output in labels
    ]
    width = max((len(names[v]) for v, _ in rows), default=0)
    types = max((len(f"{v.vtype} {v.domain}") for v, _ in rows), default=0)
    lines = []
    for v, operation in rows:
        label = f"  : {', '.join(labels[v])}" if v in labels else ""
        lines.append(f"{names[v]:<{width}}  {f'{v.vtype} {v.domain}':<{types}}  {operation}{label}")
    return "\n".join(lines) + "\n"


# The first that fits; a scatter of fragments is a draw, too.
KINDS = {
    FragmentScatterFunction: "scatter",
    DrawFunction: "raster",
    ScatterFunction: "scatter",
    ReduceFunction: "reduce",
    Function: "pixel",
}
COLOURS = {
    "leaf": "#d8e8f8",
    "pixel": "#f4f4f4",
    "reduce": "#f8ecc8",
    "scatter": "#f8d8d0",
    "raster": "#d8f0d0",
    "rest": "#ffffff",
}


def _nodes(shown: Shown) -> tuple[list[Node], list[Edge]]:
    """Nodes (name, kind, text), edges (from, to, fetched), producers first. Readers show constants."""
    roots, labels = _parts(shown)
    names = _numbers(roots)
    nodes = [(names[v], "leaf", f"{v.name or 'leaf'}\n{v.vtype} {v.domain}") for v in leaves(roots)]
    edges = []
    for f in topological_order(roots):
        if isinstance(f, Constant) and f.output not in labels:
            continue
        text = f"{_title(f)}\n{f.output.vtype} {f.output.domain}"
        constants = [_number(x.creator) for x in f.inputs if isinstance(x.creator, Constant)]
        text += f"\nwith {', '.join(constants)}" if constants else ""
        text += f"\n{', '.join(labels[f.output])}" if f.output in labels else ""
        kind = next(name for kind, name in KINDS.items() if isinstance(f, kind))
        nodes.append((names[f.output], kind, text))
        for x, a in zip(f.inputs, f.access, strict=True):
            if not isinstance(x.creator, Constant) or x in labels:
                edges.append((names[x], names[f.output], a is not Access.SAME_PIXEL))
    return nodes, edges


def dot(shown: Shown) -> str:
    """The graph as Graphviz text. Dashed edges read other texels; colours are kinds of Functions."""
    return _dot(*_nodes(shown))


def _dot(nodes: list[Node], edges: list[Edge]) -> str:
    lines = ["digraph {", '  node [shape=box, style="filled,rounded", fontname="monospace", fontsize=10]']
    for name, kind, text in nodes:
        label = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'  "{name}" [label="{label}", fillcolor="{COLOURS[kind]}"]')
    lines += [f'  "{a}" -> "{b}"' + (" [style=dashed]" if fetched else "") for a, b, fetched in edges]
    return "\n".join([*lines, "}"]) + "\n"


def svg(shown: Shown, graphviz: bool = True, most: int | None = None) -> str:
    """The graph as SVG text, laid out by Graphviz if it is installed, else in plain layers.  most: the
    largest number of boxes; those farthest from the results are left out and counted."""
    nodes, edges = _nodes(shown)
    if most is not None and len(nodes) > most:
        nodes, edges = _nearest(nodes, edges, most)
    return draw(_dot(nodes, edges), nodes, edges, graphviz)


def _nearest(nodes: list[Node], edges: list[Edge], most: int) -> tuple[list[Node], list[Edge]]:
    """The ``most`` - 1 nodes with the fewest steps to a node that nothing reads, and one for the rest."""
    readers: dict[str, list[str]] = {name: [] for name, *_ in nodes}
    for a, b, _ in edges:
        readers[a].append(b)
    steps: dict[str, int] = {}
    for name, *_ in reversed(nodes):  # readers come after
        steps[name] = min((steps[b] + 1 for b in readers[name]), default=0)
    kept = set(sorted(steps, key=steps.__getitem__)[: most - 1])
    rest = ("...", "rest", f"... {len(nodes) - len(kept)} more")
    near = [e for e in edges if e[0] in kept and e[1] in kept]
    from_rest = dict.fromkeys(b for a, b, _ in edges if a not in kept and b in kept)
    left = [rest, *(node for node in nodes if node[0] in kept)]
    return left, [*(("...", b, False) for b in from_rest), *near]


def draw(text: str, nodes: list[Node], edges: list[Edge], graphviz: bool = True) -> str:
    """An SVG of the Graphviz text; without Graphviz, of the nodes and edges in plain layers."""
    import shutil
    import subprocess

    program = shutil.which("dot") if graphviz else None
    if program:
        done = subprocess.run([program, "-Tsvg"], input=text, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout
    return _layered(nodes, edges)


def _layered(nodes: list[Node], edges: list[Edge]) -> str:
    """An SVG in layers. Each node is one layer below its lowest producer, near the mean position of all; a
    leaf is right above its first reader."""
    from html import escape

    producers: dict[str, list[str]] = {name: [] for name, *_ in nodes}
    for a, b, _ in edges:
        producers[b].append(a)
    depth: dict[str, int] = {}
    layers: dict[int, list[str]] = {}
    for name, *_ in nodes:  # producers come first
        depth[name] = 1 + max((depth[p] for p in producers[name]), default=-1)
    for name, *_ in nodes:
        if not producers[name]:
            depth[name] = max(min((depth[b] for a, b, _ in edges if a == name), default=1) - 1, 0)
        layers.setdefault(depth[name], []).append(name)
    texts = {name: [_short(line) for line in text.split("\n")] for name, _, text in nodes}
    kinds = {name: kind for name, kind, _ in nodes}
    place: dict[str, tuple[float, float]] = {}
    box = {n: (7 * max(map(len, t)) + 12, 13 * len(t) + 8) for n, t in texts.items()}
    top, right = 10.0, 0.0
    for _, layer in sorted(layers.items()):
        wishes = {}
        for name in layer:
            xs = [place[p][0] for p in producers[name]]
            wishes[name] = sum(xs) / len(xs) if xs else 0.0
        left = 10.0
        for name in sorted(layer, key=wishes.__getitem__):
            x = max(left, wishes[name] - box[name][0] / 2)
            place[name] = (x + box[name][0] / 2, top)
            left = x + box[name][0] + 14
        right = max(right, left)
        top += max(box[name][1] for name in layer) + 36
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right:.0f}" height="{top:.0f}"'
        f' viewBox="0 0 {right:.0f} {top:.0f}" style="max-width:100%;height:auto" font-family="monospace"'
        ' font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for a, b, fetched in edges:
        (xa, ya), (xb, yb) = place[a], place[b]
        ya += box[a][1]
        dash = ' stroke-dasharray="4 3"' if fetched else ""
        middle = (ya + yb) / 2
        path = f"M{xa:.0f} {ya:.0f} C{xa:.0f} {middle:.0f} {xb:.0f} {middle:.0f} {xb:.0f} {yb:.0f}"
        lines.append(f'<path d="{path}" fill="none" stroke="#666"{dash}/>')
    for name, text in texts.items():
        (x, y), (width, height) = place[name], box[name]
        lines.append(
            f'<rect x="{x - width / 2:.0f}" y="{y:.0f}" width="{width}" height="{height}" rx="4"'
            f' fill="{COLOURS[kinds[name]]}" stroke="#888"/>'
        )
        for i, line in enumerate(text):
            lines.append(
                f'<text x="{x:.0f}" y="{y + 14 + 13 * i:.0f}" text-anchor="middle">{escape(line)}</text>'
            )
    return "\n".join([*lines, "</svg>"]) + "\n"
