"""Figure 12 of the paper: a head is found from pictures, first its geometry from a sphere, then a normal map of 1024^2 texels.

    python apps/figures/figure12.py --json out/figure12/figure12.json --out out/figure12
    python apps/figures/figure12.py --quick --deodr

The target is the scan in ``head`` of DRESSI_DATA with its normal map, under three lights that are known, as is its albedo (white). In
the first stage --views pictures around it and their masks move the vertices of a sphere, by large steps (Nicolet et al. 2021), once with the outer form of
HardSoftRas, once with the edges form, and with --deodr once by deodr, whose edges are antialiased (``pip install dressi[peers]``). Every step compares
colours and silhouettes. Three rounds, the same for each: the sphere, then twice the mesh of before remeshed to shorter edges, with a smaller lambda
and, for the outer form, a smaller radius. A mesh of one density under lambda 12 stays a mannequin, whatever the estimator. In the second stage
the best mesh is unwrapped, and a normal map of --texels^2, flat at first, is learned from random views.

Measures: the chamfer distance, in percent of the radius of the target; the mean angle between the normals that other views show, in degrees,
where both show the surface. Writes the JSON file and figure12.png: wireframes of each mesh and the target; shaded, each mesh, the best one
with its normal map, and the target.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from deodr_shape import Lambert, descend
from PIL import Image

from dressi import Device, DressiAD, F, Variable, adam
from dressi.ad.graph.types import MAT4, VEC2, VEC3
from dressi.ad.optim import Clocked, clock, cosine
from dressi.cli.bench.rasterizers import DeodrLoss
from dressi.render import (
    Cameras,
    DirectionalLight,
    Material,
    Mesh,
    adjacency,
    chamfer,
    draw_strands,
    large_steps,
    list_leaf,
    load_mesh,
    orbit,
    primitives,
    render,
    wireframe,
)
from dressi.render.fit.data.learned import ViewBatches
from dressi.render.fit.phases.texture import roughness
from dressi.render.io import save_png, write_json
from dressi.render.io.files import data_file
from dressi.render.mesh.remesh import remesh

LIGHTS = [
    DirectionalLight(direction, colour)
    for direction, colour in (
        ((0.6, 0.5, 0.8), (1.3, 1.2, 1.1)),
        ((-0.9, 0.2, 0.4), (0.3, 0.45, 0.7)),
        ((0.0, 0.3, -1.0), (0.5, 0.5, 0.5)),
    )
]
SKIN = Material(roughness=1.0, metallic=0.0, specular=0.0)
"""Lambert's, which every renderer has."""
FORMS = ("edges", "outer")


class Round(NamedTuple):
    """Part of the geometry's steps. faces: about as many by remeshing, in thousands; 0: the sphere as it is.
    share: of the steps.  rate: of the given one.  strength: lambda of large steps.  radius: of the outer form.
    absolute: |difference| of colours, which keeps small features, instead of its square, which finds the shape."""

    faces: float
    share: float
    rate: float
    strength: float
    radius: float
    absolute: bool


ROUNDS = (
    Round(0.0, 0.4, 1.0, 12.0, 0.03, False),
    Round(0.5, 0.3, 0.4, 4.0, 0.015, True),
    Round(1.0, 0.3, 0.2, 1.5, 0.008, True),
)
COLOURS = 0.5
"""Weight of colours beside masks."""
SMOOTHNESS = 1e-6
"""Weight of differences of neighbouring slopes."""


def target_mesh() -> Mesh:
    """The scan with its normal map, without its albedo, in the unit sphere."""
    scan = load_mesh(data_file("head", "LeePerrySmith.glb"))
    codes = np.asarray(Image.open(data_file("head", "normal.jpg")).convert("RGB"), np.float64) / 255
    normals = codes[::-1] * 2 - 1  # made for UVs whose origin is the bottom left corner
    normals /= np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-6)
    normals = np.where(normals[..., 2:] > 0.05, normals, (0.0, 0.0, 1.0))
    center, radius = scan.bounding_sphere()
    material = replace(SKIN, normal=normals)
    return replace(
        scan, positions=(scan.positions - center) / radius, material=material, color=(1.0, 1.0, 1.0)
    )


def around(count: int, size: int, turned: float = 0.0) -> Cameras:
    angles = 360 * np.arange(count) / count + turned
    heights = [(-20.0, 15.0, 35.0)[k % 3] for k in range(count)]
    return orbit(np.zeros(3), 1.0, list(angles), heights, (size, size))


class Pictures:
    """What cameras see of a mesh: colours, masks, and normals."""

    def __init__(self, mesh: Mesh, cameras: Cameras):
        drawn = render(mesh, cameras, light=LIGHTS, samples=2, outputs=("colour", "mask"))
        self.cameras, self.colours, self.masks = cameras, drawn.colour, drawn.mask


def geometry(
    form: str, seen: Pictures, given: argparse.Namespace, device: Device
) -> tuple[Mesh, dict[str, Any]]:
    """A sphere moved until its pictures are those that are seen."""
    sphere = primitives.icosphere(given.subdivisions)
    mesh = replace(sphere, positions=sphere.positions * 0.6, material=SKIN)
    losses, seconds = [], 0.0
    for part in ROUNDS:
        if part.faces:
            mesh = remesh(mesh, faces=round(part.faces * given.faces)).mesh
        steps, rate = round(part.share * given.steps), part.rate * given.rate
        begin = time.process_time()
        found, curve = (by_deodr if form == "deodr" else by_form)(form, mesh, seen, part, steps, rate, device)
        seconds += time.process_time() - begin
        mesh = replace(mesh, positions=found)
        losses += curve
    return mesh, {
        "faces": len(mesh.faces),
        "losses": losses[:: max(given.steps // 50, 1)],
        "processor_ms": 1e3 * seconds / given.steps,
    }


def by_form(
    form: str, mesh: Mesh, seen: Pictures, part: Round, steps: int, rate: float, device: Device
) -> tuple[np.ndarray, list[float]]:
    """Positions after steps with a form of HardSoftRas, and the loss of each step."""
    vertices = list_leaf("vertices", VEC3, mesh.positions)
    radius = part.radius if form == "outer" else None
    picture = render(mesh, seen.cameras, positions=vertices, light=LIGHTS, form=form, radius=radius)
    size, views = seen.cameras.size, len(seen.cameras)
    goal = Variable(VEC3, size, views, name="pictures", data=seen.colours)
    away = picture.colour - goal
    if form == "outer":  # its margin is no part of the picture
        inside = Variable.of((seen.masks > 0.999).astype(float), batched=True)
        both = F.logical_and(F.greater(inside, 0.5), F.greater_equal(picture.face, 0))
        away = F.select(both, away, (0.0, 0.0, 0.0))
    masks = Variable.of(seen.masks, batched=True) if form == "edges" else picture.soft_target(seen.masks)
    outline = F.mean(F.square(picture.mask - masks))
    colours = F.mean(F.sum_components(F.abs(away) if part.absolute else F.square(away)))
    falling = cosine(rate, rate / 20, steps)
    smooth = large_steps(adjacency(mesh.faces, len(mesh.positions)), falling, strength=part.strength)
    with DressiAD(device) as ad:
        ad.set_loss(outline + COLOURS * colours)
        ad.set_optimizer(Clocked(smooth, clock()), [vertices])
        ad.step(steps)
        losses = ad.losses()
        return np.asarray(ad.recv(vertices), np.float64).reshape(-1, 3)[: len(mesh.positions)], losses


def by_deodr(
    form: str, mesh: Mesh, seen: Pictures, part: Round, steps: int, rate: float, device: Device
) -> tuple[np.ndarray, list[float]]:
    """The same with deodr, which draws on the processor."""
    matrices = np.asarray(seen.cameras.matrices, np.float64)
    white, views = Lambert(mesh.faces, LIGHTS), range(len(seen.cameras))
    loss = DeodrLoss(mesh.faces, matrices, seen.colours, seen.masks, COLOURS, part.absolute)

    def shaded(step: int, positions: np.ndarray, nothing: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        colours, back = white.shade(positions)
        value, by_positions, by_colours = loss(views, positions, colours)
        return value, by_positions + back(by_colours), nothing

    nothing = np.zeros((1, 3))
    found = descend(shaded, mesh.faces, mesh.positions, nothing, steps, (rate, 0.0), part.strength)
    return found[0], found[2]


def normal_map(mesh: Mesh, target: Mesh, given: argparse.Namespace, device: Device) -> tuple[Mesh, float]:
    """The mesh with a normal map that makes its pictures those of the target, and milliseconds a step."""
    mesh = mesh.unwrap(given.texels)
    seen = Pictures(target, around(given.detail_views, given.detail_size, 7.0))
    slopes = Variable(
        VEC2, (given.texels, given.texels), name="slopes", data=np.zeros((1, given.texels, given.texels, 2))
    )
    normal = F.normalize(F.vec3(slopes, 1.0))
    counter = clock()
    pick = ViewBatches(given.detail_views, 2, counter, 0)
    matrices = seen.cameras.matrices
    cameras = pick(Variable(MAT4, (1, 1), len(matrices), name="cameras", data=matrices[:, None, None]))
    goal = pick(Variable(VEC3, seen.cameras.size, len(matrices), name="pictures", data=seen.colours))
    inside = pick(Variable.of((seen.masks > 0.999).astype(float), batched=True))
    picture = render(
        mesh,
        cameras,
        size=seen.cameras.size,
        material={"normal": normal},
        light=LIGHTS,
        form="hard",
        filter="trilinear",
    )
    both = F.logical_and(F.greater(inside, 0.5), F.greater_equal(picture.face, 0))
    away = F.select(both, picture.colour - goal, (0.0, 0.0, 0.0))
    with DressiAD(device) as ad:
        ad.set_loss(F.mean(F.sum_components(F.square(away))) + SMOOTHNESS * roughness(slopes), record=False)
        falling = cosine(0.015, 0.0005, given.detail_steps)
        ad.set_optimizer(Clocked(adam(falling, (0.9, 0.99)), counter), [slopes])
        begin = time.process_time()
        ad.step(given.detail_steps)
        found = np.asarray(ad.recv(slopes))[0].astype(np.float64)
        milliseconds = 1e3 * (time.process_time() - begin) / given.detail_steps
    normals = np.concatenate([found, np.ones_like(found[..., :1])], axis=-1)
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    return replace(mesh, material=replace(SKIN, normal=normals)), milliseconds


def degrees(mesh: Mesh, target: Mesh, cameras: Cameras, device: Device) -> float:
    """Mean angle between the shading normals, where both show the surface."""
    found = []
    for one in (mesh, target):
        picture = render(one, Variable(MAT4, (1, 1), len(cameras), data=cameras.matrices[:, None, None]), size=cameras.size,
            form="hard", shader=lambda point: point.shading_normal)  # fmt: skip
        with DressiAD(device) as ad:
            ad.set_output("normal", picture.colour)
            found.append(np.asarray(ad.recv("normal"), np.float64))
    lengths = [np.linalg.norm(n, axis=-1) for n in found]
    both = (lengths[0] > 0.5) & (lengths[1] > 0.5)
    cosines = (found[0] * found[1]).sum(-1)[both] / (lengths[0] * lengths[1])[both]
    return float(np.degrees(np.arccos(np.clip(cosines, -1, 1))).mean())


def lines(mesh: Mesh, camera: Any) -> np.ndarray:
    """The shaded mesh under its edges."""
    flat = render(replace(mesh, material=SKIN), camera, light=LIGHTS, samples=2)
    front = render(mesh, camera, light=None, outputs=("depth",)).depth
    nearest = np.where(front > 0, front, camera.far)
    # Depths in clip space, a little behind the surface, hide the edges of its back.
    projection = camera.projection
    limit = (projection[2, 2] * (nearest + 0.01) + projection[2, 3]) / (nearest + 0.01)
    picture = draw_strands(wireframe(mesh, 0.6), camera, limit=Variable.of(limit.clip(0, 1)))
    with DressiAD() as ad:
        ad.set_output("over", picture.over(Variable.of(np.asarray(flat.colour, np.float64), VEC3)))
        return np.asarray(ad.recv("over"))[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--views", type=int, default=12)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--subdivisions", type=int, default=4)
    parser.add_argument("--faces", type=int, default=30_000, help="of the last round")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rate", type=float, default=0.04)
    parser.add_argument("--texels", type=int, default=1024)
    parser.add_argument("--detail-views", type=int, default=48)
    parser.add_argument("--detail-size", type=int, default=512)
    parser.add_argument("--detail-steps", type=int, default=400)
    parser.add_argument("--deodr", action="store_true", help="deodr beside the two forms")
    parser.add_argument(
        "--quick", action="store_true", help="a coarser sphere, smaller pictures, fewer steps"
    )
    parser.add_argument("--device", default=None)
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("out/figure12"))
    given = parser.parse_args()
    if given.quick:  # other defaults, so that what is given still counts
        parser.set_defaults(views=8, size=128, faces=12_000, steps=240)
        parser.set_defaults(detail_views=16, detail_size=192, detail_steps=150)
        given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    target, apart = target_mesh(), around(6, 256, 22.0)
    seen = Pictures(target, around(given.views, given.size))
    names = (
        "views",
        "size",
        "subdivisions",
        "faces",
        "steps",
        "texels",
        "detail_views",
        "detail_size",
        "detail_steps",
    )
    entry: dict[str, Any] = {name: getattr(given, name) for name in names}
    found: dict[str, Mesh] = {}
    with Device.open(given.device) as device:
        entry["device"] = device.name
        forms = (*FORMS, "deodr") if given.deodr else FORMS
        for form in forms:
            found[form], entry[form] = geometry(form, seen, given, device)
            entry[form] |= {
                "chamfer_percent": 100 * chamfer(found[form], target),
                "degrees": degrees(found[form], target, apart, device),
            }
            print(form, {k: v for k, v in entry[form].items() if k != "losses"}, flush=True)
            write_json(given.json or given.out / "figure12.json", entry)
        best = min(FORMS, key=lambda form: entry[form]["degrees"])
        detailed, milliseconds = normal_map(found[best], target, given, device)
        entry["normal map"] = {
            "on": best,
            "degrees": degrees(detailed, target, apart, device),
            "processor_ms": milliseconds,
        }
        print("normal map", entry["normal map"], flush=True)
    write_json(given.json or given.out / "figure12.json", entry)
    (camera,) = orbit(np.array([0.0, 0.25, 0.0]), 0.7, [20.0], [5.0], (512, 512))
    first = [lines(found[form], camera) for form in forms] + [lines(detailed, camera), lines(target, camera)]
    second = [
        np.asarray(render(mesh, camera, light=LIGHTS, samples=2, filter="trilinear").colour)
        for mesh in (*found.values(), detailed, target)
    ]
    rows = [np.concatenate([np.clip(c, 0, 1) for c in row], axis=1) for row in (first, second)]
    save_png(given.out / "figure12.png", np.concatenate(rows))


if __name__ == "__main__":
    main()
