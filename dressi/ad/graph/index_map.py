"""Which texels a Function reads, as data: integer affine functions of axes, one for each axis of an image.

An axis is a number, its position among the axes of whatever owns the map: those of the output first (``n c y
x`` of an image), then those that it reduces. Values of axes are integers from 0 on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

IMAGE_AXES = "ncyx"
"""The axes of an image, in the order of its array: number in the batch, channel, row, column."""
BORDERS = ("zero", "clamp", "mirror", "reflect", "repeat")
"""What is read beyond an image: 0, the nearest texel, the texels mirrored with the one at the edge repeated
(NumPy's "symmetric"), the same without repeating it (NumPy's "reflect"), or those of the other side."""


class Affine(NamedTuple):
    """floor((sum of coefficient * axis + constant) / divisor).

    terms: (axis, coefficient), sorted by the axes, no coefficient 0. exact: there is no such texel where the
    quotient is not whole, as for the texels between those that a stride visits.

    >>> index = Affine.of({0: 1, 3: 2}, -1)
    >>> index, index.values({0: 5, 3: 2}), index.bounds((8, 1, 1, 3))
    (a0 + 2*a3 - 1, 8, (-1, 10))
    """

    terms: tuple[tuple[int, int], ...] = ()
    constant: int = 0
    divisor: int = 1
    exact: bool = False

    @classmethod
    def of(cls, terms: Mapping[int, int], constant: int = 0, divisor: int = 1, exact: bool = False) -> Affine:
        """Divides out what divisor, coefficients and constant share. The divisor is positive."""
        kept = {axis: k for axis, k in terms.items() if k}
        shared = math.gcd(divisor, *kept.values())
        if shared > 1 and (not exact or constant % shared == 0):
            # floor((s * e + c) / (s * d)) is floor((e + floor(c / s)) / d).
            kept = {axis: k // shared for axis, k in kept.items()}
            constant, divisor = constant // shared, divisor // shared
        return cls(tuple(sorted(kept.items())), constant, divisor, exact and divisor > 1)

    @classmethod
    @cache  # planning asks for the same few again and again
    def axis(cls, number: int, coefficient: int = 1, constant: int = 0) -> Affine:
        return cls.of({number: coefficient}, constant)

    @property
    def whole(self) -> bool:
        """Whether nothing is divided."""
        return self.divisor == 1

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(axis for axis, _ in self.terms)

    def coefficient(self, axis: int) -> int:
        return dict(self.terms).get(axis, 0)

    def plus(self, constant: int) -> Affine:
        return self._replace(constant=self.constant + constant * self.divisor)

    def substituted(self, values: Mapping[int, Affine]) -> Affine | None:
        """Replaces axes by their values over other axes; None if the result is not affine.

        An exact value is assumed to be whole: the caller has to test it.
        """
        terms: dict[int, int] = {}
        constant, divisor = self.constant, 1
        floors = [a for a, _ in self.terms if a in values and not (values[a].whole or values[a].exact)]
        if floors and (len(floors) > 1 or self.coefficient(floors[0]) != 1 or self.exact):
            return None
        for axis, k in self.terms:
            value = values.get(axis, Affine.axis(axis))
            common = math.lcm(divisor, value.divisor)
            if floors and common != value.divisor and axis != floors[0]:
                return None
            old, new = common // divisor, k * common // value.divisor
            terms = {a: c * old for a, c in terms.items()}
            for a, c in value.terms:
                terms[a] = terms.get(a, 0) + c * new
            constant, divisor = constant * old + value.constant * new, common
        return Affine.of(terms, constant, divisor * self.divisor, self.exact)

    def bounds(self, extents: Sequence[int] | Mapping[int, int]) -> tuple[int, int]:
        """The smallest and the largest value where every axis is within its extent."""
        low = high = self.constant
        for axis, k in self.terms:
            end = k * (extents[axis] - 1)
            low, high = low + min(end, 0), high + max(end, 0)
        return low // self.divisor, high // self.divisor

    def within(self, extent: int, extents: Sequence[int] | Mapping[int, int]) -> bool:
        """Whether it is whole and in [0, extent) for all axes within their extents."""
        low, high = self.bounds(extents)
        return not self.exact and low >= 0 and high < extent

    def values(self, at: Mapping[int, Any]) -> Any:
        """Its value at these values of the axes: integers, or arrays that broadcast."""
        total: Any = self.constant
        for axis, k in self.terms:
            total = total + k * at[axis]
        return total // self.divisor

    def whole_at(self, at: Mapping[int, Any]) -> Any:
        """False where it is exact and the quotient is not whole."""
        if not self.exact:
            return True
        return self._replace(divisor=1, exact=False).values(at) % self.divisor == 0

    def glsl(self, names: Mapping[int, str], low: int | None = None) -> str:
        """GLSL of its value. low: the smallest value, if known: integer division rounds to zero in GLSL, so a
        sum that may be negative is shifted."""
        text = self.sum_glsl(names)
        if self.whole:
            return text
        if self.exact or (low is not None and low >= 0):
            return f"({text}) / {self.divisor}"
        if low is not None:
            return f"({self.plus(-low).sum_glsl(names)}) / {self.divisor} - {-low}"
        d = self.divisor
        return f"(({text}) >= 0 ? ({text}) / {d} : -((-({text}) + {d - 1}) / {d}))"

    def sum_glsl(self, names: Mapping[int, str]) -> str:
        """GLSL of the dividend."""
        parts = [
            names[a] if k == 1 else f"-{names[a]}" if k == -1 else f"{k} * {names[a]}" for a, k in self.terms
        ]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")

    def inside_glsl(self, names: Mapping[int, str], extent: int, bounds: tuple[int, int]) -> list[str]:
        """Conditions that it is whole and in [0, extent). bounds: of its values."""
        low, high = bounds
        text = self.glsl(names) if self.exact or self.whole else self.sum_glsl(names)
        scale = self.divisor if not (self.exact or self.whole) else 1
        # GLSL does not define % for negative integers, so their sum is moved.
        positive = self.plus(-low) if low < 0 else self
        tests = [f"({positive.sum_glsl(names)}) % {self.divisor} == 0"] if self.exact else []
        if low < 0:
            tests.append(f"{text} >= 0")
        if high >= extent:
            tests.append(f"{text} < {extent * scale}")
        return tests

    def __str__(self) -> str:
        text = ""
        for axis, k in self.terms:
            sign = " - " if k < 0 else " + "
            text += (sign if text else "-" * (k < 0)) + f"{abs(k)}*" * (abs(k) != 1) + f"a{axis}"
        if self.constant or not text:
            text += (
                (f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}") if text else str(self.constant)
            )
        return text if self.whole else f"({text}) / {self.divisor}"

    __repr__ = __str__


class IndexMap(NamedTuple):
    """The texel of an image that is read: an Affine for each axis, and what is read beyond the border.

    >>> shift = IndexMap.of(x=Affine.axis(3, constant=-1))
    >>> shift.compose(shift)
    [a0, a1, a2, a3 - 2]
    """

    n: Affine = Affine()
    c: Affine = Affine()
    y: Affine = Affine()
    x: Affine = Affine()
    border: str = "zero"

    @classmethod
    def of(cls, *, border: str = "zero", **axes: Affine) -> IndexMap:
        """The texel of the output itself (axes 0 to 3), except for the axes given."""
        same = {name: Affine.axis(k) for k, name in enumerate(IMAGE_AXES)}
        return cls(border=border, **(same | axes))

    @classmethod
    def to(cls, affines: Sequence[Affine], border: str = "zero") -> IndexMap:
        n, c, y, x = affines
        return cls(n, c, y, x, border)

    @property
    def affines(self) -> tuple[Affine, Affine, Affine, Affine]:
        return self[:4]

    @property
    def axes(self) -> frozenset[int]:
        return frozenset(axis for affine in self.affines for axis in affine.axes)

    def compose(self, after: IndexMap) -> IndexMap | None:
        """The map of what reads, by ``after``, an image read by this map; None if that is not one map.

        Both are maps of images over the axes 0 to 3, and at most this one leaves its image: the two would not
        find the same texels missing.
        """
        return self.substituted(dict(enumerate(after.affines)))

    def substituted(self, values: Mapping[int, Affine]) -> IndexMap | None:
        """Replaces axes by their values over other axes; None if the result is not affine."""
        affines = [a.substituted(values) for a in self.affines]
        known = [a for a in affines if a is not None]
        return IndexMap.to(known, self.border) if len(known) == len(affines) else None

    def bordered(self, shape: Sequence[int], extents: Sequence[int] | Mapping[int, int]) -> IndexMap:
        """The same map, with border "zero" if it never leaves the image."""
        return self._replace(border="zero") if self.inside(shape, extents) else self

    def inside(self, shape: Sequence[int], extents: Sequence[int] | Mapping[int, int]) -> bool:
        """Whether it never leaves an image of shape (n, c, y, x)."""
        return all(a.within(e, extents) for a, e in zip(self.affines, shape, strict=True))

    def glsl(
        self, names: Mapping[int, str], shape: Sequence[int], extents: Sequence[int] | Mapping[int, int]
    ) -> list[str]:
        """GLSL of the indices n, c, y, x. Outside of an image of that shape they are those of the texels that
        the border names; with "zero" they stay outside."""
        indices = []
        for affine, extent in zip(self.affines, shape, strict=True):
            bounds = affine.bounds(extents)
            text = affine.glsl(names, bounds[0])
            indices.append(text if self.border == "zero" else wrapped_glsl(text, extent, self.border, bounds))
        return indices

    def footprint(self, extents: Sequence[int] | Mapping[int, int]) -> float:
        """The largest distance, in rows or columns, between the texel (axis 2, axis 3) of the output and what
        it reads of the same image; infinity where it grows with the texel or the image is another."""
        far = 0.0
        if self.border == "repeat" or self.n != Affine.axis(0) or self.c not in (Affine.axis(1), Affine()):
            return math.inf
        for own, affine in ((2, self.y), (3, self.x)):
            if affine.coefficient(own) != 1 or not affine.whole or {0, 1, 5 - own} & {*affine.axes}:
                return math.inf
            offset = Affine.of({a: k for a, k in affine.terms if a != own}, affine.constant)
            far = max(far, *(abs(v) for v in offset.bounds(extents)))
        return far

    def __repr__(self) -> str:
        text = ", ".join(map(str, self.affines))
        return f"[{text}]" if self.border == "zero" else f"[{text}; {self.border}]"


MIRRORED = {"mirror": 0, "reflect": 1}
"""Borders that mirror an image, and by how many texels two neighbouring copies of it overlap."""


def mirror_period(extent: int, border: str) -> tuple[int, int]:
    """(period, last): mirrored texels recur every ``period`` texels, and texel i of a period equals texel
    last - i. An image of one texel is that texel everywhere."""
    overlap = MIRRORED[border]
    return max(2 * (extent - overlap), 1), 2 * extent - 1 - overlap


def wrapped(index: Any, extent: int, border: str) -> Any:
    """An index, or an array of them, brought into [0, extent) by a border; by "zero" as by "clamp".

    >>> wrapped(np.arange(-2, 5), 3, "mirror").tolist(), wrapped(np.arange(-2, 5), 3, "repeat").tolist()
    ([1, 0, 0, 1, 2, 2, 1], [1, 2, 0, 1, 2, 0, 1])
    >>> wrapped(np.arange(-2, 5), 3, "reflect").tolist()
    [2, 1, 0, 1, 2, 1, 0]
    """
    if border == "repeat":
        return index % extent
    if border in MIRRORED:
        period, last = mirror_period(extent, border)
        folded = index % period
        return np.minimum(folded, last - folded)
    return np.clip(index, 0, extent - 1)


def wrapped_glsl(index: str, extent: int, border: str, bounds: tuple[int, int]) -> str:
    """GLSL of ``wrapped``. bounds: of the index, so that only what can happen is written."""
    low, high = bounds
    if low >= 0 and high < extent:
        return index
    if border in ("zero", "clamp"):
        return f"clamp({index}, 0, {extent - 1})"
    if border == "repeat" and low >= -extent and high < 2 * extent:
        return f"{index} + ({index} < 0 ? {extent} : {index} >= {extent} ? -{extent} : 0)"
    if extent == 1:
        return "0"
    overlap = MIRRORED.get(border, 0)
    period, last = (extent, 0) if border == "repeat" else mirror_period(extent, border)
    if border in MIRRORED and low >= overlap - extent and high <= last:
        folded = f"max({index}, {overlap - 1} - ({index}))"
        return f"min({folded}, {last} - {folded})"
    lift = -(low // period) * period
    folded = f"({index} + {lift}) % {period}" if lift else f"({index}) % {period}"
    if border == "repeat":
        return folded
    return f"min({folded}, {last} - {folded})"
