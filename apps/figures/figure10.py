"""Figures 10 and 11 of the paper: which radius and how many layers fit a shape best, early and late.

    python apps/figures/figure10.py --mesh Lucy100k.ply --device llvmpipe
    python apps/figures/figure10.py --cells "face K3 r2" "edges" --steps 500

A sphere of 5,120 faces is fitted to a mesh, in each cell with the same settings but for the estimator: the face form with
K in 1, 2, 3, 5 layers and r in 1, 2, 3, 5, 7 pixels, the outer form with these r, and the edges form. Every step uses
a random view and a random light (both data), Lambert shading, the L1 difference of colours to the target mesh drawn in the
same way, and a Laplacian whose weight decreases. The distance is the mean from the vertices to the surface of the mesh, in
bounding radii.

Cells of the face form with the same radius run side by side and share the layers of the target: it is drawn with the largest
K, and each cell uses the first of these layers. Nothing else is shared, so the result of a cell does not depend on the
others.

Writes to --out one JSON for each cell (distances along the way, at 500 and 2,500 steps, ms a step without the
picture of the mesh, device, seed), and figure10.png and figure11.png of the cells there. Finished cells are not
repeated; interrupted cells resume from their last --save steps. --list names the cells. On a CPU two processes with
different cells and LP_NUM_THREADS=0 are faster than one.
"""

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from figure10_plots import LAYERS, MARKS, RADII, pictures

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph.types import FLOAT, IVEC3, MAT4, VEC3, list_values
from dressi.ad.optim import adam, chain, cosine
from dressi.config import config
from dressi.errors import InputError
from dressi.render.cameras import Camera
from dressi.render.core.lists import list_leaf
from dressi.render.fit.phases.shape import smoothed
from dressi.render.formats import load_mesh
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.io import write_files
from dressi.render.mesh import Mesh
from dressi.render.mesh.polygons import close_holes
from dressi.render.mesh.primitives import bumpy_ellipsoid, icosphere
from dressi.render.mesh.queries import SurfaceDistance
from dressi.render.mesh.remesh.remesh import decimate, decimate_closed
from dressi.render.objectives.losses import l1
from dressi.render.objectives.regularizers import adjacency, laplacian_loss
from dressi.render.shading.lights import lambert
from dressi.render.surface.projection import to_clip
from dressi.render.surface.screen import vertex_normals


@dataclass(frozen=True)
class Cell:
    """An estimator; the radius is in pixels."""

    form: str
    layers: int | None = None
    radius: int | None = None

    @property
    def name(self) -> str:
        parts = (self.form, self.layers and f"K{self.layers}", self.radius and f"r{self.radius}")
        return " ".join(str(p) for p in parts if p)

    def options(self, size: int) -> dict[str, Any]:
        radius = self.radius and self.radius / size
        # The sphere folds through itself on its way.
        crossings = False if self.form == "edges" else None
        return {"form": self.form, "layers": self.layers, "radius": radius, "crossings": crossings}


CELLS = [
    *(Cell("face", k, r) for k in LAYERS for r in RADII),
    *(Cell("outer", None, r) for r in RADII),
    Cell("edges"),
]


def target_mesh(name: Path | None, faces: int) -> Mesh:
    """A mesh of about that many faces, closed if possible, centred, with bounding radius 1. Default: Lucy, else an ellipsoid."""
    lucy = Path(config.data or "../shared/data") / "meshes" / "stanford" / "Lucy100k.ply"
    name = name or (lucy if lucy.exists() else None)
    mesh = bumpy_ellipsoid(4) if name is None else close_holes(load_mesh(name))
    mesh = (decimate_closed if mesh.is_closed() else decimate)(mesh, faces)
    center, radius = mesh.bounding_sphere()
    return Mesh((mesh.positions - center) / radius, mesh.faces, name=mesh.name)


class Scene:
    """The random view and light of a step, which depend only on the seed and the number of the step."""

    def __init__(self, settings: argparse.Namespace):
        self.settings = settings
        self.size = (settings.size, settings.size)
        self.matrix, self.light = Variable(MAT4, name="view"), Variable(VEC3, name="light")

    def picture(
        self, cell: Cell, position: Variable, faces: Variable, face_count: int, normals: Variable
    ) -> Variable:
        drawn = hard_soft_ras(
            to_clip(position, self.matrix),
            faces,
            size=self.size,
            face_count=face_count,
            **cell.options(self.settings.size),
        )
        white = F.constant((0.8, 0.8, 0.8))
        shown = [lambert(white, s.interpolate(normals), self.light, 0.8, 0.2) for s in drawn.surfaces]
        return drawn.blend(shown, (0.0, 0.0, 0.0))

    def send(self, ad: DressiAD, number: int) -> None:
        random = np.random.default_rng((self.settings.seed, number))
        towards, light = (v / np.linalg.norm(v) for v in random.normal(size=(2, 3)))
        light = light + towards  # from the side of the viewer; otherwise half of all pictures would be dark
        camera = Camera.perspective(45.0, self.size, 2.7 * towards, np.zeros(3)).around(np.zeros(3), 1.0)
        ad.send(self.matrix, camera.world_to_clip[None, None, None])
        ad.send(self.light, light.reshape(1, 1, 1, 3))


class Goals:
    """Pictures of the target, for each cell by its own estimator."""

    def __init__(self, cells: Sequence[Cell], target: Mesh, settings: argparse.Namespace, device: Device):
        self.scene, self.ad = Scene(settings), DressiAD(device)
        position = list_leaf("target", VEC3, target.positions)
        normals = list_leaf("target normals", VEC3, target.vertex_normals())
        faces = list_leaf("target faces", IVEC3, target.faces)
        for cell in cells:
            self.ad.set_output(
                cell.name, self.scene.picture(cell, position, faces, len(target.faces), normals)
            )

    def draw(self, number: int) -> None:
        self.scene.send(self.ad, number)
        self.ad.step()

    def picture(self, cell: Cell) -> np.ndarray:
        return self.ad.recv(cell.name)


class Fit:
    """One cell: the graph, its leaves, and what a step sends."""

    def __init__(self, cell: Cell, start: Mesh, settings: argparse.Namespace, device: Device):
        self.cell, self.start, self.settings = cell, start, settings
        self.scene, self.ad = Scene(settings), DressiAD(device)
        self.goal = Variable(VEC3, self.scene.size, name="goal")
        self.weight = Variable(FLOAT, name="smoothness")
        self.position = list_leaf("position", VEC3, start.positions)
        faces = list_leaf("faces", IVEC3, start.faces)
        normals = vertex_normals(self.position, faces)
        shown = self.scene.picture(cell, self.position, faces, len(start.faces), normals)
        neighbours = adjacency(start.faces, len(start.positions))
        loss = l1(shown, self.goal) + laplacian_loss(self.position, neighbours) * self.weight
        rate = cosine(settings.rate, settings.rate / 20, settings.total)
        self.ad.set_loss(loss, record=False)
        self.ad.set_optimizer(chain(smoothed(neighbours), adam(rate, betas=(0.9, 0.99))), [self.position])

    def step(self, number: int, goal: np.ndarray) -> None:
        done = number / max(self.settings.total, 1)
        first, last = self.settings.smoothness
        self.scene.send(self.ad, number)
        self.ad.send(self.goal, goal)
        self.ad.send(self.weight, np.full((1, 1, 1), first * (last / first) ** done))
        self.ad.step()

    @property
    def points(self) -> np.ndarray:
        return list_values(self.ad.recv(self.position), len(self.start.positions))[0].astype(float)


def shared(target: Mesh, settings: argparse.Namespace) -> dict[str, Any]:
    """The settings that all cells in a folder share."""
    return {
        "seed": settings.seed, "size": settings.size, "total": settings.total, "rate": settings.rate,
        "smoothness": list(settings.smoothness), "target": target.name, "target_faces": len(target.faces),
        "start_faces": len(settings.start.faces), "start_radius": settings.start_radius,
    }  # fmt: skip


class Record:
    """The files of a cell: a JSON with its curve, and the state to resume from."""

    def __init__(self, cell: Cell, target: Mesh, settings: argparse.Namespace, device: Device):
        self.cell, self.settings = cell, settings
        self.file = settings.out / f"{cell.name.replace(' ', '_')}.json"
        self.state_file = settings.out / "states" / f"{self.file.stem}.npz"
        self.key = {
            "cell": cell.name, "form": cell.form, "layers": cell.layers, "radius_px": cell.radius,
            **shared(target, settings), "device": device.name,
            "driver": f"{device.physical.driver} {device.physical.driver_version}",
        }  # fmt: skip
        done = json.loads(self.file.read_text()) if self.file.exists() else {}
        same = all(done.get(name) == value for name, value in self.key.items())
        self.steps: int = done["steps"] if done and same else 0
        self.curve: list[list[float]] = done["curve"] if self.steps else []
        self.seconds: float = done["seconds"] if self.steps else 0.0
        if self.steps < settings.steps and not self.state_file.exists():
            self.steps, self.curve, self.seconds = 0, [], 0.0

    def resume(self, fit: Fit) -> None:
        if self.steps:
            with np.load(self.state_file) as state:
                fit.ad.restore(dict(state))

    def save(self, fit: Fit, surface: SurfaceDistance, number: int, seconds: float) -> None:
        """After that many steps, and seconds since the last time."""
        count, self.steps, self.seconds = number - self.steps, number, self.seconds + seconds
        self.curve.append([number, float(surface.distances(fit.points).mean())])
        at = {int(step): distance for step, distance in self.curve}
        ms = 1e3 * seconds / count if count else 0.0
        row = {
            **self.key,
            "steps": number,
            "seconds": self.seconds,
            "ms_a_step": ms,
            **{f"distance at {mark}": at.get(mark) for mark in MARKS},
            "curve": self.curve,
        }
        self.state_file.parent.mkdir(exist_ok=True)
        state = BytesIO()
        np.savez(state, **fit.ad.state())  # pyright: ignore[reportArgumentType]
        # Written together, so that a resumed fit is the same fit.
        write_files({self.state_file: state.getvalue(), self.file: json.dumps(row).encode() + b"\n"})
        print(
            f"{self.cell.name}: step {number}, distance {self.curve[-1][1]:.5f}, {ms:.1f} ms a step",
            flush=True,
        )


def check_alike(folder: Path, expected: dict[str, Any]) -> None:
    """Raises InputError if the folder holds cells with other settings, which must not be compared with these."""
    for file in sorted(folder.glob("*.json")):
        row = json.loads(file.read_text())
        for name, value in expected.items():
            if row.get(name) != value:
                raise InputError(
                    f"'{file}' has {name} {row.get(name)!r}, not {value!r}; give an --out of its own"
                )


def side_by_side(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Groups of cells that can share the layers of the target."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.radius if cell.layers else cell, []).append(cell)
    return list(groups.values())


def run(
    cells: Sequence[Cell],
    target: Mesh,
    surface: SurfaceDistance,
    settings: argparse.Namespace,
    device: Device,
) -> None:
    records = [Record(cell, target, settings, device) for cell in cells]
    records = [record for record in records if record.steps < settings.steps]
    if not records:
        return
    with ExitStack() as stack:
        goals = Goals([record.cell for record in records], target, settings, device)
        stack.callback(goals.ad.close)
        fits: dict[Record, Fit] = {}
        for record in records:
            fits[record] = Fit(record.cell, settings.start, settings, device)
            stack.callback(fits[record].ad.close)
            record.resume(fits[record])
            if not record.steps:
                record.save(fits[record], surface, 0, 0.0)
        spent = dict.fromkeys(records, 0.0)
        for number in range(min(record.steps for record in records), settings.steps):
            goals.draw(number)
            for record, fit in fits.items():
                if record.steps > number:
                    continue  # was ahead of the others
                goal, begin = goals.picture(record.cell), time.perf_counter()
                fit.step(number, goal)
                fit.ad.wait()
                spent[record] += time.perf_counter() - begin
                if (number + 1) % settings.save == 0 or number + 1 == settings.steps:
                    record.save(fit, surface, number + 1, spent[record])
                    spent[record] = 0.0
    for record in records:
        if record.steps >= settings.total:
            record.state_file.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mesh", type=Path, help="the target; Lucy of DRESSI_DATA without it")
    parser.add_argument("--target-faces", type=int, default=20_000)
    parser.add_argument("--subdivisions", type=int, default=4, help="of the icosphere to start from")
    parser.add_argument(
        "--start-radius", type=float, default=0.5, help="of the icosphere, in radii of the target"
    )
    parser.add_argument("--cells", nargs="+", default=[cell.name for cell in CELLS], help="names of --list")
    parser.add_argument("--list", action="store_true", help="print the names of the cells and stop")
    parser.add_argument("--size", type=int, default=256, help="pixels along each side")
    parser.add_argument("--steps", type=int, default=2500, help="steps to have done in the end")
    parser.add_argument(
        "--total", type=int, default=2500, help="steps that rate and smoothness are scheduled over"
    )
    parser.add_argument("--save", type=int, default=100, help="steps between two measurements")
    parser.add_argument("--rate", type=float, default=0.003)
    parser.add_argument("--smoothness", type=float, nargs=2, default=[200.0, 2.0], help="weights")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=200_000, help="of the target's surface")
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("apps/results/figure10"))
    settings = parser.parse_args()
    cells = {cell.name: cell for cell in CELLS}
    if settings.list:
        print("\n".join(cells))
        return
    unknown = [name for name in settings.cells if name not in cells]
    if unknown:
        parser.error(f"there is no cell {unknown[0]!r}; --list names them")
    settings.out.mkdir(parents=True, exist_ok=True)
    settings.start = icosphere(settings.subdivisions, settings.start_radius)
    target = target_mesh(settings.mesh, settings.target_faces)
    surface = SurfaceDistance(target, settings.samples)
    try:
        check_alike(settings.out, shared(target, settings))
    except InputError as error:
        parser.error(str(error))
    with Device.open(settings.device) as device:
        for group in side_by_side([cells[name] for name in settings.cells]):
            run(group, target, surface, settings, device)
    pictures(settings.out)
    print(f"results are in '{settings.out}'")


if __name__ == "__main__":
    main()
