"""Figure 19 of the paper with textures: heads found from four views with depths, as geometry, albedo, normal map, roughness and light.

    python apps/human/face_textures.py --json out/face_textures/figure19_textures.json --out out/face_textures
    python apps/human/face_textures.py --quick

Each of --people faces is random (identity, expression, pose), with textures finer than the vertices of the model and a photographed light.
Four views of 480x640 are recorded by Mitsuba 3 with the noise of a sensor (``face_recording``), once: --out keeps them. Then
all but the cameras is unknown. ``FaceFitter`` finds the geometry and a first albedo from pictures, landmarks, depths and masks. From there
albedo, normal map and roughness are learned as textures of the model's UVs, and the light as an environment map, by the colour term and the
regularizers of equation 8; Adam instead of SGD. Light is about grey in the mean: then the mean colour of the pictures says how light the skin is,
by the statistics of the model's albedo.  --one-view: also the geometry from one view without depths, judged by
"similarity", as NoW does (``figure19.py``): in place and rigid contain the size, which one view hardly tells.

Measures: millimetres of vertices (as ``figure19.py``), and PSNR in dB of linear light, where the face is. "unseen": a view that was not
recorded, in the light that was found. "relit": the same view in another light, which is given. Each for the found face and textures, for the
true ones drawn by the same renderer, which says how well it draws what Mitsuba does, and "flat": the found face with its colours of vertices.
Pictures in an unknown light leave the brightness of albedo and light open; "scaled" is after one factor for each channel.

Writes the JSON file and figure19_textures.png: for each head the unseen view (recorded, found, true textures), the same in another light, and
found and true albedo, normal map and roughness. --quick: one head of 240x320.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from face_data import face_model, vertex_errors
from face_recording import (
    TURNS,
    UNSEEN,
    Recording,
    Textures,
    camera_at,
    record,
    scanned,
    subject,
    texel_values,
    tiled,
    true_textures,
)
from PIL import Image
from scipy.optimize import least_squares

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph.types import FLOAT, MAT4, VEC2, VEC3
from dressi.ad.optim import Clocked, adam, clock, cosine, per_parameter
from dressi.errors import InputError
from dressi.render import Environment, Mesh, linear_to_srgb, render
from dressi.render.faces import Face, FaceData, FaceFitter, FaceModel, FaceOptions
from dressi.render.fit.data.learned import ViewBatches
from dressi.render.fit.phases.texture import roughness as squared_steps
from dressi.render.io import write_json
from dressi.render.io.images import resize
from dressi.render.objectives.metrics import code_psnr
from dressi.render.shading.sphere_filter import solid_angles

SKY = 32
"""Texels across the map of light."""
RATES = {"albedo": 0.005, "slopes": 0.015, "rough": 0.01, "sky": 0.1}
PRIOR, SMOOTH = 1.0, {"detail": 2e-7, "slopes": 1e-6, "rough": 2e-6, "sky": 1e-5}
"""Weights of equation 8's regularizers beside its colour term: of the albedo's distance from the first one, and of differences of
neighbouring texels."""
TINT, NEUTRAL = 0.05, 1.0
"""Deviation of the logarithms of the light's mean colour from grey, and the weight of their squares beside the colour term."""
ROUGH = 0.5
"""At first."""


class TextureFit:
    """The textures of one face and the light around it as leaves, and their loss."""

    def __init__(self, face: Face, data: FaceData, size: tuple[int, int], steps: int, device: Device):
        mesh = face.mesh()
        self.mesh: Mesh = replace(mesh, positions=face.world())
        first = texel_values(face.model.mesh, face.model.colours(face.albedo), size)
        views, plane = len(data.cameras), data.cameras.size
        width, height = size

        def texture(vtype: Any, name: str, array: np.ndarray) -> Variable:
            return Variable(vtype, size, name=name, data=array[None])

        start = Variable(VEC3, size, data=first[None])
        detail = texture(VEC3, "detail", np.zeros((height, width, 3)))
        slopes = texture(VEC2, "slopes", np.zeros((height, width, 2)))
        rough = texture(FLOAT, "rough", np.full((height, width), np.log(ROUGH / (1 - ROUGH))))
        grey = np.log(np.full((1, SKY // 2, SKY, 3), self._even(data, first)))
        sky = Variable(VEC3, (SKY, SKY // 2), name="sky", data=grey)
        self.albedo = F.clamp(start + detail, 0.005, 1.0)
        self.normal = F.normalize(F.vec3(slopes, 1.0))
        self.rough, self.sky = 0.15 + 0.8 * F.sigmoid(rough), F.exp(sky)
        counter = clock()
        pick = ViewBatches(views, 1, counter)
        matrices = np.asarray(data.cameras.matrices)[:, None, None]
        material = {"normal": self.normal, "roughness": self.rough, "metallic": 0.0}
        picture = render(
            replace(self.mesh, colors=None, color_faces=None),
            pick(Variable(MAT4, (1, 1), views, name="cameras", data=matrices)),
            size=plane,
            texture=self.albedo,
            material=material,
            light=Environment(self.sky),
            form="hard",
        )
        goal = pick(Variable(VEC3, plane, views, name="pictures", data=data.pictures))
        # An over-exposed channel says only that the light is at least as bright, and pixels of the outline are mixed.
        inside = (data.masks > 0.999).astype(float)
        seen = pick(Variable(VEC3, plane, views, data=inside[..., None] * (1 - data.clipped)))
        covered = F.select(F.greater_equal(picture.face, 0), 1.0, 0.0)
        away = (picture.colour - goal) * seen * covered
        colour = F.sum(F.dot(away, away)) * (1 / max(inside.sum() / views, 1))
        prior = F.mean(F.dot(detail, detail)) * PRIOR
        whole = F.log(F.sum(self.sky * solid_angles(self.sky.size)))
        tint = whole - F.sum_components(whole) * (1 / 3)
        terms = {"detail": detail, "slopes": slopes, "rough": rough, "sky": sky}
        loss = colour + prior + F.dot(tint, tint) * NEUTRAL
        for name, leaf in terms.items():
            loss = loss + squared_steps(leaf) * SMOOTH[name]
        rates = dict(zip((detail, slopes, rough, sky), RATES.values(), strict=True))
        paces = {leaf: adam(cosine(rate, rate / 20, steps), (0.9, 0.99)) for leaf, rate in rates.items()}
        self.ad = DressiAD(device)
        self.ad.set_loss(loss, record=False)
        self.ad.set_optimizer(Clocked(per_parameter(paces), counter), list(paces))
        for name in ("albedo", "normal", "rough", "sky"):
            self.ad.set_output(name, getattr(self, name))

    @staticmethod
    def _even(data: FaceData, first: np.ndarray) -> float:
        """The radiance all around that would give pictures their mean brightness."""
        assert data.pictures is not None and data.masks is not None
        return float(data.pictures[data.masks > 0.999].mean() / first.mean())

    def run(self, steps: int) -> tuple[Textures, np.ndarray]:
        self.ad.step(steps)
        albedo, normal, rough, sky = (
            np.asarray(self.ad.recv(name), np.float64)[0] for name in ("albedo", "normal", "rough", "sky")
        )
        return Textures(albedo, normal, rough.reshape(albedo.shape[:2])), sky


def kept_recording(
    face: Face, truth: Textures, file: Path, seed: int, given: argparse.Namespace
) -> Recording:
    """The recording of an earlier run with the same options, or a new one."""
    if not file.exists():
        made = record(face, truth, (given.size * 3 // 4, given.size), seed, given.renderer, given.spp)
        arrays = {name: getattr(made, name) for name in ("unseen", "relit", "inside", "light", "other")}
        seen = {name: getattr(made.data, name) for name in ("pictures", "landmarks", "depths", "masks")}
        np.savez_compressed(file, **arrays, **seen)
    with np.load(file) as kept:
        height, width = kept["inside"].shape
        views = [camera_at(turn, (width, height)) for turn in TURNS]
        data = FaceData(views, *(kept[name] for name in ("pictures", "landmarks", "depths", "masks")))
        return Recording(data, *(kept[name] for name in ("unseen", "relit", "inside", "light", "other")))


def geometry(model: FaceModel, data: FaceData, options: FaceOptions, device: Device) -> Face:
    with FaceFitter(model, options, lambda: DressiAD(device)) as fitter:
        return fitter.fit(data).face


def toned(face: Face, data: FaceData) -> Face:
    """The face with the likeliest weights of albedo, where the light is about grey and of unknown brightness: pictures tell only the product
    of both, and of that only the mean colour is used. Shadows and shine change it less than patterns."""
    model = face.model
    assert model.albedo is not None and model.albedo_modes is not None
    assert data.pictures is not None and data.masks is not None
    sure = (data.masks > 0.999) & (data.clipped.max(-1) == 0)
    seen = np.log(data.pictures[sure].mean(0))
    mean, modes = model.albedo.mean(0), model.albedo_modes.mean(1)

    def away(weights: np.ndarray) -> np.ndarray:
        light = seen - np.log(np.maximum(mean + weights @ modes, 1e-3))
        return np.concatenate([weights, (light - light.mean()) / TINT])

    return replace(face, albedo=least_squares(away, np.zeros(len(modes))).x)


def drawn(face: Face, textures: Textures | None, light: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The unseen view; without textures the colours of the vertices."""
    mesh = replace(face.mesh(), positions=face.world())
    look = (
        {"mesh": mesh, "material": {"roughness": ROUGH, "metallic": 0.0}}
        if textures is None
        else textures.on(mesh)
    )
    return np.asarray(
        render(cameras=camera_at(UNSEEN, size), light=Environment(light), samples=2, **look).colour
    )


def psnr(picture: np.ndarray, goal: np.ndarray, inside: np.ndarray, scaled: bool = False) -> float:
    """scaled: after a factor of each channel, which albedo and light leave open."""
    own, other = picture[inside].astype(np.float64), goal[inside]
    if scaled:
        own = own * (own * other).sum(0) / np.maximum((own * own).sum(0), 1e-12)
    return code_psnr(np.clip(own, 0, 1), np.clip(other, 0, 1))


def examine(
    model: FaceModel,
    scan: tuple[np.ndarray, np.ndarray],
    seed: int,
    given: argparse.Namespace,
    device: Device,
) -> tuple[dict[str, Any], np.ndarray]:
    """Measures of one head, and its row of the picture."""
    size = (model_width(model) * given.texels, given.texels)
    truth = subject(model, seed)
    textures = true_textures(truth, scan, size, seed)
    file = given.out / f"{given.renderer} {given.size} {given.texels} {given.spp} {seed}.npz"
    seen = kept_recording(truth, textures, file, seed, given)
    begin = time.process_time()
    found = geometry(
        model, seen.data, FaceOptions(method="adam", rows=given.rows, steps=given.face_steps), device
    )
    row: dict[str, Any] = {"seed": seed, "geometry processor s": time.process_time() - begin}
    row["four views mm"] = {k: float(v.mean()) for k, v in vertex_errors(found, truth).items()}
    if given.one_view:
        one = slice(1, 2)
        marks, pictures, masks = (
            getattr(seen.data, name)[one] for name in ("landmarks", "pictures", "masks")
        )
        data = FaceData(seen.data.cameras[1], pictures, marks, None, masks)
        single = geometry(model, data, FaceOptions(), device)
        row["one view mm"] = {k: float(v.mean()) for k, v in vertex_errors(single, truth).items()}
    begin = time.process_time()
    found = toned(found, seen.data)
    fit = TextureFit(found, seen.data, size, given.steps, device)
    try:
        learned, sky = fit.run(given.steps)
    finally:
        fit.ad.close()
    row["textures processor ms a step"] = 1e3 * (time.process_time() - begin) / given.steps
    plane = seen.data.cameras.size
    views = {
        "unseen": (seen.unseen, [drawn(found, learned, sky, plane), drawn(truth, textures, seen.light, plane), drawn(found, None, sky, plane)]),
        "relit": (seen.relit, [drawn(found, learned, seen.other, plane), drawn(truth, textures, seen.other, plane), drawn(found, None, seen.other, plane)]),
    }  # fmt: skip
    for name, (goal, pictures) in views.items():
        for scaled in (False, True):
            values = (psnr(picture, goal, seen.inside, scaled) for picture in pictures)
            key = f"{name} dB, scaled" if scaled else f"{name} dB"
            row[key] = dict(zip(("found", "truth", "flat"), values, strict=True))
    shown = [seen.data.pictures[1]] + [p for goal, some in views.values() for p in (goal, *some[:2])]
    return row, sheet(shown, learned, textures)


def model_width(model: FaceModel) -> int:
    """Squares of UVs beside each other."""
    return 2 if model.regions else 1


def sheet(pictures: list[np.ndarray], found: Textures, truth: Textures) -> np.ndarray:
    """Pictures side by side, and the square of the face of each texture: found above, true below."""
    height = pictures[0].shape[0]
    codes = [linear_to_srgb(np.clip(p, 0, 1)) for p in pictures]
    half = height // 2

    def face(image: np.ndarray) -> np.ndarray:
        return resize(image[:, : len(image)], (half, half))

    columns = []
    for name in ("albedo", "normal", "roughness"):
        both = []
        for own in (found, truth):
            image = getattr(own, name)
            if name == "albedo":
                image = linear_to_srgb(np.clip(image, 0, 1))
            elif name == "normal":
                image = image * 0.5 + 0.5
            else:
                image = np.repeat(image[..., None], 3, axis=-1)
            both.append(face(image))
        columns.append(np.concatenate(both))
    return np.concatenate([*codes, *columns], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--people", type=int, default=3)
    parser.add_argument(
        "--size", type=int, default=640, help="rows of the recording, which has 3/4 as many columns"
    )
    parser.add_argument("--texels", type=int, default=512, help="along a square of the textures")
    parser.add_argument("--rows", type=int, default=64, help="of the pictures that the geometry is found by")
    parser.add_argument("--face-steps", type=int, default=100, help="of a stage of the geometry")
    parser.add_argument("--steps", type=int, default=300, help="of the textures, each with one view")
    parser.add_argument(
        "--renderer", choices=("mitsuba", "dressi"), default="mitsuba", help="what draws the recording"
    )
    parser.add_argument("--spp", type=int, default=16, help="rays a pixel of Mitsuba")
    parser.add_argument("--one-view", action="store_true", help="also the geometry from one view")
    parser.add_argument("--quick", action="store_true", help="one head, smaller pictures, fewer steps")
    parser.add_argument("--device", default=None)
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("out/face_textures"))
    given = parser.parse_args()
    if given.quick:  # other defaults, so that what is given still counts
        parser.set_defaults(people=1, size=320, texels=256, steps=60, face_steps=40, spp=8)
        given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    try:
        run(given)
    except InputError as error:
        parser.exit(1, f"{error}\n")


def run(given: argparse.Namespace) -> None:
    model = tiled(face_model(given.out / "model.npz"))
    scan = scanned(given.out / "scan.npz", (model_width(model) * given.texels, given.texels))
    names = ("renderer", "size", "texels", "rows", "face_steps", "steps", "spp")
    entry: dict[str, Any] = {name: getattr(given, name) for name in names}
    rows, lines = [], []
    with Device.open(given.device) as device:
        entry["device"] = device.name
        for seed in range(given.people):
            row, line = examine(model, scan, seed, given, device)
            rows.append(row)
            lines.append(line)
            print(row, flush=True)
            write_json(given.json or given.out / "figure19_textures.json", entry | {"heads": rows})
            codes = np.round(np.concatenate(lines) * 255).clip(0, 255).astype(np.uint8)
            Image.fromarray(codes).save(given.out / "figure19_textures.png")


if __name__ == "__main__":
    main()
