"""Poisson image editing: a part of one picture is pasted into another one without seams.

    python apps/least_squares/poisson_editing.py --out out/poisson_editing

The new colours X have the differences of the inserted picture T, and those of the base around them (Perez 2003):

    E(X) = 1/2 sum over active p, over neighbours n of p:  |(X(p) - X(n)) - (T(p) - T(n))|^2

An edge of the pixel grid is in the sum once for each active end. It is linear, so one Gauss-Newton step solves it. Writes poisson_editing.json (costs and times) and poisson_editing.png.
"""

from images import in_bounds, neighbour

from dressi import F, Variable


def energy(colours: Variable, inserted: Variable, base: Variable, active: Variable) -> list[Variable]:
    """colours: the unknown, VEC3. inserted, base: VEC3. active: FLOAT, 0 where the base stays. Two VEC3 residuals."""
    x, t = F.select(active, colours, base), inserted
    residuals = []
    for to in ((1, 0), (0, 1)):
        ends = F.select(in_bounds(x.size, *to), active + neighbour(active, *to), 0.0)
        residuals.append(F.sqrt(ends) * ((x - neighbour(x, *to)) - (t - neighbour(t, *to))))
    return residuals
