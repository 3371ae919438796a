"""Albedo, metallic and roughness maps from six pictures under a known light, and how they look under another one.

    python apps/materials/material_recovery.py --mesh Avocado_512.glb BoomBox_512.glb --out out/material_recovery

The pictures are drawn with the material of a glTF file under an environment map. Then the maps start grey, and 1,200 steps of
``MaterialFit`` make the six pictures look like that. Shape, light and the other maps are known. Twelve other views under
another light judge the result.

Each row of material_recovery.json is one model: PSNR in dB of the training views, and of the held-out views under the new
light, and the mean absolute errors of the maps over the texels that the six views show. material_recovery.png shows
a held-out view under the new light and the maps, true and found.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dressi import Device, DressiAD
from dressi.errors import InputError
from dressi.render import Cameras, DirectionalLight, Environment, Mesh, load_mesh, render, ring
from dressi.render.cameras.views import held_out_ring
from dressi.render.fit import MaterialFit, MaterialOptions
from dressi.render.fit.data.dataset import Observations
from dressi.render.io import load_environment, write_json
from dressi.render.io.files import data_file
from dressi.render.io.images import resize
from dressi.render.mesh.material import Material
from dressi.render.objectives.metrics import psnr
from dressi.render.shading.lights import LightSource
from dressi.render.surface.color import linear_to_srgb

MODELS = ("Avocado", "BoomBox", "BarramundiFish", "Suzanne")
FILTER = "trilinear"
NEW_LIGHT = (
    DirectionalLight((1.0, 0.8, 0.6), (2.4, 2.1, 1.7)),
    DirectionalLight((-1.0, 0.2, 0.5), (0.5, 0.7, 1.1)),
    DirectionalLight((0.1, -0.4, -1.0), 0.8),
)
"""What judges."""
BRIGHTEST = 20.0
"""Radiance of the environment at most: what is brighter is beyond the codes of pictures, and tells nothing."""
GREY = 0.2
"""Linear: the albedo at first, half of the codes of sRGB."""


def grey(mesh: Mesh, found: tuple[str, ...]) -> Mesh:
    """The mesh before the fit: parts that are to be found are grey or flat."""
    known = mesh.material or Material()
    material = replace(known, metallic=0.2, roughness=0.5, metallic_roughness=None)
    if "normal" in found:
        material.normal = None
    return replace(mesh, texture=None, color=(GREY, GREY, GREY), material=material)


def maps(mesh: Mesh, size: int) -> dict[str, np.ndarray]:
    """Albedo (H, W, 3), metallic and roughness (H, W): the maps times their factors. Raises InputError without them."""
    material = mesh.material
    if material is None or mesh.texture is None or material.metallic_roughness is None:
        raise InputError(f"mesh '{mesh.name}' lacks maps of colour, metallic or roughness; take another")
    both = resize(material.metallic_roughness * (material.metallic, material.roughness), (size, size))
    albedo = resize(mesh.texture * mesh.color, (size, size))
    return {"albedo": albedo, "metallic": both[..., 0], "roughness": both[..., 1]}


def seen(mesh: Mesh, cameras: Cameras, size: int) -> np.ndarray:
    """(size, size) bool: texels at the centres of the pixels."""
    picture = render(mesh, cameras, light=None, outputs=("uv", "face"))
    column, row = np.moveaxis(np.floor(picture.uv[picture.face >= 0] * size).astype(int), -1, 0)
    found = np.zeros((size, size), dtype=bool)
    found[row % size, column % size] = True
    return found


def recover(
    mesh: Mesh, light: LightSource, given: argparse.Namespace, device: Device
) -> tuple[Mesh, dict[str, Any]]:
    """The mesh with the material that was found, and how close it is."""
    center, radius = mesh.bounding_sphere()
    cameras = ring(center, radius, given.views, (given.size, given.size))
    target = render(mesh, cameras, light=light, filter=FILTER)
    views = Observations(cameras, np.asarray(target.mask), np.asarray(target.colour))
    parts = ("albedo", "metallic", "roughness", *(("normal",) if given.normal else ()))
    options = MaterialOptions(
        parts, given.steps, given.texture_size, batch=given.batch, smoothness=given.smoothness
    )
    begin, start = time.process_time(), time.perf_counter()
    fit = MaterialFit(grey(mesh, parts), views, options, light, lambda: DressiAD(device))
    found = fit.run().mesh
    spent = time.process_time() - begin, time.perf_counter() - start
    row: dict[str, Any] = {"mesh": mesh.name}
    judges = (
        ("psnr", cameras, light),
        ("psnr new light", held_out_ring(center, radius, cameras.size), list(NEW_LIGHT)),
    )
    for name, others, lights in judges:
        true, drawn = (render(m, others, light=lights, filter=FILTER) for m in (mesh, found))
        row[name] = float(psnr(drawn.colour, true.colour, true.mask))
    counted = seen(mesh, cameras, given.texture_size)
    true, reached = maps(mesh, given.texture_size), maps(found, given.texture_size)
    row |= {f"{name} error": float(np.abs(reached[name] - true[name])[counted].mean()) for name in true}
    row |= {"processor_seconds": spent[0], "seconds": spent[1]}
    return found, row


def panels(mesh: Mesh, found: Mesh, size: int) -> dict[str, np.ndarray]:
    """What the picture shows, in codes, (H, W, 3) each."""
    camera = held_out_ring(*mesh.bounding_sphere(), (512, 512))[1]
    shown: dict[str, np.ndarray] = {}
    for which, one in (("true", mesh), ("found", found)):
        light = render(one, camera, light=list(NEW_LIGHT), filter=FILTER).colour
        shown[f"{which}, new light"] = linear_to_srgb(np.asarray(light))
        for name, image in maps(one, size).items():
            shown[f"{which} {name}"] = (
                linear_to_srgb(image) if image.ndim == 3 else np.repeat(image[..., None], 3, axis=-1)
            )
    return shown


def draw(path: Path, rows: list[dict[str, Any]], shown: list[dict[str, np.ndarray]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    columns = len(shown[0])
    figure = Figure(figsize=(2.4 * columns, 2.6 * len(rows)), layout="constrained")
    for line, (row, images) in enumerate(zip(rows, shown, strict=True)):
        for column, (name, image) in enumerate(images.items()):
            axes = figure.add_subplot(len(rows), columns, line * columns + column + 1)
            axes.imshow(np.clip(image, 0, 1))
            axes.set_title(name if column else f"{row['mesh']}: {name}", fontsize="x-small")
            axes.axis("off")
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--mesh", type=Path, nargs="+", help="glTF files with maps of colour, metallic and roughness"
    )
    parser.add_argument(
        "--environment", type=Path, help="the map of the known light; a sunset of DRESSI_DATA without it"
    )
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--views", type=int, default=6)
    parser.add_argument("--batch", type=int, default=0, help="random views in a step; 0 for all")
    parser.add_argument("--size", type=int, default=256, help="pixels along each side of a view")
    parser.add_argument("--texture-size", type=int, default=512, help="texels along each side of the maps")
    parser.add_argument(
        "--smoothness", type=float, default=1.0, help="factor on the weights of differences of texels"
    )
    parser.add_argument("--normal", action="store_true", help="find the normal map, too")
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/material_recovery"))
    given = parser.parse_args()

    given.out.mkdir(parents=True, exist_ok=True)
    rows, shown = [], []
    names = ("steps", "views", "batch", "size", "texture_size", "smoothness", "normal")
    settings = {name: getattr(given, name) for name in names}
    file = given.environment or data_file("hdri", "venice_sunset_1k.hdr")
    light = Environment(np.minimum(load_environment(file), BRIGHTEST))
    with Device.open(given.device) as device:
        for path in given.mesh or [data_file("meshes", f"{name}_512.glb") for name in MODELS]:
            mesh = load_mesh(path)
            found, row = recover(mesh, light, given, device)
            rows.append(row)
            shown.append(panels(mesh, found, given.texture_size))
            print(
                ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else str(v) for k, v in row.items()),
                flush=True,
            )
            write_json(
                given.out / "material_recovery.json", {"device": device.name, **settings, "models": rows}
            )
    draw(given.out / "material_recovery.png", rows, shown)


if __name__ == "__main__":
    main()
