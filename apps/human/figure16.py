"""Figure 16 of the paper: parameters of hair are found from one picture.

    python apps/human/figure16.py --json apps/results/figure16.json --out apps/results/figure16
    python apps/human/figure16.py --quick

Melanin, redness, longitudinal and azimuthal roughness and the index of refraction of strands (DRESSI_DATA/hair) under two lights,
with shadows and light that strands send to each other. Camera, strands and lights are known; all strands share the parameters.
The target is drawn with tables of twice the resolution of those that the fit uses. Five starts; Levenberg-Marquardt in
angles whose sines are the places of parameters in their ranges (the paper: melanin and roughness from 0 to 1, index from 1 to 2).

Writes initial.png, found.png and target.png of the start that is farthest from the target, and hessian.png: J^T J of the picture at the target, how well each
parameter is known when pixels have a noise of 1 %, and the directions that change the picture least.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph.types import FLOAT, VEC3
from dressi.ad.least_squares import LevenbergMarquardt
from dressi.ad.transform.gradient import jvp
from dressi.render import (
    Camera,
    DirectionalLight,
    HairBsdf,
    StrandGeometry,
    draw_strands,
    load_strands,
)
from dressi.render.io import write_json
from dressi.render.io.files import data_file, write_files
from dressi.render.io.images import encode_png
from dressi.render.shading.bsdf.hair import Directions, FarHair
from dressi.render.strands.marschner import StrandOpacity
from dressi.render.strands.ribbons import StrandShader
from dressi.render.surface.color import linear_to_srgb

TRUE = {"melanin": 0.62, "redness": 0.45, "longitudinal": 0.32, "azimuthal": 0.38, "ior": 1.55}
RANGES = {"melanin": (0.0, 1.0), "redness": (0.0, 1.0), "longitudinal": (0.05, 1.0), "azimuthal": (0.05, 1.0), "ior": (1.0, 2.0)}  # fmt: skip
BARS = {"melanin": 0.02, "redness": 0.05, "longitudinal": 0.03, "azimuthal": 0.03, "ior": 0.02}
LIGHTS = [
    DirectionalLight((1.2, 0.8, 0.5), (5.0, 4.8, 4.5)),
    DirectionalLight((-1.0, 0.5, -0.6), (4.5, 5.0, 6.0)),
]
BACKGROUND = (0.03, 0.03, 0.04)
LAYERS = 4
"""Of strands in a pixel, the nearest first."""
NOISE = 0.01


@dataclass
class Bundle:
    """What is known of the strands that each pixel shows, from the first on: one tile for each layer and each light."""

    tangent: np.ndarray
    """(T, H, W, 3)."""
    to_eye: np.ndarray
    to_light: np.ndarray
    """(T, 1, 1, 3)."""
    irradiance: np.ndarray
    crossed: np.ndarray
    """(T, H, W): how many strands the light has met."""
    weight: np.ndarray
    """(T, H, W): how much of the pixel the layer covers."""
    mask: np.ndarray
    """(1, H, W)."""

    @classmethod
    def of(cls, device: Device | None, size: int, every: int) -> "Bundle":
        """Rasterized once: neither the strands nor the camera change."""
        whole = load_strands(data_file("hair/Ratboy_mohawk.tfx"))
        low, high = whole.bounds()
        radius = float(np.linalg.norm(high - low)) / 2
        some = whole.taken(np.arange(0, whole.strands, every))
        strands = StrandGeometry(some.points, some.offsets, 0.0028 * radius * every**0.5)
        centre = (low + high) / 2
        camera = Camera.perspective(
            20,
            (size, size),
            centre + radius * np.array([3.6, 0.9, 1.0]),
            centre + radius * np.array([0, -0.02, 0.0]),
        )

        def layer(shader: StrandShader, count: int) -> Variable:
            return draw_strands(strands, camera, shader=shader, layers=count).colour

        opacities = [StrandOpacity.of(strands, light.direction, 256) for light in LIGHTS]
        looks: list[StrandShader] = [
            lambda p: p.tangent,
            lambda p: p.to_eye,
            lambda p: F.vec3(opacities[0].crossed(p.point), opacities[1].crossed(p.point), 1.0),
        ]
        with DressiAD(device) as ad:
            sums = [
                np.array([ad.evaluate([layer(look, n)])[0][0] for n in range(1, LAYERS + 1)])
                for look in looks
            ]
        # Layers are what each adds to those before it.
        each = [np.diff(x, axis=0, prepend=0) for x in sums]
        weight = each[2][..., 2]
        there = np.maximum(weight, 1e-6)[..., None]
        tangent, to_eye = (x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-9) for x in each[:2])
        directions = np.array([light.direction for light in LIGHTS], float)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        colours = np.array([light.colour for light in LIGHTS], float)
        lights = len(LIGHTS)
        return cls(
            np.repeat(tangent, lights, axis=0),
            np.repeat(to_eye, lights, axis=0),
            np.tile(directions, (LAYERS, 1))[:, None, None],
            np.tile(colours, (LAYERS, 1))[:, None, None],
            np.moveaxis((each[2] / there)[..., :lights], -1, 1).reshape(-1, size, size),
            np.repeat(weight, lights, axis=0),
            weight.sum(0)[None],
        )

    def picture(self, far: FarHair) -> Variable:
        """VEC3: the strands over the background."""

        def leaf(name: str) -> Variable:
            data = getattr(self, name)
            vtype = FLOAT if data.ndim == 3 else VEC3
            return Variable(vtype, data.shape[2:0:-1], len(data), name=name, data=data)

        at = Directions.of(leaf("tangent"), leaf("to_light"), leaf("to_eye"))
        seen = far.among_others(at, leaf("crossed")) * leaf("irradiance") * leaf("weight")
        return F.sum(seen, "n") + F.constant(BACKGROUND) * (1.0 - leaf("mask"))


def angle(name: str, value: float) -> float:
    """Whose sine is the place of a value in its range, which is -1 to 1 there: a fit may touch an end and come back."""
    low, high = RANGES[name]
    return float(np.arcsin(2 * (value - low) / (high - low) - 1))


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    """Of sRGB codes, in dB."""
    return float(-10 * np.log10(np.mean((linear_to_srgb(one) - linear_to_srgb(other)) ** 2)))


def starts(count: int, seed: int) -> list[dict[str, float]]:
    """Spread over the middle 80 % of the ranges."""
    rng = np.random.default_rng(seed)
    order = {name: rng.permutation(count) for name in RANGES}
    found = []
    for k in range(count):
        share = {name: 0.1 + 0.8 * (order[name][k] + 0.5) / count for name in RANGES}
        found.append({name: low + share[name] * (high - low) for name, (low, high) in RANGES.items()})
    return found


class Fit:
    """The graph of the fit, built once."""

    def __init__(self, device: Device | None, bundle: Bundle, tables: tuple[int, int, int]):
        self.bundle, self.engine = bundle, DressiAD(device)
        self.free = {name: Variable.of([[0.0]], FLOAT, name=name) for name in RANGES}
        self.values = {
            name: (F.sin(x) + 1.0) * (0.5 * (RANGES[name][1] - RANGES[name][0])) + RANGES[name][0]
            for name, x in self.free.items()
        }
        self.picture = bundle.picture(FarHair(HairBsdf.of(None, **self.values), *tables))
        twice = tuple(2 * x for x in tables)
        exact = bundle.picture(FarHair(HairBsdf.of(None, **TRUE), *twice))
        with DressiAD(device) as ad:
            self.target = ad.evaluate([exact])[0]
        known = Variable(VEC3, self.picture.size, name="target", data=self.target)
        self.engine.set_loss([self.picture - known])
        self.engine.set_optimizer(LevenbergMarquardt(iterations=8, radius=1e2), list(self.free.values()))
        self.viewer = DressiAD(device)
        self.viewer.set_output("picture", self.picture)

    def shown(self) -> np.ndarray:
        """(H, W, 3): the picture by the parameters that the fit has found so far."""
        for x in self.free.values():
            self.viewer.send(x, self.engine.recv(x))
        self.viewer.step()
        return self.viewer.recv("picture")[0].copy()

    def run(self, start: dict[str, float], steps: int) -> dict[str, Any]:
        for name, x in self.free.items():
            self.engine.send(x, np.full((1, 1, 1), angle(name, start[name])))
        initial, earlier, clock = self.shown(), np.size(self.engine.losses()), time.perf_counter()
        self.engine.step(steps)
        self.engine.wait()
        seconds, found = time.perf_counter() - clock, {}
        losses = [float(x) for x in np.ravel(self.engine.losses())[earlier:]]
        for name, x in self.free.items():
            low, high = RANGES[name]
            found[name] = low + (high - low) * 0.5 * (1 + float(np.sin(self.engine.recv(x).item())))
        last = self.shown()
        return {
            "start": start, "found": found, "seconds": seconds, "losses": losses,
            "error": {name: abs(found[name] - TRUE[name]) for name in TRUE},
            "psnr": psnr(last, self.target[0]), "psnr at first": psnr(initial, self.target[0]),
            "pictures": (initial, last),
        }  # fmt: skip


def hessian(device: Device | None, bundle: Bundle, tables: tuple[int, int, int]) -> np.ndarray:
    """(5, 5): the sum over the picture of products of its derivatives by the parameters, at the target."""
    leaves = {name: Variable.of([[x]], FLOAT, name=name) for name, x in TRUE.items()}
    picture = bundle.picture(FarHair(HairBsdf.of(None, **leaves), *tables))
    columns = []
    with DressiAD(device) as ad:
        for one in leaves.values():
            tangents = [Variable.of([[float(x is one)]], FLOAT) for x in leaves.values()]
            columns.append(
                ad.evaluate(jvp([picture], list(leaves.values()), tangents))[0].ravel().astype(float)
            )
    j = np.stack(columns, axis=1)
    return j.T @ j


def draw_hessian(matrix: np.ndarray, file: Path) -> dict[str, Any]:
    """Correlations, deviations and the least certain directions, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(TRUE)
    covariance = np.linalg.inv(matrix) * NOISE**2
    deviation = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviation, deviation)
    values, vectors = np.linalg.eigh(matrix)
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(15, 4.4), dpi=100)
    shown = left.imshow(correlation, cmap="RdBu", vmin=-1, vmax=1)
    for (y, x), value in np.ndenumerate(correlation):
        left.text(x, y, f"{value:.2f}", ha="center", va="center")
    left.set_xticks(range(5), names, rotation=30)
    left.set_yticks(range(5), names)
    left.set_title("correlation of the estimates (1: not told apart)")
    figure.colorbar(shown, ax=left)
    middle.bar(names, deviation)
    middle.set_yscale("log")
    middle.tick_params(axis="x", rotation=30)
    middle.set_title(f"standard deviation for pixels with a noise of {NOISE}")
    shown = right.imshow(vectors**2, cmap="Greys", vmin=0, vmax=1)
    for (y, x), value in np.ndenumerate(vectors):
        right.text(x, y, f"{value:+.2f}", ha="center", va="center", color="tab:red")
    right.set_yticks(range(5), names)
    right.set_xticks(range(5), [f"{v / values[-1]:.1e}" for v in values])
    right.set_xlabel("eigenvalue of J^T J, relative to the largest")
    right.set_title("directions, the least certain first")
    figure.tight_layout()
    figure.savefig(file)
    pyplot.close(figure)
    return {
        "names": names, "J^T J": matrix.tolist(), "eigenvalues": values.tolist(), "directions": vectors.T.tolist(),
        "correlation": correlation.tolist(), "deviation": dict(zip(names, deviation.tolist(), strict=True)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/figure16"))
    parser.add_argument("--quick", action="store_true", help="96x96 pixels, a fourth of the strands")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--device")
    args = parser.parse_args()
    device = Device.open(args.device)
    bundle = Bundle.of(device, 96 if args.quick else 192, 4 if args.quick else 1)
    tables = (64, 16, 16) if args.quick else (128, 32, 32)
    clock, processor = time.perf_counter(), time.process_time()
    fit = Fit(device, bundle, tables)
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for k, start in enumerate(starts(5, 0)):
        row = fit.run(start, args.steps)
        initial, last = row.pop("pictures")
        if row["psnr at first"] == min(one["psnr at first"] for one in [*rows, row]):
            for name, image in (("initial", initial), ("found", last), ("target", fit.target[0])):
                write_files({args.out / f"{name}.png": encode_png(image)})
        row["within bars"] = (
            all(row["error"][name] <= bar for name, bar in BARS.items()) and row["psnr"] >= 35
        )
        rows.append(row)
        print(
            f"start {k}: {row['psnr at first']:.1f} -> {row['psnr']:.1f} dB in {row['seconds']:.1f} s, errors",
            "  ".join(f"{name} {x:.4f}" for name, x in row["error"].items()),
            flush=True,
        )
    fit.engine.close()
    fit.viewer.close()
    found = draw_hessian(hessian(device, bundle, tables), args.out / "hessian.png")
    seconds = {"wall": time.perf_counter() - clock, "processor": time.process_time() - processor}
    print(
        f"{sum(row['within bars'] for row in rows)} of {len(rows)} within the bars, {seconds['wall']:.0f} s in all"
    )
    if args.json:
        write_json(
            args.json, {"true": TRUE, "bars": BARS, "seconds": seconds, "starts": rows, "hessian": found}
        )


if __name__ == "__main__":
    main()
