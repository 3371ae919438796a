"""Do the gradients of colour, depth and normal images agree with the change of the picture drawn again? Eight scenes.

    python apps/contour_test.py --out out/contour_test
    python apps/contour_test.py --scene torus --form contour outer --radius-px 2 --device llvmpipe SwiftShader

Parts of the scene hide each other or themselves. The moving part moves along nine directions and along ten of single
vertices, the camera along six, by at most one pixel to either side. The loss is the sum of squared differences between the
picture and that of the moved and deformed scene, in the same form. It changes by L(+1 px) - L(-1 px); the gradient times the
direction, integrated between the two, must give the same. The loss is quadratic in vertex colours and texels, so for these
the gradient in the middle must give the difference.

The ratio of the two is 1 if the gradient is exact. Directions that change the loss by less than 5 % of the largest change
among their kind are left out. Those that differ by more than 2 % are integrated again with --again samples. Writes
contour_test.json: for each scene, device, form, radius and image the ratios by kind, their medians and the shares within
5 %. Existing entries are not measured again.
"""

import argparse
import json
from itertools import product
from pathlib import Path

import numpy as np
from contour_scenes import SCENES, Scene, camera_motions, nine_directions, single_vertices

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph.types import FLOAT, IVEC3, MAT4, VEC2, VEC3, list_values
from dressi.ad.transform.gradient import gradient
from dressi.render.cameras import Camera
from dressi.render.core.lists import list_leaf
from dressi.render.forms.hard_soft_ras import FORMS, hard_soft_ras
from dressi.render.io import write_json
from dressi.render.surface.projection import to_clip
from dressi.render.surface.screen import Surface, vertex_normals
from dressi.render.surface.texturing import texture_colour

BOUND, TINY, TEXELS = 0.05, 0.05, 64
FORM_OPTIONS = {"face": {"layers": 3}}


class PathTest:
    """One scene in one form on one device: samples of a path are the tiles of one batch, the radius is data."""

    def __init__(self, scene: Scene, form: str, device: Device, samples: int, images: tuple[str, ...]):
        self.scene, self.samples, count = scene, samples, samples + 2
        size = (scene.size, scene.size)
        camera = Camera.perspective(42.0, size, scene.eye, (0.0, 0.0, 0.0), near=scene.near, far=20.0)
        self.view, self.projection = camera.view, camera.projection
        points = list_leaf("list", VEC3, scene.positions)
        self.position = Variable(VEC3, points.size, count, name="position")
        self.pose = Variable(MAT4, (1, 1), count, name="pose")
        self.radius = Variable(FLOAT, name="radius") if FORMS[form].soft else None
        clip = to_clip(self.position, F.matmul(F.constant(self.projection), self.pose))
        faces = list_leaf("faces", IVEC3, scene.faces)
        options = dict(FORM_OPTIONS.get(form, {})) | ({} if self.radius is None else {"radius": self.radius})
        drawn = hard_soft_ras(clip, faces, size=size, face_count=len(scene.faces), form=form, **options)
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
        self.ad = DressiAD(device)
        self.targets = {}
        for name in images:
            shade, behind = shaders[name]
            picture = drawn.blend([shade(s) for s in drawn.surfaces], behind)
            self.targets[name] = target = Variable(picture.vtype, size, name=f"target {name}")
            error = picture - target
            squares = F.square(error) if picture.vtype is FLOAT else F.dot(error, error)
            parameters = [self.position, self.pose] + ([self.painted] if name == "colour" else [])
            self.ad.set_output(name, picture)
            self.ad.set_output(f"squares {name}", squares)
            for kind, slope in zip(
                ("position", "pose", "paint"), gradient(F.sum(squares), parameters), strict=False
            ):
                self.ad.set_output(f"{kind} {name}", slope)

    def send(self, positions: np.ndarray, poses: np.ndarray) -> None:
        """Positions (N, V, 3) and poses (N, 4, 4), or one of each."""
        count = self.samples + 2
        full = np.zeros(self.position.shape)
        full.reshape(count, -1, 3)[:, : len(self.scene.positions)] = positions
        self.ad.send(self.position, full)
        self.ad.send(self.pose, np.broadcast_to(poses, (count, 4, 4)).reshape(count, 1, 1, 4, 4))
        self.ad.step()

    def aim(self, radius: float) -> None:
        """The target: the part that moves is larger, shifted, rotated and bent."""
        if self.radius is not None:
            self.ad.send(self.radius, np.full((1, 1, 1), radius))
        for target in self.targets.values():
            self.ad.send(target, np.zeros(target.shape))
        scene, moves = self.scene, dict(nine_directions(self.scene))
        away = 0.08 * moves["scale"] + 0.1 * moves["rotation z"] + 0.06 * moves["rotation y"]
        away = away + np.where(scene.moves[:, None], (0.06, 0.04, 0.03), 0.0)
        away = away + 0.02 * moves["smooth 0"]
        self.send(scene.positions + away, self.view)
        for name, target in self.targets.items():
            self.ad.send(target, self.ad.recv(name)[:1])

    def screen(self, positions: np.ndarray, pose: np.ndarray) -> np.ndarray:
        """In pixels; NaN for points nearer than the near plane."""
        clip = np.concatenate([positions, np.ones((len(positions), 1))], axis=1) @ (self.projection @ pose).T
        there = clip[:, 2:3] >= 0
        return np.where(there, clip[:, :2] / np.where(there, clip[:, 3:], 1), np.nan) * self.scene.size / 2

    def change(self, move: np.ndarray, turn: np.ndarray, samples: int) -> dict[str, tuple[float, float]]:
        """By image: (integral of the gradient, difference of the loss) along positions + h move, pose + h turn."""
        h, scene = 1e-5, self.scene
        ends = [self.screen(scene.positions + s * move, self.view + s * turn) for s in (h, -h)]
        scale = 2 * h / np.nanmax(np.linalg.norm(ends[0] - ends[1], axis=1))
        move, turn = move * scale, turn * scale
        rounds = -(-samples // self.samples)
        places = (np.arange(rounds * self.samples) + 0.5) / (rounds * self.samples) * 2 - 1
        sums, losses = dict.fromkeys(self.targets, 0.0), dict.fromkeys(self.targets, np.zeros(2))
        for part in places.reshape(rounds, -1):
            along = np.concatenate([[-1.0, 1.0], part])[:, None, None]
            self.send(scene.positions + along * move, self.view + along * turn)
            for name in self.targets:
                by = list_values(self.ad.recv(f"position {name}"), len(move)).astype(float)
                slope = (by * move).sum(axis=(1, 2))
                slope += (self.ad.recv(f"pose {name}").astype(float)[:, 0, 0] * turn).sum(axis=(1, 2))
                sums[name] += slope[2:].sum()
                losses[name] = self.ad.recv(f"squares {name}").astype(float).sum(axis=(1, 2))
        return {n: (2 * s / len(places), float(losses[n][1] - losses[n][0])) for n, s in sums.items()}

    def paint(self) -> dict[str, tuple[float, float]]:
        """(gradient, difference of the loss) along changes of the colours or texels."""
        values = self.painted.data
        assert values is not None
        rng, found, count = np.random.default_rng(3), {}, self.samples + 2
        for name, change in (("brighter", np.ones(values.shape)), ("noise", rng.normal(size=values.shape))):
            losses = []
            for sign in (1.0, -1.0, 0.0):
                self.ad.send(self.painted, values + sign * 0.05 * change)
                self.send(self.scene.positions, self.view)
                losses.append(self.ad.recv("squares colour").astype(float).sum() / count)
            slope = self.ad.recv("paint colour").astype(float) / count
            found[name] = (float(2 * 0.05 * (slope * change).sum()), losses[0] - losses[1])
        return found


Ratios = dict[str, float]


def ratios_of(changes: dict[str, tuple[float, float]]) -> Ratios:
    largest = max(abs(d) for _, d in changes.values())
    return {k: i / d for k, (i, d) in changes.items() if abs(d) > TINY * largest}


def examine(work: PathTest, samples: int, again: int) -> dict[str, dict[str, Ratios]]:
    """Ratios by image and kind."""
    scene, still = work.scene, np.zeros((4, 4))
    kinds = {
        "positions": {n: (m, still) for n, m in nine_directions(scene)},
        "single vertices": {n: (m, still) for n, m in single_vertices(scene)},
        "pose": {n: (0 * scene.positions, t) for n, t in camera_motions(work.view)},
    }
    found: dict[str, dict[str, Ratios]] = {name: {} for name in work.targets}
    for kind, moves in kinds.items():
        changes = {name: work.change(move, turn, samples) for name, (move, turn) in moves.items()}
        ratios = {i: ratios_of({n: c[i] for n, c in changes.items()}) for i in work.targets}
        if again:
            for name in {n for r in ratios.values() for n, v in r.items() if abs(v - 1) > 0.02}:
                move, turn = moves[name]
                better = work.change(move, turn, again)
                for image, old in ratios.items():
                    if name in old:
                        old[name] = better[image][0] / better[image][1]
        for image in work.targets:
            found[image][kind] = ratios[image]
    if "colour" in work.targets:
        found["colour"]["texture" if scene.uvs else "vertex colours"] = ratios_of(work.paint())
    return found


def line(row: dict) -> str:
    figures = ", ".join(f"{k} {f['median']:.3f} ({100 * f['within']:.0f} %)" for k, f in row["kinds"].items())
    return f"{row['scene']}, {row['device'].split()[0]}, {row['form']} r = {row['radius_px']:g}, {row['image']}: {figures}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scene", nargs="+", default=list(SCENES), choices=SCENES)
    parser.add_argument("--form", nargs="+", default=["contour", "outer", "face", "antialias"], choices=FORMS)
    parser.add_argument("--radius-px", type=float, nargs="+", default=[1.0, 2.0, 5.0])
    parser.add_argument("--image", nargs="+", default=["colour", "depth", "normal"])
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
                scene, work = SCENES[name](), None
                scene.size = settings.size
                for pixels in settings.radius_px if FORMS[form].soft else settings.radius_px[:1]:
                    key = {
                        "scene": name, "faces": len(scene.faces), "size": scene.size, "form": form,
                        "radius_px": pixels, "samples": [settings.samples, settings.again], "device": device.name,
                    }  # fmt: skip
                    wanted_images = [
                        i
                        for i in settings.image
                        if not any({**key, "image": i}.items() <= r.items() for r in rows)
                    ]
                    if not wanted_images:
                        continue
                    work = work or PathTest(scene, form, device, settings.samples, tuple(settings.image))
                    work.aim(pixels / scene.size)
                    for image, kinds in examine(work, settings.samples, settings.again).items():
                        figures = {
                            kind: {
                                "median": float(np.median(list(ratios.values()))),
                                "within": float(np.mean([abs(r - 1) <= BOUND for r in ratios.values()])),
                                "ratios": ratios,
                            }
                            for kind, ratios in kinds.items()
                        }
                        rows.append({**key, "image": image, "kinds": figures})
                        print(line(rows[-1]), flush=True)
                    write_json(file, rows)
                if work is not None:
                    work.ad.close()
    print(f"results are in '{file}'")


if __name__ == "__main__":
    main()
