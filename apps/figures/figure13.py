"""Figure 13 of the paper: objects from real photographs, ten times each, as box plots of the distance to the truth.

    python apps/figures/figure13.py --out out/figure13                  # dino, dtu24 and lego of DRESSI_DATA
    python apps/figures/figure13.py --photos FOLDER --estimator edges outer --starts 3
    python apps/figures/figure13.py --quick

Photographs of 200 x 150 pixels with cameras and masks. Each fit starts from a white sphere of another place and radius, and sees the photographs in
another order, four in a step. It moves vertices by large steps and learns a colour at each, without light, by the squared difference of colours and masks.
The settings are the same for all objects and for the estimators: the edges form, the outer form with a radius of 2 pixels, and deodr
(``pip install dressi[peers]``), whose edges are antialiased.

The truth are points that COLMAP triangulates from features of the photographs, with these cameras, seen by three of them or more (``pip install dressi[sfm]``):
no estimator has a part in them. The distance is the mean from the points to the mesh, in percent of the object's radius;
the other figure is the IoU with the masks of the photographs that no fit sees, every fourth.

Writes figure13.json, whose rows are not measured again, and figure13.png: a box for each object and estimator over the fits, and the
mesh of the median beside a photograph.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from deodr_shape import descend
from PIL import Image, ImageDraw

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph.types import MAT4, VEC3
from dressi.ad.optim import Clocked, adam, clock, cosine, per_parameter
from dressi.cli.bench.rasterizers import DeodrLoss
from dressi.render import adjacency, large_steps, list_leaf, primitives, render
from dressi.render.fit import photo_dataset
from dressi.render.fit.data.learned import ViewBatches
from dressi.render.io import load_photos, save_png, write_json
from dressi.render.io.calibration import read_calibration
from dressi.render.io.files import data_file
from dressi.render.mesh import Mesh
from dressi.render.mesh.queries import SurfaceDistance
from dressi.render.reconstruct.motion import triangulate
from dressi.render.surface.color import srgb_to_linear

FORMS: dict[str, dict[str, Any]] = {"edges": {}, "outer": {"radius": 2.0}}
ESTIMATORS = (*FORMS, "deodr")
BATCH, WEIGHT = 4, 1.0
"""Photographs in a step; weight of colours beside masks."""
PHASES = ((0.5, (0.03, 0.03), 20.0), (0.5, (0.01, 0.01), 4.0))
"""Parts of the steps; rates of positions, in radii of the object, and of colours; lambda of large steps."""


class Phase(NamedTuple):
    steps: int
    rates: tuple[float, float]
    strength: float


@dataclass(frozen=True)
class Object:
    """Photographs of an object; its units are relative to its center and radius.  points: (P, 3), the truth."""

    name: str
    matrices: np.ndarray
    pictures: np.ndarray
    masks: np.ndarray
    apart: Any
    points: np.ndarray

    @classmethod
    def of(cls, folder: Path) -> Object:
        calibration = read_calibration(folder)
        width, height = calibration.views[0].camera.size
        scale = min(200 / width, 150 / height)
        data = photo_dataset(load_photos(folder, (round(width * scale), round(height * scale))))
        found = triangulate(calibration)
        sure = (found.times >= 3) & (found.errors < 1.0)
        points = (found.positions[sure] - data.center) / data.radius
        inside = seen_inside(points, data)
        print(f"{folder.name}: {inside.sum()} points of {len(found)}", flush=True)
        return cls(folder.name, data.matrices, data.train.colors, data.train.masks, data, points[inside])


def seen_inside(points: np.ndarray, data: Any) -> np.ndarray:
    """(P,) whether all photographs show points on the object: no point of the background is the truth."""
    kept = np.ones(len(points), bool)
    for matrix, mask in zip(data.matrices, data.train.masks, strict=True):
        clip = points @ matrix[:, :3].T + matrix[:, 3]
        height, width = mask.shape
        at = (clip[:, :2] / clip[:, 3:] + 1) / 2 * (width, height)
        column, row = np.floor(at).astype(int).T
        framed = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        kept[framed] &= mask[row[framed], column[framed]] > 0.5
    return kept


def start(seed: int, level: int) -> Mesh:
    random = np.random.default_rng(seed)
    ball = primitives.icosphere(level)
    turned = np.linalg.qr(random.normal(size=(3, 3)))[0]
    turned *= np.linalg.det(turned)
    place, radius = random.uniform(-0.1, 0.1, 3), random.uniform(0.3, 0.6)
    return replace(
        ball, positions=ball.positions @ turned.T * radius + place, colors=np.ones_like(ball.positions)
    )


def by_form(
    form: str, seen: Object, mesh: Mesh, phase: Phase, seed: int, device: Device
) -> tuple[np.ndarray, np.ndarray]:
    """Positions and colours of the vertices after the steps."""
    views, height, width = seen.masks.shape
    vertices = list_leaf("vertices", VEC3, mesh.positions)
    colours = list_leaf("colours", VEC3, np.asarray(mesh.colors))
    counter = clock()
    pick = ViewBatches(views, BATCH, counter, seed)
    cameras = pick(Variable(MAT4, (1, 1), views, name="cameras", data=seen.matrices[:, None, None]))
    goal = pick(Variable(VEC3, (width, height), views, name="pictures", data=seen.pictures))
    options = dict(FORMS[form])
    if "radius" in options:
        options["radius"] /= height
    picture = render(
        mesh, cameras, positions=vertices, size=(width, height), form=form,
        shader=lambda point: point.attribute(colours), **options,
    )  # fmt: skip
    away = picture.colour - goal
    if form == "outer":  # its margin is no part of the picture
        inside = pick(Variable.of((seen.masks > 0.5).astype(float), batched=True))
        away = F.select(
            F.logical_and(F.greater(inside, 0.5), F.greater_equal(picture.face, 0)), away, (0.0, 0.0, 0.0)
        )
        target = pick(picture.soft_target(seen.masks))
    else:
        target = pick(Variable.of(seen.masks, batched=True))
    loss = F.mean(F.square(picture.mask - target)) + WEIGHT * F.mean(F.sum_components(F.square(away)))
    falling = [cosine(rate, rate / 20, phase.steps) for rate in phase.rates]
    shape = large_steps(adjacency(mesh.faces, len(mesh.positions)), falling[0], strength=phase.strength)
    with DressiAD(device) as ad:
        ad.set_loss(loss, record=False)
        ad.set_optimizer(
            Clocked(per_parameter({vertices: shape, colours: adam(falling[1])}), counter), [vertices, colours]
        )
        ad.step(phase.steps)
        found = [
            np.asarray(ad.recv(one), np.float64).reshape(-1, 3)[: len(mesh.positions)]
            for one in (vertices, colours)
        ]
    return found[0], found[1]


def by_deodr(
    form: str, seen: Object, mesh: Mesh, phase: Phase, seed: int, device: Device
) -> tuple[np.ndarray, np.ndarray]:
    """The same with deodr."""
    views = len(seen.masks)
    order = ViewBatches(views, BATCH, clock(), seed).order
    loss = DeodrLoss(mesh.faces, seen.matrices, seen.pictures, seen.masks, WEIGHT)

    def of_step(
        step: int, positions: np.ndarray, colours: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        chosen = order[(BATCH * step + np.arange(BATCH)) % len(order)]
        return loss(chosen.tolist(), positions, colours)

    found = descend(
        of_step, mesh.faces, mesh.positions, np.asarray(mesh.colors), phase.steps, phase.rates, phase.strength
    )
    return found[0], found[1]


def measured(
    estimator: str, seen: Object, given: argparse.Namespace, seed: int, device: Device
) -> dict[str, Any]:
    """The row of a fit, and its mesh."""
    found, begin = start(seed, given.level), time.process_time()
    for k, (share, rates, strength) in enumerate(PHASES):
        phase = Phase(round(share * given.steps), rates, strength)
        fit = by_deodr if estimator == "deodr" else by_form
        positions, colours = fit(estimator, seen, found, phase, 100 * seed + k, device)
        found = replace(found, positions=positions, colors=np.clip(colours, 0, 1))
    seconds = time.process_time() - begin
    apart = seen.apart.held_out
    drawn = render(seen.apart.to_world(found), apart.cameras, outputs=("mask",), samples=2).mask > 0.5
    both = (drawn & (apart.masks > 0.5)).sum((1, 2)) / (drawn | (apart.masks > 0.5)).sum((1, 2))
    distances = SurfaceDistance(found, 20_000).distances(seen.points)
    return {
        "percent": 100 * float(distances.mean()), "iou": float(both.mean()), "cpu_s": seconds, "mesh": found
    }  # fmt: skip


def boxes(table: dict[str, dict[str, list[dict[str, Any]]]], height: int) -> Image.Image:
    """The distances of each object: quartiles, median and extremes by the estimator."""
    most = 1.1 * max(row["percent"] for one in table.values() for rows in one.values() for row in rows)
    picture = Image.new("RGB", (len(table) * 3 * 60, height), "white")
    draw = ImageDraw.Draw(picture)
    colours = dict(zip(ESTIMATORS, ((40, 110, 200), (30, 150, 90), (200, 80, 40)), strict=True))

    def y(value: float) -> float:
        return (height - 40) * (1 - value / most) + 10

    for k, (name, one) in enumerate(table.items()):
        draw.text((k * 180 + 60, height - 16), name, fill="black")
        for i, (estimator, rows) in enumerate(one.items()):
            x = k * 180 + 30 + 50 * i
            least, low, middle, high, top = np.percentile(
                [row["percent"] for row in rows], [0, 25, 50, 75, 100]
            )
            draw.line([(x + 10, y(least)), (x + 10, y(top))], fill=colours[estimator])
            draw.rectangle([x, y(high), x + 20, y(low)], fill="white", outline=colours[estimator], width=2)
            draw.line([(x, y(middle)), (x + 20, y(middle))], fill=colours[estimator], width=3)
            draw.text((x - 4, height - 28), estimator, fill=colours[estimator])
            draw.text((x - 4, y(top) - 11), f"{middle:.2f}", fill=colours[estimator])
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=Path, nargs="+", help="folders with photographs, cameras and masks")
    parser.add_argument("--estimator", nargs="+", choices=ESTIMATORS, default=list(ESTIMATORS))
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--level", type=int, default=4, help="subdivisions of the sphere")
    parser.add_argument("--quick", action="store_true", help="one object, two starts, 150 steps")
    parser.add_argument("--device", default=None)
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/figure13"))
    given = parser.parse_args()
    if given.quick:
        parser.set_defaults(starts=2, steps=150, photos=[data_file("photos", "dino")])
        given = parser.parse_args()
    folders = given.photos or [data_file("photos", name) for name in ("dino", "dtu24", "lego_synthetic")]
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "figure13.json"
    table: dict[str, dict[str, list[dict[str, Any]]]] = json.loads(path.read_text()) if path.exists() else {}
    shown = []
    with Device.open(given.device) as device:
        for folder in folders:
            seen = Object.of(folder)
            row = [seen.apart.held_out.colors[0]]
            for estimator in given.estimator:
                rows = table.setdefault(seen.name, {}).setdefault(estimator, [])
                meshes = {}
                for seed in range(len(rows), given.starts):
                    rows.append(measured(estimator, seen, given, seed, device))
                    meshes[seed] = rows[-1].pop("mesh")
                    print(seen.name, estimator, seed, rows[-1], flush=True)
                    write_json(path, table)
                median = int(np.argsort([one["percent"] for one in rows])[len(rows) // 2])
                mesh = meshes.get(median) or measured(estimator, seen, given, median, device)["mesh"]
                camera = seen.apart.held_out.cameras[0]
                row.append(render(seen.apart.to_world(mesh), camera, light=None, samples=2).colour)
            shown.append(row)
    pictures = [np.concatenate([np.clip(one, 0, 1) for one in row], axis=1) for row in shown]
    wide = max(one.shape[1] for one in pictures)
    pictures = [
        np.pad(one, ((0, 0), (0, wide - one.shape[1]), (0, 0)), constant_values=1.0) for one in pictures
    ]
    plot = np.asarray(boxes(table, 300).resize((wide, 300 * wide // (len(table) * 180))), np.float64) / 255
    save_png(given.out / "figure13.png", np.concatenate([srgb_to_linear(plot), *pictures]))


if __name__ == "__main__":
    main()
