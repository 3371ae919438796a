"""Hair, brows and lashes of figure 15: strands along a hairline, or a groom of a file; strands of another file say how they bend."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from head import Head, normals_of
from scan import unit
from scipy.spatial import KDTree

from dressi.errors import InputError
from dressi.render import Mesh, StrandGeometry, load_strands, save_strands
from dressi.render.io.files import data_file

RADIUS = 0.009
"""Centimetres, of all strands: thicker than hair, of which there are ten times as many."""
HAIRLINE = ((0, 22), (25, 25), (40, 24), (52, 13), (64, -2), (74, -14), (84, -18), (95, -10), (108, -14), (122, -34), (180, -44))  # fmt: skip
"""Degrees: turns around the skull from the front, and the elevations from its centre where hair begins."""
CROWN, SIDE = 5.0, 2.0
"""Centimetres: lengths of hair on the top of the head and at its border."""
CLUMPS = 350
ROOTS, DENSE = (0.46, 0.37, 0.33), 14.0
"""The colour of a scalp with roots of hair, relative to bare skin, and strands a square centimetre that give two thirds of it."""
NEAR, OFF = 1.5, 0.05
"""Centimetres: how far from the head nine of ten roots of a groom may be, and how far its strands are kept off the skin."""
WIDTHS = 0.01, 2.0
"""Millimetres: the widths of strands that are taken for hair."""
BROWS, LASHES = 420, (130, 70)
"""Strands of a brow, and of the upper and lower lashes of an eye."""


@dataclass
class Library:
    """Strands of a file as deviations from a straight line, in lengths of the strand."""

    bends: np.ndarray
    """(S, P, 3): across, across and along."""

    @classmethod
    def of(cls, file: str, points: int) -> "Library":
        own = resampled(load_strands(data_file(file)), points)[..., :3]
        lengths = np.linalg.norm(np.diff(own, axis=1), axis=2).sum(1)
        own = own - own[:, :1]
        along = unit(own[:, -1])
        aside = unit(np.cross(along, (0.31, 0.2, 0.93)))
        frames = np.stack([aside, np.cross(along, aside), along], axis=2)
        line = np.linspace(0, 1, points)[:, None] * own[:, -1:]
        return cls((own - line) @ frames / lengths[:, None, None])


def resampled(whole: StrandGeometry, points: int) -> np.ndarray:
    """(S, points, 4): positions and radii of strands at equal steps along each."""
    given = np.asarray(whole.points, float)
    rows = np.column_stack([given, np.broadcast_to(np.ravel(whole.radius), len(given))])
    found = []
    for first, last in zip(whole.offsets[:-1], whole.offsets[1:], strict=True):
        own = rows[first:last]
        steps = np.append(0.0, np.linalg.norm(np.diff(own[:, :3], axis=0), axis=1).cumsum())
        at = np.linspace(0, steps[-1], points)
        found.append(np.stack([np.interp(at, steps, column) for column in own.T], axis=1))
    return np.array(found)


def brought(head: Head, file: Path, points: int, width: float | None) -> tuple[np.ndarray, np.ndarray]:
    """(S, P, 3) and (S, P): strands of a file, which lie on the scan, and their radii, with their roots on the head. width:
    millimetres, instead of those of the file."""
    rows = resampled(load_strands(file), points)
    paths, radius = head.scan.place.of(rows[..., :3]), head.scan.place.scale * rows[..., 3]
    if width is not None:
        radius = radius * 0 + width / 20
    p, n = head.mesh.positions, unit(normals_of(head.mesh.positions, head.mesh.faces))
    distance, nearest = KDTree(p).query(paths[:, 0])
    far, wide = np.quantile(distance, 0.9), 20 * float(np.median(radius[:, 0]))
    if far > NEAR:
        raise InputError(
            f"the roots of '{file}' are {far:.3g} cm from the head '{head.scan.name}': a groom lies on the scan, in its unit and axes,"
            " and its strands begin at the root"
        )
    if not WIDTHS[0] <= wide <= WIDTHS[1]:
        raise InputError(
            f"strands of '{file}' are {wide:.3g} mm wide, hair is {WIDTHS[0]:g} to {WIDTHS[1]:g}: give --hair-width in millimetres"
        )
    # The model is a millimetre or two from the scan.
    down = ((p[nearest] - paths[:, 0]) * n[nearest]).sum(1, keepdims=True) * n[nearest]
    return outside(paths + down[:, None], head.mesh, KDTree(p), n, OFF), radius


def strands_of(
    roots: np.ndarray,
    normals: np.ndarray,
    flow: np.ndarray,
    lengths: np.ndarray,
    lean: tuple[Any, float],
    points: int,
) -> np.ndarray:
    """(S, P, 3): smooth strands that leave along the normals and turn towards the flow. lean: the part of the flow in their
    direction at the root, (S,) or a number, and at the tip."""
    first, last = np.broadcast_arrays(np.asarray(lean[0], float), np.full(len(roots), lean[1]))
    part = np.linspace(first, last, points - 1, axis=1)[..., None]
    step = unit(normals[:, None] * (1 - part) + flow[:, None] * part)
    path = np.cumsum(step, axis=1) * (lengths / (points - 1))[:, None, None]
    return roots[:, None] + np.concatenate([np.zeros_like(path[:, :1]), path], axis=1)


def with_bends(paths: np.ndarray, library: Library, rng: np.random.Generator, share: float) -> np.ndarray:
    """The paths with the shapes of strands of the library."""
    chord = paths[:, -1] - paths[:, 0]
    length = np.linalg.norm(chord, axis=1, keepdims=True)
    along = chord / length
    aside = unit(np.cross(along, rng.normal(size=along.shape)))
    frame = np.stack([aside, np.cross(along, aside), along], axis=1)
    bends = library.bends[rng.integers(0, len(library.bends), len(paths))]
    return paths + share * length[..., None] * (bends @ frame)


def sampled(
    mesh: Mesh, density: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(S, 3) points and normals on the faces, by a density of (V,)."""
    normals = unit(normals_of(mesh.positions, mesh.faces))
    corners = mesh.positions[mesh.faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    chance = area * density[mesh.faces].mean(1)
    face = rng.choice(len(area), count, p=chance / chance.sum())
    w = rng.dirichlet((1, 1, 1), count)[..., None]
    return (corners[face] * w).sum(1), unit((normals[mesh.faces[face]] * w).sum(1))


def outside(points: np.ndarray, head: Mesh, tree: KDTree, normals: np.ndarray, least: float) -> np.ndarray:
    """Points moved along the normals of the head to stand so far off it, except for the roots."""
    _, nearest = tree.query(points.reshape(-1, 3))
    n = normals[nearest].reshape(points.shape)
    away = ((points - head.positions[nearest].reshape(points.shape)) * n).sum(-1)
    needed = least * np.linspace(0, 1, points.shape[1]) ** 0.5
    return points + n * np.maximum(needed - away, 0.0)[..., None]


def scalp(head: Head, library: Library, count: int, rng: np.random.Generator) -> np.ndarray:
    """Hair where the hairline says so: long and back on the crown, short and down at the sides, in clumps."""
    mesh = head.mesh
    p = mesh.positions
    skull = p[(np.abs(p[:, 0]) < 1) & (p[:, 1] > 2)]
    centre = np.array([0.0, skull[:, 1].max() - 8.5, (skull[:, 2].max() + skull[:, 2].min()) / 2])

    def elevation(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Degrees above the horizon, and above the hairline."""
        x, y, z = (points - centre).T
        turn, up = np.degrees(np.arctan2(np.abs(x), z)), np.degrees(np.arctan2(y, np.hypot(x, z)))
        turns, border = np.transpose(HAIRLINE)
        return up, up - np.interp(turn, turns, border)

    roots, n = sampled(mesh, np.clip(elevation(p)[1] / 6, 0, 1), count, rng)
    up, above = elevation(roots)
    turn = np.degrees(np.arctan2(np.abs(roots[:, 0]), roots[:, 2] - centre[2]))
    # Also above the forehead hair grows back.
    top = np.clip(np.maximum((up - 15) / 35, 0.9 * np.clip((62 - turn) / 22, 0, 1)), 0, 1)
    # Hair is shorter at its border.
    lengths = (SIDE + (CROWN - SIDE) * top * np.clip(0.3 + above / 20, 0, 1)) * rng.uniform(0.85, 1.1, count)
    tree = KDTree(roots[:CLUMPS])
    _, clump = tree.query(roots)
    # Back over the crown, down at the sides and the back.
    flow = top[:, None] * (0.0, 0.0, -1.0) + (1 - top)[:, None] * (0.0, -1.0, -0.25)
    flow = flow + rng.normal(0, 0.25, (CLUMPS, 3))[clump] + rng.normal(0, 0.06, (count, 3))
    flow = unit(flow - n * (flow * n).sum(1, keepdims=True))
    paths = strands_of(roots, n, flow, lengths, (0.8 - 0.3 * top, 0.97), library.bends.shape[1])
    # Tips meet those of their clump.
    part = np.linspace(0, 1, paths.shape[1])[:, None] ** 1.5 * 0.35
    own = paths - paths[:, :1]
    along = own[:CLUMPS][clump] * (lengths / lengths[:CLUMPS][clump])[:, None, None]
    met = roots[:CLUMPS][clump][:, None] + along
    near = np.linalg.norm(roots - roots[:CLUMPS][clump], axis=1) < 1.5
    paths = np.where(near[:, None, None], paths + (met - paths) * part, paths)
    paths = with_bends(paths, library, rng, 0.6)
    return outside(paths, mesh, KDTree(p), unit(normals_of(p, mesh.faces)), 0.25)


def brows(head: Head, library: Library, every: int, rng: np.random.Generator) -> np.ndarray:
    """Along arcs above the eyes, outward."""
    mesh, found = head.mesh, []
    for eye in head.eyes:
        outward = float(np.sign(eye[0]))
        p = mesh.positions - eye
        part = (outward * p[:, 0] + 1.75) / 4.1
        middle = 1.22 + 0.5 * np.sin(np.clip(part, 0, 1) * np.pi * 0.8)
        wide = 0.42 * (1 - 0.7 * np.clip(part, 0, 1))
        density = np.clip(1 - np.abs(p[:, 1] - middle) / wide, 0, 1)
        density *= (part > 0) & (part < 1) & (p[:, 2] > -2)
        roots, n = sampled(mesh, density, BROWS // every, rng)
        part = np.clip((outward * (roots - eye)[:, :1] + 1.75) / 4.1, 0, 1)
        flow = np.concatenate([outward * np.ones_like(part), 1.3 * (0.75 - part), -0.5 * part], axis=1)
        flow = flow + rng.normal(0, 0.12, flow.shape)
        flow = unit(flow - n * (flow * n).sum(1, keepdims=True))
        lengths = rng.uniform(0.45, 0.8, len(roots))
        paths = strands_of(roots, n, flow, lengths, (0.75, 0.99), library.bends.shape[1])
        found.append(with_bends(paths, library, rng, 0.4))
    return np.concatenate(found)


def rim(mesh: Mesh, border: np.ndarray, sign: float) -> np.ndarray:
    """The front edge of a lid, from the border of the mesh at the ball: near each point of the border, the point of the mesh that
    is farthest forward and towards the opening.  sign: 1 for the upper lid, -1 for the lower one."""
    found = []
    for place in border:
        away = mesh.positions - place
        near = mesh.positions[
            (np.abs(away[:, 0]) < 0.15) & (np.linalg.norm(away, axis=1) < 0.9) & (sign * away[:, 1] > -0.15)
        ]
        found.append(near[(near[:, 2] - sign * near[:, 1]).argmax()])
    edge = np.array(found)
    smooth = [np.polyval(np.polyfit(border[:, 0], edge[:, k], 4), border[:, 0]) for k in range(3)]
    return np.stack(smooth, axis=1)


def lashes(head: Head, every: int, points: int, rng: np.random.Generator) -> np.ndarray:
    """From the borders of the lids, away from the eye and curled."""
    found = []
    for eye, lid in zip(head.eyes, head.lids, strict=True):
        left, right = lid[lid[:, 0].argmin()], lid[lid[:, 0].argmax()]
        line = left[1] + (lid[:, 0] - left[0]) / (right[0] - left[0]) * (right[1] - left[1])
        for sign, count, length in ((1.0, LASHES[0], 0.85), (-1.0, LASHES[1], 0.45)):
            border = lid[(lid[:, 1] - line) * sign >= 0]
            border = rim(head.mesh, border[border[:, 0].argsort()], sign)
            at = np.sort(rng.uniform(0.06, 0.94, count // every)) * (len(border) - 1)
            roots = np.stack([np.interp(at, np.arange(len(border)), border[:, k]) for k in range(3)], 1)
            n = unit((roots - eye) * (0.4, 0.0, 1.0) - (0.0, 0.3 * sign, 0.0))
            flow = np.array([0.0, sign, 0.0]) + rng.normal(0, 0.12, n.shape)
            lengths = (
                length * rng.uniform(0.7, 1.0, len(roots)) * np.sin(np.pi * (0.15 + 0.7 * at / len(border)))
            )
            found.append(strands_of(roots, n, flow, lengths, (0.0, 0.6), points))
    return np.concatenate(found)


def rooted(head: Head, roots: np.ndarray, share: np.ndarray) -> Head:
    """The head with the colour of a scalp, or of skin below brows, where strands leave it. share: how many strands each one stands
    for, of as many as there would be."""
    assert head.mesh.texture is not None
    distance, nearest = KDTree(roots).query(head.points.reshape(-1, 3), k=8)
    dense = share[nearest].sum(1) / (np.pi * np.square(distance[:, -1]) + 1e-6)
    covered = (1 - np.exp(-dense / DENSE)).reshape(*head.points.shape[:2], 1)
    texture = head.mesh.texture * (1 - covered * (1 - np.array(ROOTS)))
    return replace(head, mesh=replace(head.mesh, texture=texture))


def hair(
    head: Head,
    count: int,
    every: int = 1,
    points: int = 16,
    file: Path | None = None,
    width: float | None = None,
    save: Path | None = None,
) -> tuple[StrandGeometry, StrandGeometry, Head]:
    """All strands, thinner at their tips; those that cast shadows: all but the lashes, whose shadows the lamps of a studio blur to
    nothing; and the head with the colours of their roots. Of the hair of the scalp there are ``count`` over ``every``, as much wider.
    file: a groom for the scalp instead, with strands of this width (``brought``), at most as many.  save: a file for the hair of the
    scalp, as it lies on the scan."""
    rng = np.random.default_rng(7)
    library = Library.of("hair/Ratboy_mohawk.tfx", points)
    less = max(round(every**0.5), 1)
    taper = 1 - 0.8 * np.linspace(0, 1, points) ** 3
    if file is None:
        own, own_radius, more = scalp(head, library, count // every, rng), RADIUS * taper, float(every)
    else:
        own, own_radius = brought(head, file, points, width)
        kept = np.sort(rng.permutation(len(own))[: count // every])
        own, own_radius, more = own[kept], own_radius[kept], len(own) / len(kept)
    if save is not None:
        place, back = head.scan.place, head.scan.place.back(own.reshape(-1, 3))
        radius = np.broadcast_to(own_radius * more / place.scale, own.shape[:2]).ravel()
        save_strands(save, StrandGeometry(back, np.arange(0, len(back) + 1, points), radius))
    parts = [
        (own, own_radius, more),
        (brows(head, library, less, rng), 0.6 * RADIUS * taper, less),
        (lashes(head, less, points, rng), 0.9 * RADIUS * taper, less),
    ]
    radius = np.concatenate([np.broadcast_to(r * more, x.shape[:2]).ravel() for x, r, more in parts])
    paths = np.concatenate([x for x, _, _ in parts])
    strands = StrandGeometry(
        paths.reshape(-1, 3), np.arange(0, paths.size // 3 + 1, points), radius, name="hair"
    )
    shading = len(paths) - len(parts[-1][0])
    # Brows stand denser than hair, and less is seen between them.
    share = np.concatenate(
        [np.full(len(x), more * part) for (x, _, more), part in zip(parts, (1.0, 0.1, 0.0))]
    )
    return strands, strands.taken(np.arange(shading)), rooted(head, paths[:shading, 0], share)
