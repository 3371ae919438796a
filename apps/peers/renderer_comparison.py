"""Khronos's models beside Mitsuba 3, same camera and light: what differs, and because of what.

    DRESSI_DATA=data python apps/peers/renderer_comparison.py --out out/renderer_comparison

Needs `pip install dressi[peers]` and libLLVM 16 or later (`apt-get install libllvm19`). Mitsuba reads the files by another loader,
traces rays, and has the BRDF of glTF 2.0 as a plugin (`mitsuba_gltf.py` beside). One thing after another is added to it:

    shading      light from the lights only, which nothing hides: must be the same picture as ours
    shadows      the object hides light from itself; ours has the occlusion map instead, for environment light only
    all light    and reflects it to itself, eight times
    principled   as shadows, with Mitsuba's own material of the same parameters instead of glTF's formulas

The lights are a sun and environment maps. Writes a picture for each light (rows: models; columns: ours without
occlusion, shading, their difference, ours, shadows, all light, principled; differences of sRGB values, four times), and renderer_comparison.json: over the
pixels that both cover, the mean absolute difference of linear light, divided by the mean light (`relative`) and without the
hundredth of the pixels where it is largest (`relative_99`), the PSNR of sRGB values in [0, 1], the quotient of the mean lights
(`ratio`), and what of `relative_99` is the noise of Mitsuba's samples (`noise`).
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from gltf_reader import read

from dressi.config import config
from dressi.errors import InputError
from dressi.render import Camera, render
from dressi.render.formats import load_mesh
from dressi.render.io import load_environment, save_png, write_json
from dressi.render.shading.environment import Environment
from dressi.render.shading.lights import DirectionalLight
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear

FOV = 30.0
VIEW = np.array([0.6, 0.4, 1.0])
"""From the model to the camera."""
CLOSE = 0.9
"""Distance of the camera, in that at which the bounding sphere fills the picture."""
SUN = np.array([1.0, 1.5, 1.0]) / np.linalg.norm([1.0, 1.5, 1.0])
IRRADIANCE = 3.0
BOUNCES = 8


def compared(ours: np.ndarray, theirs: np.ndarray, noise: np.ndarray) -> dict[str, float]:
    """Figures over the pixels that both cover. Images (H, W, 4), linear; noise: errors of ``theirs``."""
    both = np.minimum(ours[..., 3], theirs[..., 3]) > 0.999
    a, b = ours[both][:, :3], theirs[both][:, :3]
    error, deviation = (
        np.sort(x.mean(axis=1))[: len(a) * 99 // 100] for x in (np.abs(a - b), noise[both][:, :3])
    )
    codes = linear_to_srgb(a) - linear_to_srgb(b)
    return {
        "relative": float(np.abs(a - b).mean() / b.mean()),
        "relative_99": float(error.mean() / b.mean()),
        "noise": float(deviation.mean() / b.mean()),
        "psnr": float(-10 * np.log10(max((codes**2).mean(), 1e-12))),
        "ratio": float(a.mean() / b.mean()),
    }


def shown_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    codes = 4 * np.abs(linear_to_srgb(a[..., :3]) - linear_to_srgb(b[..., :3]))
    return srgb_to_linear(np.clip(codes, 0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=["BoomBox", "BarramundiFish", "Suzanne"])
    parser.add_argument("--skies", nargs="*", default=["potsdamer_platz", "pedestrian_overpass"])
    parser.add_argument(
        "--data", type=Path, help="the folder with 'meshes' and 'hdri'; DRESSI_DATA without it"
    )
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--samples", type=int, default=8, help="along each axis of a pixel of ours")
    parser.add_argument(
        "--spp", type=int, default=256, help="samples of Mitsuba in a pixel; a quarter with shadows"
    )
    parser.add_argument("--out", type=Path, default=Path("out/renderer_comparison"))
    parser.add_argument("--headless", action="store_true", help="no window; there is none")
    given = parser.parse_args()
    data = given.data or config.data
    if data is None:
        raise InputError("set DRESSI_DATA to the folder that holds 'meshes' and 'hdri'")
    try:
        import mitsuba_light as peer
        from mitsuba_gltf import principled
    except ImportError as error:
        raise InputError(
            f"Mitsuba cannot be imported ({error}); install it with `pip install dressi[peers]`"
        ) from None

    lights: dict[str, tuple[Any, Any]] = {
        "sun": (DirectionalLight(tuple(SUN), IRRADIANCE), peer.sun(SUN, IRRADIANCE))
    }
    for name in given.skies:
        light = load_environment(data / "hdri" / f"{name}_1k.hdr")
        light = light / light.mean()
        lights[name] = Environment(light), peer.sky(light)
    figures: list[dict[str, Any]] = []
    rows: dict[str, list[np.ndarray]] = {name: [] for name in lights}
    for model_name in given.models:
        path = data / "meshes" / f"{model_name}_512.glb"
        mesh, (model,) = load_mesh(path), read(path).parts
        low, high = model.positions.min(0), model.positions.max(0)
        centre = (low + high) / 2
        radius = float(np.linalg.norm(model.positions - centre, axis=1).max())
        eye = centre + VIEW / np.linalg.norm(VIEW) * (CLOSE * radius / np.sin(np.radians(FOV / 2)))
        camera = Camera.perspective(
            FOV, (given.size, given.size), eye, centre, near=0.1 * radius, far=20 * radius
        )
        matrix = np.eye(4)
        matrix[:3, :3] = camera.rotation.T * (1, -1, -1)
        matrix[:3, 3] = eye
        view = {"matrix": matrix, "yfov": np.radians(FOV), "znear": 0.1 * radius}

        def theirs(bsdf: Any, light: Any, shadows: bool, **more: Any) -> tuple[np.ndarray, np.ndarray]:
            spp = max(2, given.spp // 4) if shadows else given.spp
            kind = more or {"type": "direct_light", "shadows": shadows}
            return peer.picture([model], light, kind, view, given.size, spp, bsdf)  # noqa: B023

        glowing, _ = theirs(None, peer.sun(SUN, 0.0), True)
        for name, (light, peer_light) in lights.items():
            pictures = {
                "shading": theirs(None, peer_light, False),
                "shadows": theirs(None, peer_light, True),
                "all light": theirs(
                    None, peer_light, True, type="path", max_depth=BOUNCES, hide_emitters=True
                ),
                "principled": theirs(principled(model), peer_light, True),
            }
            for name_of in ("all light", "principled"):
                pictures[name_of][0][..., :3] += glowing[..., :3]
            options: dict[str, Any] = {"light": light, "filter": "trilinear", "samples": given.samples}
            ours = render(mesh, camera, **options).image
            # The occlusion map stands for what hides light.
            bare = render(mesh, camera, material={"occlusion": 1.0}, **options).image
            for what, (picture, noise) in pictures.items():
                own = bare if what == "shading" else ours
                figures.append(
                    {"model": model_name, "light": name, "with": what} | compared(own, picture, noise)
                )
                print(" ".join(f"{v:.4g}" if isinstance(v, float) else v for v in figures[-1].values()))
            shading, _ = pictures.pop("shading")
            row = [bare[..., :3], shading[..., :3], shown_difference(bare, shading), ours[..., :3]]
            rows[name].append(np.concatenate([*row, *(p[..., :3] for p, _ in pictures.values())], axis=1))
    given.out.mkdir(parents=True, exist_ok=True)
    for name, parts in rows.items():
        save_png(given.out / f"{name}.png", np.concatenate(parts))
    write_json(given.out / "renderer_comparison.json", figures)


if __name__ == "__main__":
    main()
