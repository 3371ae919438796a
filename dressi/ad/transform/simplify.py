"""Simplification: the passes over a finished program, in order."""

from __future__ import annotations

import sys

from ...config import config
from ..ops.image.reduce import Expand
from ..program import Program
from . import algebra, broadcasting, components
from .coverage import use_coverage_only
from .garbage_collection import paused
from .merge import merge_reductions, merge_scatters
from .rewrite import Pass, Rule, mapped, rewrite
from .verify import verify

RULES: tuple[Rule, ...] = (*algebra.RULES, *components.RULES, *broadcasting.RULES)
"""Every rule preserves type, domain and, for finite inputs, value. The rules run on finished programs, after the
derivatives were built."""


def apply_rules(program: Program) -> Program:
    """Applies RULES until none fires: folds constants, merges duplicates, removes identities."""
    rewriting = rewrite(program.roots, RULES, commutative=algebra.COMMUTATIVE)
    if config.debug >= 2 and rewriting.fired:
        counts = ", ".join(f"{name} {n}" for name, n in rewriting.fired.most_common())
        print(f"dressi: rewrites: {counts}", file=sys.stderr)
    return mapped(program, rewriting)


def merge_parallel(program: Program) -> Program:
    """Merges scatters, and reductions, whose results are added, and simplifies again."""
    merged = merge_reductions(merge_scatters(program))
    return program if merged is program else apply_rules(merged)


def copy_updated_outputs(program: Program) -> Program:
    """Copies outputs that are now leaves which the step updates: an output has the value from before the update."""
    updated = {leaf for leaf, _ in program.updates}
    if updated.isdisjoint(program.outputs.values()):
        return program
    outputs = {name: Expand(v, v.domain).output if v in updated else v for name, v in program.outputs.items()}
    return Program(outputs, program.updates)


PASSES: tuple[Pass, ...] = (apply_rules, merge_parallel, use_coverage_only, copy_updated_outputs)


def simplify(program: Program) -> Program:
    """The same program with fewer and simpler Functions. Names, and the leaves that it updates, stay the same.

    With DRESSI_CHECK=1 the graph is verified after every pass, with DRESSI_DEBUG=2 the rewrites are shown.
    """
    with paused():
        for simplification in PASSES:
            program = simplification(program)
            if config.check:
                verify(program)
    return program
