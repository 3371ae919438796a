"""Operators of image pipelines on small leaves: one graph for each, with the leaves that it is differentiable
by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dressi import FLOAT, MAT2, MAT3, VEC2, VEC3, F, Variable, VType

Built = tuple[Variable, list[Variable]]
RANDOM = np.random.default_rng(30)


def leaf(vtype: VType = FLOAT, size=(7, 6), batch=1, channels=1, low=0.05, high=0.95) -> Variable:
    x = Variable(vtype, size, batch, channels=channels)
    x.data = x.conform(RANDOM.uniform(low, high, x.shape).astype(np.float32))
    return x


def of(function: Callable[..., Variable], *leaves: Variable) -> Built:
    return function(*leaves), [*leaves]


MATRIX = Variable(
    MAT3,
    batch=2,
    data=np.reshape([[[1.1, 0.1, -0.7], [-0.2, 0.9, 0.6], [0.01, -0.02, 1]]] * 2, (2, 1, 1, 3, 3)),
)
PIPELINES: dict[str, Built] = {
    "slice": of(F.slice_grid, leaf(size=(3, 2), batch=2, channels=4), leaf(batch=2)),
    "slice, several outputs": of(
        lambda g, u: F.slice_grid(g, u, 3), leaf(VEC2, (2, 4), 1, 6), leaf(size=(5, 9))
    ),
    "splat": of(lambda v, u: F.splat_grid(v, u, (2, 3), 4), leaf(VEC2, batch=2), leaf(batch=2)),
    "bilateral": of(lambda x, u: F.bilateral_filter(x, u, cell=3.0, depths=4), leaf(VEC3), leaf()),
    "fractional layer": of(
        lambda t, k: F.sample(t, (0.4, 0.3), layers=3, layer=k), leaf(size=(4, 9)), leaf(low=0.2, high=1.8)
    ),
    "warp": of(F.warp, leaf(VEC2), leaf(VEC2, low=-1.4, high=1.4)),
    "homography": of(lambda x, m: F.warp_homography(x, m, (5, 6), "zero"), leaf(batch=2), MATRIX),
    "cubic warp": of(lambda x, f: F.warp(x, f, filter="cubic"), leaf(VEC2), leaf(VEC2, low=-2.4, high=2.4)),
    "reflected homography": of(lambda x, m: F.warp_homography(x, m, (5, 9), "reflect"), leaf(), MATRIX),
    "sort": of(lambda x: F.sort(x, "c"), leaf(size=(4, 3), channels=5)),
    "median": of(lambda x: F.median(x, 1, "reflect"), leaf(VEC2)),
    "gaussian": of(lambda x: F.gaussian_blur(x, 0.9), leaf(VEC3)),
    "box": of(lambda x: F.box_blur(x, 2), leaf(channels=3)),
    "guided": of(lambda x, u: F.guided_filter(x, u, 1, 0.01), leaf(VEC2), leaf()),
    "guided by colours": of(lambda x, u: F.guided_filter(x, u, 2, 0.01), leaf(), leaf(VEC3)),
    "histogram": of(lambda x, w: F.histogram(x, 5, 0.1, 0.9, w), leaf(batch=2), leaf()),
    "recurrence": of(lambda x, d: F.recurrence(x, d, "y", reverse=True), leaf(channels=2), leaf()),
    "recurrence of order two": of(F.recurrence, leaf(VEC2), leaf(MAT2, (1, 6), low=-0.6, high=0.6)),
    "recursive blur": of(lambda x: F.recursive_blur(x, 1.5), leaf(VEC2)),
    "local Laplacian": of(
        lambda x, a: F.local_laplacian(x, a, 0.7, levels=2, bands=5), leaf(size=(9, 6)), leaf(size=(1, 1))
    ),
    "mosaic": of(lambda x: F.bayer_mosaic(x, "GRBG"), leaf(VEC3)),
    "demosaic": of(lambda x: F.demosaic(x, "GBRG"), leaf(size=(8, 6), batch=2)),
    "cubic": of(lambda x: F.resize(x, (10, 9), "cubic"), leaf(VEC2)),
}
