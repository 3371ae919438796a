"""Which texel stands at integer coordinates outside of a texture, or of a level in an image of levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ....errors import GraphError
from ...graph import PixelFunction
from ...graph.types import INT, IVEC2, IVEC4, Size

__all__: list[str] = []

Place = tuple[int, int, int, int]
"""(x, y, width, height) of one level in an image of several levels. Of a stack: of its first layer."""


@dataclass(frozen=True)
class Wrap:
    """How texels outside of an extent are brought inside.

    periods: after how many extents along x and y the texels repeat; None: never. fold, fold_glsl: bring the
    remainder by the period, or the texel itself, into the extent; the GLSL changes ``rest`` by ``extent``
    (both ivec2), or, without periods, declares ``rest`` from ``{texel}``.
    """

    periods: tuple[int, int] | None
    fold: Callable[[np.ndarray, np.ndarray], np.ndarray]
    fold_glsl: str = ""
    even: bool = False
    """Whether widths should be even, so that half of one is a whole number of texels."""

    def eval(self, texel: np.ndarray, extent: np.ndarray) -> np.ndarray:
        if self.periods is None:
            return self.fold(texel, extent)
        return self.fold(texel % (extent * self.periods), extent)

    def glsl(self, texel: str, remainder: str) -> str:
        """Declares ``rest``, the texel inside of ``extent``. remainder: one of the templates below."""
        if self.periods is None:
            return self.fold_glsl.format(texel=texel)
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
"""Of a constant extent. GLSL does not define % for negative numbers, and its division truncates."""


def _mirrored(rest: np.ndarray, extent: np.ndarray) -> np.ndarray:
    return np.minimum(rest, 2 * extent - 1 - rest)


def _over_the_pole(rest: np.ndarray, extent: np.ndarray) -> np.ndarray:
    x, y, width, height = rest[..., 0], rest[..., 1], extent[..., 0], extent[..., 1]
    x = (x + np.where(y >= height, width // 2, 0)) % width
    return np.stack([x, np.minimum(y, 2 * height - 1 - y)], -1)


NOWHERE = -(1 << 24)
"""A texel outside of every image, wherever a level or a layer stands in it: a lookup there gives 0."""


def _outside_is_nowhere(texel: np.ndarray, extent: np.ndarray) -> np.ndarray:
    inside = ((texel >= 0) & (texel < extent)).all(-1, keepdims=True)
    return np.where(inside, texel, NOWHERE)


WRAPS = {
    "repeat": Wrap((1, 1), lambda rest, extent: rest),
    "clamp": Wrap(
        None,
        lambda texel, extent: np.clip(texel, 0, extent - 1),
        "ivec2 rest = clamp({texel}, ivec2(0), extent - 1);\n",
    ),
    "zero": Wrap(
        None,
        _outside_is_nowhere,
        "ivec2 rest = {texel};\n"
        f"rest = rest == clamp(rest, ivec2(0), extent - 1) ? rest : ivec2({NOWHERE});\n",
    ),
    "mirror": Wrap((2, 2), _mirrored, "rest = min(rest, 2 * extent - 1 - rest);\n"),
    "sphere": Wrap(
        (1, 2),
        _over_the_pole,
        "rest.x += rest.y >= extent.y ? extent.x / 2 : 0; rest.x -= rest.x >= extent.x ? extent.x : 0;\n"
        "rest.y = min(rest.y, 2 * extent.y - 1 - rest.y);\n",
        even=True,
    ),
}
"""By name. "sphere" is for equirectangular maps: beyond a pole rows come back, shifted by half the width."""
AXIS_WRAPS = tuple(name for name, wrap in WRAPS.items() if not wrap.even)
"""Those that say what happens along each axis alone."""


WrapName = str | tuple[str, str]
"""A name of ``WRAPS``, or two of them, along x and y."""


@dataclass(frozen=True)
class WrapByAxis:
    along: Wrap
    down: Wrap
    even: bool = False

    def eval(self, texel: np.ndarray, extent: np.ndarray) -> np.ndarray:
        return np.stack([self.along.eval(texel, extent)[..., 0], self.down.eval(texel, extent)[..., 1]], -1)

    def glsl(self, texel: str, remainder: str) -> str:
        x, y = self.along.glsl(texel, remainder), self.down.glsl(texel, remainder)
        return f"ivec2 both;\n{{ {x}both.x = rest.x; }}\n{{ {y}both.y = rest.y; }}\nivec2 rest = both;\n"


def wrap_of(name: WrapName) -> Wrap | WrapByAxis:
    """The wrap of that name, or of two names. Raises GraphError.

    >>> texel = np.array([[-1, -1], [4, 4]])
    >>> wrap_of(("repeat", "clamp")).eval(texel, np.array([4, 4])).tolist()
    [[3, 0], [0, 3]]
    """
    if isinstance(name, tuple) and len(name) == 2 and all(one in AXIS_WRAPS for one in name):
        return WrapByAxis(WRAPS[name[0]], WRAPS[name[1]])
    if not isinstance(name, str) or name not in WRAPS:
        raise GraphError(
            f"wrap is one of {', '.join(map(repr, WRAPS))}, or two of {', '.join(map(repr, AXIS_WRAPS))} for"
            f" u and v, not {name!r}"
        )
    return WRAPS[name]


def one_wrap(name: WrapName) -> WrapName:
    return name[0] if isinstance(name, tuple) and len(set(name)) == 1 else name


class WrapTexel(PixelFunction):
    """IVEC2 to IVEC2: a texel brought inside an image of ``size`` by a name of ``WRAPS``."""

    operations = 12.0
    exact = zero_derivative = True
    fields = ("size", "wrap")
    size: Size
    wrap: WrapName

    def infer(self):
        wrap_of(self.wrap)
        if self.inputs[0].vtype is not IVEC2:
            raise self.fail("takes IVEC2")
        return IVEC2, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        extent = f"const ivec2 extent = ivec2({self.size[0]}, {self.size[1]});\n"
        return f"{{ {extent}{wrap_of(self.wrap).glsl('$0', REMAINDER_FIXED)}$y = rest; }}"

    def eval(self, texel):
        return wrap_of(self.wrap).eval(texel, np.array(self.size))


class LevelPlace(PixelFunction):
    """Input: level INT. IVEC4: its place (x, y, width, height) in ``layout``, clamped to the last level."""

    operations = 10.0
    exact = zero_derivative = True
    fields = ("layout",)
    layout: tuple[Place, ...]

    def infer(self):
        if self.inputs[0].vtype is not INT:
            raise self.fail("takes a level, INT")
        return IVEC4, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        if len(self.layout) > 1 and _series(self.layout):
            # The widths in front of a level are a geometric series.
            first, below = self.layout[0][2], self.layout[-1][1]
            return (
                f"{{ int k = clamp($0, 0, {len(self.layout) - 1});"
                f" int left = {first} - ({first} >> max(k - 1, 0));\n"
                f"$y = ivec4(k > 0 ? ivec2(left, {below}) : ivec2(0), ivec2({first} >> k)); }}"
            )
        # A chain of choices: an array indexed at run time takes stack in every lane of a CPU driver.
        *others, last = ("ivec4({}, {}, {}, {})".format(*place) for place in self.layout)
        return "".join(f"$0 < {k + 1} ? {place} : " for k, place in enumerate(others)) + last

    def eval(self, level):
        return np.array(self.layout)[np.clip(level, 0, len(self.layout) - 1)]


class LevelTexel(PixelFunction):
    """Inputs (texel IVEC2, place IVEC4): the texel, brought inside its level by a name of ``WRAPS``, in the
    image where the level stands at ``place``. binary: all sides are powers of two."""

    operations = 16.0
    exact = zero_derivative = True
    fields = ("wrap", "binary")
    wrap: WrapName
    binary: bool

    def infer(self):
        wrap_of(self.wrap)
        if [x.vtype for x in self.inputs] != [IVEC2, IVEC4]:
            raise self.fail("takes a texel, IVEC2, and a place, IVEC4")
        return IVEC2, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        inside = wrap_of(self.wrap).glsl("$0", REMAINDER_BINARY if self.binary else REMAINDER)
        return f"{{ ivec2 extent = $1.zw;\n{inside}$y = rest + $1.xy; }}"

    def eval(self, texel, place):
        return wrap_of(self.wrap).eval(texel, place[..., 2:]) + place[..., :2]


def is_binary(places: tuple[Place, ...]) -> bool:
    return all(side & (side - 1) == 0 for place in places for side in place[2:])


def _series(places: tuple[Place, ...]) -> bool:
    """Whether these are the levels of a square binary pyramid: level 0 on top, the others in a row below."""
    first, below = places[0][2], places[-1][1]
    series = [(0, 0, first, first)]
    series += [(first - (first >> (k - 1)), below, first >> k, first >> k) for k in range(1, len(places))]
    return is_binary(places) and list(places) == series
