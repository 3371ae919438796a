"""A reconstruction in a folder, as COLMAP keeps it: a later run of the same photographs reads it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, listed
from ..io.calibration import MOTIONS
from ..io.files import read_json, write_json
from .motion import Models, Poll, Tell, guess_world, library, looked_at, reconstruct
from .pictures import Picture, list_pictures

VERSION = 7
"""Version of the way reconstructions are made: older ones are made anew."""
MOST = 0.8
"""If less photographs get a camera, it is tried otherwise."""
ENOUGH = 12
"""So many photographs with a camera are used even if most have none."""
FACTS = "reconstruction.json"


@dataclass(frozen=True)
class Reconstruction:
    """model: folder of a COLMAP model whose names are relative to the folder of the photographs.  notes: what
    was assumed, and which photographs have no camera.  kept: whether an earlier run has made it."""

    model: Path
    notes: tuple[str, ...]
    kept: bool


def find_cameras(
    folder: Path,
    into: Path,
    *,
    own: bool = False,
    ordered: bool = False,
    tell: Tell = lambda text: None,
    stop: Poll = lambda: False,
) -> Reconstruction:
    """Cameras of the photographs in a folder, by structure from motion on the processor.

    into: a folder that the model is written to, or read from if it was made of the same files before.  own:
    whether each photograph has intrinsics of its own, instead of one for each camera, size and zoom. ordered:
    whether they were taken one after the other.  tell: what is done now.  stop: polled; true raises
    ``Interrupted``.

    The world has y up (``guess_world``). Raises InputError, with what helps, if most photographs get no
    camera, unless ``ENOUGH`` get one; and without pycolmap.
    """
    pictures = list_pictures(folder)
    key = _key(pictures, own)
    facts = into / FACTS
    if facts.is_file():
        try:
            kept = read_json(facts, "reconstruction")
            if kept["key"] == key:
                return Reconstruction(into / "sparse" / "0", tuple(map(str, kept["notes"])), True)
        except (InputError, LookupError, TypeError):
            pass  # it is made anew
    models = reconstruct(pictures, own=own, ordered=ordered, tell=tell, stop=stop)
    # The background of a turntable does not turn.
    short = models.placed < MOST * len(pictures)
    masked = short and all(picture.covered is not None for picture in pictures)
    further = [(True, False, "features of the masks alone")] if masked else []
    further.append((masked, True, "faint features, which takes longer"))
    for inside, thorough, said in further:
        if models.placed < MOST * len(pictures):
            first = f"cameras of {models.placed} of {len(pictures)} photographs were found"
            tell(f"{first}; once more, with {said} ...")
            how = {"own": own, "masked": inside, "thorough": thorough, "ordered": ordered}
            again = reconstruct(pictures, **how, tell=tell, stop=stop)
            models = max(models, again, key=lambda found: found.placed)
    if 2 * models.placed < len(pictures) and models.placed < ENOUGH:
        raise too_few(folder, pictures, models)
    motions = _motions(models)
    notes = [*partial(pictures, models), _placed(models.found[0], pictures)]
    if motions:
        notes.append(
            "the camera moved while rows were read (a rolling shutter): photographs are straightened"
        )
    shutil.rmtree(into / "sparse", ignore_errors=True)
    for number, model in enumerate(models.found):
        place = into / "sparse" / str(number)
        try:
            place.mkdir(parents=True)
            model.write(str(place))
        except (OSError, RuntimeError, ValueError) as error:
            text = f"cannot write the cameras into '{place}': {error}; give another --out"
            raise InputError(text) from None
    if motions:
        write_json(into / "sparse" / "0" / MOTIONS, motions)
    write_json(facts, {"key": key, "notes": notes, "photographs": _table(pictures, models)})
    return Reconstruction(into / "sparse" / "0", tuple(notes), False)


def _key(pictures: Sequence[Picture], own: bool) -> dict[str, Any]:
    """What a reconstruction depends on, as JSON has it."""
    files = {p.name: [p.path.stat().st_size, p.path.stat().st_mtime_ns] for p in pictures}
    return json.loads(json.dumps({"version": VERSION, "own": own, "files": files}))


def _table(pictures: Sequence[Picture], models: Models) -> list[dict[str, Any]]:
    """For each photograph: whether it has a camera, its features, and those that other photographs
    confirm."""
    placed = models.names
    return [
        {
            "name": picture.name,
            "camera": picture.name in placed,
            "features": int(models.features[i]),
            "matches": int(models.matches[i].max(initial=0)),
        }
        for i, picture in enumerate(pictures)
    ]


def _poses(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Centres (N, 3) and rotations (N, 3, 3) from the world, in the order of the images of a model."""
    poses = [image.cam_from_world() for image in model.images.values()]
    rotations = np.stack([pose.rotation.matrix() for pose in poses])
    return -np.einsum("nji,nj->ni", rotations, np.stack([pose.translation for pose in poses])), rotations


def _motions(models: Models) -> dict[str, list[float]]:
    """Those of the largest model by the names of photographs, with shifts in distances of what its cameras look at."""
    if not models.motions:
        return {}
    centers, rotations = _poses(models.found[0])
    away = np.linalg.norm(looked_at(centers, rotations[:, 2]) - centers, axis=1)
    names = [image.name for image in models.found[0].images.values()]
    scales = {name: np.repeat([1.0, 1 / one], 3) for name, one in zip(names, away, strict=True)}
    return {name: (motion * scales[name]).tolist() for name, motion in models.motions.items()}


def _placed(model: Any, pictures: Sequence[Picture]) -> str:
    """Move a model to the world that is guessed. Returns what was guessed."""
    colmap, ups = library(), {picture.name: picture.up for picture in pictures}
    centers, rotations = _poses(model)
    held = np.stack([ups[image.name] for image in model.images.values()])
    points = np.array([point.xyz for point in model.points3D.values()]).reshape(-1, 3)
    world = guess_world(centers, rotations, held, points)
    turn = colmap.Rotation3d(world.rotation)
    model.transform(colmap.Sim3d(world.scale, turn, world.translation))
    return world.said


# What a reconstruction says of its photographs: those without a camera, the reason, and what helps.

PLAIN = 400
"""Features of a photograph with little texture."""
LINKED = 30
"""Matches of two photographs that show the same place from places that are not far apart."""
SHARED = 0.15
"""Share of the features of a photograph that one beside it shows, too."""
NAMED = 8
"""Most photographs that a sentence names."""


def partial(pictures: Sequence[Picture], models: Models) -> list[str]:
    """A sentence on the photographs that are left out, each with the reason; none if there are none."""
    placed, told = models.names, []
    missing = [i for i, picture in enumerate(pictures) if picture.name not in placed]
    for other in models.found[1:]:
        names = {image.name for image in other.images.values()}
        group = [i for i in missing if pictures[i].name in names]
        if group and not placed & names:
            missing = [i for i in missing if i not in group]
            shown = named(pictures, group)
            told.append(f"{shown} show nothing in common with these: add photographs between them")
    if missing:
        told.append(f"{named(pictures, missing)}: {cure(models, missing)}")
    if not told:
        return []
    found = f"cameras of {len(placed)} of {len(pictures)} photographs were found, which are used"
    return [f"{found}; left out are {'; and '.join(told)}"]


def too_few(folder: Path, pictures: Sequence[Picture], models: Models) -> InputError:
    """That most photographs have no camera."""
    placed = models.names
    missing = [i for i, picture in enumerate(pictures) if picture.name not in placed]
    found = f"cameras of only {len(placed)} of {len(pictures)} photographs of '{folder}' were found"
    return InputError(f"{found}; without one are {named(pictures, missing)}: {cure(models, missing)}")


def named(pictures: Sequence[Picture], chosen: Sequence[int]) -> str:
    return listed([f"'{Path(pictures[i].name).name}'" for i in chosen], NAMED)


def cure(models: Models, missing: Sequence[int]) -> str:
    """Why these photographs have no camera, as far as their features say, and what helps."""
    counts, matches = models.features[list(missing)], models.matches[list(missing)]
    features, links = float(np.median(counts)), float(np.median((matches >= LINKED).sum(1)))
    shared = float(np.median(matches.max(1, initial=0) / np.maximum(counts, 1)))
    if features < PLAIN:
        return (
            f"they have few features ({features:.0f}): they are blurred, or show little texture. Take them"
            " sharp, and stand the object on a printed sheet or a newspaper that does not move with respect"
            " to it"
        )
    if links < 1 or shared < SHARED:
        return (
            "they show little that other photographs show: they hardly overlap, or are blurred. Take"
            " photographs at most 15 degrees apart, all around, without moving the object"
        )
    return (
        "what they share with others agrees with no place of the camera: the object has moved between"
        " photographs, or the camera stayed or only turned. Move the camera around an object that stays, 10"
        " to 15 degrees at a time"
    )
