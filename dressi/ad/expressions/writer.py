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
from .operations.steps import Added, Called, Given, Multiplied, Number, Reciprocal, Step, Steps


class Writer:
    """Writes the values of steps as scalar Variables. Symbols are (Variable, component)."""

    def __init__(self, steps: Steps):
        self.steps = steps
        self.made: dict[int, Variable] = {}
        order = steps.order()
        self.uses = steps.uses(order)
        for n in order:
            self.made[n] = self._step(steps.values[n])

    def roots(self) -> list[Variable]:
        """The scalars that the steps compute."""
        return [
            constant(0.0) if not s else self.made[n] if s > 0 else -self.made[n] for s, n in self.steps.roots
        ]

    def _step(self, step: Step) -> Variable:
        match step:
            case Given(of):
                return component_of(*of)  # type: ignore[misc]
            case Number(value):
                return constant(float(value))
            case Reciprocal(of):
                return 1.0 / self.made[of]
            case Multiplied(factors):
                return self._product(factors)
            case Called(function, arguments):
                kind, fields = function  # type: ignore[misc]
                given = [as_variable(self.made[n] if s > 0 else -self.made[n]) for s, n in arguments]
                return kind(*given, **dict(zip(kind.fields, fields, strict=True))).output
            case Added(terms):
                return self._sum(terms)

    def _sum(self, terms: Sequence[tuple[int, int]]) -> Variable:
        (sign, first), *rest = sorted(terms, key=lambda term: -term[0])
        found = self.made[first] if sign > 0 else -self.made[first]
        for s, n in rest:
            found = found + self.made[n] if s > 0 else found - self.made[n]
        return found

    def _product(self, factors: Sequence[int]) -> Variable:
        below = [n for n in factors if isinstance(self.steps.values[n], Reciprocal) and self.uses[n] == 1]
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
            divisor = self.steps.values[below[0]]
            assert isinstance(divisor, Reciprocal)
            total = total / self.made[divisor.of]
        return total

    def _square(self, n: int) -> int:
        square = self.steps.add(Multiplied([n, n]))
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
