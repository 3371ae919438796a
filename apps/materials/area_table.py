"""Makes the table of ``dressi.render.shading.area``: how a linearly transformed cosine stands for the lobe of GGX.

    python apps/materials/area_table.py --out dressi/render/shading/cosines.npy

Heitz, Dupuy, Hill and Neubelt, "Real-Time Polygonal-Light Shading with Linearly Transformed Cosines" (2016). At each
roughness and cosine to the eye a linear map of directions, upper triangular after a turn in the plane of incidence, is
found by least squares: the Hellinger distance between the lobe and the transformed cosine, both cut at the horizon and of
sum 1, over directions drawn from a mixture of the visible normals and the cosine. Widths are kept over alpha, so that
rows meet at a mirror. The albedos by f0 and f90 are kept over the share of the transformed cosine above the horizon.
It takes a minute.
"""

import argparse
from pathlib import Path

import numpy as np
from lobe_tables import true_lobe
from scipy.optimize import least_squares

ENTRIES = 32
SAMPLES = 3000
"""Directions of the fit, of each half of the mixture."""
FINE = 1 << 15
"""Directions for albedos."""
SHEAR = 0.02
"""What a shear costs, over roughness: narrow lobes are turned, not sheared."""
LEAST = 0.045
"""The roughness of the first row."""


def lobe(light: np.ndarray, n_v: float, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """GGX times Smith times the cosine, reflecting all, and the density of visible normals; x is away from the eye."""
    eye = np.array([-np.sqrt(1 - n_v * n_v), 0, n_v])
    half = light + eye
    half /= np.linalg.norm(half, axis=-1, keepdims=True)
    n_l, n_h, squared = light[:, 2], half[:, 2], alpha * alpha
    d = squared / (np.pi * (half[:, 0] ** 2 + half[:, 1] ** 2 + n_h * n_h * squared) ** 2)
    root_v, root_l = (np.sqrt(squared + (1 - squared) * x * x) for x in (n_v, n_l))
    return d * 0.5 / (n_l * root_v + n_v * root_l) * n_l, d * 0.5 / (n_v + root_v)


def transformed(light: np.ndarray, turned: float, across: np.ndarray) -> np.ndarray:
    """The cosine transformed by a turn about y (its sine) and by a, b and c, cut at the horizon, of sum 1."""
    a, b, c = across
    cosine = np.sqrt(1 - turned * turned)
    x, y, z = (
        light[:, 0] * cosine - light[:, 2] * turned,
        light[:, 1],
        light[:, 0] * turned + light[:, 2] * cosine,
    )
    w = np.stack([(x - c * z) / a, y / b, z], axis=-1)
    density = np.maximum(z, 0) / (np.pi * a * b * (w * w).sum(-1) ** 2)
    return density / above(turned, across)


def above(turned: float, across: np.ndarray) -> float:
    """The share of a transformed cosine above the horizon: that of a cosine in a tilted half space."""
    a, _, c = across
    normal = np.array([-turned * a, np.sqrt(1 - turned * turned) - turned * c])
    return 0.5 + 0.5 * normal[1] / np.hypot(*normal)


def entry(
    n_v: float, roughness: float, start: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, float]:
    """The parameters, the six numbers of an entry, and the distance that is left."""
    alpha, sine = roughness**2, np.sqrt(1 - n_v * n_v)
    light, weight = true_lobe(n_v, roughness, FINE)
    albedo = weight.sum(1)
    mean = weight.sum(0) @ light
    turned = mean[0] / np.linalg.norm(mean)
    k = np.arange(SAMPLES)
    u, turn = (k + 0.5) / SAMPLES, k * 0.6180339887498949 % 1 * 2 * np.pi
    even = np.stack([np.sqrt(u) * np.cos(turn), np.sqrt(u) * np.sin(turn), np.sqrt(1 - u)], axis=-1)
    light = np.concatenate([light[:: FINE // SAMPLES], even])
    light = light[light[:, 2] > 1e-6]
    value, density = lobe(light, n_v, alpha)
    density = 0.5 * (density + light[:, 2] / np.pi)
    wanted, weight = np.sqrt(value / albedo.sum()), 1 / np.sqrt(density * len(light))

    def parts(p: np.ndarray) -> tuple[float, np.ndarray]:
        return np.clip(p[0] * sine, -0.9999, 0.9999), np.array(
            [alpha * np.exp(p[1]), alpha * np.exp(p[2]), p[3]]
        )

    def residual(p: np.ndarray) -> np.ndarray:
        return np.append((np.sqrt(transformed(light, *parts(p))) - wanted) * weight, SHEAR / roughness * p[3])

    if start is None:
        start = np.array([turned / sine, np.log(2.0), np.log(2.0 * n_v), 0.0])
    found = least_squares(
        residual,
        start,
        x_scale=(alpha, 1, 1, alpha),
        bounds=([-9, -9, -9, -9], [9, 4, 4, 9]),
    )
    turned, across = parts(found.x)
    values = [turned / sine, *(across / (alpha, alpha, 1)), *(albedo / above(turned, across))]
    return found.x, np.array(values), 2 * found.cost


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit the table of cosines")
    parser.add_argument("--out", type=Path, required=True, help=".npy file of the table")
    out = parser.parse_args().out
    # Columns: square root of 1 - cosine to the eye.
    axis = np.linspace(0, 1, ENTRIES)
    table, costs = np.zeros((ENTRIES, ENTRIES, 6)), np.zeros((ENTRIES, ENTRIES))
    for j, roughness in enumerate(np.maximum(axis, LEAST)):
        p = None
        for i, cosine in enumerate(np.clip(1 - axis * axis, 0.01, 1 - 1e-4)):
            # At grazing there are other minima: begin at the neighbour.
            p, table[j, i], costs[j, i] = entry(cosine, roughness, p if i == ENTRIES - 1 else None)
    np.save(out, table.astype(np.float32))
    print(f"{out}: Hellinger distance squared {costs.mean():.4f} in the mean, {costs.max():.4f} at most")


if __name__ == "__main__":
    main()
