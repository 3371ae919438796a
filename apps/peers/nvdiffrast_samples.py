"""Runs the public samples of nvdiffrast (samples/torch of NVlabs/nvdiffrast) on dressi.torch, and records what they reach.

The samples are not part of this repository: give their folder. They run from a copy in which only lines of imports and
devices differ: ``nvdiffrast.torch`` becomes ``dressi.torch``, and without CUDA tensors stay on the CPU. Where the folder beside it,
``data``, lacks a file, a mesh and a texture of our own take its place, with the same arrays.

    python apps/peers/nvdiffrast_samples.py PATH/samples/torch [--only pose] [--record]
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from dressi.render import primitives

RESULTS = Path(__file__).resolve().parents[1] / "results" / "nvdiffrast_samples.json"
SUBSTITUTIONS = (
    (r"import nvdiffrast\.torch as dr", "import dressi.torch as dr"),
    (r"\.cuda\(\)", ""),
    (r"""device=(['"])cuda\1""", "device='cpu'"),
)


def copied(samples: Path, folder: Path) -> dict[str, int]:
    """A copy of the samples with the lines of imports and devices changed; how many lines that were, by file."""
    changed = {}
    substitutions = SUBSTITUTIONS[:1] if torch.cuda.is_available() else SUBSTITUTIONS
    for file in sorted(samples.glob("*.py")):
        lines = file.read_text(encoding="utf-8").splitlines()
        new = lines
        for pattern, text in substitutions:
            new = [re.sub(pattern, text, line) for line in new]
        changed[file.name] = sum(a != b for a, b in zip(lines, new, strict=True))
        (folder / file.name).write_text("\n".join(new) + "\n", encoding="utf-8")
    return changed


# ---- data
def cube(attributes: str) -> dict[str, np.ndarray]:
    """A unit cube: colours by corner (c), or one for each side (d, p)."""
    mesh = primitives.cube(0.5)
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
    points = np.asarray(mesh.positions)[np.asarray(mesh.faces)]
    numbers = np.abs(points[:, :, None] - corners).sum(-1).argmin(-1)
    if attributes == "c":
        return {"pos_idx": numbers, "pos": corners, "col_idx": numbers, "col": corners + 0.5}
    normal = np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])
    side = np.abs(normal).argmax(1) * 2 + (normal.sum(1) < 0)
    colours = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1]], float)
    if attributes == "p":
        return {"pos_idx": numbers, "pos": corners, "col_idx": np.stack([side] * 3, 1), "col": colours}
    pairs, place = np.unique(
        np.stack([np.stack([side] * 3, 1), numbers], -1).reshape(-1, 2), axis=0, return_inverse=True
    )
    return {
        "pos_idx": numbers,
        "pos": corners,
        "col_idx": place.reshape(-1, 3),
        "col": colours[pairs[:, 0]],
    }


def pattern(directions: np.ndarray) -> np.ndarray:
    """Colours (..., 3) in [0, 1] of directions: coarse and fine details."""
    x, y, z = np.moveaxis(directions, -1, 0)
    coarse = 0.5 + 0.3 * np.stack([np.sin(3 * x + 2 * y), np.sin(4 * y - z), np.cos(3 * z + x)], -1)
    fine = np.sin(40 * x) * np.sin(40 * y) * np.cos(40 * z)
    return np.clip(coarse + 0.2 * fine[..., None], 0, 1)


AXES = (
    ((1, 0, 0), (0, 0, -1), (0, 1, 0)),
    ((-1, 0, 0), (0, 0, 1), (0, 1, 0)),
    ((0, 1, 0), (1, 0, 0), (0, 0, -1)),
    ((0, -1, 0), (1, 0, 0), (0, 0, 1)),
    ((0, 0, 1), (1, 0, 0), (0, 1, 0)),
    ((0, 0, -1), (-1, 0, 0), (0, 1, 0)),
)
"""Of each side of a cube: outwards, right and up."""
CELLS = ((2, 1), (0, 1), (1, 0), (1, 2), (1, 1), (3, 1))
"""The column and row of each side in an atlas of 4x3."""


def grid(count: int) -> np.ndarray:
    """Directions (6, count, count, 3) over the sides of a cube, from -1 to 1 both included; rows go up."""
    t = np.linspace(-1, 1, count)
    return np.array(
        [np.array(n) + t[None, :, None] * np.array(r) + t[:, None, None] * np.array(u) for n, r, u in AXES]
    )


def earth(cells: int, texels: int) -> dict[str, np.ndarray]:
    """A sphere of six grids of quads, with a texture in an atlas of 4x3 sides."""
    directions = grid(cells + 1)
    points = (directions / np.linalg.norm(directions, axis=-1, keepdims=True)).reshape(-1, 3)
    t = np.linspace(0, 1, cells + 1)
    uv = np.array(
        [np.stack(np.meshgrid((column + t) / 4, (row + t) / 3), -1) for column, row in CELLS]
    ).reshape(-1, 2)
    first = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).reshape(-1)
    quad = np.stack([first, first + 1, first + cells + 2, first, first + cells + 2, first + cells + 1], -1)
    faces = np.concatenate([quad.reshape(-1, 3) + k * (cells + 1) ** 2 for k in range(6)])
    centres = (np.arange(texels) + 0.5) / texels * 2 - 1
    texture = np.zeros((3 * texels, 4 * texels, 3), np.uint8)
    for (n, r, u), (column, row) in zip(AXES, CELLS, strict=True):
        d = np.array(n) + centres[None, :, None] * np.array(r) + centres[:, None, None] * np.array(u)
        side = pattern(d / np.linalg.norm(d, axis=-1, keepdims=True))
        texture[row * texels : (row + 1) * texels, column * texels : (column + 1) * texels] = side * 255
    return {"pos_idx": faces, "pos": points, "uv_idx": faces, "uv": uv, "tex": texture}


def environment() -> dict[str, np.ndarray]:
    """A torus (positions with w = 1, normals) and a cube map of 64 texels."""
    a, b = np.meshgrid(np.arange(48) / 48 * 2 * np.pi, np.arange(24) / 24 * 2 * np.pi, indexing="ij")
    normals = np.stack([np.cos(a) * np.cos(b), np.sin(b), np.sin(a) * np.cos(b)], -1)
    points = 0.6 * np.stack([np.cos(a), 0 * a, np.sin(a)], -1) + 0.3 * normals
    i, j = np.meshgrid(np.arange(48), np.arange(24), indexing="ij")
    at = lambda p, q: (p % 48) * 24 + q % 24  # noqa: E731
    quad = np.stack([at(i, j), at(i, j + 1), at(i + 1, j + 1), at(i, j), at(i + 1, j + 1), at(i + 1, j)], -1)
    d = grid(64)
    env = pattern(d / np.linalg.norm(d, axis=-1, keepdims=True))
    points = np.concatenate([points.reshape(-1, 3), np.ones((48 * 24, 1))], 1)
    return {
        "pos_idx": quad.reshape(-1, 3),
        "pos": points,
        "normals": normals.reshape(-1, 3),
        "env": (env * 255).astype(np.uint8),
    }


DATA: dict[str, Callable[[], dict[str, np.ndarray]]] = {
    "cube_c.npz": lambda: cube("c"),
    "cube_d.npz": lambda: cube("d"),
    "cube_p.npz": lambda: cube("p"),
    "earth.npz": lambda: earth(24, 128),
    "envphong.npz": environment,
}


def place_data(given: Path, folder: Path) -> list[str]:
    """Copies the data there is, and makes what is missing; the names of the files that were made."""
    folder.mkdir()
    made = []
    for name, make in DATA.items():
        if (given / name).is_file():
            shutil.copy(given / name, folder / name)
        else:
            np.savez(folder / name, **make())
            made.append(name)
    return made


# ---- runs
def figures(text: str) -> list[dict[str, float]]:
    """The lines "iter=0,err=1.5" that a sample prints."""
    found = []
    for line in text.splitlines():
        pairs = re.findall(r"(\w+)=([-+0-9.e]+|nan|inf)", line)
        if pairs:
            found.append({key: float(value) for key, value in pairs})
    return found


def run(sample: str, function: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """A function of a sample; the first line of its figures and the last one of each repetition, and the processor's seconds."""
    np.random.seed(0)
    printed, start = io.StringIO(), time.process_time()
    with contextlib.redirect_stdout(printed):
        module = importlib.import_module(sample)
        if function is not None:
            getattr(module, function)(**options)
    lines = figures(printed.getvalue())
    ends = [line for line in lines if line.get("iter") == options.get("max_iter")]
    seconds = round(time.process_time() - start, 1)
    return {
        **options,
        "first": lines[:1],
        "last": ends,
        "cpu_seconds": seconds,
    }


RUNS: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "triangle": ("triangle", None, {}),
    "cube 4": ("cube", "fit_cube", {"resolution": 4, "max_iter": 1000}),
    "cube 8": ("cube", "fit_cube", {"resolution": 8, "max_iter": 1000}),
    "cube 16": ("cube", "fit_cube", {"resolution": 16, "max_iter": 1000}),
    "cube 16, discontinuous": (
        "cube",
        "fit_cube",
        {"resolution": 16, "max_iter": 1000, "discontinuous": True},
    ),
    "pose": ("pose", "fit_pose", {"max_iter": 1000, "repeats": 5, "log_interval": 100}),
    "earth, mip": (
        "earth",
        "fit_earth",
        {"max_iter": 500, "res": 128, "ref_res": 256, "enable_mip": True},
    ),
    "earth, bilinear": (
        "earth",
        "fit_earth",
        {"max_iter": 500, "res": 128, "ref_res": 256, "enable_mip": False},
    ),
    "envphong": ("envphong", "fit_env_phong", {"max_iter": 1000, "res": 128, "log_interval": 100}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("samples", type=Path, help="the folder samples/torch of nvdiffrast")
    parser.add_argument("--only", help="runs whose name begins with this")
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--out", type=Path, default=Path("out/nvdiffrast"))
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--record", action="store_true", help=f"write the figures into {RESULTS.name}")
    given = parser.parse_args()
    if given.device:
        os.environ["DRESSI_DEVICE"] = given.device
    if not (given.samples / "triangle.py").is_file():
        parser.error(f"{given.samples} holds no triangle.py; give the folder samples/torch of nvdiffrast")
    samples, out = given.samples.resolve(), given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "torch"
        folder.mkdir()
        lines = copied(samples, folder)
        made = place_data(samples.parent / "data", Path(place) / "data")
        print(f"lines changed: {lines}; data of our own: {', '.join(made) or 'none'}")
        sys.path.insert(0, str(folder))
        os.chdir(folder)
        results: dict[str, Any] = {}
        for name, (sample, function, options) in RUNS.items():
            if name.startswith(given.only or ""):
                results[name] = run(sample, function, options)
                print(json.dumps({name: results[name]}), flush=True)
        if (folder / "tri.png").is_file():
            Image.open(folder / "tri.png").save(out / "triangle.png")
    if given.record:
        known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        runs = {**known.get("runs", {}), **results}
        RESULTS.write_text(
            json.dumps({"lines_changed": lines, "data_of_our_own": made, "runs": runs}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
