"""How well the light of environment maps on a sphere agrees with the integral of the BRDF of glTF 2.0.

    python apps/environment_accuracy.py --maps potsdamer_platz_1k.hdr venice_sunset_1k.hdr --out out/environment

A sphere is seen from far away, --size pixels across. For each map and roughness it is lit by `Environment`, with three lobes and
with one, as white metal (metallic 1), gold, and a grey dielectric (metallic 0). The reference sums all texels of the map
(512x256) times the BRDF in float64; below roughness 0.25 it samples visible normals instead. Writes
environment_accuracy.json: the mean absolute difference over the mean of the reference, in per cent, mean of the channels;
and for white light the largest difference from the albedo of the BRDF, and from 1 with compensation. --maps takes names of
files, or of the folder `hdri` of DRESSI_DATA.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph.types import FLOAT, VEC3
from dressi.config import config
from dressi.render.io import load_image, write_json
from dressi.render.shading.bsdf import Frame, GltfBsdf
from dressi.render.shading.environment import Environment, shrunk_map
from dressi.render.shading.sphere_filter import directions

EYE = np.array([0.48, 0.6, 0.64])
WIDTH = 512
SAMPLED_BELOW = 0.2
MATERIALS = {
    "white metal": ((1.0, 1.0, 1.0), 1.0),
    "gold": ((1.0, 0.77, 0.34), 1.0),
    "grey dielectric": ((0.5, 0.5, 0.5), 0.0),
}


def sphere(size: int) -> np.ndarray:
    """(pixels, 3): the normals of the pixels that a sphere covers."""
    x, y = np.meshgrid((np.arange(size) + 0.5) / size * 2 - 1, 1 - (np.arange(size) + 0.5) / size * 2)
    inside = x**2 + y**2 < 1
    local = np.stack([x, y, np.sqrt(np.maximum(1 - x**2 - y**2, 0))], -1)[inside]
    across = np.cross((0.0, 1.0, 0.0), EYE)
    across /= np.linalg.norm(across)
    return local @ np.stack([across, np.cross(EYE, across), EYE])


def brdf(n: np.ndarray, d: np.ndarray, roughness: float) -> np.ndarray:
    """(3, directions): the part by f0, the part by f90, and the diffuse part, times the cosine."""
    nl, nv, squared = np.maximum(d @ n, 0), n @ EYE, max(roughness, 1e-3) ** 4
    half = np.sqrt(np.maximum(2 + 2 * d @ EYE, 1e-12))
    nh, vh = (d @ n + nv) / half, half / 2
    ggx = squared / (np.pi * (nh**2 * (squared - 1) + 1) ** 2)
    g1, g2 = (np.sqrt(c**2 * (1 - squared) + squared) for c in (nv, nl))
    specular, rest = ggx * 0.5 / (nl * g1 + nv * g2) * nl, (1 - vh) ** 5
    return np.stack([specular * (1 - rest), specular * rest, nl * 0.96 * (1 - rest) / np.pi])


def visible_normals(n: np.ndarray, roughness: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Directions (count, 3) and weights (2, count) by f0 and f90 (Heitz 2018: sampling the GGX distribution of visible normals)."""
    alpha, nv = roughness**2, n @ EYE
    across = EYE - nv * n
    across /= max(np.linalg.norm(across), 1e-12)
    frame = np.stack([across, np.cross(n, across), n])
    v = frame @ EYE
    k = np.arange(count)
    radius, angle = np.sqrt((k + 0.5) / count), k * (2 * np.pi * 0.6180339887498949)
    stretched = np.array([alpha * v[0], alpha * v[1], v[2]])
    stretched /= np.linalg.norm(stretched)
    t1 = np.cross((0.0, 0.0, 1.0), stretched)
    t1 = t1 / np.linalg.norm(t1) if np.linalg.norm(t1) > 1e-9 else np.array([1.0, 0.0, 0.0])
    a, b = radius * np.cos(angle), radius * np.sin(angle)
    s = (1 + stretched[2]) / 2
    b = (1 - s) * np.sqrt(1 - a**2) + s * b
    up = np.sqrt(np.maximum(1 - a**2 - b**2, 0))
    h = a[:, None] * t1 + b[:, None] * np.cross(stretched, t1) + up[:, None] * stretched
    h = np.stack([alpha * h[:, 0], alpha * h[:, 1], np.maximum(h[:, 2], 0)], -1)
    h /= np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-30)
    vh = h @ v
    light = 2 * vh[:, None] * h - v
    nl = np.maximum(light[:, 2], 0)
    gv, gl = (np.sqrt(c**2 * (1 - alpha**2) + alpha**2) for c in (nv, nl))
    share = np.where(nl > 0, nl * (nv + gv) / np.maximum(nl * gv + nv * gl, 1e-30), 0) / count
    rest = (1 - np.clip(vh, 0, 1)) ** 5
    return light @ frame, np.stack([share * (1 - rest), share * rest])


def bilinear(image: np.ndarray, d: np.ndarray) -> np.ndarray:
    height, width = image.shape[:2]
    u = (0.5 + np.arctan2(d[:, 0], -d[:, 2]) / (2 * np.pi)) * width - 0.5
    v = np.arccos(np.clip(d[:, 1], -1, 1)) / np.pi * height - 0.5
    x, y = np.floor(u).astype(int), np.floor(v).astype(int)

    def texel(x, y):
        beyond = (y < 0) | (y >= height)
        y = np.where(y < 0, -1 - y, np.where(y >= height, 2 * height - 1 - y, y))
        return image[y, np.where(beyond, x + width // 2, x) % width]

    fu, fv = (u - x)[:, None], (v - y)[:, None]
    above = texel(x, y) * (1 - fu) + texel(x + 1, y) * fu
    return above * (1 - fv) + (texel(x, y + 1) * (1 - fu) + texel(x + 1, y + 1) * fu) * fv


def reference(images: list[np.ndarray], normals: np.ndarray, roughness: float, samples: int) -> np.ndarray:
    """(maps, 3, pixels, 3): the light of each map by f0, by f90, and diffuse."""
    rows = np.cos(np.linspace(0, np.pi, WIDTH // 2 + 1))
    area = np.repeat(rows[:-1] - rows[1:], WIDTH) * (2 * np.pi / WIDTH)
    d = directions((WIDTH, WIDTH // 2)).reshape(-1, 3)
    light = np.concatenate([image.reshape(-1, 3) for image in images], 1) * area[:, None]
    stacked = np.concatenate(images, -1)
    found = np.zeros((len(normals), 3, 3 * len(images)))
    for k, n in enumerate(normals):
        upper = d @ n > 0
        found[k] = brdf(n, d[upper], roughness) @ light[upper]
        if roughness < SAMPLED_BELOW:
            towards, weight = visible_normals(n, roughness, samples if roughness else 1)
            found[k, :2] = weight @ bilinear(stacked, towards)
    return found.reshape(len(normals), 3, len(images), 3).transpose(2, 1, 0, 3)


def material(parts: np.ndarray, base: tuple[float, ...], metallic: float) -> np.ndarray:
    colour = np.array(base)
    f0 = 0.04 + metallic * (colour - 0.04)
    return parts[0] * f0 + parts[1] + parts[2] * colour * (1 - metallic)


class Lit:
    """A sphere under one environment, on a device: roughness may change."""

    def __init__(
        self, device: Device, image: np.ndarray, normals: np.ndarray, lobes: int, compensate: bool = False
    ):
        self.rough = Variable(FLOAT, name="roughness", data=0.5)
        light = Environment(image).prefiltered(lobes, compensate)
        normal = Variable.of(np.broadcast_to(normals, (len(MATERIALS), *normals.shape)), VEC3)
        rows = np.ones((1, len(normals)))
        base = Variable.of(np.array([b for b, _ in MATERIALS.values()])[:, None] * rows[..., None], VEC3)
        metallic = Variable.of(np.array([m for _, m in MATERIALS.values()])[:, None] * rows, FLOAT)
        surface = GltfBsdf.of(base, metallic, self.rough)
        self.engine = DressiAD(device)
        self.engine.set_output(
            "light", surface.environment(Frame(normal, F.constant(tuple(EYE))), light).total
        )

    def __call__(self, roughness: float) -> np.ndarray:
        """(materials, pixels, 3)."""
        self.engine.send(self.rough, roughness)
        return np.array(self.engine.recv("light")[0], np.float64)


def furnace(device: Device, normals: np.ndarray, steps: list[float], samples: int) -> dict[str, Any]:
    white = np.ones((16, 32, 3))
    plain, compensated = (Lit(device, white, normals, 3, c) for c in (False, True))
    report: dict[str, Any] = {}
    for roughness in steps:
        (parts,) = reference([np.ones((WIDTH // 2, WIDTH, 3))], normals, roughness, samples)
        wanted = np.stack([material(parts, *m) for m in MATERIALS.values()])
        row = {
            name: float(100 * np.abs(a / b - 1).max())
            for name, a, b in zip(MATERIALS, plain(roughness), wanted, strict=True)
        }
        row["compensated white metal, from 1"] = float(100 * np.abs(compensated(roughness)[0] - 1).max())
        report[f"{roughness:g}"] = row
    return report


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--maps", nargs="+", default=["potsdamer_platz_1k.hdr", "venice_sunset_1k.hdr", "forest_slope_1k.hdr"]
    )
    parser.add_argument("--size", type=int, default=64, help="pixels across the sphere")
    parser.add_argument(
        "--roughness", type=float, nargs="+", default=[0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0]
    )
    parser.add_argument(
        "--samples", type=int, default=4096, help="visible normals of a pixel, below roughness 0.2"
    )
    parser.add_argument("--device", default=None)
    parser.add_argument("--headless", action="store_true", help="no window is ever opened")
    parser.add_argument("--out", type=Path, default=Path("out/environment_accuracy"))
    args = parser.parse_args()
    normals = sphere(args.size)
    folder = config.data / "hdri" if config.data else Path()
    files = [Path(name) if Path(name).is_file() else folder / name for name in args.maps]
    images = [shrunk_map(np.asarray(load_image(file), np.float64)) for file in files]
    with Device.open(args.device) as device:
        report: dict[str, Any] = {"device": device.name, "pixels": len(normals), "maps": {}}
        lit = {
            (f.stem, k): Lit(device, image, normals, k)
            for f, image in zip(files, images, strict=True)
            for k in (3, 1)
        }
        for roughness in args.roughness:
            wanted = reference(images, normals, roughness, args.samples)
            for file, parts in zip(files, wanted, strict=True):
                rows = report["maps"].setdefault(file.stem, {}).setdefault(f"{roughness:g}", {})
                for k in (3, 1):
                    for (name, m), found in zip(MATERIALS.items(), lit[file.stem, k](roughness), strict=True):
                        truth = material(parts, *m)
                        error = 100 * np.abs(found - truth).mean(0) / truth.mean(0)
                        rows.setdefault(name, {})[f"{k} lobes" if k > 1 else "1 lobe"] = round(
                            float(error.mean()), 3
                        )
                print(file.stem, roughness, rows, flush=True)
        report["white light, largest difference in per cent"] = furnace(
            device, normals[::7], args.roughness, args.samples
        )
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / "environment_accuracy.json", report)


if __name__ == "__main__":
    main()
