"""Shape from shading: a depth image gets the detail that a picture shows.

    python apps/least_squares/shape_from_shading.py --out out/shape_from_shading

The unknown is the correction d of the depth, X = D + d, at pixels of known depth D. Its points are P = X (x, y, 1), its
normals n come from three neighbouring depths, and its shading is B = H(n) . light with spherical harmonics H (Wu 2014):

    E(d) = w_fit/2 sum d^2  +  w_smooth/2 sum |4 P - P(left) - P(right) - P(above) - P(below)|^2
         + w_shading/2 sum |(B - I)(p) - (B - I)(right)|^2 + |(B - I)(p) - (B - I)(below)|^2

I is the picture at the place of the normal. Where the picture has an edge, shading is not compared. Differences of
neighbouring depths are those of D, which float32 computes exactly, and of d, which is small. Writes
shape_from_shading.json (costs and times of every step), and shape_from_shading.png: the picture, and the normals of the
depth before and after (x to the right is red, y up is green, towards the camera is blue).
"""

from dataclasses import dataclass

import numpy as np
from images import NEIGHBOURS, Shaded, save_pictures, shaded
from problem import Problem, options, run_program

from dressi import F, Variable, least_squares
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.least_squares import in_bounds, neighbour

TINY = 1e-20
"""Keeps the length of a normal above 0 at the border of the image, where neighbours have depth 0."""
JUMP = 0.01
"""Metres: where the input depth jumps by more, it is not smoothed."""


@dataclass(frozen=True)
class Scene:
    """Inputs as Variables. depth: FLOAT, 1 where unknown; valid: FLOAT mask; grey, edges: FLOAT; ray: VEC2, the point of
    depth 1 at each pixel."""

    depth: Variable
    valid: Variable
    grey: Variable
    edges: tuple[Variable, Variable]
    ray: Variable
    focal: tuple[float, float]
    light: np.ndarray
    weights: tuple[float, float, float]

    @classmethod
    def of(cls, given: Shaded) -> "Scene":
        height, width = given.depth.shape
        ray = (np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1) - given.centre) / given.focal
        valid = given.depth > 0
        return cls(
            depth=Variable.of(np.where(valid, given.depth, 1.0), name="depth"),
            valid=Variable.of(valid.astype(float), name="valid"),
            grey=Variable.of(given.grey, name="grey"),
            edges=(Variable.of(given.edges[0], name="edges_right"), Variable.of(given.edges[1], name="edges_below")),
            ray=Variable.of(ray, name="ray"),
            focal=given.focal,
            light=given.light,
            weights=given.weights,
        )  # fmt: skip


class Surface:
    """The surface of depth D + d."""

    def __init__(self, scene: Scene, correction: Variable):
        self.scene, self.correction = scene, correction
        self.depth = scene.depth + correction

    def step(self, dx: int, dy: int) -> Variable:
        """FLOAT: how much deeper each pixel is than a neighbour."""
        before, d = self.scene.depth, self.correction
        return (before - neighbour(before, dx, dy)) + (d - neighbour(d, dx, dy))

    def normal(self, depth: Variable, from_left: Variable, from_above: Variable) -> Variable:
        """VEC3 of length 1, from the depth and the steps to the left and upper neighbour (Wu 2014, equation 10)."""
        (fx, fy), ray, left, above = self.scene.focal, self.scene.ray, depth - from_left, depth - from_above
        nx, ny = fx * above * from_left, fy * left * from_above
        n = F.vec3(nx, ny, -(nx * ray.x + ny * ray.y + left * above))
        return n * F.inversesqrt(F.dot(n, n) + TINY)

    def corner(self) -> tuple[Variable, Variable, Variable]:
        """What ``normal`` takes."""
        return self.depth, self.step(-1, 0), self.step(0, -1)

    def shading(self) -> Variable:
        """FLOAT: what the light makes of the normals."""
        corner = self.corner()
        n = self.normal(*corner)
        x, y, z = n.x, n.y, n.z
        harmonics = (1.0, y, z, x, x * y, y * z, 2.0 * z * z - x * x - y * y, z * x, x * x - y * y)
        return least_squares.linearized(
            sum(float(c) * h for c, h in zip(self.scene.light, harmonics, strict=True)), corner
        )

    def laplacian(self) -> Variable:
        """VEC3: 4 P - the four neighbours of P. As P = X ray, it is ray (4 X - ...) and differences of X across."""
        (fx, fy), ray, step = self.scene.focal, self.scene.ray, self.step
        z = sum(step(*to) for to in NEIGHBOURS)
        across = F.vec2((step(1, 0) - step(-1, 0)) / fx, (step(0, 1) - step(0, -1)) / fy)
        return F.vec3(ray * z + across, z)


def inner(x: Variable) -> Variable:
    """FLOAT: 1 at texels that have four neighbours."""
    return in_bounds(x, 1, 1) * in_bounds(x, -1, -1)


def energy(correction: Variable, scene: Scene) -> list[Variable]:
    """correction: the unknown d, FLOAT metres. Residuals: FLOAT fitting, VEC3 smoothness, FLOAT shading twice."""
    surface, valid, grey = Surface(scene, correction), scene.valid, scene.grey
    fit, smooth, shade = (float(w) ** 0.5 for w in scene.weights)
    intensity = 0.5 * grey + 0.25 * (neighbour(grey, -1, 0) + neighbour(grey, 0, -1))
    three = inner(grey) * valid * neighbour(valid, -1, 0) * neighbour(valid, 0, -1)
    off = F.select(three, surface.shading() - intensity, 0.0)
    five = inner(grey) * valid
    for to in NEIGHBOURS:
        flat = F.abs(scene.depth - neighbour(scene.depth, *to)) < JUMP
        five = five * neighbour(valid, *to) * flat
    compared = inner(grey) * valid
    return [
        F.select(valid, fit * correction, 0.0),
        F.select(five, smooth * surface.laplacian(), 0.0),
        F.select(compared, shade * scene.edges[0] * (off - neighbour(off, 1, 0)), 0.0),
        F.select(compared, shade * scene.edges[1] * (off - neighbour(off, 0, 1)), 0.0),
    ]


def problem(given: Shaded) -> tuple[Problem, Surface]:
    """The energy from the input depth; and its surface."""
    correction = Variable.of(np.zeros_like(given.depth), name="correction")
    scene = Scene.of(given)
    return Problem("shape_from_shading", energy(correction, scene), [correction]), Surface(scene, correction)


def normals(surface: Surface, correction: np.ndarray) -> np.ndarray:
    """(H, W, 3) in 0..1: the normals as colours, black where the depth of one of the three pixels is unknown."""
    valid, n = surface.scene.valid, surface.normal(*surface.corner())
    three = valid * neighbour(valid, -1, 0) * neighbour(valid, 0, -1)
    colours = F.select(three, 0.5 + 0.5 * F.vec3(n.x, -n.y, -n.z), 0.0)
    return evaluate([colours], {surface.correction: correction})[0][0]


def main() -> None:
    given = options(__doc__ or "", "shape_from_shading", method="gn", steps=34, iterations=10).parse_args()
    frame = shaded().cropped()
    posed, surface = problem(frame)
    run = run_program(posed, given, tolerance=0.0)
    before, after = (normals(surface, d) for d in (0 * run.unknowns[0], run.unknowns[0]))
    save_pictures(given.out / "shape_from_shading.png", [frame.grey, before, after])


if __name__ == "__main__":
    main()
