"""The NumPy executor: the meaning of every Function, and the reference of every test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ...errors import GraphError
from . import At, Domain, Function, Variable
from .includes import included_files
from .operators import builders
from .program import Program
from .snippet import template_of
from .traversal import structure, topological_order
from .types import Access


@lru_cache(maxsize=64)
def coordinates(domain: Domain) -> At:
    """All texels of a domain: x, y and tile, which broadcast to (batch, H, W)."""
    (width, height), tiles, _ = domain
    return At(
        np.arange(width).reshape(1, 1, -1),
        np.arange(height).reshape(1, -1, 1),
        np.arange(tiles).reshape(-1, 1, 1),
    )


def values_at(
    function: Function, at: At, inputs: Sequence[np.ndarray], dtype: Any = np.float64
) -> np.ndarray:
    """The values of one Function at the texels ``at``, int64 or ``dtype``. Axes of extent 1 may remain."""
    result = np.asarray(function.evaluate(at, *inputs))
    return result.astype(np.int64 if function.output.vtype.is_int else dtype, copy=False)


def with_tiles(array: np.ndarray, x: Variable, domain: Domain) -> np.ndarray:
    """An input with its batch and channels broadcast to the tiles of a domain. One tile stays one."""
    if x.tiles == 1 or (x.tiles, x.channels) == (domain.tiles, domain.channels):
        return array
    apart = array.reshape(x.batch, x.channels, *array.shape[1:])
    whole = np.broadcast_to(apart, (domain.batch, domain.channels, *array.shape[1:]))
    return whole.reshape(domain.tiles, *array.shape[1:])


def leaf_value(leaf: Variable, given: Any = None) -> np.ndarray:
    """``given``, or else the data of the leaf, as an array of its shape. Raises GraphError without either."""
    if given is not None:
        return leaf.conform(given)
    if leaf.data is None:
        raise GraphError(
            f"{leaf} has no values: send it, pass it to evaluate, or give it data= (made at {leaf.where})"
        )
    return leaf.data


class Evaluator:
    """Evaluates ``outputs`` for given values of the leaves. Values are dropped after their last use."""

    def __init__(self, outputs: Iterable[Variable], dtype: Any = np.float64):
        self.outputs = tuple(outputs)
        self.dtype = np.dtype(dtype)
        self.order = topological_order(self.outputs)
        last = {v: k for k, f in enumerate(self.order) for v in (f.output, *f.inputs)}
        self.drop: list[list[Variable]] = [[] for _ in self.order]
        for variable in last.keys() - set(self.outputs):
            self.drop[last[variable]].append(variable)
        # Looked up once: central differences evaluate small graphs thousands of times, and the look-ups took
        # a third of that.
        self.work = [(f, coordinates(f.working_domain), f.output.tiled) for f in self.order]

    def __call__(self, values: Mapping[Variable, Any] | None = None) -> list[np.ndarray]:
        """Arrays of the shapes of the outputs. They may be read-only views."""
        values = values or {}
        arrays: dict[Variable, np.ndarray] = {}
        with np.errstate(all="ignore"):
            for (function, at, shape), drop in zip(self.work, self.drop, strict=True):
                for x in function.inputs:
                    if x not in arrays:
                        arrays[x] = self._leaf(x, values)
                inputs = [arrays[x] for x in function.inputs]
                arrays[function.output] = self._run(function, at, shape, inputs)
                for x in drop:
                    del arrays[x]
        results = [arrays[v] if v in arrays else self._leaf(v, values) for v in self.outputs]
        return [a.reshape(v.shape) for a, v in zip(results, self.outputs, strict=True)]

    def _leaf(self, leaf: Variable, values: Mapping[Variable, Any]) -> np.ndarray:
        array = leaf_value(leaf, values.get(leaf)).reshape(leaf.tiled)
        return array if leaf.vtype.is_int else array.astype(self.dtype, copy=False)

    def _run(
        self, function: Function, at: At, shape: tuple[int, ...], inputs: list[np.ndarray]
    ) -> np.ndarray:
        domain = function.working_domain
        for k, (x, access) in enumerate(zip(function.inputs, function.access)):
            if access is Access.SAME_PIXEL:
                inputs[k] = with_tiles(inputs[k], x, domain)
        result = values_at(function, at, inputs, self.dtype)
        if result.shape == shape:
            return result
        try:
            return np.broadcast_to(result, shape)
        except ValueError:
            raise function.fail(f"evaluates to shape {result.shape}, not {shape}") from None


def evaluate(
    outputs: Sequence[Variable], values: Mapping[Variable, Any] | None = None, dtype: Any = np.float64
) -> list[np.ndarray]:
    """Values of ``outputs``, arrays of shape (batch, H, W) + vtype.shape; integers are int64.

    Leaves take their values from ``values``, else from their data; GraphError names a leaf that has neither.
    Division by zero and overflow give infinity or NaN without a warning, as on a device.
    """
    for variable in values or ():
        if not variable.is_leaf:
            raise GraphError(f"{variable} is computed; only leaves take values")
    return Evaluator(outputs, dtype)(values)


MOST_WORK = 3e7  # operations of ``known_value``


def known_value(variable: Variable) -> np.ndarray | None:
    """``evaluate`` by the data of the leaves; None if a leaf has none, or the work is above MOST_WORK."""
    if variable.is_leaf:
        return variable.data
    functions = topological_order([variable])
    if any(x.is_leaf and x.data is None for f in functions for x in f.inputs):
        return None
    work = sum(f.operations * max(f.iterations, 1) * np.prod(f.output.shape) for f in functions)
    return evaluate([variable])[0] if work <= MOST_WORK else None


class NumpyExecutor:
    """Runs a Program in NumPy. It has the methods of every executor: send, recv, run, close."""

    def __init__(self, program: Program, dtype: Any = np.float64):
        program.check()
        self.program = program
        self._leaves = set(program.leaves)
        self._state: dict[Variable, np.ndarray] = {}
        self._results: dict[Variable, np.ndarray] = {}
        self._dtype = dtype
        self._evaluator = Evaluator(program.roots, dtype)

    def send(self, variable: Variable, array: Any) -> None:
        """Sets the values of a leaf. Raises GraphError if they do not fit, or the leaf is not used."""
        if variable not in self._leaves:
            raise GraphError(f"{variable} is not a leaf of this program")
        self._state[variable] = variable.conform(array)

    def recv(self, variable: Variable) -> np.ndarray:
        """The current values of a leaf, or those of an output in the last run, before its updates."""
        if variable in self._leaves and variable.is_leaf:
            return np.array(leaf_value(variable, self._state.get(variable)))
        if variable not in self._results:
            why = "not computed yet; run first" if variable in self.program.roots else "no output"
            raise GraphError(f"{variable} is {why}")
        return np.array(self._results[variable])

    def run(self, n: int = 1) -> None:
        """Computes all outputs, then applies all updates at once. Repeats this ``n`` times."""
        for _ in range(n):
            results = self._evaluator(self._state)
            self._results = dict(zip(self.program.roots, results, strict=True))
            self._state.update({leaf: leaf.conform(self._results[new]) for leaf, new in self.program.updates})

    def close(self) -> None:
        """Drops all values. May be called more than once."""
        self._state.clear()
        self._results.clear()


# Graphs inside of Functions: the body of a contraction, and what a draw computes in every fragment.


@dataclass(frozen=True, eq=False)
class SubGraph:
    """A graph over placeholders. Graphs of equal structure are equal.

    formals: leaves that stand for what the owner puts in. roots: what is computed. Those of bodies are one
    texel.
    """

    formals: tuple[Variable, ...]
    roots: tuple[Variable, ...]

    @property
    def root(self) -> Variable:
        return self.roots[0]

    @property
    def given(self) -> tuple[Variable, ...]:
        """Placeholders that the owner knows itself."""
        return ()

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        return tuple(topological_order(self.roots))

    @cached_property
    def key(self) -> tuple[Any, ...]:
        return structure(self.roots, (*self.given, *self.formals))

    def evaluate(
        self, at: At, read: Callable[[Variable, Access], np.ndarray], dtype: Any = np.float64
    ) -> list[np.ndarray]:
        """The roots at texels. read: values of a placeholder, at all texels unless by SAME_PIXEL."""
        known: dict[Variable, np.ndarray] = {}

        def value(v: Variable, access: Access) -> np.ndarray:
            return known[v] if v in known else read(v, access)

        for f in self.functions:
            known[f.output] = values_at(f, at, list(map(value, f.inputs, f.access)), dtype)
        return [value(v, Access.SAME_PIXEL) for v in self.roots]

    def pulled(self, formal: Variable, seed: Variable) -> Variable:
        """The gradient of seed * root by a formal, as a graph over the formals and the seed."""
        return builders.gradient(self.root, [formal], seed=seed)[0]

    def pushed(self, formals: Sequence[Variable], tangents: Sequence[Variable]) -> list[Variable]:
        """The derivatives of the roots along tangents of some formals, over the formals and tangents."""
        return builders.jvp(list(self.roots), list(formals), list(tangents))

    def glsl(self, names: Mapping[Variable, str], prefix: str) -> tuple[list[str], str]:
        """Statements that compute the root, and its name. names: of the formals. prefix: of new names."""
        known, lines = dict(names), []
        for k, f in enumerate(self.functions):
            name = known[f.output] = f"{prefix}{k}"
            template = template_of(f.glsl)
            gaps = []
            for kind, number in template.words:
                v = f.output if number is None else f.inputs[number]
                properties = {"y": name, "size": "ivec2(1, 1)", "batch": "1", "type": v.vtype.glsl}
                gaps.append(properties[kind] if kind else known[f.inputs[number or 0]])
            text = template.text % tuple(gaps)
            declared = f"precise {f.output.vtype.glsl} {name}"
            lines.append(f"{declared}; {{ {text} }}" if template.statements else f"{declared} = {text};")
        return lines, known[self.root]

    @cached_property
    def includes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for f in self.functions for name in included_files(f)))

    @cached_property
    def operations(self) -> float:
        return float(sum(f.operations * f.output.vtype.components for f in self.functions))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.functions)} functions of {len(self.formals)} values)"
