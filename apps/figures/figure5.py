"""Figure 5 of the paper: the effect of Enlarge and Shift, for slivers in front of a triangle.

    python apps/figures/figure5.py --out out/figure5

Columns: (a) both, the default; (b) neither, the hard raster; (c) corners moved away from the centroid by 2 r, which is
correct for regular triangles and loses part of the margin of sharp ones ("acute only"); (d) Enlarge without Shift: the
margin has the depth of the plane of its face, so that margins of near faces hide the far one (pseudo occlusion).
Rows: the face of the first layer, and colours blended from K = 2 layers, on all pixels, without an edge mask. Writes
figure5.png, and figure5.json with the share of pixels in which the blended colours of each column differ from (a).
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from dressi import Device, DressiAD, F, Variable
from dressi.ad.graph import as_variable
from dressi.ad.graph.types import IVEC3, VEC4
from dressi.render.core.lists import list_leaf
from dressi.render.forms.edges.edge_list import segment
from dressi.render.forms.face import NearestEdge, enlarged, face_records, face_segments
from dressi.render.io import write_json
from dressi.render.surface.color import linear_to_srgb
from dressi.render.surface.projection import project
from dressi.render.surface.screen import corners, covered, pixel_centres

COLOURS = ((0.05, 0.15, 0.8), (0.1, 0.55, 0.1), (0.8, 0.03, 0.05))
"""Of the faces: blue and green slivers before a red triangle."""
WHITE = (1.0, 1.0, 1.0)
POINTS = np.array(
    [
        *[(-0.6, -0.58, 0.3), (0.6, 0.42, 0.3), (0.64, 0.34, 0.3)],
        *[(-0.55, -0.62, 0.4), (0.66, 0.41, 0.4), (0.7, 0.31, 0.4)],
        *[(-0.5, 0.6, 0.7), (-0.45, -0.38, 0.7), (0.65, 0.55, 0.7)],
    ]
)
FACES = np.arange(9).reshape(3, 3)
Pair = tuple[Variable, Variable]


class Triangles:
    """The triangles on the screen, and the data of a fragment."""

    def __init__(self, size: int, radius: float):
        self.size, self.radius = (size, size), radius
        clip = np.concatenate([POINTS, np.ones((len(POINTS), 1))], axis=1)
        self.position, self.faces = list_leaf("position", VEC4, clip), list_leaf("faces", IVEC3, FACES)
        self.vertex = project(self.position, self.size).vertex
        pairs = face_segments(self.faces, self.vertex, len(FACES), 0)
        self.ends = segment(self.vertex, pairs.x, pairs.y)
        self.records = face_records(self.ends, pairs, self.vertex, self.faces.size)

    def nearest(self, face: Variable) -> Variable:
        return NearestEdge(face, *(F.lookup(record, face) for record in self.records)).output

    def shifted(self, face: Variable) -> Pair:
        """(distance, depth by equation 3)."""
        nearest = self.nearest(face)
        return nearest.x, nearest.y

    def plane(self, face: Variable) -> Pair:
        """(distance, depth of the plane of the face)."""
        a, b, c = (F.lookup(self.vertex, index) for index in corners(face, self.faces))
        p = pixel_centres(self.size)
        parts = [_cross(v.xy - u.xy, p - u.xy) for u, v in ((b, c), (c, a), (a, b))]
        depth = (parts[0] * a.z + parts[1] * b.z + parts[2] * c.z) / (parts[0] + parts[1] + parts[2])
        return self.nearest(face).x, F.clamp(0.5 * depth, 0.0, 0.99)

    def enlarged(self) -> tuple[Variable, int]:
        reach = as_variable(self.radius + 0.25 / self.size[1])
        return enlarged(reach, self.ends, len(FACES), self.size), 2

    def plain(self) -> tuple[Variable, int]:
        return self._corners(POINTS[FACES]), 1

    def stretched(self) -> tuple[Variable, int]:
        """Corners moved away from the centroid; the screen is 2 clip units high."""
        found = POINTS[FACES].copy()
        away = found[..., :2] - found[..., :2].mean(1, keepdims=True)
        found[..., :2] += away * (4 * self.radius / np.linalg.norm(away, axis=-1, keepdims=True))
        return self._corners(found), 1

    @staticmethod
    def _corners(found: np.ndarray) -> Variable:
        found = found.reshape(-1, 3)
        return list_leaf("corners", VEC4, np.concatenate([found, np.ones((len(found), 1))], axis=1))

    def peel(
        self, drawn: tuple[Variable, int], measure: Callable[[Variable], Pair], layers: int
    ) -> list[Pair]:
        """(face, distance) of each layer, from front to back."""
        triangles, each = drawn
        found: list[Pair] = []
        last: Pair | None = None

        def fragment(face: Variable) -> Pair:
            distance, depth = measure(face)
            keep = F.greater_equal(distance, -self.radius)
            if last is not None:
                tied = F.logical_and(F.equal(depth, last[0]), F.greater(face, last[1]))
                after = F.logical_or(F.greater(depth, last[0]), tied)
                keep = F.logical_and(keep, F.logical_and(after, F.not_equal(face, last[1])))
            return depth, keep

        for _ in range(layers):
            face = F.rasterize(
                triangles,
                size=self.size,
                triangles=each * len(FACES),
                triangles_per_face=each,
                fragment=fragment,
            )
            distance, depth = measure(face)
            last = (depth, face)
            found.append((face, distance))
        return found


def _cross(u: Variable, v: Variable) -> Variable:
    return u.y * v.x - u.x * v.y


def colour(face: Variable) -> Variable:
    first, second, third = COLOURS
    shown = F.select(F.equal(face, 0), first, F.select(F.equal(face, 1), second, third))
    return F.select(covered(face), shown, WHITE)


def blended(layers: list[Pair], sigma: float) -> Variable:
    """Equations (5) and (6) on all pixels, over white."""
    weights = [F.select(covered(face), F.sigmoid(d / sigma), 0.0) for face, d in layers]
    missed, total, mixed = as_variable(1.0), as_variable(1e-8), as_variable((0.0, 0.0, 0.0))
    for (face, _), weight in zip(layers, weights, strict=True):
        missed, total, mixed = missed * (1.0 - weight), total + weight, mixed + colour(face) * weight
    return F.mix(WHITE, mixed / total, 1.0 - missed)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=512, help="pixels along each side of a panel")
    parser.add_argument("--radius", type=float, default=0.08, help="of HardSoftRas, in image heights")
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/figure5"))
    settings = parser.parse_args()
    settings.out.mkdir(parents=True, exist_ok=True)
    three = Triangles(settings.size, settings.radius)
    columns = {
        "a": (three.enlarged(), three.shifted),
        "b": (three.plain(), three.plane),
        "c": (three.stretched(), three.shifted),
        "d": (three.enlarged(), three.plane),
    }
    panels: dict[str, list[np.ndarray]] = {}
    with Device.open(settings.device) as device, DressiAD(device) as ad:
        for name, (drawn, measure) in columns.items():
            # Without margins this is the hard picture at every distance.
            layers = three.peel(drawn, measure, 1 if name == "b" else 2)
            ad.set_output(f"first {name}", colour(layers[0][0]))
            soft = colour(layers[0][0]) if name == "b" else blended(layers, settings.radius / 7)
            ad.set_output(f"blended {name}", soft)
        ad.step()
        for name in columns:
            panels[name] = [linear_to_srgb(ad.recv(f"{row} {name}")[0]) for row in ("first", "blended")]
    differ = {n: float(np.mean(np.abs(p[1] - panels["a"][1]).max(-1) > 0.02)) for n, p in panels.items()}
    sheet = np.concatenate([np.concatenate(column, axis=0) for column in panels.values()], axis=1)
    Image.fromarray((sheet * 255 + 0.5).astype(np.uint8)).save(settings.out / "figure5.png")
    write_json(settings.out / "figure5.json", differ)
    print("pixels that differ from (a): " + ", ".join(f"({n}) {100 * v:.1f} %" for n, v in differ.items()))


if __name__ == "__main__":
    main()
