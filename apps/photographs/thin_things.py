"""Things that are hard to find, for `phone_video.py`: a chair of spindles, a plant in a pot, a temple with sharp corners, and one
of plaster whose columns stand free. All are about 2 high, y is up."""

import warnings
from dataclasses import replace

import numpy as np
from scipy.ndimage import gaussian_filter

from dressi.render import Mesh
from dressi.render.mesh import primitives, weld
from dressi.render.mesh.joining import joined
from dressi.render.surface.color import srgb_to_linear

AROUND = 12
"""Faces around a limb."""


def spots(
    colour: tuple[float, ...], rng: np.random.Generator, size: int = 256, contrast: float = 0.35
) -> np.ndarray:
    """(size, size, 3) linear: noise of several widths around a colour in sRGB codes; it repeats."""
    white = rng.normal(size=(size, size))
    noise = np.sum([gaussian_filter(white, s, mode="wrap") * s for s in (1, 3, 9)], axis=0)
    return srgb_to_linear(np.clip(np.array(colour) * (1 + contrast * noise[..., None]), 0.03, 0.95))


def limb(points: np.ndarray, radii: np.ndarray | float, texture: np.ndarray) -> Mesh:
    """A closed tube along a line (n, 3) with radii (n,)."""
    points = np.asarray(points, np.float64)
    radii = np.broadcast_to(radii, len(points))
    # Both ends are closed by a ring of no radius.
    points, radii = np.concatenate([points[:1], points, points[-1:]]), np.pad(radii, 1)
    along = np.gradient(points[1:-1], axis=0)
    along = np.concatenate([along[:1], along, along[-1:]])
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    # One direction that is along no part of the line gives all rings their axes.
    still = np.eye(3)[np.argmin(np.abs(along).max(0))]
    across = np.cross(along, still)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    angle = 2 * np.pi * np.arange(AROUND + 1) / AROUND
    ring = np.cos(angle)[:, None, None] * across + np.sin(angle)[:, None, None] * np.cross(along, across)
    grid = points + radii[:, None] * ring
    grid[-1] = grid[0]
    length = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    u, v = np.meshgrid(np.arange(AROUND + 1) / AROUND, length / max(length[-1], 1e-9), indexing="ij")
    index = np.arange(u.size).reshape(u.shape)
    a, b, c, d = index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]
    corners = np.stack([a, b, c, a, c, d], axis=-1).reshape(-1, 3)
    positions, faces = weld(grid.reshape(-1, 3), corners)
    whole = (faces != np.roll(faces, 1, axis=1)).all(1)
    uvs, uv_faces = weld(np.stack([u, v], -1).reshape(-1, 2), corners)
    mesh = Mesh(positions, faces[whole], uvs, uv_faces[whole], texture=texture)
    if mesh.signed_volume() < 0:
        mesh = replace(mesh, faces=mesh.faces[:, ::-1], uv_faces=uv_faces[whole][:, ::-1])
    return mesh


def ellipsoid(centre: np.ndarray, axes: np.ndarray, texture: np.ndarray) -> Mesh:
    """Half axes are the rows of (3, 3)."""
    ball = primitives.octasphere(3)
    return replace(ball.moved(ball.positions @ axes + centre), texture=texture)


def chair(rng: np.random.Generator) -> Mesh:
    """A seat on four splayed legs with stretchers between them, and a back of seven spindles below a rail."""
    wood = [spots(colour, rng) for colour in ((0.6, 0.35, 0.2), (0.3, 0.4, 0.5), (0.65, 0.5, 0.3))]
    line = np.linspace(0, 1, 24)[:, None]
    parts = [ellipsoid(np.zeros(3), np.diag([0.52, 0.06, 0.5]), wood[0])]
    feet = [np.array([0.5 * x, -0.95, 0.48 * z]) for x, z in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    tops = [foot * (0.68, 0.02, 0.68) for foot in feet]
    parts += [limb(t + line * (f - t), 0.032, wood[1]) for f, t in zip(feet, tops, strict=True)]
    for a, b, share in ((0, 3, 0.55), (1, 2, 0.55), (0, 1, 0.7), (2, 3, 0.4)):
        ends = [tops[k] + share * (feet[k] - tops[k]) for k in (a, b)]
        parts.append(limb(ends[0] + line * (ends[1] - ends[0]), 0.02, wood[2]))
    bow = np.stack(
        [np.linspace(-0.48, 0.48, 24), 0 * line[:, 0] + 0.95, -0.6 + 0.1 * (2 * line[:, 0] - 1) ** 2], 1
    )
    parts.append(limb(bow, 0.05, wood[0]))
    for x in np.linspace(-0.4, 0.4, 7):
        foot = np.array([0.8 * x, 0.0, -0.36])
        top = np.array([x, 0.95, -0.6 + 0.1 * (x / 0.48) ** 2])
        parts.append(limb(foot + line * (top - foot), 0.018 if abs(x) < 0.39 else 0.028, wood[1]))
    return joined(parts, "chair")


def plant(rng: np.random.Generator) -> Mesh:
    """A pot, and nine bent stems with two to four leaves each."""
    clay, stem = spots((0.65, 0.35, 0.25), rng), spots((0.35, 0.3, 0.15), rng)
    green = [spots(colour, rng) for colour in ((0.2, 0.45, 0.15), (0.4, 0.55, 0.2))]
    heights = np.array([-1.0, -0.99, -0.7, -0.55, -0.52, -0.5])
    pot = np.stack([0 * heights, heights, 0 * heights], 1)
    parts = [limb(pot, np.array([0.26, 0.27, 0.33, 0.37, 0.4, 0.38]), clay)]
    line = np.linspace(0, 1, 24)[:, None]
    for k in range(9):
        angle, out = 2 * np.pi * k / 9 + rng.uniform(-0.2, 0.2), rng.uniform(0.25, 0.75)
        away, high = np.array([np.cos(angle), 0, np.sin(angle)]), rng.uniform(0.4, 1.0)
        way = (
            np.array([0, -0.55, 0])
            + 0.15 * away
            + line**2 * out * away
            + line * np.array([0, 0.55 + high, 0])
        )
        parts.append(limb(way, np.linspace(0.026, 0.016, 24), stem))
        for share in np.linspace(0.45, 1, rng.integers(2, 5)):
            at, side = way[round(23 * share)], rng.normal(size=3)
            long = away * 0.6 + 0.7 * side / np.linalg.norm(side)
            wide = np.cross(long, (0, 1, 0))
            frame = [0.17 * long / np.linalg.norm(long), 0.075 * wide / np.linalg.norm(wide)]
            thick = np.cross(*frame)
            axes = np.stack([*frame, 0.012 * thick / np.linalg.norm(thick)])
            parts.append(ellipsoid(at + 0.9 * axes[0], axes, green[k % 2]))
    return joined(parts, "plant")


def block(low: tuple[float, ...], high: tuple[float, ...], texture: np.ndarray, gable: float = 0.0) -> Mesh:
    """A box, or a roof: its upper corners along x meet in a ridge, ``gable`` above."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        box = primitives.cube().unwrap(256)
    middle, half = 0.5 * (np.array(low) + high), 0.5 * (np.array(high) - low)
    positions = box.positions / np.abs(box.positions).max(0)
    upper = positions[:, 1] > 0 if gable else np.zeros(len(positions), bool)
    positions = positions * half + middle
    positions[upper] = positions[upper] * (1, 1, 1e-3) + (0, gable, 0)
    return replace(box.moved(positions), texture=texture)


def temple(rng: np.random.Generator) -> Mesh:
    """Columns on three steps, below a roof whose corners stand out."""
    stone = [spots(colour, rng) for colour in ((0.75, 0.68, 0.55), (0.6, 0.55, 0.5), (0.7, 0.45, 0.35))]
    parts = [
        block((-1.1 + 0.1 * k, -0.8 + 0.1 * k, -0.75 + 0.1 * k), (1.1 - 0.1 * k, -0.69 + 0.1 * k, 0.75 - 0.1 * k), stone[k % 2])
        for k in range(3)
    ]  # fmt: skip
    line = np.linspace(-0.5, 0.32, 12)
    places = [(x, z) for x in np.linspace(-0.75, 0.75, 6) for z in (-0.42, 0.42)]
    places += [(x, z) for x in (-0.75, 0.75) for z in (-0.14, 0.14)]
    for x, z in places:
        parts.append(
            limb(np.stack([0 * line + x, line, 0 * line + z], 1), np.linspace(0.085, 0.07, 12), stone[0])
        )
    parts.append(block((-0.6, -0.5, -0.28), (0.6, 0.32, 0.28), stone[1]))
    parts.append(block((-0.88, 0.3, -0.54), (0.88, 0.45, 0.54), stone[0]))
    parts.append(block((-1.02, 0.44, -0.68), (1.02, 0.52, 0.68), stone[2], 0.4))
    return joined(parts, "temple")


def portico(rng: np.random.Generator) -> Mesh:
    """A temple of faint plaster: columns all around, away from a hall that leaves one end open."""
    plaster = spots((0.72, 0.69, 0.62), rng, contrast=0.1)
    blocks = [
        *(((1.1 - 0.1 * k, 0.8 - 0.1 * k, -0.8 + 0.1 * k), (-0.69 + 0.1 * k)) for k in range(3)),
        ((0.88, 0.58, 0.3), 0.45),
    ]
    parts = [block((-x, low, -z), (x, high, z), plaster) for (x, z, low), high in blocks]
    parts += [block((-0.55, -0.5, -0.22), (0.2, 0.32, 0.22), plaster)]
    parts += [block((-1.02, 0.44, -0.72), (1.02, 0.52, 0.72), plaster, 0.4)]
    line = np.linspace(-0.5, 0.32, 12)
    for x, z in [(x, z) for x in np.linspace(-0.75, 0.75, 6) for z in (-0.46, -0.15, 0.15, 0.46)]:
        if abs(z) > 0.4 or abs(x) > 0.7:
            column = np.stack([0 * line + x, line, 0 * line + z], 1)
            parts.append(limb(column, np.linspace(0.08, 0.065, 12), plaster))
    # Each face has its own shade, so that edges show.
    whole = joined(parts, "portico")
    corners = np.repeat(np.arange(len(whole.faces))[:, None], 3, 1)
    return replace(whole, normals=whole.face_normals(), normal_faces=corners)


THINGS = {"chair": chair, "plant": plant, "temple": temple, "portico": portico}
