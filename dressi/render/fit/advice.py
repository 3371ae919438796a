"""What would help a fit of photographs most, by what was measured of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cameras import Camera, Cameras
from ..core.engine import MakeEngine
from ..drawing.draw import draw
from ..mesh import Mesh
from ..mesh.primitives import icosphere
from ..mesh.rows import unit
from ..objectives.metrics import interior
from ..surface.color import linear_to_srgb
from .data.dataset import Observations

WORTH, SENTENCES = 0.7, 2
"""Decibels that are worth a sentence, and how many sentences are said."""
SEEN = 0.05
"""Confidence below which no picture shows a point."""
WIDER = 0.3
"""Pixels from which masks are wider than the object."""
STOOD_ON = 0.25
"""What a view from below counts."""
ALIKE, OUTLINED = 21.0, 0.95
"""Photographs contradict each other where training pictures reach fewer decibels than ALIKE inside of both
masks, with exposures solved for, although their IoU is at least OUTLINED."""


class Advice(NamedTuple):
    """decibels: about what it is worth, where it is missing."""

    what: str
    decibels: float
    text: str


def advice(train: Measures, other: Measures, fringe: float, apart: float, lit: bool) -> list[Advice]:
    """What pictures say: of those that were learned from, and of others that judge.

    fringe: pixels by which masks are wider than the object.  apart: degrees between neighbouring pictures.  lit:
    whether a material was recovered.
    """
    found, shift, gain = [], other.shift, other.inside - other.psnr
    text = f"pixels beside outlines cost {gain:.1f} dB: larger pictures (--size, --fine) show outlines better"
    if fringe > WIDER:
        wide = f"masks are wider than the object by {fringe:.1f} pixels"
        text = f"pixels beside outlines cost {gain:.1f} dB, as {wide}: draw closer masks"
    found.append(Advice("masks" if fringe > WIDER else "size", gain, text))
    gain = other.exposed - other.psnr
    text = f"exposures that nobody knows cost {gain:.1f} dB: take pictures with exposure and white balance locked"
    found.append(Advice("exposure", gain, text))
    moved = f"a shift of {shift.pixels:.1f} pixels of each picture is worth {shift.decibels:.1f} dB"
    found.append(
        Advice("cameras", shift.decibels, f"{moved}: cameras are not exact, --refine-poses moves them")
    )
    gain = train.exposed_inside - other.exposed_inside
    text = (
        f"pictures between those that were learned from are {gain:.1f} dB worse: take more, as neighbours are"
        f" {apart:.0f} degrees apart"
    )
    found.append(Advice("pictures", gain - WORTH, text))
    if train.exposed_inside < ALIKE and train.iou >= OUTLINED and not lit:
        text = (
            "the photographs that were learned from contradict each other inside of the outlines"
            f" ({train.exposed_inside:.1f} dB): the surface may shine, as highlights move with the view (--optimize"
            " albedo,roughness,metallic,light finds a material), the light may move with the camera, or poses may be"
            " off (--refine-poses)"
        )
        found.append(Advice("material", ALIKE - train.exposed_inside + WORTH, text))
    return found


def coverage(
    mesh: Mesh, sure: np.ndarray, cameras: Cameras, up: np.ndarray, make_engine: MakeEngine
) -> Advice:
    """Where pictures are missing: of views from 42 directions, the one in which no picture shows the largest share
    of what is seen. sure: (V,) confidence of the vertices."""
    center, radius = mesh.bounding_sphere()
    directions = icosphere(1).positions
    near, far, eyes = radius, 10 * radius, center + 4.2 * radius * directions
    tops = [np.eye(3)[np.abs(d).argmin()] for d in directions]
    views = [
        Camera.perspective(30, (64, 64), eye, center, up=top, near=near, far=far)
        for eye, top in zip(eyes, tops, strict=True)
    ]
    marked = np.repeat(np.where(sure < SEEN, 1.0, 0.0)[:, None], 3, axis=1)
    shown = Mesh(mesh.positions, mesh.faces, colors=marked, color_faces=mesh.faces)
    masks, colours = draw(shown, Cameras(views), make_engine)
    shares, up = colours[..., 0].sum((1, 2)) / np.maximum(masks.sum((1, 2)), 1), unit(up[None])[0]
    # What a thing stands on is seldom wanted.
    worst = int((shares * np.where(directions @ up < -0.5, STOOD_ON, 1.0)).argmax())
    share, where = float(shares[worst]), place_of(directions[worst], cameras, center, up)
    worth = min(share * (STOOD_ON if directions[worst] @ up < -0.5 else 1.0), 0.99)
    text = f"{where}, no picture shows {share:.0%} of what would be seen: take some from there"
    return Advice("coverage", -10 * float(np.log10(1 - worth)), text)


def place_of(direction: np.ndarray, cameras: Cameras, center: np.ndarray, up: np.ndarray) -> str:
    """A direction from the object, in words: its height, and the pictures beside it.

    >>> from dressi.render import ring
    >>> up, cameras = np.array([0.0, 1, 0]), ring(np.zeros(3), 1.0, 4, (8, 8))
    >>> place_of(-up, cameras, np.zeros(3), up), place_of(up, cameras, np.zeros(3), up)
    ('from below', 'from above')
    """
    height = float(np.degrees(np.arcsin(np.clip(direction @ up, -1, 1))))
    if abs(height) > 60:
        return "from above" if height > 0 else "from below"
    across = unit(np.cross(up, np.eye(3)[np.abs(up).argmin()])[None])[0]
    axes = np.stack([across, np.cross(up, across)])
    turn = [np.arctan2(*(axes @ one)) for one in (direction, *(cameras.centers - center))]
    away = (np.array(turn[1:]) - turn[0]) % (2 * np.pi)
    names = cameras[int(away.argmin())].name, cameras[int(away.argmax())].name
    level = (
        ""
        if abs(height) < 15
        else f", {abs(height):.0f} degrees {'above' if height > 0 else 'below'} the level"
    )
    return f"between '{names[0]}' and '{names[1]}'{level}"


class Shift(NamedTuple):
    """Pixels in the median of pictures, and the decibels that shifts are worth."""

    pixels: float
    decibels: float


class Measures(NamedTuple):
    """Of a ``Score``, in decibels, and the shifts of its pictures."""

    iou: float
    psnr: float
    inside: float
    exposed: float
    exposed_inside: float
    shift: Shift


def shift(views: Observations, masks: np.ndarray, colors: np.ndarray) -> Shift:
    """How far drawn pictures should move to be like the photographs: one step of Gauss and Newton (Lucas and Kanade
    1981) for each, of the grey codes inside of both masks."""
    before = after = 0.0
    lengths, deep = [], interior(masks, views.masks)
    for drawn, target, inside in zip(colors, views.colors, deep, strict=True):
        codes, wanted = (linear_to_srgb(image).mean(-1) for image in (drawn, target))
        slopes = np.stack([image[inside] for image in np.gradient(codes)], axis=1)
        error = (wanted - codes)[inside]
        moved = np.linalg.lstsq(slopes, error, rcond=None)[0] if len(error) else np.zeros(2)
        before, after = before + (error**2).sum(), after + ((error - slopes @ moved) ** 2).sum()
        lengths.append(float(np.linalg.norm(moved)))
    return Shift(float(np.median(lengths)), float(10 * np.log10(max(before, 1e-30) / max(after, 1e-30))))
