"""Derivatives of expressions: forward and reverse elimination, by the derivatives that the Functions declare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from ...graph import Function, Variable
from ...ops.pixel.constant import constant
from ...types import FLOAT
from .forms import ONE, UNIT, ZERO, Call, Product, Scaled, Sum, scaled
from .rational import Rational, times
from .reader import Reader
from .table import Table


class Derivatives:
    """Derivatives of the entries of a table, by the form of each."""

    def __init__(self, table: Table):
        self.table = table
        self._partials: dict[int, list[tuple[int, Scaled]]] = {}
        self._declared: dict[Hashable, tuple[Function, Sequence[Variable | None], list[Any]]] = {}
        """Of a Function: one of it, its derivative by each input, and the order in which a reader reads these."""

    def partials(self, entry: int) -> list[tuple[int, Scaled]]:
        """(entry it is made of, derivative by that entry)."""
        known = self._partials.get(entry)
        if known is None:
            known = self._partials[entry] = self._of_form(entry)
        return known

    def _of_form(self, entry: int) -> list[tuple[int, Scaled]]:
        table, form = self.table, self.table.forms[entry]
        if type(form) is Sum:
            return [(n, UNIT if c == 1 else scaled((c, ONE))) for c, n in form.terms if n != ONE]
        if type(form) is Product:
            factors = form.factors
            if len(factors) == 2 and factors[0][1] == factors[1][1] == 1:
                (a, _), (b, _) = factors
                return [(a, scaled((1, b))), (b, scaled((1, a)))]
            found = []
            for n, power in factors:
                rest = [(Scaled(1, m), p - (m == n)) for m, p in factors]
                d = table.product(rest)
                found.append((n, Scaled(times(d.factor, power), d.entry)))
            return found
        if type(form) is Call:
            slopes = self._of_call(entry, form.function, form.arguments)
            return [
                (x.entry, _times(table, d, x.factor))
                for x, d in zip(form.arguments, slopes, strict=True)
                if x.entry != ONE and not d.is_zero
            ]
        return []

    def _of_call(self, entry: int, function: Any, arguments: Sequence[Scaled]) -> list[Scaled]:
        reader = Reader(self.table)
        if function not in self._declared:
            kind, fields = function
            made = kind(*(Variable(FLOAT) for _ in arguments), **dict(zip(kind.fields, fields, strict=True)))
            given = [None] * len(arguments) if made.zero_derivative else declared(made)
            reader.put(dict.fromkeys((*made.inputs, made.output), (ZERO,)))
            self._declared[function] = made, given, reader.order([p for p in given if p is not None])
        made, given, order = self._declared[function]
        known = [*zip(made.inputs, arguments, strict=True), (made.output, Scaled(1, entry))]
        reader.put({v: (x,) for v, x in known})
        reader.run(order)
        return [ZERO if p is None else reader.known[p][0] for p in given]

    def tangents(self, roots: Iterable[Scaled], seeds: Mapping[int, Scaled]) -> list[Scaled]:
        """The derivative of each root along the seeds: (entry, its tangent). Forward mode."""
        known: dict[int, Scaled] = dict(seeds)
        roots = list(roots)
        for entry in self.table.order([r.entry for r in roots]):
            if entry not in known:
                parts = [
                    known[n] if d is UNIT else self.table.multiplied(d, known[n])
                    for n, d in self.partials(entry)
                    if not known[n].is_zero
                ]
                known[entry] = self.table.sum(parts) if parts else ZERO
        return [_times(self.table, known[r.entry], r.factor) for r in roots]

    def adjoints(self, root: Scaled, wanted: Sequence[int]) -> list[Scaled]:
        """The derivative of the root by each of the entries. Reverse mode."""
        order = self.table.order([root.entry])
        active = set(wanted)
        for entry in order:
            for n, _ in self.partials(entry):
                if n in active:
                    active.add(entry)
                    break
        parts = defaultdict[int, list[Scaled]](list, {root.entry: [Scaled(root.factor, ONE)]})
        totals: dict[int, Scaled] = {}
        for entry in reversed(order):
            if entry not in parts or entry not in active:
                continue
            these = parts.pop(entry)
            total = totals[entry] = self.table.sum(these) if len(these) > 1 else these[0]
            if total.is_zero:
                continue
            for n, d in self.partials(entry):
                if n in active:
                    parts[n].append(total if d is UNIT else self.table.multiplied(total, d))
        return [totals.get(n, ZERO) for n in wanted]


def declared(f: Any) -> Sequence[Variable | None]:
    """The derivative of a Function of scalars by each input: its partials, or its vjp of one."""
    if type(f).vjp is Function.vjp:
        return f.partials(*f.inputs)
    return [f.vjp(constant(1.0), i) for i in range(len(f.inputs))]


def _times(table: Table, x: Scaled, factor: Rational) -> Scaled:
    return x if factor == 1 else table.multiplied(x, Scaled(factor, ONE))
