"""Scenes of several materials beside Mitsuba 3, pixel by pixel: the same files, cameras, lights and BSDFs.

    DRESSI_DATA=data python apps/peers/scenes_in_mitsuba.py --out out/scenes_in_mitsuba

Needs what `renderer_comparison.py` needs. Each scene of `sample_scenes.py` is saved as a .glb, which both programs read, each by its
own loader. Mitsuba traces rays through the centres of the cells that we rasterize, without shadows and reflections of other things,
and evaluates glTF's BSDFs and lights by `mitsuba_gltf.py` and `mitsuba_light.py` beside. Nothing is random, so pictures differ by
rounding, by edges that fall on other sides of a sample, and by mistakes. Writes a picture for each scene (ours, Mitsuba's, eight
times the difference of sRGB values), one of all, and scenes_in_mitsuba.json with, in dB of sRGB values:

    whole     all pixels
    inside    pixels that one node covers wholly, in our picture and in Mitsuba's (transparent nodes aside)
    opaque    those of them that show no transparent node
    nodes     of each node alone

The environment map lights the same scenes by rays of Mitsuba in random directions, against `MonteCarloEnvironment` (our integral) and `Environment`
(its closed form), inside; `noise` is Mitsuba's own, from two halves of its directions.
"""

import argparse
import time
from typing import Any

import numpy as np
from sample_scenes import SCENES, SIZE, add_options, data_of

from dressi.errors import InputError
from dressi.render import (
    Environment,
    MonteCarloEnvironment,
    Scene,
    linear_to_srgb,
    load_scene,
    render,
    save_scene,
)
from dressi.render.io import load_environment, save_png, write_json

SHOWN = 8
"""Times the difference, in pictures."""
RUNS = 8
"""Pictures of a Monte Carlo light that are averaged."""


def decibel(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> float:
    """PSNR of sRGB values in [0, 1] of linear pictures, over a mask."""
    if not where.any():
        return float("nan")
    codes = linear_to_srgb(np.clip(a[where], 0, 1)) - linear_to_srgb(np.clip(b[where], 0, 1))
    return float(-10 * np.log10(max((codes**2).mean(), 1e-12)))


def drawn(scene: Scene, light: Any, samples: int, **options: Any) -> np.ndarray:
    """(H, W, 4) linear."""
    return render(
        scene, next(iter(scene.cameras.values())), size=SIZE, light=light, samples=samples, **options
    ).image


def owners(scene: Scene, samples: int) -> np.ndarray:
    """(H, W): the number of the node that a pixel and its neighbours show; -1 for several, or for none of them."""
    large = (SIZE[0] * samples, SIZE[1] * samples)
    node = render(scene, next(iter(scene.cameras.values())), size=large, light=None).node
    cells = node.reshape(SIZE[1], samples, SIZE[0], samples).transpose(0, 2, 1, 3).reshape(*SIZE[::-1], -1)
    one = np.where((cells == cells[..., :1]).all(-1), cells[..., 0], -1)
    # A neighbour of another node: its edge may cross a corner of this pixel.
    padded = np.pad(one, 1, mode="edge")
    shifts = [
        padded[1 + dy : 1 + dy + SIZE[1], 1 + dx : 1 + dx + SIZE[0]] for dy in (-1, 0, 1) for dx in (-1, 0, 1)
    ]
    return np.where(np.all([other == one for other in shifts], axis=0), one, -1)


def compared(ours: np.ndarray, theirs: np.ndarray, scene: Scene, samples: int) -> dict[str, Any]:
    node = owners(scene, samples)
    clear = [k for k, one in enumerate(scene) if is_blended(one)]
    opaque = (
        node if not clear else owners(Scene([n for n in scene if not is_blended(n)], scene.cameras), samples)
    )
    shown = (node >= 0) & ~np.isin(node, clear)
    names = [one.name for one in scene]
    return {
        "whole": decibel(ours[..., :3], theirs[..., :3], np.ones(node.shape, bool)),
        "inside": decibel(ours[..., :3], theirs[..., :3], (node >= 0) & (opaque >= 0)),
        "opaque": decibel(ours[..., :3], theirs[..., :3], shown),
        "pixels": int(shown.sum()),
        "nodes": {name: decibel(ours[..., :3], theirs[..., :3], node == k) for k, name in enumerate(names)},
        "largest": float(np.abs(ours - theirs)[shown][:, :3].max()),
    }


def is_blended(node: Any) -> bool:
    mesh = node.geometry.mesh
    return mesh is not None and mesh.material is not None and mesh.material.alpha_mode == "blend"


def under_sky(scene: Scene, file: Any, light: np.ndarray, directions: int, peer: Any) -> tuple[dict, list]:
    """Figures and pictures of the light of a map at the centres of pixels: Mitsuba's, our integral, our closed form."""
    halves = [peer.grid_picture(file, SIZE, 1, light, directions // 2, seed) for seed in (0, directions)]
    theirs = (halves[0] + halves[1]) / 2
    many = [drawn(scene, MonteCarloEnvironment(light, samples=256, seed=k), 1) for k in range(RUNS)]
    integral = np.mean(many, axis=0)
    closed = drawn(scene, Environment(light), 1)
    node = owners(scene, 2)
    where = node >= 0
    found = {
        "integral": decibel(integral[..., :3], theirs[..., :3], where),
        "closed form": decibel(closed[..., :3], theirs[..., :3], where),
        "noise": decibel(halves[0][..., :3], halves[1][..., :3], where) + 6.02,
        "mean light": {
            name: [float(p[..., :3][node == k].mean()) for p in (theirs, integral, closed)]
            for k, name in enumerate(one.name for one in scene)
            if (node == k).any()
        },
    }
    return found, [theirs, integral, closed]


def shown_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = (linear_to_srgb(np.clip(x[..., :3], 0, 1)) for x in (a, b))
    codes = np.clip(SHOWN * np.abs(a - b), 0, 1)
    return np.where(codes <= 0.04045, codes / 12.92, ((codes + 0.055) / 1.055) ** 2.4)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, "scenes_in_mitsuba", "'meshes', 'face' and 'hdri'")
    parser.add_argument(
        "--directions", type=int, default=512, help="of the sky, a pixel; 0: no environment map"
    )
    parser.add_argument("--sky", default="potsdamer_platz_1k.hdr", help="of 'hdri'")
    parser.add_argument(
        "--quick", action="store_true", help="two samples along each axis, and no environment map"
    )
    given = parser.parse_args()
    if given.quick:  # other defaults, so that what is given still counts
        parser.set_defaults(samples=2, directions=0)
        given = parser.parse_args()
    data = data_of(given, "'meshes', 'face' and 'hdri'")
    try:
        import mitsuba_light as peer
        from gltf_reader import read
    except ImportError as error:
        raise InputError(
            f"Mitsuba cannot be imported ({error}); install it with `pip install dressi[peers]`"
        ) from None

    samples = given.samples
    sky = None
    if data is not None and given.directions:
        sky = load_environment(data / "hdri" / given.sky)
        sky = sky / sky.mean()
    given.out.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}
    rows = []
    for name in given.scenes:
        start = time.perf_counter()
        path = given.out / f"{name}.glb"
        save_scene(path, SCENES[name](data))
        scene, file = load_scene(path), read(path)
        theirs = peer.grid_picture(file, SIZE, samples)
        ours = drawn(scene, list(scene.lights), samples)
        figures[name] = compared(ours, theirs, scene, samples)
        row = [ours[..., :3], theirs[..., :3], shown_difference(ours, theirs)]
        save_png(given.out / f"{name}.png", np.concatenate(row, axis=1))
        if sky is not None:
            figures[name]["sky"], pictures = under_sky(scene, file, sky, given.directions, peer)
            save_png(given.out / f"{name}_sky.png", np.concatenate([p[..., :3] for p in pictures], axis=1))
        rows.append(np.concatenate(row, axis=1))
        brief = {key: value for key, value in figures[name].items() if isinstance(value, float)}
        print(
            name,
            *(f"{key} {value:.4g}" for key, value in brief.items()),
            f"({time.perf_counter() - start:.0f} s)",
            flush=True,
        )
    save_png(given.out / "scenes_in_mitsuba.png", np.concatenate(rows))
    write_json(given.json or given.out / "scenes_in_mitsuba.json", figures)


if __name__ == "__main__":
    main()
