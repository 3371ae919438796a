"""What would help a fit of photographs most, by what was measured of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...errors import listed
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

BY_COLOURS = ("exposure", "cameras", "pictures", "material")
"""Advice that colours inside of the outlines lead to, which a mirror makes wrong."""
AGREEING = 0.92
"""IoU of the pictures that were learned from, below which it is asked whether their masks contradict each other."""


class Advice(NamedTuple):
    """decibels: about what it is worth, where it is missing."""

    what: str
    decibels: float
    text: str


def advice(
    train: Measures, other: Measures, fringe: float, apart: float, lit: bool, wrong: Sequence[str] = ()
) -> list[Advice]:
    """What pictures say: of those that were learned from, and of others that judge.

    fringe: pixels by which masks are wider than the object.  apart: degrees between neighbouring pictures.  lit:
    whether a material was recovered.  wrong: names of pictures whose masks contradict the others.
    """
    found, shift = [], other.shift
    if wrong:
        text = (
            f"the masks contradict each other, those of {listed(wrong)} most: they cover what is not at one place in all"
            " pictures, such as an image in a mirror or a thing that moved, which is to be left out of them, or cameras are wrong"
        )
        return [Advice("contradiction", max(train.inside - train.psnr, WORTH), text)]
    gain = other.inside - other.psnr
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


# A mirror: a flat part that the photographs contradict, and that shows the rest as a mirror would.

THICK = 0.04
"""Radii of the mesh, within which points lie in a plane."""
TRIES, POINTS = 400, 20_000
FLAT = 1.5
"""A plane is looked at where its share of the errors is so many times its share of the pixels."""
SEEN_IN = 0.01
"""Share of the pixels that show the rest in the mirror, at least."""
BETTER = 1.0
"""Decibels by which the rest, mirrored, is nearer to the photographs there than the result is, at least."""


def mirror(
    mesh: Mesh, views: Observations, masks: np.ndarray, drawn: np.ndarray, make_engine: MakeEngine
) -> Advice | None:
    """A mirror within the masks, where there is one: its texture cannot be right in two pictures. In the
    plane in which most of the errors lie, it is tried whether the rest of the mesh, mirrored, shows what the photographs show.

    masks, drawn: (N, H, W) and (N, H, W, 3), the result in the views.
    """
    deep = interior(masks, views.masks)
    (low, high), (_, radius) = mesh.bounds(), mesh.bounding_sphere()
    scale, thick = float(max((high - low).max(), 1e-30)), THICK * radius
    marked = Mesh(mesh.positions, mesh.faces, colors=(mesh.positions - low) / scale, color_faces=mesh.faces)
    points = draw(marked, views.cameras, make_engine)[1]
    points *= scale
    points += low
    error = _squares(drawn, views.colors)
    plane = _plane(points[deep], error[deep], thick)
    if plane is None:
        return None
    place, normal = plane
    found: Advice | None = None
    for side in (normal, -normal):
        front = (views.cameras.centers - place) @ side > thick
        height = (mesh.positions - place) @ side
        before = (height[mesh.faces] > thick).all(1)
        if not front.any() or not before.any():
            continue
        image = _mirrored(mesh, before, height, side)
        cameras = Cameras([camera for camera, there in zip(views.cameras, front, strict=True) if there])
        covered, shown = draw(image, cameras, make_engine, views.samples)
        flat = deep[front] & (np.abs((points[front] - place) @ side) < thick)
        at = flat & (covered >= 0.5)
        if at.sum() < SEEN_IN * deep.sum():
            continue
        gain = 10 * np.log10(error[front][at].sum() / _squares(shown, views.colors[front])[at].sum())
        if gain >= BETTER:
            largest, share = cameras[int(at.sum((1, 2)).argmax())].name, flat.sum() / deep.sum()
            rest = deep.copy()
            rest[front] &= ~flat
            worth = 10 * np.log10(error[deep].mean() / max(error[rest].mean(), 1e-30))
            text = (
                f"a flat part, {share:.0%} of what the pictures show, is a mirror: '{largest}' shows the rest in it; cover it,"
                " or leave it out of the masks"
            )
            found = Advice("mirror", float(worth), text)
    return found


def _squares(drawn: np.ndarray, colors: np.ndarray) -> np.ndarray:
    """(N, H, W) squared differences of sRGB codes."""
    codes = ((linear_to_srgb(one), linear_to_srgb(other)) for one, other in zip(drawn, colors, strict=True))
    return np.stack([((one - other) ** 2).mean(-1) for one, other in codes])


def _plane(points: np.ndarray, errors: np.ndarray, thick: float) -> tuple[np.ndarray, np.ndarray] | None:
    """A point and the normal of the plane in which most of the errors (P,) of points (P, 3) lie (RANSAC); None where
    they lie everywhere."""
    random = np.random.default_rng(0)
    if len(points) > POINTS:
        some = random.choice(len(points), POINTS, replace=False)
        points, errors = points[some], errors[some]
    if len(points) < 3 or not errors.sum() > 0:
        return None
    corners = points[random.choice(len(points), (TRIES, 3), p=errors / errors.sum())]
    normals = unit(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))
    whole = np.linalg.norm(normals, axis=1) > 0.5  # a point that is chosen twice gives no plane
    corners, normals = corners[whole], normals[whole]
    if not len(normals):
        return None
    near = [np.abs((points - c[0]) @ n) < thick for c, n in zip(corners, normals, strict=True)]
    best = int(np.argmax([errors[one].sum() for one in near]))
    place, normal, inside = corners[best, 0], normals[best], near[best]
    for _ in range(3):
        weights = errors[inside] / errors[inside].sum()
        place = weights @ points[inside]
        away = (points[inside] - place) * np.sqrt(weights)[:, None]
        normal = np.linalg.svd(away, full_matrices=False)[2][2]
        inside = np.abs((points - place) @ normal) < thick
    if errors[inside].sum() / errors.sum() < FLAT * inside.mean():
        return None
    return place, normal


def _mirrored(mesh: Mesh, kept: np.ndarray, height: np.ndarray, normal: np.ndarray) -> Mesh:
    """Some faces (F,) of a mesh, behind the plane above which its vertices have a ``height``."""
    faces = {
        name: numbers[kept][:, ::-1]
        for name in ("faces", "uv_faces", "color_faces")
        if (numbers := getattr(mesh, name)) is not None
    }
    moved = mesh.positions - 2 * height[:, None] * normal
    return replace(mesh, positions=moved, **faces, normals=None, normal_faces=None)


# Where pictures are missing, in words.


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
