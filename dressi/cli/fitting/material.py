"""The material phase of `dressi fit`: what ``--optimize`` and ``--light`` ask for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dressi import DressiAD
from dressi.errors import InputError
from dressi.render.fit import Dataset, FitOptions, FitResult, Progress
from dressi.render.fit.disk import Keeper
from dressi.render.fit.materials.options import MaterialOptions, parts_of
from dressi.render.fit.materials.recover import with_material
from dressi.render.fit.options import STEPS
from dressi.render.io.environments import load_environment
from dressi.render.shading.environment import Environment
from dressi.render.shading.harmonics_light import HarmonicsLight
from dressi.render.shading.lights import LightSource
from dressi.render.shading.studio import studio


@dataclass(frozen=True)
class MaterialRequest:
    """What the material phase does."""

    options: MaterialOptions
    light: LightSource
    """What pictures of a mesh are drawn under, and what the phase starts from."""
    start: LightSource
    """What the phase starts from: ``light``, or even light where nothing is known of it."""

    def recovered(
        self,
        dataset: Dataset,
        result: FitResult,
        make_engine: Callable[[], DressiAD],
        progress: Callable[[Progress], None],
        stop: Callable[[], bool],
        measure: Callable[[str, Any], None],
        moves: bool,
        keeper: Keeper,
        resume: bool,
    ) -> FitResult:
        """The result with its material. moves: whether vertices may move with it, where masks are exact."""
        return with_material(
            dataset,
            result,
            self.options,
            self.start,
            make_engine,
            progress=progress,
            stop=stop,
            measure=measure,
            moves=moves and dataset.exact,
            keeper=keeper,
            resume=resume,
        )


def material_request(
    optimize: str | None, light: Path | None, photos: bool, options: FitOptions
) -> MaterialRequest | None:
    """None without ``--optimize``. Raises InputError."""
    if optimize is None:
        return None
    parts = parts_of(optimize)
    if photos and light is None and "light" not in parts:
        raise InputError(
            "the light of photographs is not known; add light to --optimize, or give it with --light FILE.hdr"
        )
    given = Environment(load_environment(light), lobes=1) if light is not None else None
    default = MaterialOptions(parts)
    material = MaterialOptions(
        parts,
        # --steps changes both by the same factor.
        steps=max(round(default.steps * options.steps / STEPS), 1),
        texture_size=options.texels,
        batch=options.batch or default.batch,
        seed=options.seed,
    )
    shown = given or Environment(studio(), lobes=1)
    start = HarmonicsLight() if given is None and "light" in parts else shown
    return MaterialRequest(material, shown, start)
