"""Textures of a fit: charts, and the pyramid that is optimised."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
from PIL import Image, ImageDraw
from scipy import sparse
from scipy.ndimage import distance_transform_edt
from scipy.sparse.linalg import cg

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.graph.types import vector_type
from ...forms.soft_target import nearest_outside
from ...mesh import Mesh
from ...mesh.remesh.operations import half_edges, on_seam
from ...mesh.rows import ranges
from ...objectives.losses import l1, l2, structural_similarity
from ...objectives.perceptual import perceptual

# Charts of a texture: made for a shape, and the texels between them.

MARGIN = 4
"""Texels between charts: the first two mip levels of one chart read no other."""


def with_charts(mesh: Mesh, texture_size: int) -> Mesh:
    """The mesh with new texture coordinates, whose charts are ``MARGIN`` texels apart in a square texture, across
    its borders too: samplers repeat it."""
    inner = max(texture_size - MARGIN, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made = mesh.unwrap(inner, MARGIN)
    assert made.uvs is not None
    return replace(made, uvs=0.5 + (made.uvs - 0.5) * (inner / texture_size))


def charted(mesh: Mesh, size: tuple[int, int]) -> np.ndarray:
    """(H, W) bool: texels that faces of the mesh touch in a texture of ``size`` (W, H); coordinates
    repeat."""
    assert mesh.uvs is not None and mesh.uv_faces is not None
    width, height = size
    corners = mesh.uvs[mesh.uv_faces]
    corners = (corners - np.floor(corners.min(1, keepdims=True))) * size - 0.5
    # Faces that cross the border of the texture are drawn beyond it, and what is drawn there is folded back.
    turns = max(int(np.ceil(corners.max() / min(size))), 1) + 1
    canvas = Image.new("1", (width * turns, height * turns))
    pen = ImageDraw.Draw(canvas)
    for face in corners:
        pen.polygon([(float(x), float(y)) for x, y in face], fill=1, outline=1)
    return np.asarray(np.asarray(canvas).reshape(turns, height, turns, width).any((0, 2)))


def dilated(texture: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """The texture (H, W, C) with every texel that is not ``inside`` (H, W) equal to the nearest one that
    is."""
    return texture if inside.all() or not inside.any() else texture[_nearest(inside)]


FIRM, STAY, SPREAD = 10.0, 30.0, 64
"""Weights of a step across a seam, and of the change of a texel that pictures agree on, beside that of a difference
of changes; texels over which changes spread where no picture shows anything."""


def seam_differences(mesh: Mesh, size: tuple[int, int]) -> sparse.csr_array:
    """(S, H * W): what a texture of ``size`` (W, H), read bilinearly, has on one side of a seam less what it has on
    the other, about once a texel along the edges whose two faces have other texture coordinates."""
    assert mesh.uvs is not None and mesh.uv_faces is not None
    edges = half_edges(mesh.faces, len(mesh.positions))
    half = edges.inner[on_seam([mesh.uv_faces], edges.inner, edges.twin[edges.inner])]
    start, end = mesh.uv_faces.reshape(-1), np.roll(mesh.uv_faces, -1, axis=1).reshape(-1)
    twin = edges.twin[half]
    # The twin runs the other way: rows of (start, end) of both sides, in texels.
    sides = mesh.uvs[np.stack([start[half], end[half], end[twin], start[twin]], axis=1)] * size
    longest = np.linalg.norm(sides[:, [1, 3]] - sides[:, [0, 2]], axis=-1).max(1)
    edge, number = ranges(np.zeros(len(half), np.int64), np.ceil(longest).astype(np.int64))
    along = ((number + 0.5) / np.ceil(longest)[edge])[:, None]
    width, height = size
    rows, columns, values = [], [], []
    for side, sign in ((0, 1.0), (2, -1.0)):
        place = sides[edge, side] * (1 - along) + sides[edge, side + 1] * along - 0.5
        low = np.floor(place).astype(np.int64)
        for x, y in product((0, 1), (0, 1)):
            rows.append(np.arange(len(edge)))
            columns.append((low[:, 1] + y) % height * width + (low[:, 0] + x) % width)
            values.append(sign * np.abs(np.subtract(1, (x, y)) - (place - low)).prod(1))
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array(entries, shape=(len(edge), width * height))


def levelled(texture: np.ndarray, mesh: Mesh, sure: np.ndarray) -> np.ndarray:
    """The texture (H, W, C) of a mesh without steps across its seams, as far as pictures leave it open: plus the
    smoothest change that makes both sides alike (Lempitsky and Ivanov 2007), by the squares of its differences
    between neighbours, which stays small where a texel is ``sure``, (H, W) in [0, 1], NaN outside of the charts.
    There every texel has the value of the nearest one inside."""
    height, width = sure.shape
    inside = np.isfinite(sure)
    steps, number = seam_differences(mesh, (width, height)), np.full(inside.shape, -1)
    rows, count = len(steps.indptr) - 1, int(inside.sum())
    if not rows:
        return dilated(texture, inside)
    number[inside] = np.arange(count)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    a, b = (np.concatenate([pair[k].reshape(-1) for pair in pairs]) for k in (0, 1))
    a, b = (ends[(a >= 0) & (b >= 0)] for ends in (a, b))
    beside = sparse.csr_array((np.ones(len(a)), (a, b)), (count, count))
    beside = beside + beside.T
    stay = STAY * sure[inside] ** 2 + SPREAD**-2
    # What lies beside a chart has the value of the nearest texel inside.
    nearest = number[_nearest(inside)].reshape(-1)
    across = sparse.csr_array((steps.data, nearest[steps.indices], steps.indptr), (rows, count))
    matrix = FIRM * (across.T @ across) - beside + sparse.diags_array(beside.sum(1) + stay)
    own = texture[inside].astype(np.float64)
    wanted, scale = across.T @ (across @ own) * -FIRM, sparse.diags_array(1 / matrix.diagonal())
    for channel in range(own.shape[1]):
        own[:, channel] += cg(matrix, wanted[:, channel], rtol=1e-3, maxiter=200, M=scale)[0]
    return own[nearest].reshape(texture.shape)


# What the texture round compares its pictures by. A new loss is a function here and a row of ``LOSSES``.

Compare = Callable[[Variable, Variable, Variable | None], Variable]
"""From sRGB codes, those of the pictures (VEC3, N tiles), and a weight of pixels or None, to a FLOAT of one
texel."""

SIMILARITY, PERCEPTUAL = 0.2, 0.003
"""Weights of one minus structural similarity beside .8 of the absolute differences, and of the perceptual
distance beside the squared ones, which keep the colours. More, such as .02, draws patterns that the features
miss."""


def _similarity(codes: Variable, target: Variable, weight: Variable | None) -> Variable:
    a, b = (codes, target) if weight is None else (codes * weight, target * weight)
    return l1(a, b) * (1 - SIMILARITY) + (1.0 - structural_similarity(a, b)) * SIMILARITY


def _perceptual(codes: Variable, target: Variable, weight: Variable | None) -> Variable:
    return perceptual(codes, target, weight=weight) * PERCEPTUAL + l2(codes, target, weight)


LOSSES: dict[str, Compare] = {"l2": l2, "l1": l1, "ssim": _similarity, "perceptual": _perceptual}
"""By the names of ``dressi fit --loss``."""

LEAST_SIZE = {"l2": 1, "l1": 1, "ssim": 11, "perceptual": 16}
"""Pixels along each side of a picture that a loss takes at least."""


# A texture that is optimised as a pyramid: texels that no pixel touches follow their neighbours.

COARSEST = 8
"""Texels along the shorter side of the coarsest level."""


class Pyramid:
    """A texture of ``size`` (W, H) as a sum: each level has twice the texels of the one before along each
    side, to which that is enlarged bilinearly. A level carries what is common to many texels, so that a
    gradient at some of them moves the others too.

    start: (C,), the value of all texels at first, or (H, W, C), an image of that size; C is 1 to 4.
    """

    def __init__(self, size: tuple[int, int], start: np.ndarray, name: str = "texture"):
        sizes = [size]
        while min(sizes[0]) > COARSEST:
            sizes.insert(0, (-(-sizes[0][0] // 2), -(-sizes[0][1] // 2)))
        start = np.asarray(start, np.float64)
        mean = start.reshape(-1, start.shape[-1]).mean(0)
        vtype = vector_type(len(mean))
        self.levels: list[Variable] = []
        """Float leaves, from coarse to fine: the parameters."""
        total = None
        for number, (width, height) in enumerate(sizes):
            data = np.zeros((1, height, width, len(mean))) + (0 if number else mean)
            if start.ndim == 3 and number == len(sizes) - 1:
                data += start - mean
            data = data.reshape(1, height, width, *vtype.shape)
            leaf = Variable(vtype, (width, height), name=f"{name} {number}", data=data)
            self.levels.append(leaf)
            total = leaf if total is None else F.resize(total, (width, height)) + leaf
        assert total is not None
        self.texture: Variable = total
        """Float image of ``size``: the sum. Differentiable in the levels."""


# Masks that are wrong by a pixel or two: what each pixel says, and how much wider than the object they are.

FRAYED, RAMP = 0.75, 1.0
"""Pixels from the rim of a mask within which colours may be those of the background, and over which they then
begin to count, for each pixel that masks are wider than the object."""
WIDEST = 2.0
"""Most of these pixels: wider masks would leave little of thin parts."""
BAND, LEAST = 1.6, 0.3
"""Pixels from the rim, on both sides, in which an outline may lie, and what they count in the comparison of
silhouettes."""
DEEP, BEYOND = 3, 3
"""Pixels inside a mask that may show the background, and beyond its rim, that may show the object."""
APART = 0.01
"""Least squared difference of the light of object and background that tells them apart."""


def rim_weights(
    masks: np.ndarray, known: np.ndarray | None = None, fringe: float = WIDEST
) -> tuple[np.ndarray, np.ndarray]:
    """(N, H, W) each, in [0, 1]: how much the colours and how much the coverage of a pixel count, of masks
    (N, H, W).

    known: (N, H, W), the valid pixels; what is not known is no rim of the mask, and counts for nothing.
    fringe: pixels by which masks are wider than the object.

    >>> masks = np.repeat([[[0.0] * 4 + [1.0] * 8]], 12, axis=1)
    >>> colours, outlines = rim_weights(masks)
    >>> colours[0, 6, ::2].tolist(), outlines[0, 6, [0, 3, 4, 11]].tolist()
    ([0.0, 0.0, 0.0, 0.75, 1.0, 1.0], [1.0, 0.3, 0.3, 1.0])
    >>> rim_weights(masks, fringe=0.5)[0][0, 6, 3:6].tolist()
    [0.0, 1.0, 1.0]
    """
    wider = min(max(fringe, 0.0), WIDEST)
    colours, outlines = np.zeros(np.shape(masks)), np.ones(np.shape(masks))
    for k, mask in enumerate(np.asarray(masks) >= 0.5):
        told = np.ones_like(mask) if known is None else np.asarray(known[k]) > 0
        inward, outward = _depth(mask | ~told), _depth(~mask)
        rise = (inward - FRAYED * wider) / max(RAMP * wider, 1e-6)
        colours[k] = np.clip(rise, 0.0, 1.0) * (mask & told)
        outlines[k, (np.where(mask, inward, outward) < BAND)] = LEAST
        outlines[k, ~told] = 0.0
    return colours, outlines


def fringe(images: np.ndarray, masks: np.ndarray, known: np.ndarray | None = None) -> float:
    """Pixels by which masks (N, H, W) are wider than the object, by linear photographs (N, H, W, 3); 0 or
    more.

    For the pixels 1, 2, ... ``DEEP`` inside of a rim, the share of the background is the median of where
    their light lies between that of the nearest pixel farther inside (0) and of the nearest one ``BEYOND``
    the rim (1); the shares are summed. What texture alone makes of as many pixels farther inside is taken
    off. Where object and background look alike, a rim says nothing; where they do everywhere, the result is
    0.

    >>> masks = np.repeat([[[0.0] * 6 + [1.0] * 14]], 20, axis=1)
    >>> images = np.where(np.arange(20) < 8, 0.0, 0.5)[:, None] * np.ones((1, 20, 20, 3))
    >>> fringe(images, masks), fringe(np.roll(images, -2, axis=2), masks)
    (2.0, 0.0)
    """
    rings: list[list[np.ndarray]] = [[] for _ in range(2 * DEEP)]
    for k, mask in enumerate(np.asarray(masks) >= 0.5):
        told = np.ones_like(mask) if known is None else np.asarray(known[k]) > 0
        mask = mask & told
        inward, beyond = _depth(mask | ~told), _depth(~mask | ~told) > BEYOND
        ring, far = np.rint(np.minimum(inward, 4 * DEEP)).astype(int) - 1, ~mask & told & beyond
        for first in (0, DEEP):
            inner = mask & (ring >= first + DEEP)
            rims = mask & (ring >= first) & ~inner
            if not (inner.any() and far.any()):
                continue
            here, deep, away = (images[k][where][rims] for where in (..., _nearest(inner), _nearest(far)))
            away = np.asarray(away, np.float64) - deep
            power = (away**2).sum(-1)
            share = ((here - deep) * away).sum(-1) / np.maximum(power, APART)
            for depth in range(first, first + DEEP):
                rings[depth].append(share[(ring[rims] == depth) & (power > APART)])
    every = [np.concatenate([np.zeros(0), *parts]) for parts in rings]
    shares = np.array([float(np.median(part)) if len(part) else 0.0 for part in every])
    texture = np.clip(shares[DEEP:], 0.0, 1.0)
    told = (shares[:DEEP] - texture) / np.maximum(1 - texture, 0.5)
    return float(np.clip(told, 0.0, 1.0).sum())


def _depth(region: np.ndarray) -> np.ndarray:
    """(H, W) distances of its pixels to the nearest one outside a region (H, W), infinite without one."""
    return np.full(region.shape, np.inf) if region.all() else np.asarray(distance_transform_edt(region))


def _nearest(region: np.ndarray) -> tuple[np.ndarray, ...]:
    """Rows and columns, (H, W) each, of the nearest pixel of a region (H, W)."""
    return tuple(nearest_outside(~region))
