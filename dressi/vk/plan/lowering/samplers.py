"""Filtered reads of textures: by the device's sampler, or from single texels.

A bilinear read from single texels takes four fetches and some thirty operations, one by the sampler takes one
instruction. But samplers round: most know 256 places between two texels. So the sampler is used where the
error that follows from the device's ``subTexelPrecisionBits`` is within the tolerance of the read
(``F.sample``), and where the device model predicts that it is faster. Derivatives are built before, from
single texels, so they are exact in any case; where a derivative needs the texels anyway, reading them twice
does not pay.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from ....ad.graph import Function, PixelFunction, Variable
from ....ad.graph.program import Program
from ....ad.graph.types import Access, Sampler
from ....ad.ops.texture.sample import Filtered
from ..analysis.context import Target
from ..core.limits import DeviceLimits
from ..model.device import DeviceModel, fetches, operations, planes


class HardwareSample(PixelFunction):
    """Inputs (texture, uv): the texture at uv, read by the device's sampler. Made by the planner."""

    fields = ("filter", "wrap")
    operations, fetches = 2.0, 1.0
    glsl = "$0($1)"
    no_derivative = "is made when a plan is built; take derivatives of F.sample"
    filter: str
    wrap: str

    @cached_property
    def access(self):
        return (Access.SAMPLE, Access.SAME_PIXEL)

    @cached_property
    def sampler(self) -> Sampler:
        return Sampler(self.filter, self.wrap)

    def infer(self):
        return self.inputs[0].vtype, self.inputs[1].domain

    def evaluate(self, at, texture, uv):
        """Weights of four texels, or the texel that contains the point."""
        extent = np.array(self.inputs[0].size)

        def texel(corner: np.ndarray) -> np.ndarray:
            inside = corner % extent if self.wrap == "repeat" else np.clip(corner, 0, extent - 1)
            x, y = np.moveaxis(inside, -1, 0)
            return texture[0, y, x]

        place = uv * extent
        if self.filter == "nearest":
            return texel(np.floor(place).astype(int))
        corner = np.floor(place - 0.5)
        fraction = place - 0.5 - corner
        total = 0.0
        for dx in (0, 1):
            for dy in (0, 1):
                weight = np.prod(np.where((dx, dy), fraction, 1 - fraction), axis=-1)
                values = texel(corner.astype(int) + (dx, dy))
                total = total + weight.reshape(weight.shape + (1,) * (values.ndim - 3)) * values
        return total


def sample_in_hardware(program: Program, target: Target) -> dict[Variable, Variable]:
    """Every ``Filtered`` as a read by the sampler, or as the value from single texels."""
    limits, model, options, _ = target
    marks = [f for f in program.functions if isinstance(f, Filtered)]
    readers: dict[Variable, set[Function]] = {}
    for f in program.functions if marks else ():
        for x in f.inputs:
            readers.setdefault(x, set()).add(f)
    kept = frozenset(program.roots)
    replace: dict[Variable, Variable] = {}
    for f in marks:
        value, texture, uv = f.inputs
        replace[f.output] = value
        if options.runs("sample_in_hardware") and _fits(f, limits):
            seconds = planes([texture]) / model.filter_rate  # of one read by the sampler, with all lanes busy
            if seconds < _computed(f, readers, kept, model):
                replace[f.output] = HardwareSample(texture, uv, filter=f.filter, wrap=f.wrap).output
    return replace


def _fits(f: Filtered, limits: DeviceLimits) -> bool:
    """Whether the sampler can read the texture, and its error is tolerable. Close to a border the nearest
    texel of a sampler may be the next one, which is off by the whole range."""
    value, texture, uv = f.inputs
    if value.domain != uv.domain:
        return False
    if f.filter == "nearest":
        return f.tolerance >= 1
    return limits.filtered_images and limits.bilinear_error <= f.tolerance and texture.tiles == 1


def _computed(
    f: Filtered, readers: dict[Variable, set[Function]], kept: Iterable[Variable], model: DeviceModel
) -> float:
    """Seconds of what computes one value and nothing else, with all lanes busy."""
    value, texture, uv = f.inputs
    inside: set[Function] = {f}
    stack, seconds = [value], 0.0
    while stack:
        v = stack.pop()
        g = v.creator
        if g is None or g in inside or v in (texture, uv, *kept) or not readers[v] <= inside:
            continue
        inside.add(g)
        seconds += operations(g) / model.rate
        for k, (x, access) in enumerate(zip(g.inputs, g.access, strict=True)):
            if access is Access.SAME_PIXEL:
                stack.append(x)
            else:
                seconds += fetches(g, k) * planes([x]) / model.fetch_rate
    return seconds
