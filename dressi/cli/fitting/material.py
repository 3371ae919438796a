"""The material phase of `dressi fit`: what ``--optimize`` and ``--light`` ask for."""

from dataclasses import dataclass
from pathlib import Path

from dressi.errors import InputError
from dressi.render.fit import FitOptions
from dressi.render.fit.materials.options import MaterialOptions, parts_of
from dressi.render.fit.materials.recover import Recovery
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

    def recovery(self, moves: bool) -> Recovery:
        """What the fit does after its texture. moves: whether vertices may move with it, where masks are exact."""
        return Recovery(self.options, self.start, moves)


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
