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
