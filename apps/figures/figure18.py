"""Figure 18 of the paper: the normal maps of a fish and of a boom box are found from pictures.

    python apps/figures/figure18.py --mesh BoomBox_512.glb BarramundiFish_512.glb --out out/figure18

The shape, the other maps of the material and the light are known. The normal map starts flat, (0, 0, 1), and every step
compares pictures by it with pictures by the true map: random views, each under an environment map that is turned at random,
both drawn by the same graph. The loss is the mean length of the difference of sRGB codes of tone-mapped light. Texels are slopes (x / z, y / z), so every value is a normal.

The measure is equation 7, the cosine dissimilarity: the mean of 1 - cos between found and true normals over the texels of
the charts whose true normal deviates from (0, 0, 1) by more than --flat degrees. "seen" counts those of them alone that
one of the views shows. Writes figure18.json (the curves, with the measure of the flat map) and figure18.png: true and found normal maps, pictures by
the true, the flat and the found map, and the curves. Without --mesh both models of DRESSI_DATA are taken.
"""

import argparse
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph.types import MAT3, MAT4, VEC2, VEC3
from dressi.ad.optim import Clocked, adam, clock, cosine
from dressi.errors import InputError
from dressi.render import Camera, Cameras, Environment, Mesh, load_mesh, orbit, render
from dressi.render.drawing.point import SurfacePoint
from dressi.render.fit.data.learned import ViewBatches
from dressi.render.fit.data.textures import charted
from dressi.render.fit.phases.texture import roughness
from dressi.render.io import load_environment, write_json
from dressi.render.io.files import data_file
from dressi.render.io.images import resize
from dressi.render.objectives.losses import charbonnier
from dressi.render.shading.tone import reinhard
from dressi.render.surface.color import encoded, linear_to_srgb

MODELS = ("BoomBox", "BarramundiFish")
MAP = (128, 64)
"""Texels of the environment map."""
ROUND = 0.02
"""Differences of codes below count by their squares, so that the loss has a derivative where pictures agree."""
NEAR, FAR = 1.6, 2.7
"""Distances of the cameras from the centre, in radii of the object."""


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Views:
    """Random views of an object, and how the light is turned in each: data."""

    cameras: Cameras
    turns: np.ndarray
    """(N, 3, 3): rotations from the environment map to the world."""

    @classmethod
    def around(cls, mesh: Mesh, count: int, size: int, seed: int) -> "Views":
        random = np.random.default_rng(seed)
        center, radius = mesh.bounding_sphere()
        towards = unit(random.normal(size=(count, 3)))
        distances = radius * random.uniform(NEAR, FAR, size=(count, 1))
        # Near cameras look beside the centre, so that the whole surface is seen from nearby.
        aside = (
            radius * random.uniform(-0.5, 0.5, size=(count, 3)) * (FAR - distances / radius) / (FAR - NEAR)
        )
        cameras = []
        for eye, target, up in zip(
            center + aside + towards * distances, center + aside, random.normal(size=(count, 3)), strict=True
        ):
            cameras.append(Camera.perspective(45.0, (size, size), eye, target, up=up).around(center, radius))
        return cls(
            Cameras(cameras),
            Rotation.from_quat(np.random.RandomState(seed).normal(size=(count, 4))).as_matrix(),
        )


class Fit:
    """The graph of a normal map."""

    def __init__(self, mesh: Mesh, light: np.ndarray, given: argparse.Namespace, device: Device):
        material = mesh.material
        if material is None or material.normal is None:
            raise InputError(f"mesh '{mesh.name}' has no normal map to find; give one that has")
        self.mesh, self.light, self.given = mesh, light, given
        self.truth = unit(np.where(material.normal[..., 2:] > 0, material.normal, (0.0, 0.0, 1.0)))
        height, width = self.truth.shape[:2]
        flat = np.zeros((1, height, width, 2))
        self.slopes = Variable(VEC2, (width, height), name="slopes", data=flat)
        self.normal = F.normalize(F.vec3(self.slopes, 1.0))
        true = Variable(VEC3, (width, height), name="true normals", data=self.truth[None])
        self.views = Views.around(mesh, given.views, given.size, given.seed)
        counter = clock()
        pick = ViewBatches(given.views, given.batch, counter, given.seed)
        matrices = pick(per_view("cameras", MAT4, self.views.cameras.matrices))
        sky = Environment(light, rotation=pick(per_view("turns", MAT3, self.views.turns)))
        picture = render(
            mesh,
            matrices,
            size=(given.size, given.size),
            material={"normal": self.normal},
            light=sky,
            form="hard",
            filter="trilinear",
        )
        # Both pictures share everything but the normals.
        goal = picture.blend(lambda point: with_normals(point, true).lit())
        loss = (
            charbonnier(shown(picture.colour), shown(goal), scale=ROUND) / ROUND
            + roughness(self.slopes) * given.smoothness
        )
        self.ad = DressiAD(device)
        self.ad.set_loss(loss, record=False)
        rate = cosine(given.rate, given.rate / 50, given.steps)
        self.ad.set_optimizer(Clocked(adam(rate, betas=(0.9, 0.99)), counter), [self.slopes])
        self.ad.set_output("normal", self.normal)

    def normals(self) -> np.ndarray:
        """(H, W, 3)."""
        slopes = self.ad.recv(self.slopes)[0].astype(np.float64)
        return unit(np.concatenate([slopes, np.ones_like(slopes[..., :1])], axis=-1))

    @cached_property
    def uneven(self) -> np.ndarray:
        """(H, W) bool: texels of the charts that are not flat."""
        height, width = self.truth.shape[:2]
        steep = self.truth[..., 2] < np.cos(np.radians(self.given.flat))
        return steep & charted(self.mesh, (width, height))

    @cached_property
    def seen(self) -> np.ndarray:
        """(H, W) bool: texels that bilinear filtering reads in one of the views."""
        found = np.zeros(self.truth.shape[:2], dtype=bool)
        size = np.array(found.shape[::-1])
        for start in range(0, len(self.views.cameras), 16):
            cameras = Cameras(list(self.views.cameras)[start : start + 16])
            picture = render(self.mesh, cameras, light=None, outputs=("uv", "face"))
            corner = np.floor(picture.uv[picture.face >= 0] * size - 0.5).astype(int)
            for step in ((0, 0), (1, 0), (0, 1), (1, 1)):
                column, row = np.moveaxis((corner + step) % size, -1, 0)
                found[row, column] = True
        return found

    def dissimilarity(self, normals: np.ndarray, counted: np.ndarray) -> float:
        """Equation 7 over the texels that count."""
        return float(np.mean(1 - np.sum(normals * self.truth, axis=-1)[counted]))

    def run(self) -> dict[str, Any]:
        flat = np.broadcast_to((0.0, 0.0, 1.0), self.truth.shape)
        curve = [[0, self.dissimilarity(flat, self.uneven)]]
        begin = time.process_time()
        for start in range(0, self.given.steps, self.given.save):
            self.ad.step(min(self.given.save, self.given.steps - start))
            done = min(start + self.given.save, self.given.steps)
            curve.append([done, self.dissimilarity(self.normals(), self.uneven)])
            print(f"{self.mesh.name}: step {done}, dissimilarity {curve[-1][1]:.4f}", flush=True)
        seconds = time.process_time() - begin
        both = self.uneven & self.seen
        return {
            "mesh": self.mesh.name,
            "texels": int(self.uneven.sum()),
            "flat": curve[0][1],
            "found": curve[-1][1],
            "seen": {
                "texels": int(both.sum()),
                "flat": self.dissimilarity(flat, both),
                "found": self.dissimilarity(self.normals(), both),
            },
            "processor_ms_a_step": 1e3 * seconds / self.given.steps,
            "curve": curve,
        }

    def pictures(self) -> dict[str, np.ndarray]:
        """sRGB pictures by the true, the flat and the found map, (H, W, 3), and the maps as codes."""
        size = self.given.size
        center, radius = self.mesh.bounding_sphere()
        (camera,) = orbit(center, radius, [35.0], [20.0], (size, size), distance=2.2)
        flat = np.broadcast_to((0.0, 0.0, 1.0), self.truth.shape)
        found: dict[str, np.ndarray] = {}
        for name, normal in (("true", self.truth), ("flat", flat), ("found", self.normals())):
            found[f"{name} normals"] = 0.5 + 0.5 * normal
            assert self.mesh.material is not None
            by_map = replace(self.mesh, material=replace(self.mesh.material, normal=normal))
            light = np.asarray(
                render(by_map, camera, light=Environment(self.light), filter="trilinear").colour
            )
            found[name] = linear_to_srgb(light / (1 + light))
        return found


def with_normals(point: SurfacePoint, normals: Variable) -> SurfacePoint:
    """The same surface with another normal map."""
    parts = {**point.look.parts, "normal": normals}
    return SurfacePoint(replace(point.look, parts=parts), point.surface)


def shown(light: Variable) -> Variable:
    """sRGB codes of light, tone-mapped so that highlights do not outweigh the rest."""
    return encoded(reinhard(light))


def per_view(name: str, vtype: Any, values: np.ndarray) -> Variable:
    """A leaf of one value a view."""
    return Variable(vtype, (1, 1), len(values), name=name, data=values[:, None, None])


def draw(path: Path, results: list[dict[str, Any]], pictures: list[dict[str, np.ndarray]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    names = ("true normals", "found normals", "true", "flat", "found")
    rows = len(results)
    figure = Figure(figsize=(3 * len(names), 3.2 * rows + 3), layout="constrained")
    grid = figure.add_gridspec(rows + 1, len(names))
    for row, (result, shown) in enumerate(zip(results, pictures, strict=True)):
        for column, name in enumerate(names):
            axes = figure.add_subplot(grid[row, column])
            axes.imshow(np.clip(shown[name], 0, 1))
            axes.set_title(f"{result['mesh']}: {name}", fontsize="small")
            axes.axis("off")
    axes = figure.add_subplot(grid[rows, :])
    for result in results:
        axes.plot(*np.transpose(result["curve"]), label=result["mesh"])
    axes.axhline(0.02, color="gray", linestyle=":", linewidth=1)
    axes.set(xlabel="step", ylabel="cosine dissimilarity", ylim=(0, None))
    axes.legend()
    figure.savefig(path, dpi=100)


def environment(file: Path | None) -> np.ndarray:
    """(H, W, 3): a small map of mean 1 whose sources are at most 20 times as bright: highlights of finer and brighter ones
    have gradients in few texels only."""
    light = load_environment(data_file("hdri", "venice_sunset_1k.hdr") if file is None else file)
    light = resize(np.minimum(light, 20 * light.mean()), MAP)
    return light / light.mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mesh", type=Path, nargs="+", help="glTF files with normal maps")
    parser.add_argument(
        "--environment", type=Path, help="the map of the light; a sunset of DRESSI_DATA without it"
    )
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--save", type=int, default=50, help="steps between two points of the curve")
    parser.add_argument("--size", type=int, default=256, help="pixels along each side of a view")
    parser.add_argument("--views", type=int, default=512, help="random views in all")
    parser.add_argument("--batch", type=int, default=2, help="views in a step")
    parser.add_argument("--rate", type=float, default=0.03, help="of Adam, at first")
    parser.add_argument("--smoothness", type=float, default=3e-7)
    parser.add_argument(
        "--flat", type=float, default=5.0, help="degrees: texels that deviate less do not count"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/figure18"))
    given = parser.parse_args()

    given.out.mkdir(parents=True, exist_ok=True)
    results, pictures = [], []
    with Device.open(given.device) as device:
        for path in given.mesh or [data_file("meshes", f"{name}_512.glb") for name in MODELS]:
            fit = Fit(load_mesh(path), environment(given.environment), given, device)
            try:
                results.append(fit.run())
                pictures.append(fit.pictures())
            finally:
                fit.ad.close()
        settings = {
            name: getattr(given, name)
            for name in ("steps", "size", "views", "batch", "rate", "smoothness", "flat", "seed")
        }
        write_json(given.out / "figure18.json", {"device": device.name, **settings, "models": results})
    draw(given.out / "figure18.png", results, pictures)


if __name__ == "__main__":
    main()
