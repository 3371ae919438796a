"""Does the gradient agree with finite differences of the rendered loss, for every estimator and kind of parameter?

    python apps/gradient_test.py --out apps/results/gradient_test
    python apps/gradient_test.py --estimator outer "face K3" --mesh torus --device SwiftShader

Parameters are positions, the pose of the camera (its matrix), the focal length, the texture and the texture coordinates, on
a convex, a concave and an open mesh. Along several directions of each, by at most one pixel (positions, pose, focal length),
a texel (coordinates) or a tenth (texture) to either side, the gradient times the direction is integrated and compared with
the change of the loss. The loss is the squared difference of the silhouette, or of the colours for texture and coordinates,
to a target: the mesh enlarged by 15 % and shifted a little. Writes gradient_test.json: for each estimator, mesh and
parameter the number of directions that change the loss by more than 2 % of the largest change, their ratios, the median,
and the share within the bound of the estimator (outer 2 %, face form with K = 3 5 %, others 5 %). Existing entries are not
measured again.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph.types import FLOAT, IVEC3, MAT4, VEC2, VEC3, list_image
from dressi.ad.transform.gradient import gradient
from dressi.config import config
from dressi.render.cameras import Camera
from dressi.render.core.lists import list_leaf
from dressi.render.formats import load_mesh
from dressi.render.forms.hard_soft_ras import FORMS, hard_soft_ras
from dressi.render.io import write_json
from dressi.render.mesh import Mesh
from dressi.render.mesh.primitives import icosphere, torus
from dressi.render.surface.projection import to_clip
from dressi.render.surface.texturing import texture_colour

ESTIMATORS = {
    "outer": {"form": "outer"},
    "face K3": {"form": "face", "layers": 3},
    "face K1": {"form": "face", "layers": 1},
    "edges": {"form": "edges"},
}
BOUNDS = {"outer": 0.02}
BOUND, TINY, TEXELS = 0.05, 0.02, 64


def opened() -> Mesh:
    """A sphere without its top."""
    ball = icosphere(2)
    keep = ball.positions[ball.faces].mean(1)[:, 1] < 0.45
    assert ball.uv_faces is not None
    return Mesh(ball.positions, ball.faces[keep], ball.uvs, ball.uv_faces[keep], name="open").clean()


def bob() -> Mesh:
    """A mesh of the data folder; a torus without the folder."""
    file = Path(config.data or "../shared/data") / "meshes" / "spot_bob" / "bob_tri.obj"
    return load_mesh(file) if file.exists() else torus(22, 16)


MESHES = {"convex": lambda: icosphere(2), "concave": bob, "open": opened, "torus": lambda: torus(22, 16)}


class Scene:
    """A textured mesh in front of a camera, with every parameter as a leaf."""

    def __init__(self, mesh: Mesh, options: dict, settings: argparse.Namespace, device: Device):
        assert mesh.uvs is not None and mesh.uv_faces is not None
        center, extent = mesh.bounding_sphere()
        size = (settings.size, settings.size)
        camera = Camera.perspective(45.0, size, 2.7 * np.array((0.4, 0.45, 0.8)), np.zeros(3))
        camera = camera.around(np.zeros(3), 1.0)
        focal = camera.projection[0, 0]
        y, x = (np.mgrid[:TEXELS, :TEXELS] + 0.5) / TEXELS * 2 * np.pi
        texture = 0.5 + 0.3 * np.stack([np.sin(x), np.sin(y + 1), np.sin(x + y)], axis=-1)
        self.size, self.points = settings.size, (mesh.positions - center) / extent
        self.values = {
            "position": self.points,
            "pose": camera.view,
            "focal length": np.array(focal),
            "texture": texture,
            "texture coordinates": np.asarray(mesh.uvs),
        }
        self.unit = np.diag([1 / focal, 1 / focal, 1.0, 1.0]) @ camera.projection
        self.leaves = {
            "position": list_leaf("position", VEC3, self.points),
            "pose": Variable(MAT4, name="pose", data=camera.view[None, None, None]),
            "focal length": Variable(FLOAT, name="focal length", data=np.full((1, 1, 1), focal)),
            "texture": Variable(VEC3, (TEXELS, TEXELS), name="texture", data=texture[None]),
            "texture coordinates": list_leaf("uvs", VEC2, mesh.uvs),
        }
        leaf = self.leaves
        ray = F.matmul(F.constant(self.unit), to_clip(leaf["position"], leaf["pose"]))
        clip = F.hadamard(ray, F.vec4(leaf["focal length"], leaf["focal length"], 1.0, 1.0))
        faces, uv_faces = list_leaf("faces", IVEC3, mesh.faces), list_leaf("uv faces", IVEC3, mesh.uv_faces)
        if FORMS[options["form"]].soft:
            options = {**options, "radius": settings.radius_px / settings.size}
        drawn = hard_soft_ras(clip, faces, size=size, face_count=len(mesh.faces), **options)
        colours = [
            texture_colour(leaf["texture"], s.interpolate(leaf["texture coordinates"], uv_faces), s.face)
            for s in drawn.surfaces
        ]
        shown = {"silhouette": drawn.silhouette, "picture": drawn.blend(colours, (0.2, 0.3, 0.4))}
        self.targets = {k: Variable(v.vtype, size, name=f"target {k}") for k, v in shown.items()}
        self.ad = DressiAD(device)
        losses = {}
        for name, image in shown.items():
            error = image - self.targets[name]
            losses[name] = F.square(error) if name == "silhouette" else F.dot(error, error)
            self.ad.set_output(name, image)
            self.ad.set_output(f"squares {name}", losses[name])
            self.ad.send(self.targets[name], np.zeros(self.targets[name].shape))
        for name, variable in leaf.items():
            loss = losses[self.judged(name)]
            self.ad.set_output(f"slope {name}", gradient(F.sum(loss), [variable])[0])
        self.send("position", self.points * 1.15 + (0.06, 0.04, 0.03))
        self.send("texture", 0.8 * texture[::-1])
        self.ad.step()
        pictures = {name: self.ad.recv(name) for name in shown}
        for name, picture in pictures.items():
            self.ad.send(self.targets[name], picture)
        for name in ("position", "texture"):
            self.send(name, self.values[name])

    @staticmethod
    def judged(name: str) -> str:
        return "picture" if name.startswith("texture") else "silhouette"

    def send(self, name: str, values: np.ndarray) -> None:
        leaf = self.leaves[name]
        listed = name in ("position", "texture coordinates")
        self.ad.send(leaf, list_image(values) if listed else np.reshape(values, leaf.shape))

    def screen(self, pose: np.ndarray, focal: float, points: np.ndarray) -> np.ndarray:
        """In pixels."""
        seen = np.concatenate([points, np.ones((len(points), 1))], axis=1) @ (self.unit @ pose).T
        return focal * seen[:, :2] / seen[:, 3:] * self.size / 2

    def pixels(self, name: str, direction: np.ndarray) -> float:
        """The speed of the fastest vertex."""
        ends = []
        for h in (1e-5, -1e-5):
            at = {
                k: self.values[k] + (h * direction if k == name else 0)
                for k in ("pose", "focal length", "position")
            }
            ends.append(self.screen(at["pose"], float(at["focal length"]), at["position"]))
        return float(np.linalg.norm(ends[0] - ends[1], axis=1).max() / 2e-5)

    def directions(self, name: str) -> Iterator[tuple[str, np.ndarray]]:
        random, values = np.random.default_rng(1), self.values[name]
        if name == "position":
            yield from ((f"shift {'xyz'[k]}", np.tile(np.eye(3)[k], (len(values), 1))) for k in range(3))
            yield "scale", values
            yield "rotation", np.cross((0.3, 1.0, 0.2), values)
            yield "smooth", np.sin(values @ (random.normal(size=(3, 3)) * 2)) @ random.normal(size=(3, 3))
        elif name == "pose":
            for k in range(3):
                turn, move = np.zeros((4, 4)), np.zeros((4, 4))
                turn[:3, :3], move[k, 3] = np.cross(np.eye(3)[k], np.eye(3)).T, 1.0
                yield f"turn {'xyz'[k]}", turn @ values
                yield f"move {'xyz'[k]}", move
        elif name == "focal length":
            yield "focal length", np.array(1.0)
        elif name == "texture":
            yield "brighter", 0.1 * np.ones(values.shape)
            yield "noise", 0.1 * random.uniform(-1, 1, values.shape)
        else:
            yield "u", np.tile((1 / TEXELS, 0.0), (len(values), 1))
            yield "v", np.tile((0.0, 1 / TEXELS), (len(values), 1))
            yield "noise", random.uniform(-1, 1, values.shape) / TEXELS

    def change(self, name: str, step: np.ndarray, samples: int) -> tuple[float, float]:
        """(integral of the gradient, difference of the loss) between -step and step."""
        losses, slopes = [], []
        for place in (-1.0, 1.0, *((np.arange(samples) + 0.5) / samples * 2 - 1)):
            self.send(name, self.values[name] + place * step)
            self.ad.step()
            if abs(place) == 1.0:
                losses.append(self.ad.recv(f"squares {self.judged(name)}").astype(float).sum())
                continue
            slope = self.ad.recv(f"slope {name}").astype(float)
            width = step.shape[-1] if step.ndim else 1
            flat = slope.reshape(-1, width)[: max(step.size // width, 1)]
            slopes.append(float((flat * step.reshape(flat.shape)).sum()))
        self.send(name, self.values[name])
        return 2 * float(np.mean(slopes)), float(losses[1] - losses[0])

    def examine(self, name: str, samples: int) -> dict[str, tuple[float, float]]:
        found = {}
        for label, direction in self.directions(name):
            geometric = self.judged(name) == "silhouette"
            step = direction / self.pixels(name, direction) if geometric else direction
            found[label] = self.change(name, step, samples)
        return found


def row_of(changes: dict[str, tuple[float, float]], bound: float) -> dict:
    largest = max(abs(difference) for _, difference in changes.values())
    ratios = {k: i / d for k, (i, d) in changes.items() if abs(d) > TINY * largest}
    values = np.array(list(ratios.values()))
    within = float(np.mean(np.abs(values - 1) <= bound))
    # Relative to the largest change, because that determines the effect of an error on a gradient step.
    worst = max(abs(i - d) for i, d in changes.values()) / largest
    return {
        "bound": bound,
        "within": within,
        "median": float(np.median(values)),
        "worst": worst,
        "ratios": ratios,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--estimator", nargs="+", default=list(ESTIMATORS), choices=ESTIMATORS)
    parser.add_argument("--mesh", nargs="+", default=["convex", "concave", "open"], choices=MESHES)
    parser.add_argument("--size", type=int, default=128, help="pixels along each side")
    parser.add_argument("--radius-px", type=float, default=5.0)
    parser.add_argument("--samples", type=int, default=24, help="of the gradient along each direction")
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/gradient_test"))
    settings = parser.parse_args()
    settings.out.mkdir(parents=True, exist_ok=True)
    file = settings.out / "gradient_test.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    with Device.open(settings.device) as device:
        for mesh_name in settings.mesh:
            mesh = MESHES[mesh_name]()
            for name in settings.estimator:
                key = {
                    "estimator": name, "mesh": mesh_name, "faces": len(mesh.faces), "size": settings.size,
                    "radius_px": settings.radius_px, "samples": settings.samples, "device": device.name,
                }  # fmt: skip
                if any(key.items() <= row.items() for row in rows):
                    continue
                scene, bound = Scene(mesh, ESTIMATORS[name], settings, device), BOUNDS.get(name, BOUND)
                try:
                    for parameter in scene.leaves:
                        row = row_of(scene.examine(parameter, settings.samples), bound)
                        rows.append({**key, "parameter": parameter, **row})
                        share = f"{100 * row['within']:.0f} % within {100 * bound:g} %"
                        print(
                            f"{name}, {mesh_name}, {parameter}: {share}, median {row['median']:.4f}",
                            flush=True,
                        )
                finally:
                    scene.ad.close()
                write_json(file, rows)
    print(f"results are in '{file}'")


if __name__ == "__main__":
    main()
