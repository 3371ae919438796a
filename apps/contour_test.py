"""Do the gradients of colour, depth, normal and mask images agree with the change of the picture drawn again?

    python apps/contour_test.py --out out/contour_test
    python apps/contour_test.py --scene torus --form edges outer --radius-px 2 --device llvmpipe SwiftShader
    python apps/contour_test.py --form edges --scene house soup --reach 0 1 3 8 --size 64 --again 0

Parts of the scene hide each other or themselves. The moving part moves along nine directions and along ten of single
vertices, the camera along six, by at most one pixel to either side. The loss is the sum of squared differences between the
picture and that of the moved and deformed scene. It changes by L(+1 px) - L(-1 px); the gradient times the direction,
integrated between the two, must give the same. The loss is quadratic in vertex colours and texels, so for these the
gradient in the middle must give the difference.

Two truths say how the loss changes: the form's own picture, and hard pictures with 16x16 samples a pixel. Forms with a
radius have the first alone, because their pictures have a margin that no photograph has, and aim at their own picture of the
moved scene. The others aim at that with 16x16 samples. Their reach is that of the loss: --reach blurs the residual by
Gaussians of so many pixels. "minimum" is where the gradient is zero along a shift and an inflation, in pixels from the scene
in the photograph.

The ratio of the two changes is 1 if the gradient is exact. Directions that change the loss by less than 5 % of the largest
change among their kind are left out. Those that differ by more than 2 % are integrated again with --again samples. Writes
contour_test.json: for each scene, device, form, radius, reach, image and truth by kind how many ratios there are, their median,
the shares within 3 % and 5 %, and the worst. Existing entries are not measured again.
"""

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from contour_scenes import SCENES, Scene, camera_motions, inflation, nine_directions, single_vertices

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph.types import FLOAT, IVEC3, MAT4, VEC2, VEC3, list_values
from dressi.ad.transform.gradient import gradient
from dressi.render.cameras import Camera
from dressi.render.core.lists import list_leaf
from dressi.render.forms.form import HARD
from dressi.render.forms.hard_soft_ras import FORMS, draw_form
from dressi.render.io import write_json
from dressi.render.surface.projection import to_clip
from dressi.render.surface.screen import Surface, vertex_normals
from dressi.render.surface.texturing import texture_colour

BOUNDS, TINY, LEAST, TEXELS = (0.03, 0.05), 0.05, 1e-4, 64
SUPERSAMPLED = 16
FORM_OPTIONS = {"face": {"layers": 3}}
Changes = dict[str, np.ndarray]
"""By image and reach; or by these and the truth."""


class Drawing:
    """The images of a scene and losses of them; samples of a path are the tiles of one batch, the radius is data.

    samples: along each side of a pixel, whose means the images are.
    """

    def __init__(
        self, scene: Scene, form: str, ad: DressiAD, count: int, images: tuple[str, ...],
        reaches: tuple[float, ...], *, samples: int = 1,
    ):  # fmt: skip
        self.scene, self.ad, self.count = scene, ad, count
        size, drawn_size = (scene.size, scene.size), (scene.size * samples, scene.size * samples)
        camera = Camera.perspective(42.0, size, scene.eye, (0.0, 0.0, 0.0), near=scene.near, far=20.0)
        self.view, self.projection = camera.view, camera.projection
        points = list_leaf("list", VEC3, scene.positions)
        self.position = Variable(VEC3, points.size, count, name="position")
        self.pose = Variable(MAT4, (1, 1), count, name="pose")
        estimator = HARD if form == HARD.name else FORMS[form]
        self.radius = Variable(FLOAT, name="radius") if estimator.soft else None
        clip = to_clip(self.position, F.matmul(F.constant(self.projection), self.pose))
        faces = list_leaf("faces", IVEC3, scene.faces)
        options: dict[str, Any] = FORM_OPTIONS.get(form, {}) | (
            {} if self.radius is None else {"radius": self.radius}
        )
        drawn = draw_form(estimator, clip, faces, drawn_size, len(scene.faces), **options)
        normals = vertex_normals(self.position, faces)
        if scene.uvs is None:
            self.painted = list_leaf("colours", VEC3, scene.colours)
        else:
            y, x = (np.mgrid[:TEXELS, :TEXELS] + 0.5) / TEXELS * 2 * np.pi
            waves = np.stack([np.sin(3 * x), np.sin(2 * y + 1), np.sin(2 * x + 3 * y)], axis=-1)
            self.painted = Variable(VEC3, (TEXELS, TEXELS), name="texture", data=(0.5 + 0.4 * waves)[None])
            table, corners = list_leaf("uvs", VEC2, scene.uvs[0]), list_leaf("uv faces", IVEC3, scene.uvs[1])

        def colour(s: Surface) -> Variable:
            if scene.uvs is None:
                return s.interpolate(self.painted)
            return texture_colour(self.painted, s.interpolate(table, corners), s.face)

        shaders = {
            "colour": (colour, (0.2, 0.3, 0.4)),
            "depth": (lambda s: s.interpolate(F.component(clip, 3)), 4.5),
            "normal": (lambda s: F.normalize(s.interpolate(normals)), (0.0, 0.0, 0.0)),
        }
        self.targets, self.losses = {}, []
        for name in images:
            if name == "mask":
                picture = drawn.silhouette
            else:
                shade, behind = shaders[name]
                picture = drawn.blend([shade(s) for s in drawn.surfaces], behind)
            if samples > 1:
                picture = F.resize(picture, size, "area")
            self.targets[name] = target = Variable(picture.vtype, size, name=f"target {name}")
            self.ad.set_output(name, picture)
            for reach in reaches:
                error = F.gaussian_blur(picture - target, reach, None) if reach else picture - target
                squares = F.square(error) if picture.vtype is FLOAT else F.dot(error, error)
                loss = f"{name} {reach:g}"
                self.losses.append(loss)
                self.ad.set_output(f"squares {loss}", squares)
                if form == HARD.name:
                    continue
                painted = name == "colour" and reach == reaches[0]
                parameters = [self.position, self.pose] + ([self.painted] if painted else [])
                slopes = gradient(F.sum(squares), parameters)
                for kind, slope in zip(("position", "pose", "paint"), slopes, strict=False):
                    self.ad.set_output(f"{kind} {loss}", slope)

    def send(self, positions: np.ndarray, poses: np.ndarray) -> None:
        """Positions (N, V, 3) and poses (N, 4, 4), or one of each."""
        full = np.zeros(self.position.shape)
        full.reshape(self.count, -1, 3)[:, : len(self.scene.positions)] = positions
        self.ad.send(self.position, full)
        self.ad.send(self.pose, np.broadcast_to(poses, (self.count, 4, 4)).reshape(self.count, 1, 1, 4, 4))
        self.ad.step()

    def draw(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """The images of the scene with these positions."""
        for target in self.targets.values():
            self.ad.send(target, np.zeros(target.shape))
        self.send(positions, self.view)
        return {name: self.ad.recv(name)[:1] for name in self.targets}

    def loss(self, name: str) -> np.ndarray:
        """(N,)."""
        return self.ad.recv(f"squares {name}").astype(float).sum(axis=(1, 2))

    def slope(self, name: str, move: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """(N,): the derivative of a loss along a displacement of the vertices and a change of the pose."""
        by = list_values(self.ad.recv(f"position {name}"), len(move)).astype(float)
        by_pose = self.ad.recv(f"pose {name}").astype(float)[:, 0, 0]
        return (by * move).sum(axis=(1, 2)) + (by_pose * turn).sum(axis=(1, 2))

    def screen(self, positions: np.ndarray, pose: np.ndarray) -> np.ndarray:
        """In pixels; NaN for points nearer than the near plane."""
        clip = np.concatenate([positions, np.ones((len(positions), 1))], axis=1) @ (self.projection @ pose).T
        there = clip[:, 2:3] >= 0
        return np.where(there, clip[:, :2] / np.where(there, clip[:, 3:], 1), np.nan) * self.scene.size / 2

    def by_pixels(self, move: np.ndarray, turn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The direction as long as moves a vertex by one pixel and no vertex farther."""
        h, scene = 1e-5, self.scene
        ends = [self.screen(scene.positions + s * move, self.view + s * turn) for s in (h, -h)]
        scale = 2 * h / np.nanmax(np.linalg.norm(ends[0] - ends[1], axis=1))
        return move * scale, turn * scale


class PathTest:
    """One scene in one form on one device."""

    def __init__(
        self, scene: Scene, form: str, device: Device, samples: int, images: tuple[str, ...], reaches: tuple[float, ...]
    ):  # fmt: skip
        self.scene, self.samples = scene, samples
        self.drawings = {"own": Drawing(scene, form, DressiAD(device), samples + 2, images, reaches)}
        self.own = self.drawings["own"]
        if self.own.radius is None:
            self.drawings["supersampled"] = Drawing(
                scene, HARD.name, DressiAD(device), 2, images, reaches, samples=SUPERSAMPLED
            )

    def close(self) -> None:
        for drawing in self.drawings.values():
            drawing.ad.close()

    def aim(self, positions: np.ndarray) -> None:
        """The targets: the scene with these positions."""
        photographs = list(self.drawings.values())[-1].draw(positions)
        for drawing in self.drawings.values():
            for name, target in drawing.targets.items():
                drawing.ad.send(target, photographs[name])

    def aim_at_moved(self, radius: float) -> None:
        """The part that moves is larger, shifted, rotated and bent in the targets."""
        if self.own.radius is not None:
            self.own.ad.send(self.own.radius, np.full((1, 1, 1), radius))
        scene, moves = self.scene, dict(nine_directions(self.scene))
        away = 0.08 * moves["scale"] + 0.1 * moves["rotation z"] + 0.06 * moves["rotation y"]
        away = away + np.where(scene.moves[:, None], (0.06, 0.04, 0.03), 0.0)
        self.aim(scene.positions + away + 0.02 * moves["smooth 0"])

    def change(self, move: np.ndarray, turn: np.ndarray, samples: int) -> Changes:
        """By loss and truth: (integral of the gradient, difference of the loss) along positions + h move, pose + h turn."""
        move, turn = self.own.by_pixels(move, turn)
        positions, pose, ends = self.scene.positions, self.own.view, np.array([-1.0, 1.0])[:, None, None]
        sums, differences = dict.fromkeys(self.own.losses, 0.0), {}
        rounds = -(-samples // self.samples)
        places = (np.arange(rounds * self.samples) + 0.5) / (rounds * self.samples) * 2 - 1
        for part in places.reshape(rounds, -1):
            along = np.concatenate([ends, part[:, None, None]])
            self.own.send(positions + along * move, pose + along * turn)
            for loss in sums:
                sums[loss] += self.own.slope(loss, move, turn)[2:].sum() * 2 / len(places)
        for truth, drawing in self.drawings.items():
            if drawing is not self.own:
                drawing.send(positions + ends * move, pose + ends * turn)
            for loss in sums:
                before, after = drawing.loss(loss)[:2]
                differences[f"{loss} {truth}"] = np.array([sums[loss], after - before])
        return differences

    def paint(self) -> dict[str, Changes]:
        """(gradient, difference of the loss with the first reach) along changes of the colours or texels, in the form's own
        picture."""
        values, loss = self.own.painted.data, next(n for n in self.own.losses if n.startswith("colour"))
        assert values is not None
        rng, found = np.random.default_rng(3), {}
        for name, change in (("brighter", np.ones(values.shape)), ("noise", rng.normal(size=values.shape))):
            ends = []
            for sign in (0.05, -0.05, 0.0):
                self.own.ad.send(self.own.painted, values + sign * change)
                self.own.send(self.scene.positions, self.own.view)
                ends.append(self.own.loss(loss)[0])
            slope = self.own.ad.recv(f"paint {loss}").astype(float) / self.own.count
            found[name] = {f"{loss} own": np.array([0.1 * (slope * change).sum(), ends[0] - ends[1]])}
        return found

    def minima(self) -> dict[str, dict[str, float]]:
        """By loss: where the gradient is zero along a shift and an inflation, in pixels from the scene in the photograph."""
        self.aim(self.scene.positions)
        found: dict[str, dict[str, float]] = {loss: {} for loss in self.own.losses}
        for name, away in (
            ("shift", dict(nine_directions(self.scene))["shift x"]),
            ("inflation", inflation(self.scene)),
        ):
            move, turn = self.own.by_pixels(away, np.zeros((4, 4)))
            along = np.linspace(-0.25, 0.25, self.own.count)
            self.own.send(self.scene.positions + along[:, None, None] * move, self.own.view)
            for loss in self.own.losses:
                rise, start = np.polyfit(along, self.own.slope(loss, move, turn), 1)
                found[loss][name] = float(round(-start / rise, 4))
        return found


def figures_of(changes: dict[str, np.ndarray]) -> dict:
    """Of (integral, difference) by direction: how many ratios, their median, the shares within ``BOUNDS``, the worst.

    Empty where no direction changes the loss.
    """
    largest = max(abs(d) for _, d in changes.values())
    ratios = {k: float(i / d) for k, (i, d) in changes.items() if abs(d) > max(TINY * largest, LEAST)}
    if not ratios:
        return {}
    values, worst = np.array(list(ratios.values())), max(ratios, key=lambda k: abs(ratios[k] - 1))
    return {
        "count": len(values),
        "median": round(float(np.median(values)), 4),
        "within": [round(float(np.mean(abs(values - 1) <= bound)), 3) for bound in BOUNDS],
        "worst": [worst, round(ratios[worst], 4)],
    }


def examine(work: PathTest, samples: int, again: int) -> dict[str, dict[str, dict]]:
    """Figures by loss and truth, and by kind."""
    scene, still = work.scene, np.zeros((4, 4))
    kinds = {
        "positions": {n: (m, still) for n, m in nine_directions(scene)},
        "single vertices": {n: (m, still) for n, m in single_vertices(scene)},
        "pose": {n: (0 * scene.positions, t) for n, t in camera_motions(work.own.view)},
    }
    found: dict[str, dict[str, dict]] = {}
    for kind, moves in kinds.items():
        changes = {name: work.change(move, turn, samples) for name, (move, turn) in moves.items()}
        if again:
            for name, (move, turn) in moves.items():
                if any(abs(i - d) > 0.02 * abs(d) for i, d in changes[name].values()):
                    changes[name] = work.change(move, turn, again)
        for key in next(iter(changes.values())):
            figures = figures_of({name: c[key] for name, c in changes.items()})
            found.setdefault(key, {}).update({kind: figures} if figures else {})
    if "colour" in work.own.targets:
        painted = work.paint()
        for key in painted["noise"]:
            kind = "texture" if scene.uvs else "vertex colours"
            found[key][kind] = figures_of({name: c[key] for name, c in painted.items()})
    if work.own.radius is None:
        for loss, offsets in work.minima().items():
            found[f"{loss} own"]["minimum"] = offsets
    return found


def line(row: dict) -> str:
    figures = [
        f"{kind} {f['median']:.3f} ({100 * f['within'][kind == 'single vertices']:.0f} %)"
        if "median" in f
        else f"{kind} {', '.join(f'{v:+.3f}' for v in f.values())}"
        for kind, f in row["kinds"].items()
    ]
    soft = f"r = {row['radius_px']:g}" if FORMS[row["form"]].soft else f"reach {row['reach']:g}"
    start = (
        f"{row['scene']}, {row['device'].split()[0]}, {row['form']} {soft}, {row['image']}, {row['truth']}"
    )
    return f"{start}: {', '.join(figures)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scene", nargs="+", default=list(SCENES), choices=SCENES)
    parser.add_argument("--form", nargs="+", default=["edges", "outer", "face"], choices=FORMS)
    parser.add_argument("--radius-px", type=float, nargs="+", default=[1.0, 2.0, 5.0])
    parser.add_argument(
        "--reach", type=float, nargs="+", default=[0.0, 1.0, 3.0, 8.0],
        help="of the loss, in pixels, for forms without a radius",
    )  # fmt: skip
    parser.add_argument("--image", nargs="+", default=["colour", "depth", "normal", "mask"])
    parser.add_argument(
        "--truth", nargs="+", default=["own", "supersampled"], choices=["own", "supersampled"]
    )
    parser.add_argument("--size", type=int, default=96, help="pixels along each side")
    parser.add_argument("--samples", type=int, default=24, help="of the gradient along each direction")
    parser.add_argument("--again", type=int, default=400, help="samples for directions off by more than 2 %%")
    parser.add_argument("--device", nargs="+", default=[None], help="Vulkan devices, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/contour_test"))
    settings = parser.parse_args()
    settings.out.mkdir(parents=True, exist_ok=True)
    file = settings.out / "contour_test.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    for wanted in settings.device:
        with Device.open(wanted) as device:
            for name, form in product(settings.scene, settings.form):
                scene, soft, work = SCENES[name](), FORMS[form].soft, None
                scene.size = settings.size
                reaches, truths = ((0.0,), ["own"]) if soft else (tuple(settings.reach), settings.truth)
                for pixels in settings.radius_px if soft else [0.0]:
                    key = {
                        "scene": name, "faces": len(scene.faces), "size": scene.size, "form": form,
                        "radius_px": pixels, "samples": [settings.samples, settings.again], "device": device.name,
                    }  # fmt: skip
                    parts = [
                        {"image": image, "reach": reach, "truth": truth}
                        for image, reach, truth in product(settings.image, reaches, truths)
                    ]
                    if all(any({**key, **part}.items() <= r.items() for r in rows) for part in parts):
                        continue
                    work = work or PathTest(
                        scene, form, device, settings.samples, tuple(settings.image), reaches
                    )
                    work.aim_at_moved(pixels / scene.size)
                    found = examine(work, settings.samples, settings.again)
                    for part in parts:
                        kinds = found["{image} {reach:g} {truth}".format_map(part)]
                        rows = [r for r in rows if not {**key, **part}.items() <= r.items()]
                        rows.append({**key, **part, "kinds": kinds})
                        print(line(rows[-1]), flush=True)
                    write_json(file, rows)
                if work is not None:
                    work.close()
    print(f"results are in '{file}'")


if __name__ == "__main__":
    main()
