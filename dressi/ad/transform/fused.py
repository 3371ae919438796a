"""Small graphs that are one Function each: what is computed in many places, and always together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, partial, reduce, wraps
from operator import add
from typing import Any

import numpy as np

from ..graph import At, PixelFunction, Variable
from ..graph.evaluation import SubGraph
from ..graph.program import Program
from ..graph.traversal import rebuilt, topological_order
from ..graph.types import VType
from ..ops.pixel.constant import constant_value
from ..ops.pixel.geometry import dot
from .gradient import gradient, local_jvp
from .simplify import simplify


def fused(
    build: Callable[..., Variable], slope: Callable[..., Variable] | None = None
) -> Callable[..., Variable]:
    """A decorator of functions that build a graph of Functions which read their inputs at the own texel.

    A call adds one Function to the graph instead of dozens, which takes less time to plan; its snippet, its
    meaning in NumPy and its derivatives are those of the graph, and its gradients are one Function each too.
    Arguments are Variables by place, which broadcast, and hashable values by name.

    slope: of a FLOAT, builds its gradient by argument number ``by``, where that has a form of its own that is
    cheaper, or right where the graph is not smooth. Second derivatives are those of this form.

    >>> @fused
    ... def softened(x, *, width):
    ...     return x * x / (F.abs(x) + width)
    >>> evaluate(softened(Variable.of([1.0, 2.0, 3.0, 4.0, 5.0]), width=1.0)).tolist()[:3]
    [0.5, 1.3333333333333333, 2.25]
    """

    @cache
    def made(vtypes: tuple[VType, ...], options: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
        formals, named = tuple(Variable(vtype) for vtype in vtypes), dict(options)
        graphs = [build(*formals, **named)]
        graphs += [] if slope is None else [slope(*formals, by=i, **named) for i in range(len(formals))]
        graph, *slopes = (_simple(formals, root) for root in graphs)
        return {"graph": graph, "slopes": tuple(slopes)}

    @wraps(build)
    def call(*inputs: Variable, **options: Any) -> Variable:
        return Whole(*inputs, **made(tuple(x.vtype for x in inputs), tuple(options.items()))).output

    return call


def _simple(formals: tuple[Variable, ...], root: Variable) -> SubGraph:
    """The graph of the root, simplified, with Functions made by ``fused`` replaced by their graphs."""
    made: dict[Variable, Variable] = {}

    def rebuilt_of(x: Variable) -> Variable:
        return made.get(x, x)

    for f in topological_order([root]):
        if isinstance(f, Whole):
            made[f.output] = _again(f.graph, *map(rebuilt_of, f.inputs))
        else:
            rebuilt([f], made)
    return SubGraph(formals, (simplify(Program({"root": rebuilt_of(root)})).outputs["root"],))


@cache
def _slope(graph: SubGraph, i: int) -> SubGraph:
    """The gradient by one formal, over the formals and the gradient of the root."""
    seed = Variable(graph.root.vtype)
    (slope,) = gradient(graph.root, [graph.formals[i]], seed)
    return _simple((*graph.formals, seed), slope)


class Whole(PixelFunction):
    """Inputs: the formals of ``graph``, whose root it computes. slopes: its gradients by them, if given."""

    fields = ("graph", "slopes")
    graph: SubGraph
    slopes: tuple[SubGraph, ...] = ()

    def infer(self):
        if [x.vtype for x in self.inputs] != [formal.vtype for formal in self.graph.formals]:
            wanted = ", ".join(formal.vtype.name for formal in self.graph.formals)
            raise self.fail(f"needs inputs of the types {wanted}")
        return self.graph.root.vtype, self.broadcast()

    @cached_property
    def operations(self) -> float:
        return self.graph.operations / self.output.vtype.components

    @cached_property
    def includes(self) -> tuple[str, ...]:
        return self.graph.includes

    @cached_property
    def glsl(self) -> str:
        names = {formal: f"${k}" for k, formal in enumerate(self.graph.formals)}
        lines, root = self.graph.glsl(names, "dressi_fused")
        return "\n".join([*lines, f"$y = {root};"])

    def evaluate(self, at: At, *x):
        given = dict(zip(self.graph.formals, x, strict=True))
        (value,) = self.graph.evaluate(at, lambda v, _: given[v])
        return value

    def known_value(self, known):
        values = {self.graph.formals[i]: value for i, value in known.items()}
        for f in self.graph.functions:
            here = {i: values[x] for i, x in enumerate(f.inputs) if x in values}
            value = f.known_value(here) if here or not f.inputs else None
            if value is not None and np.isfinite(value).all():
                values[f.output] = np.asarray(value, f.output.vtype.dtype)
        return values.get(self.graph.root)

    def vjp(self, gy, i):
        if self.slopes:
            return gy * Whole(*self.inputs, graph=self.slopes[i]).output
        slope = _slope(self.graph, i)
        value = constant_value(slope.root)
        return Whole(*self.inputs, gy, graph=slope).output if value is None or np.any(value) else None

    def jvp(self, tangents):
        if self.slopes:
            moved = [(graph, t) for graph, t in zip(self.slopes, tangents, strict=True) if t is not None]
            parts = [dot(Whole(*self.inputs, graph=graph).output, t) for graph, t in moved]
            return reduce(add, parts) if parts else None
        return local_jvp(partial(_again, self.graph), self.inputs, tangents)


def _again(graph: SubGraph, *x: Variable) -> Variable:
    """The root, built of ordinary Functions."""
    made = dict(zip(graph.formals, x, strict=True))
    rebuilt(graph.functions, made)
    return made.get(graph.root, graph.root)
