"""Which multiple of an entry a form is, if its samples say that it is one.

Both are evaluated modulo PRIME, whose numbers are long enough to hold numerator and denominator of the ratio. In a large table, what
lies deeper than a few levels below them is drawn at random first, as if it were given: if two draws give one ratio, it is the ratio
whatever the values are. Only if they differ, everything below is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...traversal import producers_first
from .field import PRIME, Sample, drawn_long, inverse, modulo, on_long_circle, to_rational
from .forms import CIRCLE, Call, Form, Product, Sum, Symbol, children, kind_of
from .rational import Rational

LEVELS, FEW = 4, 1_000
"""So many levels below a form and an entry are evaluated first, where more than FEW entries have no value yet."""


class Multiples:
    """Ratios of forms and entries of a table, of which these are the forms and samples."""

    def __init__(self, forms: Sequence[Form], samples: Sequence[Sample]):
        self.forms, self.samples = forms, samples
        self._known: dict[int, int] = {}
        """Of entries that were evaluated with everything below them."""

    def ratio(self, form: Form, entry: int) -> Rational | None:
        """The number that a form is of an entry of the same direction; None if it is too long."""
        if len(self.forms) - len(self._known) > FEW:
            one, two = (self._quotient(form, entry, self._drawn(form, entry, draw)) for draw in range(2))
            if one == two:
                return to_rational(one)
        return to_rational(self._quotient(form, entry, self._known))

    def _drawn(self, form: Form, entry: int, draw: int) -> dict[int, int]:
        """Values of what lies below LEVELS."""
        inside, below = set[int](), {*children(form), entry}
        for _ in range(LEVELS):
            inside |= below
            below = {m for n in below for m in children(self.forms[n])} - inside
        return {n: drawn_long("below", draw, n) for n in below}

    def _quotient(self, form: Form, entry: int, known: dict[int, int]) -> int:
        """form / entry modulo PRIME. known: values of entries, to which those that are needed are added."""

        def unknown(n: int) -> list[int]:
            return [] if n in known else children(self.forms[n])

        for n in producers_first([*children(form), entry], unknown):
            if n not in known:
                known[n] = self._value(n, self.forms[n], known)
        return self._value(len(self.forms), form, known) * inverse(known[entry], PRIME) % PRIME

    def _value(self, entry: int, form: Form, known: dict[int, int]) -> int:
        """The value of a form modulo PRIME, from those that it is made of."""
        match form:
            case Symbol():
                return drawn_long("symbol", entry)
            case Sum(terms):
                return sum([modulo(c, PRIME) * known[n] for c, n in terms]) % PRIME
            case Product(factors):
                value = 1
                for n, power in factors:
                    value = value * pow(known[n], power, PRIME) % PRIME if known[n] else 0
                return value
            case Call(function, arguments):
                values = [self.samples[n].values(c) for c, n in arguments]
                if kind_of(function) in CIRCLE:
                    return on_long_circle(values[0])[CIRCLE.index(kind_of(function))]
                return drawn_long("call", function, *values)
        raise TypeError(form)
