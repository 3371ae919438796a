"""Loops over lists that the host sends: a list may be longer than it was when the plan was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ....ad.graph import Function, Variable
from ....ad.types import IVEC2
from ....errors import InputError
from .inverse_lists import InverseList

Counts = Mapping[Variable, int]


def counts_of(values: Mapping[Variable, np.ndarray]) -> dict[Variable, int]:
    """The longest list of each of these leaves that may be ranges: IVEC2, first entry and number of entries."""
    return {v: int(x[..., 1].max(initial=0)) for v, x in values.items() if v.vtype is IVEC2}


def _longer(functions: Iterable[Function], counts: Counts) -> dict[Function, int]:
    """The iterations of the loops that have become longer than their plan counts."""
    found = {}
    for f in functions:
        if f.ranges is not None:
            now = counts.get(f.inputs[f.ranges], 0)
            if now > f.iterations:
                found[f] = now
    return found


def check_lengths(plan: Any, counts: Counts) -> None:
    """Raises InputError if the loops of a shader, all of them together, run longer than the device allows. plan: a ``Plan``."""
    longer = _longer(plan.program.functions, counts)
    for s in plan.sub_stages if longer else ():
        for part in dict.fromkeys((s, s.final)):
            found, allowed = part.iterations_with(longer), plan.limits.max_loop_iterations
            if found > allowed:
                raise InputError(_sentence(longer, found, allowed))


def _sentence(longer: Mapping[Function, int], found: int, allowed: int) -> str:
    f = max(longer, key=longer.__getitem__)
    assert f.ranges is not None
    leaf = f.inputs[f.ranges]
    if isinstance(leaf, InverseList):
        what = f"{leaf.indices} names one texel {longer[f]} times"
        cure = "give it as the data of a new Variable, or plan with PlanOptions(gather_at_lists=False)"
    else:
        what = f"{leaf} has a list of {longer[f]} entries"
        cure = "give it as the data of a new Variable, or send shorter lists"
    return f"{what}: one shader would loop {found} times for each texel, the device allows {allowed}; {cure}"
