"""Largest and smallest values in a window around each texel."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...graph import PixelFunction, Variable
from ...types import Access, VType, vector_type, whole
from ..coordinates.coordinates import pixel_coordinates
from ..pixel.components import component
from ..pixel.vector import Construct, ivec2
from .extremes import take_better
from .lookup import lookup, scatter_add
from .texels import check_one_row, fetch

__all__ = ["window_max", "window_min"]


class Windowed(PixelFunction):
    """The base of Functions that read the texels within ``radius`` along one axis, inside the tile."""

    fields = ("radius", "axis", "largest")

    def __init__(self, x: Variable, radius: int, axis: str, largest: bool):
        self.radius, self.axis, self.largest = radius, axis, largest
        super().__init__(x)

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def infer(self):
        if self.axis not in ("x", "y") or self.radius < 0:
            raise self.fail("the axis must be 'x' or 'y', and the radius at least 0")
        if self.inputs[0].vtype.is_matrix:
            raise self.fail("takes scalars and vectors")
        return self.inputs[0].vtype, self.inputs[0].domain

    @property
    def _texel(self) -> str:
        return "ivec2(i, pixel.y)" if self.axis == "x" else "ivec2(pixel.x, i)"

    @property
    def fetches(self) -> float:
        return float(self.iterations)

    @property
    def iterations(self) -> int:
        window, extent = 2 * self.radius + 1, self.inputs[0].size[self.axis == "y"]
        return window if window < extent else extent

    def radii(self, most: int) -> list[int]:
        """The radii of a sequence of windows of at most ``most`` texels that together reach as far; empty if most is below 3."""
        left, step = min(self.radius, self.inputs[0].size["xy".index(self.axis)] - 1), (most - 1) // 2
        return [min(step, left - k) for k in range(0, left, step)] if step else []

    def _moved(self, x: np.ndarray):
        """(index along the axis, values there) for each texel of the window, in ascending order."""
        axis = 2 if self.axis == "x" else 1
        extent = x.shape[axis]
        for offset in range(-self.radius, self.radius + 1):
            place = np.clip(np.arange(extent) + offset, 0, extent - 1)
            shape = [1] * x.ndim
            shape[axis] = extent
            yield np.broadcast_to(place.reshape(shape), x.shape), np.take(x, place, axis)


class WindowExtreme(Windowed):
    """The largest or smallest value within ``radius`` texels along one axis, inside the tile, by components.

    Of equal ones the gradient goes to the first.
    """

    operations = 11.0

    @cached_property
    def glsl(self) -> str:
        a, pick = self.axis, "max" if self.largest else "min"
        return (
            "$y = $0(pixel, tile);\n"
            f"for (int i = max(pixel.{a} - {self.radius}, 0);"
            f" i <= min(pixel.{a} + {self.radius}, $size0.{a} - 1); ++i) $y = {pick}($y, $0({self._texel}, tile));"
        )

    def shortened(self, most):
        y = self.inputs[0]
        for radius in self.radii(most):
            y = WindowExtreme(y, radius, self.axis, self.largest).output
        return None if y is self.inputs[0] else y

    def evaluate(self, at, x):
        pick = np.maximum if self.largest else np.minimum
        out = x
        for _, values in self._moved(x):
            out = pick(out, values)
        return fetch(out, at)

    def _chosen(self) -> list[Variable]:
        """IVEC2 for each component: the texel of the input that gives the output."""
        index = WindowIndex(self.inputs[0], self.radius, self.axis, self.largest).output
        here = pixel_coordinates(index.size)
        parts = [component(index, k) for k in range(index.vtype.components)]
        return [ivec2(k, here.y) if self.axis == "x" else ivec2(here.x, k) for k in parts]

    def vjp(self, gy, i):
        x = self.inputs[0]
        if x.vtype.is_int:
            return None
        texels = self._chosen()
        return _joined(
            x.vtype,
            [
                scatter_add(component(gy, k), at, x.size, x.batch, channels=x.channels)
                for k, at in enumerate(texels)
            ],
        )

    def jvp(self, tangents):
        x, tangent = self.inputs[0], tangents[0]
        if tangent is None or x.vtype.is_int:
            return None
        return _joined(x.vtype, [lookup(component(tangent, k), at) for k, at in enumerate(self._chosen())])


class WindowIndex(Windowed):
    """INT (IVECn): x or y of the first texel that gives the value of ``WindowExtreme``, by components."""

    operations = 14.0
    zero_derivative = True

    def infer(self):
        vtype, domain = super().infer()
        return vector_type(vtype.components, integer=True), domain

    @cached_property
    def glsl(self) -> str:
        a = self.axis
        return (
            f"int i = max(pixel.{a} - {self.radius}, 0); $y = $type(i);\n$type0 best = $0({self._texel}, tile);\n"
            f"for (++i; i <= min(pixel.{a} + {self.radius}, $size0.{a} - 1); ++i) {{"
            f" $type0 x = $0({self._texel}, tile); {take_better(self.inputs[0].vtype, self.largest)} }}"
        )

    def evaluate(self, at, x):
        better = np.greater if self.largest else np.less
        (index, best), *rest = self._moved(x)
        for place, values in rest:
            index, best = (
                np.where(better(values, best), place, index),
                np.where(better(values, best), values, best),
            )
        return fetch(index, at)

    def shortened(self, most):
        x, (first, *rest) = self.inputs[0], self.radii(most) or (0,)
        if not rest:
            return None
        index = WindowIndex(x, first, self.axis, self.largest).output
        for radius in rest:
            index = WindowOfIndices(index, x, radius, self.axis, self.largest).output
        return index


class WindowOfIndices(Windowed):
    """Inputs (index, x): among the values of ``index`` within ``radius``, which are indices along the axis, the one whose
    texel of x is the largest (or smallest), by components; the first of equal ones.

        largest, radius 1, x = 5 0 0 7 0, index = 0 0 3 3 3   ->   0 3 3 3 3
    """

    operations = 16.0
    zero_derivative = True

    def __init__(self, index: Variable, x: Variable, radius: int, axis: str, largest: bool):
        self.radius, self.axis, self.largest = radius, axis, largest
        PixelFunction.__init__(self, index, x)

    @cached_property
    def access(self):
        return (Access.FETCH, Access.FETCH)

    def infer(self):
        return self.inputs[0].vtype, self.inputs[0].domain

    @cached_property
    def glsl(self) -> str:
        a, vtype = self.axis, self.inputs[1].vtype
        at = "ivec2({}, pixel.y)" if a == "x" else "ivec2(pixel.x, {})"
        value = f"$1({at.format('i')}, tile)"
        if not vtype.is_scalar:
            parts = [f"$1({at.format(f'i.{c}')}, tile).{c}" for c in "xyzw"[: vtype.components]]
            value = f"$type1({', '.join(parts)})"
        place = f"ivec2({'k, pixel.y' if a == 'x' else 'pixel.x, k'})"
        return (
            f"int k = max(pixel.{a} - {self.radius}, 0); $type i = $0({place}, tile); $y = i;\n$type1 best = {value};\n"
            f"for (++k; k <= min(pixel.{a} + {self.radius}, $size0.{a} - 1); ++k) {{"
            f" i = $0({place}, tile); $type1 x = {value}; {take_better(vtype, self.largest)} }}"
        )

    def evaluate(self, at, index, x):
        better = np.greater if self.largest else np.less
        (_, best), *rest = ((None, places) for _, places in self._moved(index))
        value = np.take_along_axis(x, best, 2 if self.axis == "x" else 1)
        for _, places in rest:
            found = np.take_along_axis(x, places, 2 if self.axis == "x" else 1)
            chosen = better(found, value)
            best, value = np.where(chosen, places, best), np.where(chosen, found, value)
        return fetch(best, at)


def _joined(vtype: VType, parts: list[Variable]) -> Variable:
    return parts[0] if vtype.is_scalar else Construct(vtype, *parts).output


def window_max(x: Variable, radius: int, axis: str) -> Variable:
    """The largest value within ``radius`` texels along an axis, inside the tile, by components.

    x: FLOAT, VECn, INT or IVECn. radius: whole, at least 0. axis: "x" or "y". The result has the type and domain of x.
    Differentiable; among equal texels the first gets the gradient. Raises GraphError.

    >>> evaluate(F.window_max(Variable.of([1.0, 5.0, 2.0, 0.0, 3.0]), 1, "x")).ravel().tolist()
    [5.0, 5.0, 5.0, 3.0, 3.0]
    """
    check_one_row(x, "a window")
    return WindowExtreme(x, whole(radius, "the radius", 0), axis, True).output


def window_min(x: Variable, radius: int, axis: str) -> Variable:
    """The smallest value within ``radius`` texels along an axis, inside the tile, by components.

    x: FLOAT, VECn, INT or IVECn. radius: whole, at least 0. axis: "x" or "y". The result has the type and domain of x.
    Differentiable; among equal texels the first gets the gradient. Raises GraphError.

    >>> evaluate(F.window_min(Variable.of([1.0, 5.0, 2.0, 0.0, 3.0]), 1, "x")).ravel().tolist()
    [1.0, 1.0, 0.0, 0.0, 0.0]
    """
    check_one_row(x, "a window")
    return WindowExtreme(x, whole(radius, "the radius", 0), axis, False).output
