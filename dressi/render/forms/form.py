"""A form of HardSoftRas as one record, and what every form returns.

The rest of the package asks the record (``FORMS[name].one_sided``) and never compares names. A new form is one file that
ends with its record, and one line in ``hard_soft_ras.FORMS``.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.graph.types import Size
from ...ad.ops.pixel.constant import Like
from ...errors import InputError, did_you_mean
from ..surface.screen import DrawnMesh, Surface, covered


@dataclass(frozen=True, eq=False)
class Silhouette(ABC):
    """What a form returns: images of the batch of the positions.

    A colour picture is ``blend([shade(s) for s in surfaces])``.
    """

    hard: Variable
    """FLOAT mask: the mesh covers the pixel centre. No derivative."""
    silhouette: Variable
    """FLOAT in [0, 1]: coverage. Differentiable in the positions, except in the hard form."""
    mesh: DrawnMesh

    @property
    @abstractmethod
    def surfaces(self) -> tuple[Surface, ...]:
        """The surface seen at every pixel, soft margin included, from front to back. Differentiable in the positions."""

    @property
    def seen(self) -> Surface:
        """The nearest surface at the pixel centre, with the soft margin in forms that have one surface."""
        return self.surfaces[0]

    @abstractmethod
    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        """One image from the shaded ``surfaces``, a float image each, over a background (default: black)."""

    def blend_codes(
        self,
        colours: Sequence[Variable],
        code: Callable[[Variable], Variable],
        background: Like | None = None,
    ) -> Variable:
        """``code`` of the blended image: light is mixed, and codes of the mixture, such as those of sRGB, are compared."""
        return code(self.blend(colours, background))


@dataclass(frozen=True, eq=False)
class Form:
    """One estimator of the silhouette and its derivative, with everything that differs between estimators."""

    name: str
    draw: Callable[..., Silhouette]
    """``draw(mesh, [radius,] **options)`` with ``mesh`` a ``DrawnMesh``. The names of its parameters are the options that
    the form takes."""
    target: Callable[[Variable, Like, int], Variable] | None = None
    """``target(distance, radius, layers, **options)``: FLOAT, the silhouette of a closed mesh whose outline has these signed
    distances (FLOAT, image heights, positive inside). What a fit compares its silhouette with; None for forms without a
    radius. Only a layered form uses ``layers``."""
    presets: Mapping[str, Callable[[Size], dict[str, Any]]] = field(default_factory=dict)
    """Options by the name of a ``mode``, for images of a size."""
    one_sided: bool = False
    """Whether coverage is exactly 1 over the mesh and soft outside of it only. Then a mask itself is no target (the mesh
    would shrink; use ``target``), images need a margin of one radius beyond their border, and beyond the border of a
    truncated mask the target is an interval."""
    least_radius: float = 0.0
    """Pixels. With a smaller radius a fit converges to the wrong outline."""
    colours: bool = False
    """Whether a fit of the shape may compare colours beside silhouettes."""
    exact_inside: bool = False
    """Whether blended images have derivatives at contours inside of the outline too. ``Picture`` then blends depth,
    normals, points and attributes, not only colours."""
    full_resolution: bool = False
    """Whether a pixel costs so little that a fit draws up to the full size of its pictures."""

    @cached_property
    def options(self) -> frozenset[str]:
        """Names of the options that ``draw`` takes."""
        return frozenset(list(inspect.signature(self.draw).parameters)[1:])

    @property
    def soft(self) -> bool:
        """Whether a radius says how far the derivative reaches."""
        return "radius" in self.options

    @property
    def layered(self) -> bool:
        """Whether the form peels ``layers``."""
        return "layers" in self.options

    @property
    def draws_edges(self) -> bool:
        """Whether the form needs the edges of the mesh, which depend on the data of ``faces``. Over a closed mesh such a
        form may cull back faces without changing the silhouette."""
        return "edges" in self.options

    def with_options(self, options: Mapping[str, Any]) -> Form:
        """The form with those of the options, by name, that its target takes as well."""
        known = () if self.target is None else inspect.signature(self.target).parameters
        given = {name: value for name, value in options.items() if name in known}
        return replace(self, target=partial(self.target, **given)) if self.target and given else self

    def usable_radius(self, radius: float, height: int) -> float:
        """The radius (image heights), or ``least_radius`` in images of ``height`` rows (at most 0.5) if that is larger."""
        return max(radius, min(self.least_radius / height, 0.5))

    def margin(self, radius: float, height: int) -> int:
        """How many pixels to draw beyond each border so that the soft margin is not cut off."""
        return math.ceil(radius * height) if self.one_sided else 0

    def arguments(self, size: Size, mode: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of ``draw`` from the options that are not None, over those of the preset ``mode``. Raises InputError."""
        given = {name: value for name, value in options.items() if value is not None}
        if mode is not None:
            given = {**self.preset(mode, size), **given}
        for name in given:
            if name not in self.options:
                more = did_you_mean(name, self.options) or "; leave it out"
                raise InputError(f"{name} has no meaning in the {self.name} form{more}")
        if self.soft:
            if "radius" not in given:
                raise InputError(
                    f"the {self.name} form needs a radius, a fraction of the image height such as 0.01"
                )
            given["radius"] = at_least(fraction("radius", given["radius"]), LEAST_RADIUS / size[1])
        return given

    def preset(self, mode: str, size: Size) -> dict[str, Any]:
        """Options of a preset in images of a size. Raises InputError."""
        if not self.presets:
            raise InputError(f"mode has no meaning in the {self.name} form; leave it out")
        if mode not in self.presets:
            raise InputError(f"mode is one of {', '.join(self.presets)}, not {mode!r}")
        return self.presets[mode](size)


REMOVED = {
    "silhouette": "outer takes its place, and fits open holes between their rounds",
    "contour": "edges takes its place, without a radius: compare blurred pictures (pyramid)",
    "antialias": "edges takes its place",
}
"""Names of forms that there were once, and what to do without them."""


def known_form(name: object, forms: Mapping[str, Form]) -> Form:
    """The form of that name among ``forms``. Raises InputError."""
    if isinstance(name, str) and name in forms:
        return forms[name]
    near = f"; {REMOVED[name]}" if isinstance(name, str) and name in REMOVED else did_you_mean(name, forms)
    raise InputError(f"the form is one of {', '.join(forms)}, not {name!r}{near}")


LEAST_RADIUS = 0.5
"""Pixels. A thinner margin holds hardly a pixel centre, so that neither the radius nor a position would have a gradient."""


def at_least(x: Variable, least: float) -> Variable:
    """x, or ``least`` where x is less, with the derivative of x in both: an optimizer that went below can come back."""
    return x + F.stop_gradient(F.maximum(x, least) - x)


def fraction(name: str, value: Like) -> Variable:
    """A length as a Variable. Raises InputError for numbers outside (0, 1)."""
    if isinstance(value, int | float) and not 0 < value < 1:
        raise InputError(f"{name} is a fraction of the image height in (0, 1), not {value}")
    return as_variable(value)


# The hard raster as a form: coverage is 1 where the mesh covers the pixel centre, 0 elsewhere, without a derivative.


@dataclass(frozen=True, eq=False)
class HardSilhouette(Silhouette):
    """The hard raster alone: nothing is soft, and the silhouette has no derivative."""

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        return (self.mesh.surface(self.mesh.face),)

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        return F.select(self.hard, colours[0], 0.0 if background is None else background)


def hard_form(mesh: DrawnMesh) -> HardSilhouette:
    """The hard picture of a mesh."""
    hard = covered(mesh.face)
    return HardSilhouette(hard, hard, mesh)


HARD = Form("hard", hard_form)
