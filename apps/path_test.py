"""Does the gradient of the soft silhouette agree with finite differences of the rendered loss? Nine directions, any mesh.

    python apps/path_test.py --out out/path_test
    python apps/path_test.py --mesh bob.obj --radius-px 5 2 1 --size 128 256 --device llvmpipe SwiftShader

All vertices move along a direction, by at most one pixel to either side. The loss (squares of outer form minus soft
target, summed) changes by L(+1 px) - L(-1 px); the gradient times the direction, integrated between the two, must give
the same. The test detects jumps of the loss, not kinks. Directions that differ by more than 2 % are integrated
again with --again samples. Writes path_test.json: for each mesh, device, size, radius and number of views the share of
directions within 2 % (those that change the loss by less than 2 % of the largest change are left out), the median
ratio, every exception, and by how much the picture differs when all edges are drawn instead of the silhouettes. The
file is written after every figure; existing figures are not measured again.
"""

import argparse
import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from contour_scenes import Scene, nine_directions

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph import as_variable
from dressi.ad.graph.types import FLOAT, INT, IVEC3, VEC3, VEC4, list_values
from dressi.ad.transform.gradient import gradient
from dressi.render.cameras.pose import matrices_leaf
from dressi.render.cameras.views import ring
from dressi.render.core.lists import list_leaf
from dressi.render.formats import load_mesh
from dressi.render.forms.edges.edge_list import edge_list
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.forms.outer import around_edges
from dressi.render.forms.soft_target import falloff, outside_distance
from dressi.render.io import write_json
from dressi.render.mesh import Mesh
from dressi.render.mesh.primitives import bumpy_ellipsoid, icosphere, torus
from dressi.render.surface.projection import to_clip
from dressi.render.surface.screen import DrawnMesh


def blob() -> Mesh:
    """A sphere with twelve knobs, whose contours overlap inside its outline."""
    mesh, knobs = icosphere(3), icosphere(0).positions
    height = (0.5 * np.maximum(mesh.positions @ knobs.T, 0) ** 24).sum(1)
    moved = mesh.moved(mesh.positions * (0.7 + height)[:, None])
    moved.name = "blob"
    return moved


TINY = 0.02
MADE = {"torus": lambda: torus(22, 16), "ellipsoid": bumpy_ellipsoid, "blob": blob}


def clip(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.concatenate([points, np.ones((len(points), 1))], axis=1) @ matrix.T


@dataclass
class Change:
    """Along one direction in one view."""

    integral: float
    difference: float

    @property
    def ratio(self) -> float:
        return self.integral / self.difference


class PathTest:
    """One mesh on one device: samples of a path are the tiles of one batch, the radius is data."""

    def __init__(self, mesh: Mesh, size: int, samples: int, device: Device):
        self.points = mesh.positions - mesh.bounding_sphere()[0]
        self.extent, self.size, self.samples = mesh.bounding_sphere()[1], (size, size), samples
        self.position = Variable(
            VEC4, list_leaf("list", VEC4, clip(np.eye(4), self.points)).size, samples + 2
        )
        self.radius = Variable(FLOAT, name="radius")
        self.target = Variable(FLOAT, self.size, name="target")
        self.mesh, self.device = mesh, device
        drawn = hard_soft_ras(
            self.position, list_leaf("faces", IVEC3, mesh.faces), size=self.size, radius=self.radius,
            face_count=len(mesh.faces), form="outer",
        )  # fmt: skip
        squares = F.square(drawn.silhouette - falloff(self.target, self.radius))
        self.ad = DressiAD(device)
        self.ad.set_output("hard", drawn.hard)
        self.ad.set_output("squares", squares)
        self.ad.set_output("slope", gradient(F.sum(squares), [self.position])[0])

    def all_edges(self, matrices: np.ndarray, radius: float) -> float:
        """The largest difference of a pixel when all edges are drawn, on both sides, instead of the silhouettes."""
        position = list_leaf("position", VEC3, self.points)
        clips, faces = to_clip(position, matrices_leaf(matrices)), list_leaf("faces", IVEC3, self.mesh.faces)
        count, edges = len(self.mesh.faces), edge_list(self.mesh.faces)
        everywhere = Variable(INT, edges.list.size, data=np.zeros(edges.list.shape[:3], int))
        drawn, r = DrawnMesh(clips, faces, self.size, count), as_variable(radius)
        every = around_edges(drawn, drawn.face, edges, everywhere, r)
        own = hard_soft_ras(clips, faces, size=self.size, radius=r, face_count=count, form="outer")
        with DressiAD(self.device) as ad:
            ad.set_output("difference", F.max(F.abs(every.silhouette - own.silhouette)))
            ad.step()
            return float(ad.recv("difference").max())

    def run(self, matrix: np.ndarray, step: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Loss and slope along the path at each place; as many as there are tiles."""
        clips = np.stack([clip(matrix, self.points + h * step) for h in places])
        full = np.zeros(self.position.shape)
        full.reshape(len(places), -1, 4)[:, : len(self.points)] = clips
        self.ad.send(self.position, full)
        self.ad.step()
        slope = list_values(self.ad.recv("slope"), len(self.points)).astype(float)
        losses = self.ad.recv("squares").astype(float).sum(axis=(1, 2))
        return losses, (slope * (step @ matrix[:, :3].T)).sum(axis=(1, 2))

    def aim(self, matrix: np.ndarray, radius: float) -> None:
        """The target: the mesh enlarged by 15 % and shifted a little."""
        self.ad.send(self.radius, np.full((1, 1, 1), radius))
        self.ad.send(self.target, np.zeros(self.target.shape))
        away = 0.15 * self.points + self.extent * np.array([0.06, 0.04, 0.03])
        self.run(matrix, away, np.ones(self.samples + 2))
        self.ad.send(self.target, outside_distance(self.ad.recv("hard")[:1]))

    def change(self, matrix: np.ndarray, direction: np.ndarray, samples: int) -> Change:
        ends = [clip(matrix, self.points + h * direction) for h in (1e-4, -1e-4)]
        a, b = (e[:, :2] / e[:, 3:] * 0.5 * self.size[0] for e in ends)
        step = direction * (2e-4 / np.linalg.norm(a - b, axis=1).max())
        rounds = -(-samples // self.samples)
        inner = (np.arange(rounds * self.samples) + 0.5) / (rounds * self.samples) * 2 - 1
        slopes, losses = [], np.zeros(2)
        for part in inner.reshape(rounds, -1):
            losses, slope = self.run(matrix, step, np.array([-1.0, 1.0, *part]))
            slopes.append(slope[2:])
        return Change(2 * float(np.mean(slopes)), float(losses[1] - losses[0]))


def summary(changes: dict[str, Change]) -> tuple[dict[str, float], dict[str, float]]:
    """(figures, ratios of the directions that differ)."""
    largest = max(abs(c.difference) for c in changes.values())
    ratios = {n: c.ratio for n, c in changes.items() if abs(c.difference) > TINY * largest}
    values = np.array(list(ratios.values()))
    figures = {
        "directions": len(values),
        "within 2 %": float(np.mean(np.abs(values - 1) <= 0.02)),
        "median": float(np.median(values)),
    }
    return figures, {name: ratio for name, ratio in ratios.items() if abs(ratio - 1) > 0.02}


def examine(work: PathTest, views: int, pixels: float, steps: int, again: int) -> list[dict]:
    """Figures of one radius, one view at a time and all views together."""
    matrices = ring(np.zeros(3), work.extent, views, work.size).matrices
    everything = Scene(work.points, work.mesh.faces, np.ones(len(work.points), bool))
    moves, radius = dict(nine_directions(everything)), pixels / work.size[1]

    def total(name: str, samples: int) -> Change:
        """The change in all views together."""
        changes = []
        for matrix in matrices:
            work.aim(matrix, radius)
            changes.append(work.change(matrix, moves[name], samples))
        return Change(sum(c.integral for c in changes), sum(c.difference for c in changes))

    seen: dict[str, Change] = {}
    exceptions = []
    for number, matrix in enumerate(matrices):
        work.aim(matrix, radius)
        found = {name: work.change(matrix, move, steps) for name, move in moves.items()}
        seen |= {f"{number} {name}": change for name, change in found.items()}
        for name, ratio in summary(found)[1].items():
            better = work.change(matrix, moves[name], again).ratio
            exceptions.append({"view": number, "direction": name, "ratio": ratio, "again": better})
    difference = work.all_edges(matrices, radius)
    rows = [{"views": 1, **summary(seen)[0], "all edges": difference, "exceptions": exceptions}]
    if views > 1:
        alike = {name: [seen[f"{k} {name}"] for k in range(views)] for name in moves}
        together = {
            name: Change(sum(c.integral for c in cs), sum(c.difference for c in cs))
            for name, cs in alike.items()
        }
        figures, missing = summary(together)
        exceptions = [
            {"direction": name, "ratio": ratio, "again": total(name, again).ratio}
            for name, ratio in missing.items()
        ]
        rows.append({"views": views, **figures, "all edges": difference, "exceptions": exceptions})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mesh", nargs="+", default=list(MADE), help=f"files, or some of {', '.join(MADE)}")
    parser.add_argument("--radius-px", type=float, nargs="+", default=[5.0, 2.0, 1.0])
    parser.add_argument("--views", type=int, default=6)
    parser.add_argument("--size", type=int, nargs="+", default=[128], help="pixels along each side")
    parser.add_argument("--steps", type=int, default=24, help="samples of the gradient along each direction")
    parser.add_argument(
        "--again", type=int, default=400, help="samples for directions that miss by more than 2 %%"
    )
    parser.add_argument("--device", nargs="+", default=[None], help="Vulkan devices, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/path_test"))
    arguments = parser.parse_args()

    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "path_test.json"
    results = json.loads(file.read_text()) if file.exists() else []
    for wanted in arguments.device:
        with Device.open(wanted) as device:
            for name, size in product(arguments.mesh, arguments.size):
                mesh = MADE[name]() if name in MADE else load_mesh(Path(name))
                run = {
                    "mesh": mesh.name,
                    "faces": len(mesh.faces),
                    "device": device.name,
                    "driver": f"{device.physical.driver} {device.physical.driver_version}",
                }
                work = PathTest(mesh, size, arguments.steps, device)
                for pixels in arguments.radius_px:
                    key = {
                        **run,
                        "size": size,
                        "radius_px": pixels,
                        "samples": [arguments.steps, arguments.again],
                    }
                    if any(key.items() <= row.items() and row["views"] == arguments.views for row in results):
                        continue
                    for row in examine(work, arguments.views, pixels, arguments.steps, arguments.again):
                        results.append({**key, **row})
                        print(line(results[-1]), flush=True)
                    write_json(file, results)
                work.ad.close()
    print(f"results are in '{file}'")


def line(row: dict) -> str:
    again = [abs(e["again"] - 1) for e in row["exceptions"]]
    return (
        f"{row['mesh']} at {row['size']}, {row['device'].split()[0]}, r = {row['radius_px']:g} px, {row['views']} views,"
        f" {row['directions']} directions: {100 * row['within 2 %']:.1f} % within 2 %, median {row['median']:.4f},"
        f" all edges {row['all edges']:.1g}"
        + (f"; with more samples within {100 * max(again):.1f} %" if again else "")
    )


if __name__ == "__main__":
    main()
