"""Laplacian smoothing of an image: the first example of the Opt paper (section 3).

    E = sum of (w_fit (X - A))^2 + (w_reg (X(x, y) - X(x + 1, y)))^2 + (w_reg (X(x, y) - X(x, y + 1)))^2

    python apps/least_squares/laplacian.py --out out/laplacian

Writes laplacian.json (costs and times of every step, and of SciPy) and laplacian.png, before and after.
"""

from __future__ import annotations

import numpy as np
from problem import Problem, options, run_program
from scipy_solver import Term

from dressi import F, Variable
from dressi.render.io.files import write_files
from dressi.render.io.images import encode_png

W_FIT, W_REG = 0.2, 1.0
INITIAL, OPTIMUM = 335.103787930, 18.621117842
"""Costs at 64x64, half the sum of squares, by Ceres."""


def image(size: int = 64) -> np.ndarray:
    """(size, size): waves with steps of five heights on them."""
    x, y = np.meshgrid(np.arange(size), np.arange(size))
    return np.sin(0.37 * x) * np.cos(0.21 * y) + 0.1 * ((7 * x + 13 * y) % 5)


def energy(x: Variable, a: Variable, w_fit: float = W_FIT, w_reg: float = W_REG) -> list[Variable]:
    """x, a: FLOAT or VECn images, unknown and given. Differences that would leave the image are dropped."""
    width, height = x.size
    left, right = (F.crop(x, k, 0, (width - 1, height)) for k in (0, 1))
    upper, lower = (F.crop(x, 0, k, (width, height - 1)) for k in (0, 1))
    return [w_fit * (x - a), w_reg * (left - right), w_reg * (upper - lower)]


def problem(given: np.ndarray) -> Problem:
    """The energy from the given image (H, W)."""
    x, a = (Variable.of(given, name=name) for name in ("X", "A"))
    return Problem("laplacian", energy(x, a), [x], terms(given))


def terms(given: np.ndarray, w_fit: float = W_FIT, w_reg: float = W_REG) -> list[Term]:
    """The energy in NumPy."""
    number = np.arange(given.size).reshape(given.shape)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    return [
        Term(lambda x: w_fit * (x - given.reshape(-1, 1)), [(0, number.ravel())]),
        *(Term(lambda x, y: w_reg * (x - y), [(0, p.ravel()), (0, q.ravel())]) for p, q in pairs),
    ]


def main() -> None:
    parser = options(__doc__ or "", "laplacian", method="gn", steps=4, iterations=100)
    parser.add_argument("--size", type=int, default=64)
    given = parser.parse_args()
    before = image(given.size)
    run = run_program(problem(before), given)
    both = np.concatenate([before, run.unknowns[0].reshape(before.shape)], 1)
    grey = (both - both.min()) / (both.max() - both.min())
    write_files({given.out / "laplacian.png": encode_png(np.repeat(grey[..., None], 3, 2))})


if __name__ == "__main__":
    main()
