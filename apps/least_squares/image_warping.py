"""As-rigid-as-possible warping of a picture that is dragged by handles.

    python apps/least_squares/image_warping.py --out out/image_warping

Each active pixel p at P(p) moves by u(p) and turns by a(p). Edges to neighbours n turn with it, and handles h go to
their goals g (Dvoroznak 2014):

    E(u, a) = w_rigid/2 sum over active p, n:  |u(p) - u(n) - (R(a(p)) - 1) (P(p) - P(n))|^2  +  w_fit/2 sum over h:  |u(h) - g(h)|^2

The unknown is the displacement u instead of the new place P + u: float32 keeps five more bits of small numbers than of
pixel coordinates. Writes image_warping.json (costs and times) and image_warping.png.
"""

from images import NEIGHBOURS, neighbour

from dressi import F, Variable

FIT, RIGID = 100.0, 0.01
"""Weights of the handles and of the rigidity."""


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
