"""Shapes by deodr (de La Gorce et al. 2011), a rasterizer whose edges are antialiased and differentiable, under the
settings of our own figures: the same pictures, lights, losses and large steps (``pip install deodr``).

deodr draws a list of triangles in the plane with a colour at each vertex, and gives derivatives of both. The
projection, Lambert's shading at the vertices and their derivatives are NumPy here, in float64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from dressi.render import DirectionalLight

Gradient = Callable[[int, np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray]]
"""The loss of a step, and its gradients by positions and by colours."""


@dataclass(frozen=True)
class Lambert:
    """The colours at the vertices of a white mesh under lights, and what their gradient is by positions."""

    faces: np.ndarray
    lights: Sequence[DirectionalLight]

    def shade(self, positions: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """(V, 3) linear by positions (V, 3), and from a gradient by colours to that by positions."""
        faces = self.faces
        directions = [np.divide(light.direction, np.linalg.norm(light.direction)) for light in self.lights]
        towards, radiance = np.array(directions), np.array([light.colour for light in self.lights]) / np.pi
        a, b, c = (positions[faces[:, k]] for k in range(3))
        sums, across = np.zeros_like(positions), np.cross(b - a, c - a)
        for k in range(3):
            np.add.at(sums, faces[:, k], across)
        lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        normals = sums / lengths
        cosines = normals @ towards.T

        def back(gradient: np.ndarray) -> np.ndarray:
            by_normal = (gradient @ radiance.T * (cosines > 0)) @ towards
            by_sum = (by_normal - normals * (normals * by_normal).sum(1, keepdims=True)) / lengths
            by_across = by_sum[faces].sum(1)
            by_b, by_c = np.cross(c - a, by_across), np.cross(by_across, b - a)
            found = np.zeros_like(positions)
            for k, by in enumerate((-by_b - by_c, by_b, by_c)):
                np.add.at(found, faces[:, k], by)
            return found

        return np.maximum(cosines, 0) @ radiance, back


@dataclass(frozen=True)
class DeodrLoss:
    """The mean over pictures of |mask - goal|^2 + weight |colour - goal|^2, and its gradients.

    faces: (F, 3), counter-clockwise from outside.  matrices: (views, 4, 4), from positions to clip space.
    pictures, masks: (views, H, W, 3) linear and (views, H, W).  absolute: |colour - goal| instead of its square.
    """

    faces: np.ndarray
    matrices: np.ndarray
    pictures: np.ndarray
    masks: np.ndarray
    weight: float
    absolute: bool = False

    @cached_property
    def edges(self) -> np.ndarray:
        return edge_numbers(self.faces)

    def __call__(
        self, views: Sequence[int], positions: np.ndarray, colours: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        shades = np.concatenate([colours, np.ones((len(colours), 1))], axis=1)
        height, width = self.masks.shape[1:]
        half, scale = np.array([width, height]) / 2, 1 / (len(views) * width * height)
        loss, by_shade, found = 0.0, np.zeros_like(shades), np.zeros_like(positions)
        for view in views:
            matrix = self.matrices[view]
            clip = positions @ matrix[:, :3].T + matrix[:, 3]
            plane = clip[:, :2] / clip[:, 3:]
            scene = self.scene((plane + 1) * half - 0.5, clip[:, 3], shades, height, width)
            goal = np.concatenate([self.pictures[view], self.masks[view][..., None]], axis=-1)
            away = scene.render(1.0)[0] - goal
            terms, slope = np.square(away), 2 * away
            if self.absolute:
                terms[..., :3], slope[..., :3] = np.abs(away[..., :3]), np.sign(away[..., :3])
            weights = scale * np.array([self.weight] * 3 + [1.0])
            loss += float((weights * terms).sum())
            scene.render_backward(weights * slope)
            by_shade += scene.colors_b
            by_plane = scene.ij_b * half
            by_clip = np.concatenate([by_plane, -(by_plane * plane).sum(1, keepdims=True)], axis=1)
            found += by_clip / clip[:, 3:] @ matrix[[0, 1, 3], :3]
        return loss, found, by_shade[:, :3]

    def scene(
        self, plane: np.ndarray, depths: np.ndarray, shades: np.ndarray, height: int, width: int
    ) -> Any:
        """What deodr draws. plane: (V, 2) in pixels, centres at integers."""
        try:
            from deodr import Scene2D  # type: ignore[import-not-found]
        except ImportError:
            sys.exit("deodr is not installed; run pip install dressi[peers]")
        faces, channels = self.faces.astype(np.uint32), shades.shape[1]
        a, b, c = (plane[self.faces[:, k]] for k in range(3))
        front = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0] < 0
        return Scene2D(
            faces=faces, faces_uv=faces, ij=plane, depths=depths, textured=np.zeros(len(faces), bool),
            uv=np.zeros((len(plane), 2)), shade=np.zeros(len(plane)), colors=shades,
            shaded=np.zeros(len(faces), bool), edgeflags=outlines(self.edges, front), height=height, width=width,
            nb_colors=channels, texture=np.zeros((2, 2, channels)), background_color=np.zeros(channels),
            clockwise=False, backface_culling=True,
        )  # fmt: skip


def edge_numbers(faces: np.ndarray) -> np.ndarray:
    """(F, 3): which edge of the mesh leads from each corner of a face to the next."""
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1)
    _, edge = np.unique(np.sort(ends.reshape(-1, 2), axis=1), axis=0, return_inverse=True)
    return edge.reshape(-1, 3)


def outlines(edges: np.ndarray, front: np.ndarray) -> np.ndarray:
    """(F, 3) bool: the edges of faces that look at the camera whose other face does not, or is not there.

    edges: of ``edge_numbers``.  front: (F,), which faces do."""
    fronts = np.bincount(edges.ravel(), weights=np.repeat(front, 3))
    return (fronts[edges] == 1) & front[:, None]


class Adam:
    """Moves of Adam.  uniform: by the largest second moment of all entries (Nicolet et al. 2021)."""

    def __init__(self, like: np.ndarray, uniform: bool):
        self.mean, self.square = np.zeros_like(like), np.zeros_like(like)
        self.uniform, self.steps = uniform, 0

    def move(self, gradient: np.ndarray) -> np.ndarray:
        self.steps += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        square = self.square / (1 - 0.999**self.steps)
        size = np.sqrt(square.max() if self.uniform else square)
        return self.mean / (1 - 0.9**self.steps) / (size + 1e-8)


def descend(
    loss: Gradient,
    faces: np.ndarray,
    positions: np.ndarray,
    colours: np.ndarray,
    steps: int,
    rates: tuple[float, float],
    strength: float,
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Positions, colours and losses after steps of Adam, the rates of both falling by a cosine to a twentieth.

    Positions take large steps: AdamUniform on u = (I + strength L) x.
    """
    count = len(positions)
    i, j = np.stack([faces, np.roll(faces, -1, axis=1)]).reshape(2, -1)
    ones = scipy.sparse.coo_matrix((np.ones(len(i)), (i, j)), (count, count))
    ones = ((ones + ones.T) > 0).astype(float)
    laplacian = scipy.sparse.diags(np.asarray(ones.sum(1)).ravel()) - ones
    spread = scipy.sparse.linalg.splu((scipy.sparse.identity(count) + strength * laplacian).tocsc())
    shape, paint, losses = Adam(positions, True), Adam(colours, False), []
    for step in range(steps):
        value, by_positions, by_colours = loss(step, positions, colours)
        losses.append(value)
        falling = 1 / 20 + (1 - 1 / 20) * (1 + np.cos(np.pi * step / steps)) / 2
        positions = positions - rates[0] * falling * spread.solve(shape.move(spread.solve(by_positions)))
        if rates[1]:
            colours = colours - rates[1] * falling * paint.move(by_colours)
    return positions, colours, losses
