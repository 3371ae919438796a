"""Shapes by deodr under the settings of our own figures: the same pictures, lights, losses and large steps
(``pip install dressi[peers]``).

deodr draws triangles in the plane with a colour at each vertex, and gives derivatives of both (``DeodrLoss``).
Lambert's shading at the vertices and its derivative are NumPy here, in float64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from dressi.cli.bench.rasterizers import Adam
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
    if find_spec("deodr") is None:
        sys.exit("deodr is not installed; run pip install dressi[peers]")
    count = len(positions)
    i, j = np.stack([faces, np.roll(faces, -1, axis=1)]).reshape(2, -1)
    ones = scipy.sparse.coo_matrix((np.ones(len(i)), (i, j)), (count, count))
    ones = ((ones + ones.T) > 0).astype(float)
    laplacian = scipy.sparse.diags(np.asarray(ones.sum(1)).ravel()) - ones
    spread = scipy.sparse.linalg.splu((scipy.sparse.identity(count) + strength * laplacian).tocsc())
    shape, paint, losses = Adam(positions, uniform=True), Adam(colours), []
    for step in range(steps):
        value, by_positions, by_colours = loss(step, positions, colours)
        losses.append(value)
        falling = 1 / 20 + (1 - 1 / 20) * (1 + np.cos(np.pi * step / steps)) / 2
        positions = positions - rates[0] * falling * spread.solve(shape.move(spread.solve(by_positions)))
        if rates[1]:
            colours = colours - rates[1] * falling * paint.move(by_colours)
    return positions, colours, losses
