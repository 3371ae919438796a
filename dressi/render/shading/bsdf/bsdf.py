"""The base class of surfaces, and what lights and skies give them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable, as_variable
from ....ad.ops.pixel.constant import Like
from ....errors import InputError
from ...core.materials import MaterialKind, range_text
from .microfacet import Grid, axes, by_cosine, by_ggx, ggx_pdf, passed, seen_from_above

Own = TypeVar("Own", bound="Bsdf")

SAMPLES = Grid(8, 8)
"""Directions of a pixel in the sum over a sky, for which images of as many texels a pixel are made."""


class Frame(NamedTuple):
    """Directions at a surface point: unit VEC3 in the world, away from the surface.

    >>> up = F.constant((0.0, 0.0, 1.0))
    >>> evaluate(Frame(up, up).n_v).item()
    1.0
    """

    normal: Variable
    """Towards the side that the eye sees."""
    to_eye: Variable
    tangent: Variable | None = None
    """VEC4: where u grows, not orthogonal to the normal, and the bitangent's sign; None without UVs."""

    def each(self, change: Callable[[Variable], Variable]) -> Frame:
        """The frame with each of its images changed."""
        return Frame(*(None if x is None else change(x) for x in self))  # type: ignore[arg-type]

    @property
    def n_v(self) -> Variable:
        """FLOAT: the cosine to the eye."""
        return F.dot(self.normal, self.to_eye)


class SkyLight(NamedTuple):
    """VEC3s: the light of a sky that a surface reflects from below it, and from the surface itself."""

    diffuse: Variable
    specular: Variable

    @property
    def total(self) -> Variable:
        """VEC3: all of it."""
        return self.diffuse + self.specular


class Sky(Protocol):
    """Light from all around (``PrefilteredEnvironment``). Directions are unit VEC3 in the world."""

    def diffuse(self, normal: Variable, to_eye: Variable | None = None) -> Variable:
        """VEC3: what a white matt surface reflects."""
        ...

    def specular(
        self, normal: Variable, to_eye: Variable, f0: Variable, roughness: Variable, f90: Like = 1.0
    ) -> Variable:
        """VEC3: what microfacets of GGX reflect, with several reflections if the sky has them."""
        ...

    def microfacets(
        self, normal: Variable, to_eye: Variable, f0: Variable, roughness: Variable, f90: Like = 1.0
    ) -> tuple[Variable, Variable, Variable]:
        """VEC3: what microfacets of GGX reflect once; FLOATs: the shares of even light by f0 and f90."""
        ...

    def blurred(self, direction: Variable, solid_angle: Variable) -> Variable:
        """VEC3: the mean radiance around a direction."""
        ...


@dataclass(frozen=True, eq=False)
class Bsdf(ABC):
    """A kind of surface: how it reflects light. Base of ``GltfBsdf`` and of surfaces of one's own.

    A surface is a dataclass whose fields are ``base`` and the parameters of its table, ``kind``. A user gives
    it as ``render(mesh, material=Velvet(fuzz=0.3))``: its fields hold numbers, images at the UVs or
    Variables, and gradients by them exist. Its methods see FLOAT and VEC3 Variables instead, the values at
    every pixel. Only ``reflected`` is needed. ``sample`` and ``pdf`` make light from all around less noisy,
    ``environment`` is a closed form of it. Numbers and arrays outside the range of their row raise
    InputError.

    >>> from dataclasses import dataclass
    >>> from typing import Any
    >>> @dataclass(frozen=True, eq=False)
    ... class Velvet(Bsdf):
    ...     kind = MaterialKind("velvet", (Parameter("fuzz", default=0.5),))
    ...     fuzz: Any = 0.5
    ...
    ...     def reflected(self, frame, to_light):
    ...         return self.base * (self.fuzz * (1.0 - frame.n_v)) * F.maximum(F.dot(frame.normal, to_light), 0.0)
    >>> Velvet(fuzz=0.3).base is None
    True
    """

    kind: ClassVar[MaterialKind] = MaterialKind("surface", ())
    """The table of its parameters."""
    oriented: ClassVar[bool] = False
    """Whether it asks for the tangent of the frame."""
    all_around: ClassVar[bool] = False
    """Whether light from below the surface reaches the eye, too."""

    base: Any = None
    """VEC3: base colour, linear. None: the albedo of the mesh."""

    def __post_init__(self) -> None:
        for row in self.kind.parameters:
            value = getattr(self, row.name, None)
            if value is None or isinstance(value, Variable):
                continue
            values = np.asarray(value)
            if values.dtype.kind not in "biuf":
                raise InputError(
                    f"{row.name} of the {self.kind.name} surface is numbers or a Variable, not {value!r}"
                )
            # NaN is in no range.
            if not ((values >= row.least) & (values <= row.most)).all():
                span, found = range_text(row.least, row.most), (values.min(), values.max())
                shown = f"{found[0]:g}" if values.size == 1 else "{:g} to {:g}".format(*found)
                raise InputError(f"{row.name} of the {self.kind.name} surface is in {span}, not {shown}")

    @classmethod
    def of(cls: type[Own], *values: Like | None, **named: Like | None) -> Own:
        """A surface of numbers, tuples or Variables, for graphs of one's own."""
        given = dict(zip((field.name for field in fields(cls)), values, strict=False)) | named
        return cls(**{name: None if x is None else as_variable(x) for name, x in given.items()})

    @abstractmethod
    def reflected(self, frame: Frame, to_light: Variable) -> Variable:
        """VEC3: the part of the radiance of a light in direction ``to_light`` that is sent to the eye: the
        BSDF times the cosine, 0 for light from behind. to_light: unit VEC3."""

    def environment(self, frame: Frame, sky: Sky) -> SkyLight:
        """The light of a sky that is sent to the eye. Here: the mean over SAMPLES directions that ``sample``
        draws evenly, of the sky blurred over what each of them stands for (Krivanek and Colbert 2008,
        "Real-time Shading with Filtered Importance Sampling")."""
        here = [frame.normal, frame.to_eye, *self.variables()]
        width, height = (max(x.size[k] for x in here) for k in (0, 1))
        number = SAMPLES.numbers((width * SAMPLES.across, height * SAMPLES.down))
        surface, frame = self.each(SAMPLES.spread), frame.each(SAMPLES.spread)
        at = frame._replace(to_eye=seen_from_above(frame.normal, frame.to_eye))
        count, even = SAMPLES.across * SAMPLES.down, F.sobol2(number)
        u, v = F.fract(even.x + 0.5 / count), F.fract(even.y + 0.5 / count)
        direction = F.normalize(surface.sample(at, (F.to_float(number) + 0.5) / count, u, v))
        above = F.greater(F.dot(frame.normal, direction), -2.0 if self.all_around else 0.0)
        weight = F.select(above, 1.0 / F.maximum(surface.pdf(at, direction), 1e-6), 0.0)
        light = sky.blurred(direction, weight / count) * weight
        value = surface.reflected(frame, direction) * light
        return SkyLight(F.constant(0.0), SAMPLES.mean(value))

    def sample(self, frame: Frame, chosen: Variable, u: Variable, v: Variable) -> Variable:
        """VEC3, unit, in the world: a direction that is drawn by three numbers in [0, 1), of which the first
        chooses a lobe. No derivative is asked for. Here: by the cosine."""
        return axes(frame.normal) @ by_cosine(u, v)

    def pdf(self, frame: Frame, to_light: Variable) -> Variable:
        """FLOAT: the density of ``sample`` over solid angle, above the surface."""
        return F.maximum(F.dot(frame.normal, to_light), 0.0) / math.pi

    @property
    def matt(self) -> Variable:
        """VEC3: the colour under ``Light``, which knows nothing but Lambert's law."""
        return self.base

    def emitted(self, frame: Frame) -> Variable | None:
        """VEC3: the light that the surface gives off to the eye, linear; None for none."""
        return None

    def occluded(self, light: Variable) -> Variable:
        """VEC3: what arrives of light from all around."""
        return light

    def transmittance(self, frame: Frame) -> Variable | None:
        """VEC3 in [0, 1]: how much light passes the surface in a straight line; None for an opaque one."""
        return None

    @classmethod
    def transmits(cls, parts: Container[str]) -> bool:
        """Whether a material with these parts has a ``transmittance``."""
        return cls.transmittance is not Bsdf.transmittance

    def variables(self) -> list[Variable]:
        """The values that are images."""
        return [x for field in fields(self) if isinstance(x := getattr(self, field.name), Variable)]

    def each(self: Own, change: Callable[[Variable], Variable]) -> Own:
        """The surface with each of its images changed."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: change(x) for name, x in values.items() if isinstance(x, Variable)})


def sky_on_film(frame: Frame, sky: Sky, below: Variable, f0: float, roughness: Like) -> SkyLight:
    """The light of a sky from a film over a matt colour (VEC3) below."""
    shine = sky.specular(frame.normal, frame.to_eye, F.constant((f0, f0, f0)), F.clamp(roughness, 0.0, 1.0))
    return SkyLight(below * sky.diffuse(frame.normal) * passed(f0, frame.n_v), shine)


# Directions of a surface that reflects by the cosine and by lobes of GGX, each drawn as often.


def sample_lobes(
    frame: Frame, alphas: Sequence[Variable], chosen: Variable, u: Variable, v: Variable
) -> Variable:
    """``Bsdf.sample`` of lobes with these alphas."""
    to_world = axes(frame.normal)
    eye = F.transpose(to_world) @ frame.to_eye
    direction = to_world @ by_cosine(u, v)
    for k, alpha in enumerate(alphas, 1):
        drawn = F.less(chosen, k / (1 + len(alphas)))
        direction = F.select(drawn, direction, to_world @ by_ggx(eye, alpha, u, v))
    return direction


def lobes_pdf(frame: Frame, alphas: Sequence[Variable], to_light: Variable) -> Variable:
    """``Bsdf.pdf`` of lobes with these alphas."""
    each = 1 / (1 + len(alphas))
    density = F.maximum(F.dot(frame.normal, to_light), 0.0) * (each / math.pi)
    # As in ``reflected``, so that the rounding of narrow lobes cancels.
    n_h = F.clamp(F.dot(frame.normal, F.normalize(to_light + frame.to_eye)), 0.0, 1.0)
    for alpha in alphas:
        density = density + each * ggx_pdf(frame.n_v, alpha, n_h)
    return density


# Surfaces that show their colour under any light.


@dataclass(frozen=True, eq=False)
class UnlitBsdf(Bsdf):
    """The base colour is what is seen (KHR_materials_unlit): nothing is reflected.

    >>> up = F.constant((0.0, 0.0, 1.0))
    >>> UnlitBsdf.of((0.5, 0.2, 0.1)).emitted(Frame(up, up)).vtype
    VEC3
    """

    def reflected(self, frame: Frame, to_light: Variable) -> Variable:
        return F.constant((0.0, 0.0, 0.0))

    def environment(self, frame: Frame, sky: Sky) -> SkyLight:
        return SkyLight(F.constant((0.0, 0.0, 0.0)), F.constant((0.0, 0.0, 0.0)))

    @property
    def matt(self) -> Variable:
        return F.constant((0.0, 0.0, 0.0))

    def emitted(self, frame: Frame) -> Variable | None:
        return self.base
