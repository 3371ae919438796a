"""A plain reference of the wrap modes: (row, column) of texel (i, j) of an image of some width and height."""

import numpy as np


def mirrored(i, n):
    i = i % (2 * n)
    return np.where(i < n, i, 2 * n - 1 - i)


def over_the_pole(i, j, width, height):
    turned = (j // height) % 2 == 1
    return mirrored(j, height), (i + np.where(turned, width // 2, 0)) % width


WRAP = {
    "repeat": lambda i, j, w, h: (j % h, i % w),
    "clamp": lambda i, j, w, h: (np.clip(j, 0, h - 1), np.clip(i, 0, w - 1)),
    "mirror": lambda i, j, w, h: (mirrored(j, h), mirrored(i, w)),
    "sphere": over_the_pole,
}


def bilinear(texture: np.ndarray, uv: np.ndarray, wrap: str) -> np.ndarray:
    """(..., C): a texture (H, W, C) at uv, (..., 2)."""
    height, width = texture.shape[:2]
    x, y = uv[..., 0] * width - 0.5, uv[..., 1] * height - 0.5
    total = 0.0
    for dy in (0, 1):
        for dx in (0, 1):
            i, j = np.floor(x).astype(int) + dx, np.floor(y).astype(int) + dy
            weight = (1 - abs(x - i)) * (1 - abs(y - j))
            total = total + weight[..., None] * texture[WRAP[wrap](i, j, width, height)]
    return np.asarray(total)
