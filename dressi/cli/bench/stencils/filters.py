"""Filters of one plane: a blur by rows and columns, and a Laplacian pyramid."""

from __future__ import annotations

from typing import Any

import numpy as np

from dressi import F, Variable
from dressi.ad.types import FLOAT, Size
from dressi.cli.bench.stencils.trained import Torch, Training, planes
from dressi.errors import InputError

TAPS = 11
"""Weights of a blur along a row or a column."""
LEVELS = 4
"""Levels of a pyramid, and a rest."""
BINOMIAL = np.array([1, 4, 6, 4, 1], np.float32) / 16


def blur(size: Size, views: int) -> Training:
    """A separable blur: the image and the weights of rows and columns are trained."""
    width, height = size
    random = np.random.default_rng(0)
    image, target = (random.standard_normal((views, 1, height, width), np.float32) for _ in range(2))
    row = random.standard_normal((1, 1, 1, TAPS), np.float32) / 3
    column = random.standard_normal((1, 1, TAPS, 1), np.float32) / 3

    def blurred(torch: Any, x: Any, r: Any, c: Any) -> Any:
        correlated = torch.nn.functional.conv2d
        return correlated(correlated(x, r, padding="same"), c, padding="same")

    x, r, c = planes(image, "image"), planes(row, "row"), planes(column, "column")
    settings = {"views": views, "size": list(size), "taps": TAPS}
    peers = {"torch": lambda: Torch(blurred, (image, row, column), target)}
    return Training(settings, F.correlate(F.correlate(x, r), c), (x, r, c), planes(target, "target"), peers)


def pyramid(size: Size, views: int) -> Training:
    """A Laplacian pyramid, its levels compressed, and the image made of them; the image is trained."""
    width, height = size
    if width % 2**LEVELS or height % 2**LEVELS:
        raise InputError(
            f"a pyramid halves {width}x{height} {LEVELS} times; give a --size of multiples of {2**LEVELS}"
        )
    random = np.random.default_rng(0)
    image, target = (random.standard_normal((views, 1, height, width), np.float32) for _ in range(2))

    def rebuilt(torch: Any, x: Any) -> Any:
        row = torch.from_numpy(BINOMIAL.reshape(1, 1, 1, -1))
        column = row.swapaxes(2, 3)
        spread = torch.nn.functional.conv_transpose2d

        def halved(x: Any) -> Any:
            narrow = torch.nn.functional.conv2d(x, row, stride=(1, 2), padding=(0, 2))
            return torch.nn.functional.conv2d(narrow, column, stride=(2, 1), padding=(2, 0))

        def doubled(x: Any) -> Any:
            tall = spread(x, 2 * column, stride=(2, 1), padding=(2, 0), output_padding=(1, 0))
            return spread(tall, 2 * row, stride=(1, 2), padding=(0, 2), output_padding=(0, 1))

        return _synthesis(x, halved, lambda x, like: doubled(x), torch.rsqrt)

    row = Variable.of(BINOMIAL[None], FLOAT, name="row")
    column = Variable.of(BINOMIAL[:, None], FLOAT, name="column")

    def halved(x: Variable) -> Variable:
        return F.correlate(F.correlate(x, row, stride=(2, 1)), column, stride=(1, 2))

    def doubled(x: Variable, like: Variable) -> Variable:
        (width, _), (_, height) = x.size, like.size
        tall = Variable(FLOAT, (width, height), x.batch)
        tall = F.correlate_transposed(x, 2.0 * column, tall, stride=(1, 2))
        return F.correlate_transposed(tall, 2.0 * row, like, stride=(2, 1))

    x = planes(image, "image")
    settings = {"views": views, "size": list(size), "levels": LEVELS}
    peers = {"torch": lambda: Torch(rebuilt, (image,), target)}
    made = _synthesis(x, halved, doubled, lambda x: 1.0 / F.sqrt(x))
    return Training(settings, made, (x,), planes(target, "target"), peers)


def _synthesis(x: Any, halved: Any, doubled: Any, inverse_root: Any) -> Any:
    """The image of the compressed differences between levels, from the coarsest to the finest."""
    levels = [x]
    for _ in range(LEVELS):
        levels.append(halved(levels[-1]))
    made = levels[-1]
    for fine, coarse in zip(reversed(levels[:-1]), reversed(levels), strict=False):
        detail = fine - doubled(coarse, fine)
        made = doubled(made, fine) + detail * inverse_root(1.0 + detail * detail)
    return made
