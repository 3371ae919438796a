"""Surfaces that show their colour under any light."""

from __future__ import annotations

from dataclasses import dataclass

from ....ad import functional as F
from ....ad.graph import Variable
from .bsdf import Bsdf, Frame, Sky, SkyLight


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
