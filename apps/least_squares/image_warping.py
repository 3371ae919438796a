"""As-rigid-as-possible warping of a picture that is dragged by handles.

    python apps/least_squares/image_warping.py --out out/image_warping

Each active pixel p at P(p) moves by u(p) and turns by a(p). Edges to neighbours n turn with it, and handles h go to
their goals g (Dvoroznak 2014):

    E(u, a) = w_rigid/2 sum over active p, n:  |u(p) - u(n) - (R(a(p)) - 1) (P(p) - P(n))|^2  +  w_fit/2 sum over h:  |u(h) - g(h)|^2

The unknown is the displacement u instead of the new place P + u: float32 keeps five more bits of small numbers than of
pixel coordinates. Writes image_warping.json (costs and times of every step) and image_warping.png. --poses 19 drags the
handles all the way, with --steps steps for each pose, which begins with the one before it.
"""

from dataclasses import replace

import numpy as np
from images import NEIGHBOURS, Warp, box, save_pictures, warp
from problem import Problem, options, run_program

from dressi import F, Variable
from dressi.ad.least_squares import neighbour
from dressi.render import render

FIT, RIGID = 100.0, 0.01
"""Weights of the handles and of the rigidity."""
FORCING = 0.1
"""Where a linear solve ends; the next nonlinear step goes on."""
POSES = 19
"""Of a drag: in pose k the goals are k / POSES of the way."""
OPTIMA = {1: 0.07848697178707, 4: 0.00510145407135}
"""Least costs of the first pose, by direct solves in float64; of the cat at full and at quarter size."""


def energy(
    moved: Variable,
    angle: Variable,
    active: Variable,
    goal: Variable,
    handle: Variable,
    *,
    fit: float = FIT,
    rigid: float = RIGID,
) -> list[Variable]:
    """moved: VEC2 pixels, angle: FLOAT radians, the unknowns. active, handle: FLOAT masks. goal: VEC2. VEC2 residuals."""
    residuals = []
    for x, y in NEIGHBOURS:
        valid = active * neighbour(active, x, y)
        stretch = moved - neighbour(moved, x, y) - turned(angle, (-float(x), -float(y)))
        residuals.append(F.select(valid, rigid**0.5 * stretch, 0.0))
    return [*residuals, F.select(handle, fit**0.5 * (moved - goal), 0.0)]


def turned(angle: Variable, edge: tuple[float, float]) -> Variable:
    """VEC2: R(angle) edge - edge. cos(a) - 1 is -2 sin(a/2)^2, which float32 computes without loss."""
    x, y = edge
    c, s = -2.0 * F.square(F.sin(0.5 * angle)), F.sin(angle)
    return F.vec2(c * x - s * y, s * x + c * y)


def problem(given: Warp, every: int = 1) -> tuple[Problem, Variable]:
    """The energy of the first pose, from rest, on the box of the cut-out alone; and its goals."""
    part = given.cropped()
    moved = Variable.of(np.zeros_like(part.goal), name="moved")
    angle = Variable.of(np.zeros_like(part.active), name="angle")
    goal = Variable.of(part.goal / POSES, name="goal")
    active, handle = Variable.of(part.active, name="active"), Variable.of(part.handle, name="handle")
    residuals = energy(moved, angle, active, goal, handle)
    return Problem("image_warping", residuals, [moved, angle], optimum=OPTIMA.get(every)), goal


def drawn(given: Warp, moved: np.ndarray) -> np.ndarray:
    """(H, W, 3) in 0..1: the cut-out with each pixel p at p + moved(p), on white. moved: (H, W, 2), of all the picture."""
    height, width = given.active.shape
    place = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1) + 0.5 + moved
    clip = 2 * place / (width, height) - 1
    number = np.arange(height * width).reshape(height, width)
    corners = number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:]
    whole = np.all([given.active.ravel()[k] > 0 for k in corners], axis=0)
    a, b, c, d = (k[whole] for k in corners)
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([c, b, d], 1)])
    points = np.concatenate([clip.reshape(-1, 2), np.full((height * width, 1), 0.5)], 1)
    colours = given.picture.reshape(-1, 3) / 255
    seen = render(
        (points, faces), colours=colours, cameras=np.eye(4), size=(width, height), light=None, form="hard"
    )
    colour, mask = (np.reshape(v, (height, width, -1)) for v in (seen.colour, seen.mask))
    return np.where(mask > 0, colour, 1.0)


def main() -> None:
    parser = options(__doc__ or "", "image_warping", method="gn", steps=8, iterations=400, forcing=FORCING)
    parser.add_argument("--every", type=int, default=1, help="take every so manieth pixel of the cat")
    parser.add_argument("--poses", type=int, default=1, help=f"of {POSES} on the way of the handles")
    given = parser.parse_args()
    cat = warp(given.every)
    posed, goal = problem(cat, given.every)
    if given.poses > 1:
        posed = replace(posed, name="image_warping_drag", optimum=None)
    per_pose, whole = given.steps, cat.cropped().goal
    given.steps *= given.poses
    schedule = None if given.poses == 1 else lambda k: {goal: whole * (k // per_pose + 1) / POSES}
    run = run_program(posed, given, schedule, tolerance=0.0)
    moved = np.zeros_like(cat.goal)
    moved[box(cat.active)] = run.unknowns[0][0]
    save_pictures(given.out / f"{posed.name}.png", [drawn(cat, 0 * moved), drawn(cat, moved)])


if __name__ == "__main__":
    main()
