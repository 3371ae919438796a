"""The same photographs through `dressi fit` and through what others make of them without CUDA, judged alike.

    pip install pycolmap open3d
    python apps/photographs/photogrammetry.py DRESSI_DATA/photos/dino DRESSI_DATA/photos/dtu24 --json out/photogrammetry.json
    python apps/photographs/photogrammetry.py DRESSI_DATA/photos/dino --quick --fits out/fits   # has a fit in out/fits/dino

All see the same cameras and masks, and nothing sees the pictures that judge. Rows: the visual hull of the masks; COLMAP's
sparse points and its Poisson reconstruction; depths of this project's plane sweep, fused by Open3D's screened Poisson
reconstruction and by its TSDF; the fit with its texture alone, which is result.glb, and with its colours by direction. Meshes of
others have a colour a vertex: the mean of the pictures that see it, weighted by the cosine. All are drawn by the same rasterizer.
Columns: IoU, decibels of the pictures that judge (``plain``), with a gain for each picture and channel (``exposed``), the same
inside of both masks (``inside``), and processor seconds. COLMAP's own dense stereo, gsplat and nvdiffrec need CUDA: what the first
one says is kept, the others are not run.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dressi import DressiAD
from dressi.errors import InputError
from dressi.render import Mesh, load_mesh
from dressi.render.cameras.pose import unit_cameras
from dressi.render.drawing.point import Shader
from dressi.render.fit import Dataset, DirectionalColour, FitOptions, draw
from dressi.render.fit.data.dataset import photo_dataset
from dressi.render.fit.data.seen import seen_values, seen_weights
from dressi.render.fit.report import score
from dressi.render.fit.start.choice import hull_of
from dressi.render.fit.start.stereo import depth_maps
from dressi.render.formats import load_scene
from dressi.render.io import load_photos, write_json
from dressi.render.io.calibration import Calibration, read_calibration
from dressi.render.reconstruct.motion import triangulate

sys.path[:0] = [str(Path(__file__).parents[1] / "peers"), str(Path(__file__).parent)]
from held_out import fitted  # noqa: E402
from sparse_poisson import FEWEST, Points, poisson  # noqa: E402

WIDE, QUICK = 320, 160
"""Columns of the pictures, as `dressi fit` has them."""
FACES = 60_000
"""Of the hull: colours of vertices need them."""
CELLS, AROUND = 200, 1.05
"""Along each side of the TSDF, which reaches so many radii of the scene from its middle."""
TRUNCATED = 4.0
"""Cells from the surface, up to which distances are fused."""
SPARSE = 0.02
"""Share of the vertices of a Poisson reconstruction, those with the fewest points, that are cut off, as Open3D's guide does."""
NEEDS = {
    "visual hull": "masks, cameras",
    "COLMAP's sparse points, Poisson": "cameras; pycolmap",
    "depths, screened Poisson": "masks, cameras; open3d",
    "depths, TSDF": "masks, cameras; open3d",
    "dressi fit, texture alone": "masks, cameras",
    "dressi fit": "masks, cameras",
    "COLMAP's dense stereo": "cameras; CUDA",
    "gsplat": "cameras; CUDA",
    "nvdiffrec": "masks, cameras; CUDA",
}


def coloured(mesh: Mesh, dataset: Dataset) -> Mesh:
    """The mesh with the mean of the pictures that see a vertex, linear; grey where none does."""
    train = dataset.train
    bare = Mesh(mesh.positions, mesh.faces)
    weights = seen_weights(bare, train, DressiAD)
    total = np.einsum("nv,nvc->vc", weights, seen_values(bare, train, weights, train.colors))
    sums = weights.sum(0)[:, None]
    colours = np.where(sums > 0, total / np.maximum(sums, 1e-12), 0.2)
    return replace(bare, colors=colours, color_faces=bare.faces)


def hull(dataset: Dataset, calibration: Calibration) -> Mesh:
    found = hull_of(dataset, FitOptions(start="hull"))
    assert found is not None
    return dataset.to_world(found.mesh(FACES))


def sparse(dataset: Dataset, calibration: Calibration) -> Mesh:
    train = dataset.train
    points = triangulate(calibration)
    shown = SimpleNamespace(
        points=points, cameras=train.cameras.cameras, masks=train.masks, images=train.colors
    )
    kept: Any = Points(shown)  # type: ignore[arg-type]
    if len(kept.positions) < FEWEST:
        raise InputError(f"{len(kept.positions)} of {len(points)} sparse points are on the object")
    return poisson(kept)


class Depths:
    """Depths of the plane sweep, where several pictures agree, as clouds and images of Open3D, in units of the scene."""

    def __init__(self, dataset: Dataset):
        import open3d

        self.open3d, self.dataset = open3d, dataset
        found = hull_of(dataset, FitOptions(start="hull"))
        assert found is not None
        begin = time.process_time()
        cameras = unit_cameras(dataset.train.cameras, dataset.center, dataset.radius)
        self.views, self.maps = depth_maps(cameras, dataset.train, found, DressiAD)
        self.seconds = time.process_time() - begin

    def _mesh(self, found: Any) -> Mesh:
        found.remove_degenerate_triangles()
        found.remove_unreferenced_vertices()
        positions, faces = np.asarray(found.vertices), np.asarray(found.triangles)
        if not len(faces):
            raise InputError("the depths give no surface")
        return self.dataset.to_world(Mesh(positions, faces).clean())

    def poisson(self, dataset: Dataset, calibration: Calibration) -> Mesh:
        open3d, views = self.open3d, self.views
        whole = open3d.geometry.PointCloud()
        for k, one in self.maps.items():
            points = views.centres[k] + views.rays(k)[one.sure] * one.depth[one.sure][:, None]
            cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(points))
            cloud.estimate_normals()
            cloud.orient_normals_towards_camera_location(views.centres[k])
            whole += cloud
        found, density = open3d.geometry.TriangleMesh.create_from_point_cloud_poisson(whole, depth=8)
        found.remove_vertices_by_mask(np.asarray(density) < np.quantile(density, SPARSE))
        return self._mesh(found)

    def tsdf(self, dataset: Dataset, calibration: Calibration) -> Mesh:
        open3d, views, cell = self.open3d, self.views, 2 * AROUND / CELLS
        fusion = open3d.pipelines.integration
        # The scalable volume of Open3D 0.20 extracts nothing.
        volume = fusion.UniformTSDFVolume(
            CELLS * cell,
            CELLS,
            TRUNCATED * cell,
            fusion.TSDFVolumeColorType.NoColor,
            np.full((3, 1), -AROUND),
        )
        width, height = views.crop
        for k, one in self.maps.items():
            k_inner, place = views.inner(k), np.eye(4)
            # Whole numbers are centres of pixels there, and corners here.
            middle = k_inner[0, 2] - 0.5, k_inner[1, 2] - 0.5
            lens = open3d.camera.PinholeCameraIntrinsic(width, height, k_inner[0, 0], k_inner[1, 1], *middle)
            place[:3, :3], place[:3, 3] = views.R[k], views.t[k]
            depth = open3d.geometry.Image(np.where(one.sure, one.depth, 0).astype(np.float32))
            grey = open3d.geometry.Image(np.zeros((height, width, 3), np.uint8))
            picture = open3d.geometry.RGBDImage.create_from_color_and_depth(
                grey, depth, depth_scale=1.0, depth_trunc=1e3, convert_rgb_to_intensity=False
            )
            volume.integrate(picture, lens, place)
        return self._mesh(volume.extract_triangle_mesh())


def dense_stereo() -> str:
    """What COLMAP says when its dense stereo is asked for."""
    try:
        import pycolmap
    except ImportError:
        return "not asked: pip install pycolmap"
    if pycolmap.has_cuda:
        return "not run: this program compares what needs no CUDA"
    with tempfile.TemporaryDirectory() as folder:
        try:
            pycolmap.patch_match_stereo(folder)
        except Exception as error:  # its own class of exceptions
            return str(error).strip().splitlines()[-1]
    return "nothing: it ended without a word"


def measured(folder: Path, given: argparse.Namespace, temporary: Path) -> dict[str, Any]:
    """The rows of a folder of photographs."""
    out = (given.fits or temporary) / folder.name
    spent = {} if (out / "report.json").is_file() else fitted(folder, out, ["--quick"] * given.quick)
    photos = load_photos(folder, widest=QUICK if given.quick else WIDE)
    dataset = photo_dataset(photos)
    other, calibration = dataset.held_out, read_calibration(folder)
    assert other is not None
    seen = replace(calibration, views=[calibration.views[k] for k in photos.train])

    def judged(mesh: Mesh, shader: Shader | None = None) -> dict[str, Any]:
        found = score(other, *draw(mesh, other.cameras, DressiAD, other.samples, shader=shader)).as_dict()
        names = {"iou": "iou", "plain": "plain", "exposed": "exposed", "inside": "exposed_inside"}
        return {**{name: found[key] for name, key in names.items()}, "faces": len(mesh.faces)}

    rows: dict[str, dict[str, Any]] = {}
    depths: Depths | None = None
    ways: dict[str, Callable[[Dataset, Calibration], Mesh]] = {
        "visual hull": hull,
        "COLMAP's sparse points, Poisson": sparse,
    }
    try:
        depths = Depths(dataset)
        ways |= {"depths, screened Poisson": depths.poisson, "depths, TSDF": depths.tsdf}
    except ImportError as error:
        rows["depths"] = {"failed": f"not fused ({error}): pip install open3d"}
    for name, make in ways.items():
        begin = time.process_time()
        try:
            mesh = coloured(make(dataset, seen), dataset)
        except InputError as error:
            rows[name] = {"failed": str(error)}
            continue
        own = depths.seconds if depths is not None and name.startswith("depths") else 0.0
        rows[name] = {"cpu_s": time.process_time() - begin + own}
        rows[name] |= judged(mesh)
    ours = {key: spent[key] for key in ("cpu_s",) if key in spent}
    result, scene = load_mesh(out / "result.glb"), load_scene(out / "result.glb")
    rows["dressi fit, texture alone"] = {**ours, **judged(result)}
    colour = DirectionalColour.beside(out / "result.glb", scene)
    rows["dressi fit"] = {**ours, **judged(result, None if colour is None else colour.shader(result))}
    rows["COLMAP's dense stereo"] = {"failed": dense_stereo()}
    for name in ("gsplat", "nvdiffrec"):
        rows[name] = {"failed": "not run: needs CUDA"}
    return {name: {"needs": NEEDS[name], **row} for name, row in rows.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", help="folders with photographs and cameras.json")
    parser.add_argument("--quick", action="store_true", help="small pictures, as `dressi fit --quick`")
    parser.add_argument("--fits", type=Path, help="folder of fits by name; those that are missing are made")
    parser.add_argument("--json", type=Path)
    given, table = parser.parse_args(), {}
    with tempfile.TemporaryDirectory() as temporary:
        for folder in given.folders:
            table[folder.name] = measured(folder, given, Path(temporary))
            for name, row in table[folder.name].items():
                shown = {k: round(v, 3) for k, v in row.items() if isinstance(v, float)}
                print(f"{folder.name}, {name}: {row.get('failed', shown)}", flush=True)
    if given.json is not None:
        write_json(given.json, table)


if __name__ == "__main__":
    main()
