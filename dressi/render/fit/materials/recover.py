"""The material phase of a fit: after shape and texture, for the shape that was found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...mesh import Mesh
from ...shading.lights import LightSource
from ..data.dataset import Observations
from ..graphs.controls import UNCHANGED, Factors
from ..graphs.round import Found
from .light import LIGHT, with_light
from .maps import with_maps
from .material_fit import EXPOSURES, MaterialFit
from .options import MaterialOptions

TEXTURE = "texture"
"""The texture of the mesh that a recovery begins with, among its values."""


class Stage(NamedTuple):
    """A part of a recovery: its options, and whether vertices move in it."""

    options: MaterialOptions
    moves: bool


@dataclass(frozen=True, eq=False)
class Recovery:
    """What a fit recovers after its texture: a material in place of it, the light and the exposures, in ``stages``.

    light: what shines, or what the light starts from.  moves: whether vertices move under the light in some of the steps, for
    exact masks.
    """

    options: MaterialOptions
    light: LightSource
    moves: bool = False

    @cached_property
    def stages(self) -> list[Stage]:
        """The parts, one a round."""
        return stages(self.options, self.moves)

    @property
    def task(self) -> dict[str, Any]:
        """What determines the result, beside ``arrays``."""
        return {"options": asdict(self.options), "moves": self.moves, "light": type(self.light).__name__}

    @property
    def arrays(self) -> list[np.ndarray]:
        """The light."""
        return [np.asarray(getattr(self.light, name), np.float64) for name in self.light.parameters]

    def values(self, mesh: Mesh) -> dict[str, np.ndarray]:
        """What the first stage begins with beside the shape, as ``Found.values``."""
        return {} if mesh.texture is None else {TEXTURE: np.asarray(mesh.texture)}

    def mesh(self, found: Found) -> Mesh:
        """The mesh, in the world, with what was found of its material."""
        mesh, texture = found.mesh, found.values.get(TEXTURE)
        if texture is not None:
            mesh = replace(mesh, texture=texture, color=(1.0, 1.0, 1.0))
        size = self.options.texture_size
        return with_maps(mesh, found.values, (size, size)) if EXPOSURES in found.values else mesh

    def lit_by(self, found: Found) -> LightSource:
        """The light, with what was found of it."""
        return with_light(self.light, {k: x for k, x in found.values.items() if k.startswith(LIGHT)})

    def exposures(self, found: Found) -> np.ndarray | None:
        """(N,) of the views, where they are found."""
        return found.values.get(EXPOSURES) if "exposure" in self.options.optimize else None

    def round(
        self, number: int, found: Found, views: Observations, factors: Factors = UNCHANGED
    ) -> MaterialFit:
        """Stage ``number``, which begins with what was found."""
        options, moves = self.stages[number]
        mesh, light, exposures = self.mesh(found), self.lit_by(found), found.values.get(EXPOSURES)
        return MaterialFit(mesh, views, options, light, _no_engine, moves, exposures, factors)


def _no_engine() -> Any:
    raise NotImplementedError("the fit makes the engines of its rounds")


def stages(options: MaterialOptions, moves: bool) -> list[Stage]:
    """The parts of a recovery, and whether vertices move in each; together they have the steps of ``options``.

    Vertices move when the rest of the material is known roughly, and before there is a normal map, which would take what is
    wrong with the shape upon itself.
    """
    smooth = tuple(part for part in options.optimize if part != "normal")
    quarter = options.steps // 4
    if not moves or not smooth or quarter == 0:
        return [Stage(options, False)]
    first = replace(options, optimize=smooth, steps=quarter)
    return [
        Stage(first, False),
        Stage(first, True),
        Stage(replace(options, steps=options.steps - 2 * quarter), False),
    ]
