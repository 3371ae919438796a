"""Figure 14 of the paper: which pixels of a sphere have a derivative, by the estimator.

    python apps/figures/figure14.py --out out/figure14

A white sphere of flat faces on black grows. Each column is an estimator: the face form of HardSoftRas with three layers, the outer form, the
edges form, and the antialiasing of Laine et al. (2020), here in NumPy by its published rule. That one blends two neighbouring
pixels where an outline that belongs to the face at one of the centres passes between them. On a curved surface this face is often not
the one that ends at the outline, and the pair is missed. The last column is the truth: areas in each pixel, by the outline's polygon.

The upper row is the picture, the lower one its derivative by the radius, in areas of pixels per pixel of growth: red grows. Writes figure14.png and
figure14.json: the share of the truth's edge pixels that have a derivative, and the sum of the derivatives over that of the truth.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.spatial

from dressi import Device, DressiAD, jvp
from dressi.ad.graph.types import IVEC3, VEC3
from dressi.cli.bench.rasterizers import edge_numbers, outlines
from dressi.render import Camera, edge_list, hard_soft_ras, primitives, to_clip
from dressi.render.core.lists import list_leaf
from dressi.render.io import save_png, write_json
from dressi.render.surface.color import srgb_to_linear

FORMS: dict[str, dict[str, Any]] = {
    "face K3": {"form": "face", "layers": 3, "radius": 2.0},
    "outer": {"form": "outer", "radius": 2.0},
    "edges": {"form": "edges"},
}
"""Radii in pixels."""
COLUMNS = (*FORMS, "antialias", "truth")


class Sphere:
    """Faces, and what a camera sees of them, with and without growth."""

    def __init__(self, level: int, size: int):
        ball = primitives.icosphere(level)
        turned = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]  # no edge along a row
        self.positions = ball.positions @ (turned * np.linalg.det(turned)).T
        self.faces, self.size = ball.faces, size
        self.camera = Camera.perspective(40.0, (size, size), (0.0, 0.0, 3.6), (0.0, 0.0, 0.0))
        across = self.corners(1.0)
        self.pixels = float(np.ptp(across[:, 0])) / 2
        """Radius in the picture."""

    def corners(self, scale: float) -> np.ndarray:
        """(V, 3): x and y in pixels, centres at halves, and depth."""
        clip = np.c_[scale * self.positions, np.ones(len(self.positions))] @ self.camera.world_to_clip.T
        plane = clip[:, :2] / clip[:, 3:]
        return np.c_[(plane + 1) * self.size / 2, clip[:, 3]]


def by_form(sphere: Sphere, options: dict[str, Any], device: Device) -> tuple[np.ndarray, np.ndarray]:
    """Silhouette and its derivative by the radius in pixels, (size, size) each."""
    options = dict(options)
    if "radius" in options:
        options["radius"] /= sphere.size
    if options["form"] != "face":
        options["edges"] = edge_list(sphere.faces)
    vertices = list_leaf("vertices", VEC3, sphere.positions)
    clip = to_clip(vertices, sphere.camera.world_to_clip)
    faces, size = list_leaf("faces", IVEC3, sphere.faces), (sphere.size, sphere.size)
    drawn = hard_soft_ras(clip, faces, size=size, face_count=len(sphere.faces), **options)
    (moved,) = jvp(drawn.silhouette, [vertices], [vertices])
    with DressiAD(device) as ad:
        ad.set_output("picture", drawn.silhouette)
        ad.set_output("derivative", moved)
        found = [np.asarray(ad.recv(name), np.float64)[0] for name in ("picture", "derivative")]
    return found[0], found[1] / sphere.pixels


def differences(
    picture: Callable[[float], np.ndarray], sphere: Sphere, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """A picture by the scale, and its central difference by the radius in pixels; step: in pixels."""
    by = step / sphere.pixels
    return picture(1.0), (picture(1.0 + by) - picture(1.0 - by)) / (2 * step)


def antialias(sphere: Sphere) -> Callable[[float], np.ndarray]:
    """The picture by the scale: nearest faces at the centres, then blends over outlines (Laine et al. 2020, 3.3)."""
    ends = np.stack([sphere.faces, np.roll(sphere.faces, -1, axis=1)], axis=-1)
    edges = edge_numbers(sphere.faces)

    def picture(scale: float) -> np.ndarray:
        corners, size = sphere.corners(scale), sphere.size
        a, b, c = (corners[sphere.faces[:, k]] for k in range(3))
        area = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
        outline = outlines(edges, area < 0)
        centres = np.stack(np.meshgrid(np.arange(size) + 0.5, np.arange(size) + 0.5), axis=-1)
        nearest = np.full((size, size), -1)
        for k in np.flatnonzero(area < 0):  # a convex body: front faces do not overlap
            inside = np.ones((size, size), bool)
            for p, q in ((a, b), (b, c), (c, a)):
                edge, to = q[k, :2] - p[k, :2], centres - p[k, :2]
                inside &= edge[0] * to[..., 1] - edge[1] * to[..., 0] <= 0
            nearest[inside] = k
        found = (nearest >= 0).astype(float)
        for axis in (0, 1):
            first = np.moveaxis(nearest, axis, 0)
            for i, j in zip(*np.nonzero((first[1:] < 0) != (first[:-1] < 0)), strict=True):
                here = (i, j) if first[i, j] >= 0 else (i + 1, j)
                there = (2 * i + 1 - here[0], j)
                own, other = (cell if axis == 0 else cell[::-1] for cell in (here, there))
                for e in np.flatnonzero(outline[nearest[own]]):
                    p, q = corners[ends[nearest[own], e], :2]
                    start, step = centres[own], centres[other] - centres[own]
                    edge = q - p
                    det = step[0] * edge[1] - step[1] * edge[0]
                    if det == 0:
                        continue
                    along = ((p - start)[0] * edge[1] - (p - start)[1] * edge[0]) / det
                    at = ((p - start)[0] * step[1] - (p - start)[1] * step[0]) / det
                    if 0 <= along <= 1 and 0 <= at <= 1:
                        found[own if along < 0.5 else other] += along - 0.5
        return found

    return picture


def areas(sphere: Sphere, samples: int = 96) -> Callable[[float], np.ndarray]:
    """The picture by the scale: the part of each pixel inside of the outline, exact along rows of samples."""

    def picture(scale: float) -> np.ndarray:
        corners, size = sphere.corners(scale)[:, :2], sphere.size
        hull = corners[scipy.spatial.ConvexHull(corners).vertices]
        ends = np.roll(hull, -1, axis=0)
        rows = (np.arange(size * samples) + 0.5) / samples
        found = np.zeros((len(rows), size))
        for k, y in enumerate(rows):
            crossed = (hull[:, 1] <= y) != (ends[:, 1] <= y)
            if crossed.any():
                p, q = hull[crossed], ends[crossed]
                x = p[:, 0] + (y - p[:, 1]) / (q[:, 1] - p[:, 1]) * (q[:, 0] - p[:, 0])
                pixels = np.arange(size)
                found[k] = np.clip(x.max() - pixels, 0, 1) - np.clip(x.min() - pixels, 0, 1)
        return found.reshape(size, samples, size).mean(1)

    return picture


def diverging(values: np.ndarray) -> np.ndarray:
    """(H, W) in [-1, 1] as red, white and blue."""
    amount = np.clip(np.abs(values), 0, 1)[..., None]
    return 1 - amount * (1 - np.where(values[..., None] > 0, (0.8, 0.1, 0.1), (0.1, 0.2, 0.8)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=32, help="pixels")
    parser.add_argument("--level", type=int, default=3, help="subdivisions of the sphere")
    parser.add_argument("--device", default=None)
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/figure14"))
    given = parser.parse_args()
    sphere = Sphere(given.level, given.size)
    with Device.open(given.device) as device:
        found = {name: by_form(sphere, options, device) for name, options in FORMS.items()}
    found["antialias"] = differences(antialias(sphere), sphere, 1e-5)
    found["truth"] = differences(areas(sphere), sphere, 1e-3)
    truth = found["truth"]
    edge = (truth[0] > 0.02) & (truth[0] < 0.98)
    entry: dict[str, Any] = {"size": given.size, "faces": len(sphere.faces), "edge pixels": int(edge.sum())}
    for name in COLUMNS:
        derivative = found[name][1]
        entry[name] = {
            "share of edge pixels": float((np.abs(derivative[edge]) > 1e-3).mean()),
            "pixels": int((np.abs(derivative) > 1e-3).sum()),
            "sum over truth": float(derivative.sum() / truth[1].sum()),
        }
        print(name, entry[name], flush=True)
    enlarged = max(1, 256 // given.size)
    rows = [
        np.concatenate([np.kron(picture, np.ones((enlarged, enlarged, 1))) for picture in row], axis=1)
        for row in (
            [np.repeat(np.clip(found[name][0], 0, 1)[..., None], 3, axis=-1) for name in COLUMNS],
            [srgb_to_linear(diverging(found[name][1])) for name in COLUMNS],
        )
    ]
    given.out.mkdir(parents=True, exist_ok=True)
    write_json(given.out / "figure14.json", entry)
    save_png(given.out / "figure14.png", np.concatenate(rows))


if __name__ == "__main__":
    main()
