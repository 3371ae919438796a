"""Textures: which texel stands at integer coordinates outside of an image, or of a level in an image of levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...graph import PixelFunction, Variable
from ...types import INT, IVEC2, Size

__all__: list[str] = []

Place = tuple[int, int, int, int]
"""(x, y, width, height) of one level in an image of several levels. Of a stack: of its first layer."""


@dataclass(frozen=True)
class Wrap:
    """How texels outside of an extent are brought inside.

    periods: after how many extents along x and y the texels repeat; None: they are clamped. fold, fold_glsl: bring the
    remainder by the period into the extent; the GLSL changes ``rest`` by ``extent`` (both ivec2).
    """

    periods: tuple[int, int] | None
    fold: Callable[[np.ndarray, np.ndarray], np.ndarray]
    fold_glsl: str = ""

    def eval(self, texel: np.ndarray, extent: np.ndarray) -> np.ndarray:
        if self.periods is None:
            return np.clip(texel, 0, extent - 1)
        return self.fold(texel % (extent * self.periods), extent)

    def glsl(self, texel: str, remainder: str) -> str:
        """Declares ``rest``, the texel inside of ``extent``. remainder: one of the templates below."""
        if self.periods is None:
            return f"ivec2 rest = clamp({texel}, ivec2(0), extent - 1);\n"
        x, y = self.periods
        period = "extent" if x == y == 1 else f"extent * ivec2({x}, {y})"
        return remainder.format(texel=texel, period=period) + self.fold_glsl


REMAINDER_BINARY = "ivec2 rest = {texel} & ({period} - 1);\n"
"""Of extents that are powers of two."""

REMAINDER = (
    "ivec2 period = {period}, rest = {texel} - period * ivec2(floor(vec2({texel}) / vec2(period)));\n"
    "rest += period * (ivec2(lessThan(rest, ivec2(0))) - ivec2(greaterThanEqual(rest, period)));\n"
)
"""CPU drivers divide floats, not integers, side by side. The quotient may be off by one."""

REMAINDER_FIXED = (
    "ivec2 period = {period}, rest = {texel} - ({texel} / period) * period;\n"
    "rest += period * ivec2(lessThan(rest, ivec2(0)));\n"
)
"""Of a constant extent. The division truncates, so the remainder may be negative; GLSL does not define % for negative
numbers."""


def _mirrored(rest: np.ndarray, extent: np.ndarray) -> np.ndarray:
    return np.minimum(rest, 2 * extent - 1 - rest)


def _over_the_pole(rest: np.ndarray, extent: np.ndarray) -> np.ndarray:
    x, y, width, height = rest[..., 0], rest[..., 1], extent[..., 0], extent[..., 1]
    x = (x + np.where(y >= height, width // 2, 0)) % width
    return np.stack([x, np.minimum(y, 2 * height - 1 - y)], -1)


WRAPS = {
    "repeat": Wrap((1, 1), lambda rest, extent: rest),
    "clamp": Wrap(None, lambda rest, extent: rest),
    "mirror": Wrap((2, 2), _mirrored, "rest = min(rest, 2 * extent - 1 - rest);\n"),
    "sphere": Wrap(
        (1, 2),
        _over_the_pole,
        "rest.x += rest.y >= extent.y ? extent.x / 2 : 0; rest.x -= rest.x >= extent.x ? extent.x : 0;\n"
        "rest.y = min(rest.y, 2 * extent.y - 1 - rest.y);\n",
    ),
}
"""By name. "sphere" is for equirectangular maps: u repeats; beyond a pole the rows come back, shifted by half the width."""


def _check_wrap(function: WrapTexel | LevelTexel) -> None:
    if function.wrap not in WRAPS:
        raise function.fail(f"wrap is one of {', '.join(map(repr, WRAPS))}, not {function.wrap!r}")


class WrapTexel(PixelFunction):
    """IVEC2 to IVEC2: a texel brought inside an image of ``size``, by a name of ``WRAPS``."""

    operations = 12.0
    zero_derivative = True
    exact = True
    fields = ("size", "wrap")

    def __init__(self, texel: Variable, size: Size, wrap: str):
        self.size, self.wrap = size, wrap
        super().__init__(texel)

    def infer(self):
        _check_wrap(self)
        if self.inputs[0].vtype is not IVEC2:
            raise self.fail("takes IVEC2")
        return IVEC2, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        extent = f"const ivec2 extent = ivec2({self.size[0]}, {self.size[1]});\n"
        return f"{{ {extent}{WRAPS[self.wrap].glsl('$0', REMAINDER_FIXED)}$y = rest; }}"

    def eval(self, texel):
        return WRAPS[self.wrap].eval(texel, np.array(self.size))


class LevelTexel(PixelFunction):
    """Inputs (texel IVEC2, level INT): the texel in an image whose levels stand at ``places``.

    The texel is brought inside its level by a name of ``WRAPS``; levels beyond the last are the last.
    """

    operations = 20.0
    zero_derivative = True
    exact = True
    fields = ("layout", "wrap")

    def __init__(self, texel: Variable, level: Variable, places: tuple[Place, ...], wrap: str):
        self.layout, self.wrap = places, wrap
        super().__init__(texel, level)

    def infer(self):
        _check_wrap(self)
        if [x.vtype for x in self.inputs] != [IVEC2, INT]:
            raise self.fail("takes a texel, IVEC2, and a level, INT")
        return IVEC2, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        remainder = REMAINDER_BINARY if _binary(self.layout) else REMAINDER
        inside = WRAPS[self.wrap].glsl("$0", remainder)
        return f"{{ {_place_of(self.layout, '$1')}{inside}$y = rest + start; }}"

    def eval(self, texel, level):
        place = _rows(self.layout, level)
        return WRAPS[self.wrap].eval(texel, place[..., 2:]) + place[..., :2]


class LevelExtent(PixelFunction):
    """Input: level, INT. IVEC2: width and height of that level of ``places``."""

    operations = 6.0
    zero_derivative = True
    exact = True
    fields = ("layout",)

    def __init__(self, level: Variable, places: tuple[Place, ...]):
        self.layout = places
        super().__init__(level)

    def infer(self):
        if self.inputs[0].vtype is not INT:
            raise self.fail("takes a level, INT")
        return IVEC2, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        return f"{{ {_place_of(self.layout, '$0')}$y = extent; }}"

    def eval(self, level):
        return _rows(self.layout, level)[..., 2:]


def _rows(places: tuple[Place, ...], level: np.ndarray) -> np.ndarray:
    return np.array(places)[np.clip(level, 0, len(places) - 1)]


def _binary(places: tuple[Place, ...]) -> bool:
    """Whether the sides of all levels are powers of two."""
    return all(side & (side - 1) == 0 for place in places for side in place[2:])


def _series(places: tuple[Place, ...]) -> bool:
    """Whether these are the levels of a square binary pyramid: level 0 on top, the others in a row below it."""
    first, below = places[0][2], places[-1][1]
    series = [(0, 0, first, first)]
    series += [(first - (first >> (k - 1)), below, first >> k, first >> k) for k in range(1, len(places))]
    return _binary(places) and list(places) == series


def _place_of(places: tuple[Place, ...], level: str) -> str:
    """GLSL: declares ``start`` and ``extent`` (ivec2), the place of a level."""
    count = len(places)
    if count == 1:
        x, y, width, height = places[0]
        return f"const ivec2 start = ivec2({x}, {y}), extent = ivec2({width}, {height});\n"
    if _series(places):
        # Without a table: the widths in front of a level are a geometric series.
        first, below = places[0][2], places[-1][1]
        return (
            f"int k = clamp({level}, 0, {count - 1}); ivec2 extent = ivec2({first} >> k);\n"
            f"ivec2 start = k > 0 ? ivec2({first} - ({first} >> max(k - 1, 0)), {below}) : ivec2(0);\n"
        )
    rows = ", ".join("ivec4({}, {}, {}, {})".format(*place) for place in places)
    return (
        f"const ivec4 places[{count}] = ivec4[{count}]({rows});\n"
        f"ivec4 place = places[clamp({level}, 0, {count - 1})];\n"
        "ivec2 start = place.xy, extent = place.zw;\n"
    )
