"""Changes of sign move into constants, and through products and sums, where they cost nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.pixel.trigonometry import Sin
from .steps import Added, Called, Multiplied, Number, Reciprocal, Steps


def place_signs(steps: Steps, order: Sequence[int]) -> None:
    """Negates sums, and products of a constant, whose readers want them negative: neither costs anything. Products of other
    values, quotients and sines hand the wish on to what they are made of. Signs that are left stay at the roots and at the
    arguments of Functions. order: that of the steps."""
    wishes = _Wishes(steps, order)
    negative = {n for n in reversed(order) if wishes.settle(n)}
    flags: dict[int, int] = {}
    negated: dict[int, int] = {}
    for n in order:
        value = steps.values[n]
        flags[n] = 1
        match value:
            case Added(terms):
                signed = [(s * flags[m], m) for s, m in terms]
                turn = n in negative and any(s < 0 for s, _ in signed)
                if turn or all(s < 0 for s, _ in signed):
                    flags[n] = -1
                    signed = [(-s, m) for s, m in signed]
                steps.values[n] = Added(signed)
            case Multiplied(factors):
                for m in factors:
                    flags[n] *= flags[m]
                number = next((m for m in factors if steps.is_number(m)), None)
                if number is not None and (n in negative) != (flags[n] < 0):
                    if number not in negated:
                        constant = steps.values[number]
                        assert isinstance(constant, Number)
                        negated[number] = steps.add(Number(-constant.value))
                    rest = list(factors)
                    rest[rest.index(number)] = negated[number]
                    steps.values[n] = Multiplied(rest)
                    flags[n] = -flags[n]
            case Reciprocal(of):
                flags[n] = flags[of]
            case Called(function, arguments):
                signed = [(s * flags[m], m) for s, m in arguments]
                if _is_odd(value):
                    flags[n], signed = signed[0][0], [(1, signed[0][1])]
                steps.values[n] = Called(function, signed)
    steps.roots = [(s * flags.get(n, 1), n) for s, n in steps.roots]


class _Wishes:
    """For each value, how many more of its readers want it positive than negative, given what is settled."""

    def __init__(self, steps: Steps, order: Sequence[int]):
        self.steps = steps
        self.direct: dict[int, int] = {}
        self.through: dict[int, list[tuple[int, int]]] = {}
        """Of each value the readers that have its sign: (sign, reader)."""
        self.of: dict[int, int] = {}
        self.turned: dict[int, int] = {}
        for sign, n in dict.fromkeys(steps.roots):
            self.direct[n] = self.direct.get(n, 0) + sign
        for n in order:
            value = steps.values[n]
            if isinstance(value, Called):
                for sign, m in value.arguments:
                    if _is_odd(value):
                        self.through.setdefault(m, []).append((sign, n))
                    else:
                        self.direct[m] = self.direct.get(m, 0) + sign
            elif isinstance(value, Reciprocal) or (
                isinstance(value, Multiplied) and not self._has_number(value)
            ):
                for m in value.operands:
                    self.through.setdefault(m, []).append((1, n))

    def settle(self, n: int) -> bool:
        """Whether a value is to be negative. What reads it is settled already."""
        wish = self.direct.get(n, 0)
        for sign, reader in self.through.get(n, ()):
            others = 1
            for m in self.steps.values[reader].operands:
                others *= self.turned.get(m, 1) if m != n else 1
            wish += sign * others * self.of[reader]
        self.of[n] = wish
        value = self.steps.values[n]
        free = isinstance(value, Added) or (isinstance(value, Multiplied) and self._has_number(value))
        if free and wish < 0:
            self.turned[n] = -1
            return True
        return False

    def _has_number(self, value: Multiplied) -> bool:
        return any(self.steps.is_number(m) for m in value.operands)


def _is_odd(value: Called) -> bool:
    return value.function == (Sin, ())
