"""Graphs inside of Functions: the body of a contraction, over placeholders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import At
from .snippet import template_of

if TYPE_CHECKING:
    from .function import Function, Variable


@dataclass(frozen=True, eq=False)
class SubGraph:
    """One value over placeholders of one texel each.

    formals: leaf Variables that stand for what the owner puts in. root: what is computed, by Functions of one texel.
    functions: those, producers first. key: equal for graphs of equal structure, which are equal. is_product: whether it is
    the product of the formals, each once.
    """

    formals: tuple[Variable, ...]
    root: Variable
    functions: tuple[Function, ...]
    key: tuple[Any, ...]
    is_product: bool = False

    def evaluate(self, at: At, values: Sequence[np.ndarray]) -> np.ndarray:
        """Its value in float64 where the formals have these values, arrays that broadcast to the places ``at``."""
        known = dict(zip(self.formals, values, strict=True))
        for f in self.functions:
            found = np.asarray(f.evaluate(at, *(known[x] for x in f.inputs)))
            known[f.output] = found.astype(np.int64 if f.output.vtype.is_int else np.float64, copy=False)
        return known[self.root]

    def glsl(self, names: Mapping[Variable, str], prefix: str) -> tuple[list[str], str]:
        """Statements that compute the root, and its name. names: of the formals. prefix: of the names that are made."""
        known, lines = dict(names), []
        for k, f in enumerate(self.functions):
            name = known[f.output] = f"{prefix}{k}"
            template = template_of(f.glsl)
            gaps = [
                name
                if kind == "y"
                else _property(kind, f.output if number is None else f.inputs[number])
                if kind
                else known[f.inputs[number or 0]]
                for kind, number in template.words
            ]
            text = template.text % tuple(gaps)
            declared = f"precise {f.output.vtype.glsl} {name}"
            lines.append(f"{declared}; {{ {text} }}" if template.statements else f"{declared} = {text};")
        return lines, known[self.root]

    @cached_property
    def operations(self) -> float:
        """Of one evaluation."""
        return float(sum(f.operations * f.output.vtype.components for f in self.functions))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubGraph) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"SubGraph({len(self.functions)} functions of {len(self.formals)} values)"


def _property(kind: str, v: Variable) -> str:
    return {"size": "ivec2(1, 1)", "batch": "1", "type": v.vtype.glsl}[kind]
