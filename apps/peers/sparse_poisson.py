"""Meshes from photographs without cameras: `dressi fit` beside what COLMAP makes of the same pictures without CUDA.

    dressi fit --photos PICTURES --cameras auto --out out/fit
    python apps/peers/sparse_poisson.py --photos PICTURES --fit out/fit --json out/sparse_poisson.json
    python apps/peers/sparse_poisson.py --photos PICTURES --fit out/fit --video out/video   # with the truth of phone_video.py

Needs `pip install dressi[photos]`: pycolmap has COLMAP's cameras, sparse points and Poisson reconstruction. Its dense stereo
needs CUDA, so without it a mesh is made of the sparse points: those that all masks which show them cover, with normals across
their neighbours and towards the cameras that see them, and colours of the pictures that see them. Cameras, masks, size and views
that are held out are those of the fit. Rows: Poisson, a Delaunay alpha shape of the same points, and the fit. Columns: distance to the truth, where
there is one, in percent of its diagonal; IoU and decibels of held-out views; seconds without those of the cameras.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import Delaunay, cKDTree

from dressi import DressiAD
from dressi.render import Cameras, Mesh, load_mesh
from dressi.render.fit import draw
from dressi.render.fit.data.dataset import photo_dataset
from dressi.render.fit.report import score
from dressi.render.io import Photos, load_photos, write_json
from dressi.render.io.calibration import read_calibration
from dressi.render.io.files import read_json
from dressi.render.io.images import read_image
from dressi.render.reconstruct.motion import library

NEIGHBOURS = 12
"""Points that a normal is across."""
COVERED = 0.9
"""Share of the masks that show a point which have to cover it."""
FEWEST = 100
"""Points that a mesh is made of: smooth objects have few, most are on what they stand on."""
LONG = 4.0
"""Longest edge of the tetrahedra of an alpha shape, in medians of the distance of a point's sixth neighbour."""


class Points:
    """Those of the object. positions, normals: (P, 3).  colours: (P, 3) linear."""

    def __init__(self, photos: Photos):
        points = photos.points
        covered, shown = np.zeros(len(points)), np.zeros(len(points))
        colours, seen = np.zeros((len(points), 3)), np.zeros(len(points))
        toward = np.zeros((len(points), 3))
        for k, camera in enumerate(photos.cameras):
            pixel, depth = camera.project(points.positions)
            x, y = np.floor(np.nan_to_num(pixel, nan=-1)).astype(int).T
            there = (depth > 0) & (x >= 0) & (y >= 0) & (x < camera.size[0]) & (y < camera.size[1])
            x, y = np.where(there, x, 0), np.where(there, y, 0)
            shown += there
            covered += there & (photos.masks[k][y, x] >= 0.5)
            own = np.zeros(len(points), bool)
            own[points.seen_by(k)] = True
            own &= there
            colours[own] += photos.images[k][y[own], x[own]]
            seen += own
            away = camera.center - points.positions
            toward[own] += (away / np.linalg.norm(away, axis=1, keepdims=True))[own]
        kept = (covered >= COVERED * shown) & (seen > 0)
        self.positions, self.colours = points.positions[kept], colours[kept] / seen[kept, None]
        if len(self.positions) < FEWEST:
            return
        near = cKDTree(self.positions).query(self.positions, NEIGHBOURS)[1]
        local = self.positions[near] - self.positions[near].mean(1, keepdims=True)
        normals = np.linalg.svd(local, full_matrices=False)[2][:, 2]
        side = np.sign((normals * toward[kept]).sum(1, keepdims=True))
        self.normals = normals * np.where(side == 0, 1, side)

    def coloured(self, positions: np.ndarray, faces: np.ndarray) -> Mesh:
        """A mesh with the colours of the nearest points."""
        distance, near = cKDTree(self.positions).query(positions, 3)
        weight = 1 / np.maximum(distance, 1e-12)
        colours = (self.colours[near] * weight[..., None]).sum(1) / weight.sum(1, keepdims=True)
        return Mesh(positions, faces, colors=colours).clean()


def poisson(points: Points) -> Mesh:
    """By COLMAP's mesher, trimmed as it trims, at a depth that fits so few points."""
    colmap = library()
    codes = np.zeros(len(points.positions), [("p", "<f4", 3), ("n", "<f4", 3), ("c", "u1", 3)])
    codes["p"], codes["n"] = points.positions, points.normals
    codes["c"] = np.clip(255 * points.colours, 0, 255)
    names = [f"property float {name}" for name in ("x", "y", "z", "nx", "ny", "nz")]
    names += [f"property uchar {name}" for name in ("red", "green", "blue")]
    head = [
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {len(codes)}",
        *names,
        "end_header",
        "",
    ]
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "points.ply", Path(folder) / "mesh.ply"
        given.write_bytes("\n".join(head).encode() + codes.tobytes())
        options = colmap.PoissonMeshingOptions(depth=8, trim=0.0)
        colmap.poisson_meshing(given, made, options)
        mesh = load_mesh(made)
    return points.coloured(mesh.positions, mesh.faces)


def alpha_shape(points: Points) -> Mesh:
    """The faces that one tetrahedron with short edges has, of all that Delaunay's triangulation has."""
    positions = points.positions
    cells = Delaunay(positions).simplices
    corners = positions[cells]
    edges = np.linalg.norm(corners[:, :, None] - corners[:, None], axis=-1).max((1, 2))
    sixth = cKDTree(positions).query(positions, 7)[0][:, 6]
    cells = cells[edges < LONG * np.median(sixth)]
    volume = np.einsum(
        "ni,ni->n",
        positions[cells[:, 1]] - positions[cells[:, 0]],
        np.cross(
            positions[cells[:, 2]] - positions[cells[:, 0]], positions[cells[:, 3]] - positions[cells[:, 0]]
        ),
    )
    cells[volume < 0] = cells[volume < 0][:, [0, 1, 3, 2]]
    faces = cells[:, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]].reshape(-1, 3)
    _, first, count = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    return points.coloured(positions, faces[first[count == 1]])


@contextmanager
def timed(row: dict[str, Any]) -> Iterator[None]:
    begin = time.process_time()
    yield
    row["cpu_seconds"] = time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--fit", type=Path, required=True, help="folder of a finished fit of these pictures")
    parser.add_argument("--video", type=Path, help="folder with truth.glb, of phone_video.py")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = read_json(options.fit / "report.json", "report")
    model = options.fit / "cameras" / "sparse" / "0"
    made = options.fit / "masks"

    def mask(view: Any, codes: np.ndarray) -> np.ndarray:
        return read_image(made / f"{view.image.name}.png")[..., 0] > 0.5

    size = tuple(report["views"]["size"])
    photos = load_photos(
        options.photos, size, cameras=model if model.is_dir() else None, masks=mask if made.is_dir() else None
    )
    held_out = photo_dataset(photos).held_out
    assert held_out is not None
    rows: dict[str, dict[str, Any]] = {
        "poisson of sparse points": {},
        "alpha shape of sparse points": {},
        "dressi fit": {},
    }
    points = Points(photos)
    meshes: dict[str, Mesh] = {"dressi fit": load_mesh(options.fit / "result.glb")}
    for name, make in (("poisson of sparse points", poisson), ("alpha shape of sparse points", alpha_shape)):
        if len(points.positions) < FEWEST:
            rows[name]["failed"] = f"{len(points.positions)} sparse points are on the object"
            continue
        with timed(rows[name]):
            meshes[name] = make(points)
    rows["dressi fit"]["seconds"] = report["time"]["total_s"]
    if options.video:
        sys.path.insert(0, str(Path(__file__).parents[1] / "photographs"))
        from phone_video import cameras_of, in_truth, surface_percent

        own = cameras_of(options.fit, options.video)
        views = Cameras([view.camera for view in read_calibration(options.video).views])
    for name, mesh in meshes.items():
        row = rows[name]
        row["faces"] = len(mesh.faces)
        pictures = draw(mesh, held_out.cameras, DressiAD, held_out.samples)
        row["heldout"] = score(held_out, *pictures).as_dict()
        if options.video:
            moved = mesh if own is None else in_truth(mesh, options.video, own)
            row["surface_percent"] = surface_percent(load_mesh(options.video / "truth.glb"), moved, views)
    table = {
        "photographs": options.photos.name,
        "size": list(size),
        "points": len(points.positions),
        "rows": rows,
    }
    for name, row in rows.items():
        if "failed" in row:
            print(f"{name}: no mesh, {row['failed']}")
            continue
        scores = {k: row["heldout"][k] for k in ("iou", "psnr", "inside")}
        spent = row.get("seconds", row.get("cpu_seconds"))
        distance = row.get("surface_percent", {}).get("mean")
        print(f"{name}: {distance and round(distance, 3)} %, {scores}, {spent:.1f} s, {row['faces']} faces")
    if options.json:
        write_json(options.json, table)


if __name__ == "__main__":
    main()
