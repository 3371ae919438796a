"""Figure 6 of the paper: one formula from antialiasing to SoftRas, on a bunny of about 5,000 faces.

    python apps/figures/figure6.py --mesh stanford-bunny.obj --out out/figure6

Panels: the modes "aa", "default" and "softras" of the face form (a to c), and the estimators beside it, "edges" (what
nvdiffrast does, d) and "outer" with the default radius. Lambert shading on white, and below each the absolute difference
to the hard picture. Without --mesh the bunny of DRESSI_DATA is taken, else an ellipsoid. Writes
figure6.png, and figure6.json with the share of pixels that each panel changes, and by how much at most.
"""

import argparse
from pathlib import Path

import numpy as np

from dressi import Device, DressiAD, F
from dressi.ad.graph.types import IVEC3, VEC3
from dressi.config import config
from dressi.render.cameras import Camera
from dressi.render.cameras.pose import matrices_leaf
from dressi.render.core.lists import list_leaf
from dressi.render.formats import load_mesh
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.io import write_json
from dressi.render.mesh.primitives import bumpy_ellipsoid
from dressi.render.mesh.remesh.remesh import decimate
from dressi.render.shading.lights import lambert
from dressi.render.surface.color import linear_to_srgb
from dressi.render.surface.projection import to_clip
from dressi.render.surface.screen import covered

PANELS = {
    "(a) mode aa": {"mode": "aa"},
    "(b) mode default": {"mode": "default"},
    "(c) mode softras": {"mode": "softras"},
    "(d) edges": {"form": "edges"},
    "outer": {"form": "outer", "radius": 0.01},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mesh", type=Path)
    parser.add_argument(
        "--faces", type=int, default=5000, help="decimated to so many; all of a mesh that has fewer"
    )
    parser.add_argument("--size", type=int, default=512, help="pixels along each side of a panel")
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/figure6"))
    settings = parser.parse_args()
    settings.out.mkdir(parents=True, exist_ok=True)
    bunny = Path(config.data or "../shared/data") / "meshes" / "common" / "stanford-bunny.obj"
    file = settings.mesh or (bunny if bunny.exists() else None)
    mesh = decimate(bumpy_ellipsoid(4) if file is None else load_mesh(file), settings.faces)
    center, radius = mesh.bounding_sphere()
    size, eye = (settings.size, settings.size), center + 2.7 * radius * np.array((0.3, 0.25, 0.92))
    camera = Camera.perspective(42.0, size, eye, center).around(center, radius)
    position, faces = list_leaf("position", VEC3, mesh.positions), list_leaf("faces", IVEC3, mesh.faces)
    normals = list_leaf("normals", VEC3, mesh.vertex_normals())
    clip, white = to_clip(position, matrices_leaf(camera.world_to_clip[None])), (1.0, 1.0, 1.0)
    towards = (0.5, 0.7, 0.6)
    pictures: dict[str, np.ndarray] = {}
    with Device.open(settings.device) as device:
        for name, options in PANELS.items():
            drawn = hard_soft_ras(clip, faces, size=size, face_count=len(mesh.faces), **options)
            shown = [
                lambert(F.constant((0.7, 0.62, 0.5)), s.interpolate(normals), towards, 0.9, 0.15)
                for s in drawn.surfaces
            ]
            with DressiAD(device) as ad:
                ad.set_output("picture", drawn.blend(shown, white))
                if not pictures:
                    ad.set_output("hard", F.select(covered(drawn.mesh.face), shown[0], white))
                ad.step()
                if not pictures:
                    pictures["hard"] = ad.recv("hard")[0]
                pictures[name] = ad.recv("picture")[0]
    hard = linear_to_srgb(pictures.pop("hard"))
    figures, columns = {"faces": len(mesh.faces), "size": settings.size}, {}
    for name, picture in pictures.items():
        codes = linear_to_srgb(picture)
        difference = np.abs(codes - hard).max(-1)
        changed = float(np.mean(difference > 1 / 255))
        figures[name] = {"changed": changed, "most": float(difference.max())}
        columns[name] = (codes, np.repeat(1 - difference[..., None], 3, -1))
        print(f"{name}: {100 * changed:.2f} % of the pixels differ from the hard picture")
    write_json(settings.out / "figure6.json", figures)
    draw(settings.out / "figure6.png", columns)


def draw(file: Path, columns: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(columns), figsize=(3 * len(columns), 6.2), dpi=100)
    for (name, images), column in zip(columns.items(), axes.T, strict=True):
        for image, panel in zip(images, column, strict=True):
            panel.imshow(image, vmin=0, vmax=1)
            panel.set_axis_off()
        column[0].set_title(name, fontsize=9)
    figure.tight_layout()
    figure.savefig(file)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
