"""Intrinsic images: a picture as the product of the colour of surfaces and of the light on them (Opt's example; Bi et al. 2015).

    E = 1/2 sum over pixels:  w_fit |r + s - i|^2
      + 1/2 sum over pixels, over four neighbours:  w_albedo 2/p (|r - r(n)|^2 + EPS^2)^(p/2)  +  w_shading |s - s(n)|^2

i is the logarithm (base 2) of the picture, r and s those of the albedo, three channels, and of the shading, one. Both are
unknown. Norms with p below 1 make albedo constant in pieces. They are a robust kernel, whose weights are held during a step,
as the computed array of Opt's energy is. The start is the chromaticity and the mean of the channels.

    python apps/least_squares/paper/intrinsic_images.py --out out/intrinsic_images

Writes intrinsic_images.json (costs and times of every step, and of SciPy up to 128x128) and intrinsic_images.png: picture,
albedo and shading. --quick takes 64x64.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from images import NEIGHBOURS, codes, save_pictures
from problem import Problem, options, run_program
from scipy_solver import Term

from dressi import F, Variable
from dressi.ad.least_squares import Robust, in_bounds, neighbour
from dressi.render.io import load_image

FIT, ALBEDO, SHADING = 500.0, 1000.0, 10000.0
"""Weights, of the squares."""
NORM = 0.8
EPS = 0.02
"""Differences of albedo below it, in stops, count as noise of the picture."""
DARK = 0.01
"""Added before the logarithm."""
REFERENCE = 128
"""Pixels along a side up to which SciPy solves the energy, too."""


def energy(r: Variable, s: Variable, given: Variable) -> list[Variable | Robust]:
    """r: VEC3 and s: FLOAT, the unknowns. given: VEC3. Residuals: VEC3, then VEC3 and FLOAT for each neighbour."""
    residuals: list[Variable | Robust] = [FIT**0.5 * (r + s - given)]
    for to in NEIGHBOURS:
        inside = in_bounds(r, *to)
        colour, light = (
            F.select(inside, w**0.5 * (x - neighbour(x, *to)), 0.0) for x, w in ((r, ALBEDO), (s, SHADING))
        )
        residuals += [Robust(colour, kernel), light]
    return residuals


def kernel(square: Variable) -> Variable:
    """The norm by the square of a weighed difference; 0 at 0."""
    scale = ALBEDO * EPS**2
    # (1 + x)^(p/2) - 1 loses x where that is small.
    x = square * (1.0 / scale)
    near = NORM / 2 * x * (1.0 + (NORM / 2 - 1) / 2 * x * (1.0 + (NORM / 2 - 2) / 3 * x))
    far = F.pow(1.0 + F.maximum(x, 0.01), NORM / 2) - 1.0
    return ALBEDO * 2 / NORM * EPS**NORM * F.select(x < 0.01, near, far)


def start(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The logarithms of a picture (H, W, 3) in 0..1, of its chromaticity and of the mean of its channels."""
    mean = picture.mean(-1, keepdims=True)
    chroma = picture / np.maximum(mean, 1 / 255)
    i, r, s = (np.log2(v + DARK) for v in (picture, chroma, mean))
    return i, r, s[..., 0]


def problem(picture: np.ndarray) -> Problem:
    """The energy of a picture (H, W, 3) in 0..1."""
    i, r, s = start(picture)
    unknowns = [Variable.of(r, name="r"), Variable.of(s, name="s")]
    given = Variable.of(i, name="i")
    small = max(s.shape) <= REFERENCE
    return Problem("intrinsic_images", energy(*unknowns, given), unknowns, terms(i) if small else ())


def terms(given: np.ndarray) -> list[Term]:
    """The energy in NumPy."""
    number = np.arange(given[..., 0].size).reshape(given.shape[:2])
    every = number.ravel()
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    a, b = (np.concatenate([p[k].ravel() for p in pairs] + [p[1 - k].ravel() for p in pairs]) for k in (0, 1))

    def rho(square: np.ndarray) -> np.ndarray:
        return 2 / NORM * ALBEDO * ((square / ALBEDO + EPS**2) ** (NORM / 2) - EPS**NORM)

    def slope(square: np.ndarray) -> np.ndarray:
        return (square / ALBEDO + EPS**2) ** (NORM / 2 - 1)

    return [
        Term(lambda r, s: FIT**0.5 * (r + s - given.reshape(-1, 3)), [(0, every), (1, every)]),
        Term(lambda x, y: ALBEDO**0.5 * (x - y), [(0, a), (0, b)], (rho, slope)),
        Term(lambda x, y: SHADING**0.5 * (x - y), [(1, a), (1, b)]),
    ]


def main() -> None:
    parser = options(__doc__ or "", "intrinsic_images", method="lm", steps=250, iterations=100)
    parser.add_argument("--picture", type=Path, help="a file; a photograph of DRESSI_DATA without it")
    parser.add_argument("--size", type=int, default=None, help="pixels along the longer side; 256")
    parser.add_argument("--quick", action="store_true", help="64 pixels")
    given = parser.parse_args()
    size = given.size or (64 if given.quick else 256)
    picture = (
        load_image(given.picture, linear=False)[..., :3]
        if given.picture
        else codes("images", "coffee.png") / 255
    )
    every = -(-max(picture.shape[:2]) // size)
    height, width = (n // every * every for n in picture.shape[:2])
    picture = picture[:height, :width].reshape(height // every, every, width // every, every, 3).mean((1, 3))
    run = run_program(problem(picture.astype(float)), given)
    albedo, shading = (np.exp2(x[0]) for x in run.unknowns)
    albedo = albedo / np.percentile(albedo, 99)
    save_pictures(
        given.out / "intrinsic_images.png", [picture, np.clip(albedo, 0, 1), np.clip(shading, 0, 1)]
    )


if __name__ == "__main__":
    main()
