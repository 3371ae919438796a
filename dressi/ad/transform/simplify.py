"""Simplification: passes over a finished program, in order."""

from __future__ import annotations

import sys

from ...config import config
from ..ops.image.reduce import Expand
from ..program import Program
from . import algebra, broadcasting, components
from .covering import covering_rasters
from .garbage_collection import paused
from .merge import merge_reductions, merge_scatters
from .rewrite import Pass, Rule, mapped, rewrite
from .verify import verify

RULES: tuple[Rule, ...] = (*algebra.RULES, *components.RULES, *broadcasting.RULES)
"""Every rule keeps the type, the domain and, for finite inputs, the value of what it replaces. The rules run on finished
programs, after the derivatives were built."""


def rewrite_by_rules(program: Program) -> Program:
    """Constants, duplicates and identities: all of RULES, to the end."""
    rewriting = rewrite(program.roots, RULES, commutative=algebra.COMMUTATIVE)
    if config.debug >= 2 and rewriting.fired:
        counts = ", ".join(f"{name} {n}" for name, n in rewriting.fired.most_common())
        print(f"dressi: rewrites: {counts}", file=sys.stderr)
    return mapped(program, rewriting)


def merging(program: Program) -> Program:
    """Scatters and reductions side by side become one, and what that makes possible is simplified again."""
    merged = merge_reductions(merge_scatters(program))
    return program if merged is program else rewrite_by_rules(merged)


def copied_outputs(program: Program) -> Program:
    """Outputs that have become a leaf which the step updates are copied: an output is what it was before the update."""
    updated = {leaf for leaf, _ in program.updates}
    if updated.isdisjoint(program.outputs.values()):
        return program
    outputs = {name: Expand(v, v.domain).output if v in updated else v for name, v in program.outputs.items()}
    return Program(outputs, program.updates)


PASSES: tuple[Pass, ...] = (rewrite_by_rules, merging, covering_rasters, copied_outputs)


def simplify(program: Program) -> Program:
    """The same program with fewer and simpler Functions; names, and the leaves it updates, stay.

    With DRESSI_CHECK=1 the graph is verified after every pass, with DRESSI_DEBUG=2 the rewrites are shown.
    """
    with paused():
        for simplification in PASSES:
            program = simplification(program)
            if config.check:
                verify(program)
    return program
