"""What masks, extremes and selects simplify to, whatever values are: Variables, or entries of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ops.pixel.arithmetic import Max, Min
from ..ops.pixel.compare import Comparison, LogicalAnd, LogicalNot, LogicalOr, Select

MASKS = (Comparison, LogicalAnd, LogicalOr, LogicalNot)
"""Functions that give 0 or 1."""
_DUAL = {Max: Min, Min: Max, LogicalAnd: LogicalOr, LogicalOr: LogicalAnd}
DEPTH = 4  # Functions below a condition that are looked at


@dataclass(frozen=True)
class Logic:
    """view: the class of the Function that makes a value, None for others, and what it reads. same: whether
    two values are one. truth: whether a constant is other than 0; None for other values."""

    view: Callable[[Any], tuple[Any, Sequence[Any]]]
    same: Callable[[Any, Any], bool]
    truth: Callable[[Any], bool | None]

    def is_mask(self, x: Any) -> bool:
        kind, _ = self.view(x)
        return kind is not None and issubclass(kind, MASKS)

    def simpler(self, kind: Any, inputs: Sequence[Any]) -> Any | None:
        """The operand, or operand of an operand, that a maximum, minimum, and, or, not is; else None.

        max(a, a) -> a;  max(a, max(a, b)) -> max(a, b);  max(a, min(a, b)) -> a;  and, or likewise for masks;
        and(a, true) -> a;  and(a, false) -> false;  not(not(a)) -> a
        """
        if kind is LogicalNot:
            inner, below = self.view(inputs[0])
            return below[0] if inner is LogicalNot and self.is_mask(below[0]) else None
        if kind not in _DUAL:
            return None
        logical = kind in (LogicalAnd, LogicalOr)
        for one, other in (inputs, inputs[::-1]):
            inner, below = self.view(other)
            has = any(self.same(one, x) for x in below)
            if inner is kind and has:
                return other
            if logical and not self.is_mask(one):
                continue
            if self.same(one, other) or (inner is _DUAL[kind] and has):
                return one
            if logical and self.truth(other) is (kind is LogicalAnd):
                return one
        return None

    def implied(self, condition: Any, value: bool, asked: Any, depth: int = DEPTH) -> bool | None:
        """Whether ``asked`` is other than 0 where that holds, or does not, of the condition; None: unknown."""
        if self.same(condition, asked):
            return value
        if not depth:
            return None
        kind, below = self.view(condition)
        if kind is LogicalNot:
            return self.implied(below[0], not value, asked, depth - 1)
        if (kind, value) in ((LogicalAnd, True), (LogicalOr, False)):
            for x in below:
                if (known := self.implied(x, value, asked, depth - 1)) is not None:
                    return known
        kind, below = self.view(asked)
        if kind is LogicalNot:
            known = self.implied(condition, value, below[0], depth - 1)
            return None if known is None else not known
        if kind in (LogicalAnd, LogicalOr):
            parts = [self.implied(condition, value, x, depth - 1) for x in below]
            ends = kind is LogicalOr  # one true part makes an or true, one false part an and false
            return ends if ends in parts else None if None in parts else not ends
        return None

    def taken(self, condition: Any, value: bool, x: Any) -> Any:
        """The branch of x that is left, in a select by the condition: select(c, select(c, a, b), d) is
        select(c, a, d), and select(c and d, select(c, a, b), e) is select(c and d, a, e)."""
        kind, below = self.view(x)
        while kind is Select and (known := self.implied(condition, value, below[0])) is not None:
            x = below[1 if known else 2]
            kind, below = self.view(x)
        return x
