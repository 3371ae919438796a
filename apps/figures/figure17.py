"""Figure 17 of the paper: an environment map and a roughness are found together from pictures of an object.

    python apps/figures/figure17.py --out out/figure17
    python apps/figures/figure17.py --mesh torus teapot.obj --finish glossy --steps 1000
    python apps/figures/figure17.py --quick

Twenty fixed views show an object of known shape, base colour and metallic. The environment map starts uniformly grey, its range
is kept by a sigmoid, and roughness starts from 0.5; 1,000 steps of Adam find both. As in the paper the light of the true map is clamped.
Each object is glossy (a metal) and matte (a rough dielectric). Matte objects reflect all light of a half space alike, so
their pictures tell little of the map: this fails, as in the paper, and the figure shows it.

Writes figure17.json: for each object and finish the PSNR of the map in dB (its peak is the brightest texel; texels weighted by
their solid angles), roughness, its error, and both along the way; and figure17.png: the true maps and pictures, and those found.
The map of each fit lies beside them as .npy: fits of the same settings that --out holds already are not made again.
Meshes are files, or torus; without --mesh torus, teapot and Suzanne of DRESSI_DATA.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph.types import FLOAT, MAT4, VEC3
from dressi.ad.optim import Clocked, adam, clock, cosine, per_parameter
from dressi.render import Cameras, Environment, Mesh, load_mesh, orbit, primitives, render
from dressi.render.fit.data.learned import ViewBatches
from dressi.render.fit.phases.texture import roughness as squared_steps
from dressi.render.io import load_environment, write_json
from dressi.render.io.files import data_file
from dressi.render.io.images import resize
from dressi.render.objectives.losses import l2
from dressi.render.shading.tone import reinhard
from dressi.render.surface.color import encoded, linear_to_srgb

COLOUR = (0.9, 0.9, 0.9)
"""Linear: base colour of all objects."""
START = 0.5
"""Roughness at first."""


@dataclass(frozen=True)
class Finish:
    metallic: float
    roughness: float


FINISHES = {"glossy": Finish(1.0, 0.15), "matte": Finish(0.0, 0.9)}


def object_of(name: str) -> Mesh:
    """A mesh without its material, in the unit sphere around the origin."""
    mesh = primitives.torus() if name == "torus" else load_mesh(name)
    center, radius = mesh.bounding_sphere()
    return Mesh((mesh.positions - center) / radius, mesh.faces, color=COLOUR, name=mesh.name)


def views_of(count: int, size: int) -> Cameras:
    """Fixed views from above, below and aside."""
    heights = np.resize([10.0, 50.0, -30.0, 25.0, -60.0], count)
    return orbit(np.zeros(3), 1.0, 360 / count * np.arange(count) * 7, heights, (size, size))


class Fit:
    """The graph of an environment map and a roughness."""

    def __init__(
        self, mesh: Mesh, finish: Finish, light: np.ndarray, given: argparse.Namespace, device: Device
    ):
        self.finish, self.true, self.given = finish, light, given
        self.cameras = views_of(given.views, given.size)
        height, width = light.shape[:2]
        grey = np.log(light.mean() / (light.max() - light.mean()))
        logits = Variable(VEC3, (width, height), name="sky", data=np.full((1, height, width, 3), grey))
        self.sky = F.sigmoid(logits) * float(light.max())
        start = np.log(START / (1 - START)).reshape(1, 1, 1)
        rough = Variable(FLOAT, name="roughness", data=start)
        self.roughness = F.sigmoid(rough)
        counter = clock()
        pick = ViewBatches(given.views, min(given.batch, given.views), counter, given.seed)
        matrices = np.asarray(self.cameras.matrices)[:, None, None]
        picture = render(
            mesh,
            pick(Variable(MAT4, (1, 1), given.views, name="cameras", data=matrices)),
            size=self.cameras.size,
            material={"metallic": finish.metallic, "roughness": self.roughness},
            light=Environment(self.sky),
            form="hard",
        )
        codes = linear_to_srgb(tone_mapped(pictures(mesh, finish, self.cameras, light, finish.roughness)))
        goal = pick(Variable(VEC3, picture.size, given.views, name="target", data=codes))
        difference = F.select(F.greater_equal(picture.face, 0), encoded(reinhard(picture.colour)) - goal, 0.0)
        loss = l2(difference, 0.0) + squared_steps(self.sky) * given.smoothness
        paces = {leaf: adam(cosine(given.rate, given.rate / 20, given.steps)) for leaf in (logits, rough)}
        self.ad = DressiAD(device)
        self.ad.set_loss(loss, record=False)
        self.ad.set_optimizer(Clocked(per_parameter(paces), counter), list(paces))
        self.ad.set_output("sky", self.sky)
        self.ad.set_output("roughness", self.roughness)

    def found(self) -> tuple[np.ndarray, float]:
        return self.ad.recv("sky")[0].astype(np.float64), float(self.ad.recv("roughness").item())

    def psnr(self, light: np.ndarray) -> float:
        """Of the map in dB."""
        height = len(light)
        weight = np.sin((np.arange(height) + 0.5) / height * np.pi)[:, None, None]
        error = float(np.mean((light - self.true) ** 2 * weight) / weight.mean())
        return 10 * float(np.log10(self.true.max() ** 2 / max(error, 1e-12)))

    def run(self) -> dict[str, Any]:
        curve, begin = [], time.process_time()
        for start in range(0, self.given.steps, self.given.save):
            self.ad.step(min(self.given.save, self.given.steps - start))
            light, rough = self.found()
            done = min(start + self.given.save, self.given.steps)
            curve.append([done, self.psnr(light), abs(rough - self.finish.roughness)])
        steps = self.given.steps
        return {
            "psnr": curve[-1][1],
            "roughness": self.finish.roughness,
            "roughness error": curve[-1][2],
            "found": self.found()[1],
            "processor_ms_a_step": 1e3 * (time.process_time() - begin) / steps,
            "curve": curve,
        }


def pictures(mesh: Mesh, finish: Finish, cameras: Cameras, light: np.ndarray, rough: float) -> np.ndarray:
    """(N, H, W, 3) linear."""
    material = {"metallic": finish.metallic, "roughness": rough}
    return np.asarray(render(mesh, cameras, material=material, light=Environment(light)).colour)


def tone_mapped(light: np.ndarray) -> np.ndarray:
    return light / (1 + light)


def draw(path: Path, shown: list[tuple[dict[str, Any], list[np.ndarray]]]) -> None:
    from matplotlib.figure import Figure

    titles = ("true map", "found map", "true picture", "found picture")
    figure = Figure(figsize=(12, 2.4 * len(shown)), layout="constrained")
    for line, (row, images) in enumerate(shown):
        for column, (title, image) in enumerate(zip(titles, images, strict=True)):
            axes = figure.add_subplot(len(shown), 4, 4 * line + column + 1)
            axes.imshow(linear_to_srgb(tone_mapped(np.clip(image, 0, None))))
            more = f": {_said(row)}" if column == 1 else f": {title}"
            axes.set_title(f"{row['mesh']}, {row['finish']}{more}", fontsize="x-small")
            axes.axis("off")
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mesh", nargs="+", help="files, or torus")
    parser.add_argument(
        "--environment", type=Path, help="the true map; Potsdamer Platz of DRESSI_DATA without it"
    )
    parser.add_argument("--finish", nargs="+", choices=list(FINISHES), default=list(FINISHES))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save", type=int, default=100, help="steps between two points of the curves")
    parser.add_argument("--views", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4, help="random ones of these views in a step")
    parser.add_argument("--size", type=int, default=128, help="pixels along each side of a view")
    parser.add_argument("--sky", type=int, default=64, help="texels across the map")
    parser.add_argument(
        "--brightest", type=float, default=4.0, help="light of the true map at most, in its means"
    )
    parser.add_argument("--rate", type=float, default=0.05, help="of Adam, at first")
    parser.add_argument("--smoothness", type=float, default=1e-7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a torus and a teapot, 200 steps on 32 texels")
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/figure17"))
    given = parser.parse_args()
    if given.quick:
        parser.set_defaults(steps=200, views=8, batch=2, size=64, sky=32)
        given = parser.parse_args()
    common = ("teapot",) if given.quick else ("teapot", "suzanne")
    meshes = given.mesh or ["torus", *(str(data_file("meshes", "common", f"{name}.obj")) for name in common)]

    given.out.mkdir(parents=True, exist_ok=True)
    source = given.environment or data_file("hdri", "potsdamer_platz_1k.hdr")
    light = resize(load_environment(source).astype(np.float64), (given.sky, given.sky // 2))
    light = np.minimum(light / light.mean(), given.brightest)
    names = ("steps", "views", "batch", "size", "sky", "brightest", "rate", "smoothness", "seed")
    settings = {"environment": source.name, **{name: getattr(given, name) for name in names}}
    path = given.out / "figure17.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    same = record.get("settings") == settings
    rows = {(row["mesh"], row["finish"]): row for row in record["fits"]} if same else {}
    shown: list[tuple[dict[str, Any], list[np.ndarray]]] = []
    with Device.open(given.device) as device:
        for mesh in map(object_of, meshes):
            for finish in given.finish:
                row, sky = rows.get((mesh.name, finish)), given.out / f"{mesh.name}_{finish}.npy"
                if row is None or not sky.is_file():
                    fit = Fit(mesh, FINISHES[finish], light, given, device)
                    with fit.ad:
                        row = {"mesh": mesh.name, "finish": finish, **fit.run()}
                        np.save(sky, fit.found()[0].astype(np.float32))
                    rows[mesh.name, finish] = row
                    write_json(path, {"device": device.name, "settings": settings, "fits": [*rows.values()]})
                found, parts = np.load(sky), (mesh, FINISHES[finish], views_of(given.views, given.size))
                made = [
                    pictures(*parts, *pair)[0] for pair in ((light, row["roughness"]), (found, row["found"]))
                ]
                shown.append((row, [light, found, *made]))
                print(f"{mesh.name}, {finish}: {_said(row)}", flush=True)
    draw(given.out / "figure17.png", shown)


def _said(row: dict[str, Any]) -> str:
    return f"map {row['psnr']:.1f} dB, roughness off by {row['roughness error']:.3f}"


if __name__ == "__main__":
    main()
