"""Steps as Variables: each operation is a Function of one texel again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..graph import Variable, as_variable
from ..ops.image.reduce import Expand
from ..ops.pixel.arithmetic import hadamard
from ..ops.pixel.components import component
from ..ops.pixel.constant import constant
from ..ops.pixel.matrix import Columns
from ..ops.pixel.vector import Construct
from ..types import Domain, VType, vector_type
from .operations.steps import CALL, GIVEN, NUMBER, PRODUCT, RECIPROCAL, Steps


class Writer:
    """Writes the values of steps as scalar Variables. Symbols are (Variable, component)."""

    def __init__(self, steps: Steps):
        self.steps = steps
        self.made: dict[int, Variable] = {}
        order = steps.order()
        self.uses = steps.uses(order)
        for n in order:
            self.made[n] = self._value(n)

    def roots(self) -> list[Variable]:
        """The scalars that the steps compute."""
        return [self._term(r) if r else constant(0.0) for r in self.steps.roots]

    def _term(self, m: int) -> Variable:
        return self.made[m] if m >= 0 else -self.made[-m]

    def _value(self, n: int) -> Variable:
        kind, operands = self.steps.kinds[n], self.steps.operands[n]
        of: Any = self.steps.of.get(n)
        if kind == GIVEN:
            return component_of(*of)
        if kind == NUMBER:
            return constant(float(of))
        if kind == RECIPROCAL:
            return 1.0 / self.made[operands[0]]
        if kind == PRODUCT:
            return self._product(operands)
        if kind == CALL:
            function, fields = of
            given = [as_variable(self._term(m)) for m in self.steps.terms[n]]
            return function(*given, **dict(zip(function.fields, fields, strict=True))).output
        return self._sum(self.steps.terms[n])

    def _sum(self, terms: Sequence[int]) -> Variable:
        first, *rest = sorted(terms, key=lambda m: m < 0)
        found = self._term(first)
        for m in rest:
            found = found + self.made[m] if m > 0 else found - self.made[-m]
        return found

    def _product(self, factors: Sequence[int]) -> Variable:
        below = [n for n in factors if self.steps.kinds[n] == RECIPROCAL and self.uses[n] == 1]
        above, counted = list[Variable](), Counter(n for n in factors if n not in below[:1])
        while counted:  # x x x x -> (x x)(x x)
            found = None
            for n, times in counted.items():
                if times % 2:
                    found = self.made[n] if found is None else hadamard(found, self.made[n])
            if found is not None:
                above.append(found)
            counted = Counter({self._square(n): times // 2 for n, times in counted.items() if times > 1})
        total = above[0]
        for v in above[1:]:
            total = hadamard(total, v)
        if below:
            total = total / self.made[self.steps.operands[below[0]][0]]
        return total

    def _square(self, n: int) -> int:
        square = self.steps.add(PRODUCT, [n, n])
        self.made[square] = hadamard(self.made[n], self.made[n])
        return square


def component_of(v: Variable, number: int) -> Variable:
    """A component of a Variable, those of a matrix row by row."""
    if v.vtype.is_scalar:
        return v
    return component(v, divmod(number, v.vtype.shape[1]) if v.vtype.is_matrix else number)


def of_components(parts: Sequence[Variable], vtype: VType, domain: Domain) -> Variable:
    """The Variable of a type and domain that has these components, those of a matrix row by row."""
    found: Any
    if vtype.is_scalar:
        (found,) = parts
    elif vtype.is_matrix:
        rows, columns = vtype.shape
        vectors = [_vector([parts[i * columns + j] for i in range(rows)]) for j in range(columns)]
        found = Columns(*vectors).output
    else:
        found = _vector(parts)
    return found if found.domain == domain else Expand(found, domain).output


def _vector(parts: Sequence[Variable]) -> Variable:
    return Construct(vector_type(len(parts)), *parts).output
