"""One object under two environment maps, side by side: the pear of the paper's teaser, or a mesh with its own material.

    python apps/materials/relighting.py --out out/relighting
    python apps/materials/relighting.py --mesh BoomBox_512.glb --environment venice.hdr forest.hdr

Behind the object is the map, as the camera sees it. Without --environment two maps of DRESSI_DATA are taken. Exposure is
that of the mean of each map; light is tone-mapped by the ACES fit. Writes relighting.png, and relighting.json with the mean colour
of the object under each light.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from dressi import Device, DressiAD, Variable
from dressi.ad.graph.types import VEC3
from dressi.render import Camera, Environment, Mesh, load_mesh, orbit, primitives, render
from dressi.render.io import load_environment, save_image, write_json
from dressi.render.io.files import data_file
from dressi.render.mesh.material import Material
from dressi.render.shading.tone import aces, exposed

MAPS = ("venice_sunset_1k.hdr", "forest_slope_1k.hdr")


def pear() -> Mesh:
    """The pear with a waxy skin."""
    return replace(primitives.pear(), material=Material(metallic=0.0, roughness=0.35))


def under(
    mesh: Mesh, camera: Camera, light: np.ndarray, stops: float, device: Device
) -> tuple[np.ndarray, np.ndarray]:
    """The picture (H, W, 3) in [0, 1], linear, and the mask (H, W)."""
    sky = Environment(light)
    (width, height), directions = camera.size, camera.rays()[1]
    rays = Variable(VEC3, camera.size, name="rays", data=directions.reshape(1, height, width, 3))
    background = sky.prefiltered().background(rays)
    picture = render(
        mesh, camera, light=sky, background=background, filter="trilinear", form="hard", samples=2
    )
    with DressiAD(device) as ad:
        ad.set_output("picture", aces(exposed(picture.colour, stops)))
        ad.set_output("mask", picture.mask)
        ad.step()
        return np.array(ad.recv("picture")[0]), np.array(ad.recv("mask")[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mesh", type=Path, help="a file; the pear without it")
    parser.add_argument("--environment", type=Path, nargs="+", help="environment maps")
    parser.add_argument("--size", type=int, default=512, help="pixels along each side of a picture")
    parser.add_argument("--azimuth", type=float, default=30.0, help="of the camera, in degrees")
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/relighting"))
    given = parser.parse_args()

    given.out.mkdir(parents=True, exist_ok=True)
    mesh = pear() if given.mesh is None else load_mesh(given.mesh)
    center, radius = mesh.bounding_sphere()
    (camera,) = orbit(center, radius, [given.azimuth], [15.0], (given.size, given.size), distance=3.0)
    pictures, rows = [], []
    with Device.open(given.device) as device:
        for file in given.environment or [data_file("hdri", name) for name in MAPS]:
            light = load_environment(file).astype(np.float64)
            stops = -float(np.log2(2 * light.mean()))
            picture, mask = under(mesh, camera, light, stops, device)
            pictures.append(picture)
            rows.append(
                {"environment": file.stem, "stops": stops, "mean": picture[mask > 0.5].mean(0).tolist()}
            )
    save_image(given.out / "relighting.png", np.concatenate(pictures, axis=1))
    write_json(given.out / "relighting.json", {"mesh": mesh.name, "lights": rows})


if __name__ == "__main__":
    main()
