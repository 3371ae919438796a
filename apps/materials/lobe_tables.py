"""Makes the tables of ``dressi.render.shading.environment``: how round lobes stand for the reflection of GGX.

    python apps/materials/lobe_tables.py --lobes 3 --out lobes_3.npy

For a view at each cosine and roughness, directions of the true lobe are drawn by visible normals, with the parts of their
weights that belong to f0 and to f90. A sum of ``lobes`` round ones, levels of ``prefilter.filtered_levels``, approximates it. Their
angles in the plane of incidence and their widths are found by Nelder and Mead, from the values of the neighbours; their
weights by least squares, with the sum held at the albedo. What is minimised is the squared difference in spherical
harmonics, degree l weighted by (l + 1)^-2.5, as photographed environments have less of the higher ones, plus a little
for leaving the neighbours, so that the tables can be interpolated. The grid (17 by 16) is doubled linearly, and the
weights are set to the albedo of each entry. Below roughness 3/16 angles and widths shrink to those of a mirror.

The table of one lobe comes out as it is kept (within 0.005 in angle, 0.01 of a level). That of three was found with another
weight for leaving the neighbours: albedos agree within 1e-7, single lobes differ, as several sums are about as good.
"""

import argparse
import functools
from pathlib import Path

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import roots_legendre

from dressi.render.shading.environment import ROUGHNESS

DEGREES = 512
DECAY = 2.5
"""Degree l counts by (l + 1)^-DECAY."""
ANGLES = 600
"""Entries of tables over the angle, denser near 0."""
NEAR = 2e-4
"""What the squared distance to the neighbours' parameters costs."""
LEAST = 0.04
"""Square root of the smallest cosine to the eye."""
LOW = 3
"""Rows below this one are scaled from it."""
FINE = 8192
"""Directions for albedos."""
TOP = len(ROUGHNESS) - 1


def legendre(cosine: np.ndarray) -> np.ndarray:
    """(DEGREES + 1, n): Legendre polynomials."""
    values = np.empty((DEGREES + 1, len(cosine)))
    values[0], values[1] = 1, cosine
    for n in range(1, DEGREES):
        values[n + 1] = ((2 * n + 1) * cosine * values[n] - n * values[n - 1]) / (n + 1)
    return values


def coefficients(roughness: float) -> np.ndarray:
    """(DEGREES + 1,): of the round lobe of a level, of which the one of degree 0 is 1."""
    if roughness == 0:
        return np.ones(DEGREES + 1)
    squared = roughness**4
    node, weight = roots_legendre(3000)
    most = 0.5 / (squared + 0.5)
    s = (node + 1) / 2 * most
    # t is the squared sine of half the angle; this substitution follows the peak.
    t, slope = squared * s / (1 - s), squared / (1 - s) ** 2
    cosine = np.maximum(1 - 2 * t, 0)
    lobe = (
        cosine / (squared + t * (1 - squared)) ** 2 / (cosine + np.sqrt(cosine**2 * (1 - squared) + squared))
    )
    lobe *= slope * weight
    return legendre(1 - 2 * t) @ (lobe / lobe.sum())


class Metric:
    """Products of lobes, and of lobes with directions, by tables over level and angle."""

    def __init__(self):
        levels = np.array([coefficients(r) for r in ROUGHNESS])
        degree = np.arange(DEGREES + 1)
        weight = (degree + 1.0) ** -DECAY * (2 * degree + 1) / (4 * np.pi)
        polynomials = legendre(np.cos(np.linspace(0, 1, ANGLES) ** 2 * np.pi))
        self.single = (levels * weight) @ polynomials
        self.pairs = np.einsum("al,bl,lg->abg", levels * weight, levels, polynomials, optimize=True)

    @staticmethod
    def _angle(cosine):
        x = np.sqrt(np.arccos(np.clip(cosine, -1, 1)) / np.pi) * (ANGLES - 1)
        low = np.minimum(x.astype(int), ANGLES - 2)
        return low, x - low

    @staticmethod
    def _level(level):
        low = np.clip(level.astype(int), 0, TOP - 1)
        return low, level - low

    def cross(self, cosine: np.ndarray, level: np.ndarray) -> np.ndarray:
        """(n, k): lobes at directions. cosine: (n, k) between them.  level: (k,)."""
        (i, f), (j, g), k = self._level(level), self._angle(cosine), np.arange(len(level))
        table = self.single[i] * (1 - f[:, None]) + self.single[i + 1] * f[:, None]
        return table[k, j] * (1 - g) + table[k, j + 1] * g

    def gram(self, cosine: np.ndarray, level: np.ndarray) -> np.ndarray:
        """(k, k): products of lobes."""
        (i, f), (j, g), total = self._level(level), self._angle(cosine), 0
        for down, u in ((0, 1 - f), (1, f)):
            for across, v in ((0, 1 - f), (1, f)):
                table = self.pairs[(i + down)[:, None], (i + across)[None]]
                at, following = (np.take_along_axis(table, (j + n)[..., None], 2)[..., 0] for n in (0, 1))
                total = total + u[:, None] * v[None] * (at * (1 - g) + following * g)
        return total


def level_of(roughness: np.ndarray) -> np.ndarray:
    return np.interp(roughness, ROUGHNESS, np.arange(len(ROUGHNESS)))


def true_lobe(n_v: float, roughness: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(count, 3) directions, x away from the mirrored side, z the normal; (2, count) weights by f0 and f90 (Heitz 2018)."""
    alpha, eye = roughness**2, np.array([np.sqrt(1 - n_v * n_v), 0, n_v])
    u, angle = (np.arange(count) + 0.5) / count, np.arange(count) * 0.6180339887498949 % 1 * 2 * np.pi
    stretched = np.array([alpha * eye[0], 0, n_v])
    stretched /= np.linalg.norm(stretched)
    side = np.array([0, 1.0, 0])
    up = np.cross(stretched, side)
    x, y, s = np.sqrt(u) * np.cos(angle), np.sqrt(u) * np.sin(angle), (1 + stretched[2]) / 2
    y = (1 - s) * np.sqrt(1 - x * x) + s * y
    z = np.sqrt(np.maximum(0, 1 - x * x - y * y))
    half = (x[:, None] * side + y[:, None] * up + z[:, None] * stretched) * (alpha, alpha, 1)
    half[:, 2] = np.maximum(half[:, 2], 1e-9)
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    v_h = half @ eye
    light = 2 * v_h[:, None] * half - eye

    def root(c):
        return np.sqrt(c * c * (1 - alpha**2) + alpha**2)

    n_l = np.maximum(light[:, 2], 0)
    both = 2 * n_l * n_v / (n_l * root(n_v) + n_v * root(n_l) + 1e-30)
    weight = both / (2 * n_v / (n_v + root(n_v))) / count
    fresnel = (1 - v_h) ** 5
    return light * (-1, 1, 1), np.stack([weight * (1 - fresnel), weight * fresnel])


@functools.cache
def albedo(n_v: float, roughness: float, count: int = FINE) -> np.ndarray:
    """(2,): by f0 and f90."""
    if roughness == 0:
        return np.array([1 - (1 - n_v) ** 5, (1 - n_v) ** 5])
    return true_lobe(n_v, roughness, count)[1].sum(1)


def weights_of(metric, angle, level, light, weight):
    """(k, 2): the best weights whose sums are the albedo, and the squared error but for a constant."""
    d, k = np.stack([np.sin(angle), 0 * angle, np.cos(angle)], 1), len(angle)
    b, a = weight @ metric.cross(light @ d.T, level), metric.gram(d @ d.T, level)
    a = a + 1e-5 * np.trace(a) / k * np.eye(k)
    held = np.block([[a, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
    found = np.linalg.solve(held, np.concatenate([b, weight.sum(1)[:, None]], 1).T)[:k]
    return found, sum(w @ a @ w - 2 * c @ w for w, c in zip(found.T, b, strict=True))


def fitted(metric, n_v, roughness, k, starts, anchor, samples, iterations):
    """Parameters (k turned sines, k roughnesses) and weights (k, 2) at one entry of the table."""
    (light, weight), sine = true_lobe(n_v, roughness, samples), max(np.sqrt(1 - n_v * n_v), 0.03)
    total = weight.sum()

    def parts(p):
        return np.arcsin(np.clip(p[:k] * sine, -0.999, 0.999)), np.clip(p[k:], 0.01, 1)

    def cost(p):
        angle, rough = parts(p)
        found, error = weights_of(metric, angle, level_of(rough), light, weight)
        outside = np.abs(p[k:] - rough).sum() + np.maximum(np.abs(p[:k] * sine) - 1, 0).sum()
        error += 3 * (np.minimum(found.sum(1), 0) ** 2).sum()
        return error / total**2 + 10 * outside + (0 if anchor is None else NEAR * ((p - anchor) ** 2).sum())

    options = {"xatol": 1e-3, "fatol": 1e-7, "maxiter": iterations, "adaptive": True}
    best = min(
        (minimize(cost, s, method="Nelder-Mead", options=options) for s in starts), key=lambda q: q.fun
    )
    angle, rough = parts(best.x)
    found, _ = weights_of(metric, angle, level_of(rough), light, weight)
    return best.x, found + (albedo(n_v, roughness) - found.sum(0)) / k


def first_starts(n_v: float, roughness: float, k: int, samples: int) -> list[np.ndarray]:
    if k == 1:
        light, weight = true_lobe(n_v, roughness, samples)
        x, _, z = (light * weight[0][:, None]).sum(0)
        turned = np.sin(np.arctan2(x, z)) / max(np.sqrt(1 - n_v * n_v), 0.03)
        return [np.array([turned, roughness])]
    q = np.linspace(0, 1, k)
    return [
        np.r_[c - (q - 0.5) * w, np.clip(roughness * (lo + (hi - lo) * q), 0.02, 1)]
        for c in (0.75, 0.9)
        for w in (0.3, 0.8)
        for lo, hi in ((0.7, 1.1), (0.6, 0.8))
    ]


def generated(k: int, rows: int, columns: int, samples: int, iterations: int):
    """(rows, columns, 2 k) parameters and (rows, columns, k, 2) weights. From the middle outwards, each from its neighbours."""
    metric, roughness = Metric(), np.linspace(0, 1, rows)
    cosines = np.maximum(np.linspace(0, 1, columns), LEAST) ** 2
    p, w = np.zeros((rows, columns, 2 * k)), np.zeros((rows, columns, k, 2))
    row0, column0, last = max(LOW, rows * 7 // 16), columns * 9 // 16, columns - 1
    for r in [*range(row0, rows), *range(row0 - 1, LOW - 1, -1)]:
        for c in [*range(column0, columns), *range(column0 - 1, -1, -1)]:
            starts = [] if c == column0 else [p[r, c - 1 if c > column0 else c + 1]]
            if r != row0:
                near = r - 1 if r > row0 else r + 1
                scaled = p[near, c, k:] * roughness[r] / roughness[near]
                starts.append(np.r_[p[near, c, :k], np.clip(scaled, 0.02, 1)])
            anchor = np.mean(starts, 0) if starts else None
            starts = starts or first_starts(cosines[c], roughness[r], k, samples)
            p[r, c], w[r, c] = fitted(
                metric, cosines[c], roughness[r], k, starts, anchor, samples, iterations
            )
        # Seen from above all directions are one: shares and places are those of the neighbour, widths are scaled together.
        light, weight = true_lobe(1.0, roughness[r], samples)
        share = w[r, last - 1, :, 0] / w[r, last - 1, :, 0].sum() * weight[0].sum()

        def level(scale, r=r):
            return level_of(np.clip(p[r, last - 1, k:] * scale, 0.01, 1))

        def cost(scale, light=light, weight=weight, share=share, level=level):
            b = weight[0] @ metric.cross(np.repeat(light[:, 2:], k, 1), level(scale))
            return share @ metric.gram(np.ones((k, k)), level(scale)) @ share - 2 * b @ share

        scale = minimize_scalar(cost, bounds=(0.6, 1.5), method="bounded").x
        p[r, last], w[r, last] = p[r, last - 1], w[r, last - 1]
        p[r, last, k:] = np.clip(p[r, last, k:] * scale, 0.01, 1)
        print(f"roughness {roughness[r]:.4f}", flush=True)
    for r in range(LOW):
        q = roughness[r] / roughness[LOW]
        p[r, :, :k], p[r, :, k:] = 1 + (p[LOW, :, :k] - 1) * q * q, p[LOW, :, k:] * q
        for c in range(columns):
            w[r, c] = w[LOW, c] * (albedo(cosines[c], roughness[r]) / w[LOW, c].sum(0))
    return p, w


def doubled(x: np.ndarray, axis: int) -> np.ndarray:
    first, last = np.take(x, range(x.shape[axis] - 1), axis), np.take(x, range(1, x.shape[axis]), axis)
    pairs = np.stack([first, (first + last) / 2], axis + 1)
    joined = pairs.reshape(*x.shape[:axis], -1, *x.shape[axis + 1 :])
    return np.concatenate([joined, np.take(x, [-1], axis)], axis)


def packed(p: np.ndarray, w: np.ndarray) -> np.ndarray:
    """(k, 2 rows - 1, 2 columns - 1, 4) float32: the table of ``bsdf.albedo.lobe_table``."""
    k = w.shape[2]
    table = np.stack([p[..., :k], level_of(np.clip(p[..., k:], 0, 1)), w[..., 0], w[..., 1]], -1)
    table = doubled(doubled(table, 0), 1)
    for r, roughness in enumerate(np.linspace(0, 1, table.shape[0])):
        for c, root in enumerate(np.linspace(0, 1, table.shape[1])):
            missing = albedo(max(root, LEAST) ** 2, roughness, 2 * FINE) - table[r, c, :, 2:].sum(0)
            share = np.maximum(table[r, c, :, 2:].sum(1), 0)
            table[r, c, :, 2:] += (share / share.sum())[:, None] * missing
    return np.ascontiguousarray(np.moveaxis(table, 2, 0)).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lobes", type=int, default=3, help="how many round lobes")
    parser.add_argument("--out", type=Path, required=True, help="the .npy file to write")
    parser.add_argument("--rows", type=int, default=17, help="of the fitted grid, roughness")
    parser.add_argument("--columns", type=int, default=16, help="of the fitted grid, root of the cosine")
    parser.add_argument("--samples", type=int, default=500, help="directions of the true lobe")
    parser.add_argument("--iterations", type=int, default=500, help="of each minimisation")
    options = parser.parse_args()
    p, w = generated(options.lobes, options.rows, options.columns, options.samples, options.iterations)
    np.save(options.out, packed(p, w))


if __name__ == "__main__":
    main()
