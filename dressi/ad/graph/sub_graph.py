"""Graphs inside of Functions: the body of a contraction, and what a draw computes in every fragment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from . import At, Function, Variable
from .evaluate import values_at
from .includes import included_files
from .operators import builders
from .snippet import template_of
from .traversal import structure, topological_order
from .types import Access


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
