"""What a reconstruction says of its photographs: those without a camera, the reason, and what helps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...errors import InputError
from .motion import Models
from .pictures import Picture

PLAIN = 400
"""Features of a photograph with little texture."""
LINKED = 30
"""Matches of two photographs that show the same place from places that are not far apart."""
SHARED = 0.15
"""Share of the features of a photograph that one beside it shows, too."""
NAMED = 8
"""Most photographs that a sentence names."""


def partial(pictures: Sequence[Picture], models: Models) -> list[str]:
    """Sentences on the photographs that are left out."""
    model = models.found[0]
    placed = {image.name for image in model.images.values()}
    missing = [i for i, picture in enumerate(pictures) if picture.name not in placed]
    others = [
        group for other in models.found[1:] if not placed & (group := {i.name for i in other.images.values()})
    ]
    alone = [i for i in missing if not any(pictures[i].name in group for group in others)]
    notes = []
    if missing:
        notes.append(
            f"cameras of {len(placed)} of {len(pictures)} photographs were found; without one:"
            f" {named(pictures, missing)}" + (f"; {cure(models, alone)}" if alone else "")
        )
    if others:
        counts = ", ".join(str(len(group)) for group in others)
        notes.append(
            f"the photographs fall into {1 + len(others)} groups that show nothing in common, and the largest is taken; the"
            f" others have {counts}: add photographs between them"
        )
    return notes


def too_few(folder: Path, pictures: Sequence[Picture], models: Models) -> InputError:
    """That most photographs have no camera."""
    placed = {image.name for model in models.found[:1] for image in model.images.values()}
    missing = [i for i, picture in enumerate(pictures) if picture.name not in placed]
    return InputError(
        f"cameras of only {len(placed)} of {len(pictures)} photographs of '{folder}' were found; {cure(models, missing)}"
    )


def named(pictures: Sequence[Picture], chosen: Sequence[int]) -> str:
    names = ", ".join(f"'{Path(pictures[i].name).name}'" for i in chosen[:NAMED])
    return names if len(chosen) <= NAMED else f"{names} and {len(chosen) - NAMED} more"


def cure(models: Models, missing: Sequence[int]) -> str:
    """Why these photographs have no camera, as far as their features say, and what helps."""
    features = float(np.median(models.features[list(missing)]))
    matches = models.matches[list(missing)]
    links = float(np.median((matches >= LINKED).sum(1)))
    shared = float(np.median(matches.max(1, initial=0) / np.maximum(models.features[list(missing)], 1)))
    if features < PLAIN:
        return (
            f"they have few features ({features:.0f}): they are blurred, or show little texture. Take them sharp, and stand"
            " the object on a printed sheet or a newspaper that does not move with respect to it"
        )
    if links < 1 or shared < SHARED:
        return (
            "they show little that other photographs show: they hardly overlap, or are blurred. Take photographs at most"
            " 15 degrees apart, all around, without moving the object"
        )
    return (
        "what they share with others agrees with no place of the camera: the object has moved between photographs, or the"
        " camera stayed or only turned. Move the camera around an object that stays, 10 to 15 degrees at a time"
    )
