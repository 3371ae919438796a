"""Poisson image editing: a part of one picture is pasted into another one without seams.

    python apps/least_squares/poisson_editing.py --out out/poisson_editing

The new colours X have the differences of the inserted picture T, and those of the base around them (Perez 2003):

    E(X) = 1/2 sum over active p, over neighbours n of p:  |(X(p) - X(n)) - (T(p) - T(n))|^2

An edge of the pixel grid is in the sum once for each active end. It is linear, so one Gauss-Newton step solves it. Writes poisson_editing.json (costs and times of every
step) and poisson_editing.png: the base, the picture pasted as it is, and the result.
"""

import numpy as np
from images import Splice, save_pictures, splice
from problem import Problem, options, run_program

from dressi import F, Variable
from dressi.ad.least_squares import in_bounds, neighbour

INITIAL, OPTIMUM = 40484780.0, 133511.06658635
"""Costs, half the sum of squares, as by Ceres."""
FORCING = 1e-4
"""Where the linear solve ends: the cost is then within 1e-5 of the optimum, relatively."""


def energy(colours: Variable, inserted: Variable, base: Variable, active: Variable) -> list[Variable]:
    """colours: the unknown, VEC3. inserted, base: VEC3. active: FLOAT, 0 where the base stays. Two VEC3 residuals."""
    x, t = F.select(active, colours, base), inserted
    residuals = []
    for to in ((1, 0), (0, 1)):
        ends = F.select(in_bounds(x, *to), active + neighbour(active, *to), 0.0)
        residuals.append(F.sqrt(ends) * ((x - neighbour(x, *to)) - (t - neighbour(t, *to))))
    return residuals


def problem(given: Splice) -> Problem:
    """The energy from the base, on the box of the mask alone."""
    part = given.cropped()
    colours = Variable.of(part.base, name="colours")
    fixed = (part.inserted, part.base, part.active)
    names = ("inserted", "base", "active")
    inputs = [Variable.of(values, name=name) for values, name in zip(fixed, names, strict=True)]
    return Problem("poisson_editing", energy(colours, *inputs), [colours], optimum=OPTIMUM)


def main() -> None:
    given = options(
        __doc__ or "", "poisson_editing", method="gn", steps=1, iterations=100, forcing=FORCING
    ).parse_args()
    pair = splice()
    run = run_program(problem(pair), given, tolerance=0.0)
    mask = pair.active[..., None] > 0
    pictures = (pair.base, np.where(mask, pair.inserted, pair.base), pair.pasted(run.unknowns[0][0]))
    save_pictures(given.out / "poisson_editing.png", [p / 255 for p in pictures])


if __name__ == "__main__":
    main()
