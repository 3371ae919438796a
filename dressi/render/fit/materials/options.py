"""What is recovered of a material, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import InputError, did_you_mean
from ...materials import GLTF

PARTS = (*GLTF.learned, "light", "exposure")
"""What may be optimised, together or one by one."""


@dataclass(frozen=True)
class MaterialOptions:
    """Options of ``MaterialFit``. Raises InputError.

    >>> MaterialOptions(("albedo", "roughness")).steps
    600
    """

    optimize: tuple[str, ...] = ("albedo", "roughness", "metallic")
    """Some of ``PARTS``. What is not among them stays as the mesh and the light have it."""
    steps: int = 600
    texture_size: int = 512
    """Texels along each side of all maps that are optimised."""
    batch: int = 4
    """Random views in each step; 0 for all."""
    seed: int = 0
    smoothness: float = 1.0
    """Factor on the weights of all smoothness terms."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimize", parts_of(self.optimize))
        if self.steps < 1:
            raise InputError(f"{self.steps} steps recover no material; give at least 1, such as 600")
        if self.texture_size < 1:
            raise InputError(f"maps of {self.texture_size} texels cannot be; give at least 1, such as 512")
        if self.batch < 0 or not 0 <= self.smoothness < 1e9:
            raise InputError("batch and smoothness are 0 or more")


def parts_of(names: str | Sequence[str]) -> tuple[str, ...]:
    """The parts that a text such as "albedo,roughness" or a sequence names, each once. Raises InputError.

    >>> parts_of("roughness, albedo")
    ('roughness', 'albedo')
    """
    given = names.split(",") if isinstance(names, str) else names
    parts = tuple(dict.fromkeys(name.strip() for name in given))
    unknown = [name for name in parts if name not in PARTS]
    if unknown or not parts:
        raise InputError(
            f"what is optimised is some of {', '.join(PARTS)}, not {', '.join(unknown) or 'nothing'}"
            f"{did_you_mean(unknown[0], PARTS) if unknown else ''}"
        )
    return parts
