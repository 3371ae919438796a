"""A layer of HDRnet: a bilateral grid of affine matrices, sliced by a guide and applied to an image."""

from __future__ import annotations

from typing import Any

import numpy as np

from dressi import F, Variable
from dressi.ad.types import FLOAT, VEC3, VEC4, Size
from dressi.cli.bench.stencils.halide import Halide
from dressi.cli.bench.stencils.trained import Torch, Training, planes

CELLS = 32
"""Along a side of the grid, less where they would be smaller than SMALLEST."""
SMALLEST = 4
DEPTHS = 8
ROWS = 3
"""Of an affine matrix, each of a VEC4."""


def slicing(size: Size, views: int) -> Training:
    """Grid, guide and image are trained. Every texel takes a matrix between eight of the grid's: columns and rows by the place,
    depths by the guide. Hats, 1 at a cell and 0 at its neighbours, weigh all depths, so that every gradient is a contraction."""
    width, height = size
    across, down = cells(width), cells(height)
    random = np.random.default_rng(0)
    grid = random.standard_normal((views, ROWS * DEPTHS, down, across, 4), np.float32)
    guide = random.random((views, height, width), np.float32)
    image = random.random((views, height, width, 3), np.float32)
    target = random.random((views, ROWS, height, width), np.float32)
    g = Variable(VEC4, (across, down), views, channels=ROWS * DEPTHS, data=grid, name="grid")
    u = Variable(FLOAT, size, views, data=guide, name="guide")
    x = Variable(VEC3, size, views, data=image, name="image")
    settings = {"views": views, "size": list(size), "cells": [across, down], "depths": DEPTHS}

    def blended(hl: Any, made: Any, axes: Any, grid: Any, guide: Any, image: Any) -> None:
        """The same by the eight cells around a texel and its guide."""
        column, row, matrix, n = axes
        near = hl.RDom([(0, 2)] * 3)
        texel = (hl.f32(column) + 0.5) * (across / width), (hl.f32(row) + 0.5) * (down / height)
        cell, weight = [], hl.f32(1)
        for k, (place, cells) in enumerate(
            zip((*texel, guide[column, row, n] * DEPTHS), (across, down, DEPTHS), strict=True)
        ):
            at = hl.clamp(place - 0.5, hl.f32(0), hl.f32(cells - 1))
            first = hl.clamp(hl.i32(hl.floor(at)), 0, max(cells - 2, 0))
            part = at - hl.f32(first)
            weight = weight * hl.select(near[k] == 0, 1 - part, part)
            cell.append(hl.clamp(first + near[k], 0, cells - 1))
        made[axes] = hl.f32(0)
        where = cell[0], cell[1], matrix * DEPTHS + cell[2], n
        product = grid[(3, *where)]
        for k in range(3):
            product = product + grid[(k, *where)] * image[k, column, row, n]
        made[axes] += weight * product

    return Training(
        settings,
        F.dot(F.slice_grid(g, u, DEPTHS), F.vec4(x, 1.0)),
        (g, u, x),
        planes(target, "target"),
        {
            "torch": lambda: Torch(sliced, (grid, guide, image), target),
            "halide": lambda: Halide(blended, (grid, guide, image), target),
        },
    )


def cells(texels: int) -> int:
    """The cells of the grid along so many texels, which they divide."""
    return max(n for n in range(1, CELLS + 1) if texels % n == 0 and (n == 1 or texels >= SMALLEST * n))


def sliced(torch: Any, grid: Any, guide: Any, image: Any) -> Any:
    """The same by torch's samples of volumes."""
    n, height, width, _ = image.shape
    columns, rows = ((2 * torch.arange(e) + 1) / e - 1 for e in (width, height))
    places = torch.broadcast_tensors(columns, rows[:, None], 2 * guide - 1)
    volume = grid.reshape(n, ROWS, DEPTHS, *grid.shape[2:]).permute(0, 1, 5, 2, 3, 4).flatten(1, 2)
    found = torch.nn.functional.grid_sample(
        volume, torch.stack(places, -1)[:, None], padding_mode="border", align_corners=False
    )
    matrix = found.reshape(n, ROWS, 4, height, width)
    return (matrix[:, :, :3] * image.permute(0, 3, 1, 2)[:, None]).sum(2) + matrix[:, :, 3]
