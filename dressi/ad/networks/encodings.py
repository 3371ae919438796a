"""Encodings of positions, from which networks learn details: Fourier features, sinusoids."""

from __future__ import annotations

import math

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from ..types import FLOAT, whole
from .layers import features


def fourier_features(x: Variable, frequencies: int | np.ndarray, include: bool = False) -> Variable:
    """Sines and cosines of positions: of pi 2^k times each coordinate (Mildenhall et al., NeRF, equation 4), or of 2 pi times
    random products (Tancik et al., Fourier Features).

    x: FLOAT of D channels, or VECn of D components.  frequencies: how many octaves k = 0, 1, ..., or an array (M, D), such as
    normal numbers times a scale.  include: whether x itself is there too, at first. The result is FLOAT of 2 M channels, all
    sines before all cosines, with M = D times the octaves, coordinate by coordinate. Differentiable in x. Raises GraphError.

    >>> networks.fourier_features(Variable(VEC2, (64, 64)), 6).channels
    24
    """
    x = features(x, "an encoding")
    if isinstance(frequencies, np.ndarray):
        matrix = 2.0 * math.pi * frequencies
    else:
        octaves = math.pi * 2.0 ** np.arange(whole(frequencies, "a number of octaves", 1))
        matrix = np.kron(np.eye(x.channels), octaves[:, None])
    if matrix.ndim != 2 or matrix.shape[1] != x.channels:
        raise GraphError(
            f"frequencies of {x.channels} coordinates are an array (M, {x.channels}), not {matrix.shape}"
        )
    angle = F.contract(
        "out[n, m, y, x] = image[n, c, y, x] * matrix[0, 0, m, c]", image=x, matrix=Variable.of(matrix, FLOAT)
    )
    return F.concatenate_channels(*([x] if include else []), F.sin(angle), F.cos(angle))


def sinusoidal_positions(length: int, channels: int) -> Variable:
    """Positions of tokens, to be added to them. Vaswani et al., Attention Is All You Need, section 3.5.

    length: tokens, a row. channels: an even number; sines and cosines take turns. The result is FLOAT (length, 1) of these
    channels, a constant without derivative. Raises GraphError.

    >>> evaluate(networks.sinusoidal_positions(3, 2)).shape
    (1, 2, 1, 3)
    """
    length, channels = whole(length, "a length", 1), whole(channels, "a number of channels", 2)
    if channels % 2:
        raise GraphError(f"sinusoidal positions have an even number of channels, not {channels}")
    rates = 10000.0 ** (-np.arange(0, channels, 2) / channels)
    angles = rates[:, None] * np.arange(length)
    values = np.stack((np.sin(angles), np.cos(angles)), axis=1).reshape(1, channels, 1, length)
    return Variable(FLOAT, (length, 1), channels=channels, name="positions", data=values)
