"""First weights of layers, as arrays: Kaiming, Xavier, and the trees that layers take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ...errors import GraphError
from ..graph.user_code import check_function

Scheme = Callable[[np.random.Generator, Sequence[int]], np.ndarray]
"""Draws a weight of a shape."""


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many inputs each output of a weight (O, I) or (O, I, H, W) has, and outputs each input. Raises GraphError."""
    if len(shape) < 2 or min(shape) < 1:
        raise GraphError(f"a weight is (O, I) or (O, I, H, W), not of shape {tuple(shape)}")
    texels = math.prod(shape[2:])
    return shape[1] * texels, shape[0] * texels


def kaiming_normal(
    rng: np.random.Generator, shape: Sequence[int], gain: float = math.sqrt(2.0), fan: str = "in"
) -> np.ndarray:
    """A weight of normal numbers whose standard deviation is gain / sqrt(fan). He et al., Delving Deep into Rectifiers.

    rng: numpy.random.default_rng(seed). shape: (O, I) or (O, I, H, W). gain: sqrt(2) before a ReLU, 1 before nothing, 5/3
    before a tanh. fan: "in" keeps the size of values, "out" that of gradients. The array is float64. Raises GraphError.

    >>> bool(0.9 < networks.kaiming_normal(np.random.default_rng(0), (64, 200)).std() * 10 < 1.1)
    True
    """
    return gain / math.sqrt(_fan(shape, fan)) * rng.standard_normal(shape)


def kaiming_uniform(
    rng: np.random.Generator, shape: Sequence[int], gain: float = math.sqrt(2.0), fan: str = "in"
) -> np.ndarray:
    """A weight of uniform numbers in [-b, b], b = gain sqrt(3 / fan). Arguments and result as for ``kaiming_normal``.

    >>> bool(abs(networks.kaiming_uniform(np.random.default_rng(0), (8, 6), gain=1.0)).max() < 0.71)
    True
    """
    bound = gain * math.sqrt(3.0 / _fan(shape, fan))
    return rng.uniform(-bound, bound, shape)


def xavier_normal(rng: np.random.Generator, shape: Sequence[int], gain: float = 1.0) -> np.ndarray:
    """A weight of normal numbers whose variance is gain^2 2 / (fan in + fan out). Glorot and Bengio, equation 16.

    rng: numpy.random.default_rng(seed). shape: (O, I) or (O, I, H, W). gain: as for ``kaiming_normal``. The array is float64.
    Raises GraphError.

    >>> bool(0.9 < networks.xavier_normal(np.random.default_rng(0), (100, 100)).std() * 10 < 1.1)
    True
    """
    return gain * math.sqrt(2.0 / sum(fans(shape))) * rng.standard_normal(shape)


def xavier_uniform(rng: np.random.Generator, shape: Sequence[int], gain: float = 1.0) -> np.ndarray:
    """A weight of uniform numbers in [-b, b], b = gain sqrt(6 / (fan in + fan out)). Arguments and result as for
    ``xavier_normal``.

    >>> bool(abs(networks.xavier_uniform(np.random.default_rng(0), (3, 3))).max() < 1.0)
    True
    """
    bound = gain * math.sqrt(6.0 / sum(fans(shape)))
    return rng.uniform(-bound, bound, shape)


def _fan(shape: Sequence[int], fan: str) -> int:
    if fan not in ("in", "out"):
        raise GraphError(f"the fan of a weight is 'in' or 'out', not {fan!r}")
    return fans(shape)[fan == "out"]


def linear_init(
    rng: np.random.Generator, inputs: int, outputs: int, *, bias: bool = True, scheme: Scheme = kaiming_normal
) -> dict[str, np.ndarray]:
    """Arrays for ``linear``: weight (outputs, inputs), and bias (outputs,) of zeros.

    rng: numpy.random.default_rng(seed). inputs, outputs: numbers of channels. bias: whether there is one. scheme: draws the
    weight, such as ``xavier_uniform``. Raises GraphError.

    >>> {name: array.shape for name, array in networks.linear_init(np.random.default_rng(0), 3, 8).items()}
    {'weight': (8, 3), 'bias': (8,)}
    """
    return _weighed(_drawn(scheme, rng, (outputs, inputs)), bias)


def convolution_init(
    rng: np.random.Generator,
    inputs: int,
    outputs: int,
    size: int = 3,
    *,
    groups: int = 1,
    bias: bool = True,
    scheme: Scheme = kaiming_normal,
) -> dict[str, np.ndarray]:
    """Arrays for ``convolution``: weight (outputs, inputs / groups, size, size), and bias (outputs,) of zeros.

    size: rows and columns of the kernels. groups: independent parts of the channels. Other arguments as for ``linear_init``.
    Raises GraphError.

    >>> {name: array.shape for name, array in networks.convolution_init(np.random.default_rng(0), 3, 8).items()}
    {'weight': (8, 3, 3, 3), 'bias': (8,)}
    """
    if inputs % groups or outputs % groups:
        raise GraphError(f"{inputs} and {outputs} channels do not divide into {groups} groups")
    return _weighed(_drawn(scheme, rng, (outputs, inputs // groups, size, size)), bias)


def _drawn(scheme: Scheme, rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    check_function(scheme, 2, "the scheme of a weight", "give networks.xavier_uniform, for example")
    return scheme(rng, shape)


def _weighed(weight: np.ndarray, bias: bool) -> dict[str, np.ndarray]:
    return {"weight": weight, "bias": np.zeros(len(weight))} if bias else {"weight": weight}


def norm_init(channels: int, *, bias: bool = True) -> dict[str, np.ndarray]:
    """Arrays for ``batch_norm``, ``group_norm``, ``layer_norm`` and ``rms_norm``: weight (C,) of ones, bias (C,) of zeros.

    channels: C. bias: whether there is one; RMS norms have none.

    >>> {name: array.tolist() for name, array in networks.norm_init(2).items()}
    {'weight': [1.0, 1.0], 'bias': [0.0, 0.0]}
    """
    return _weighed(np.ones(channels), bias)


def mlp_init(
    rng: np.random.Generator, widths: Sequence[int], *, bias: bool = True, scheme: Scheme = kaiming_normal
) -> list[dict[str, np.ndarray]]:
    """Arrays for ``mlp``: a layer from each number of channels to the next.

    widths: channels of the input, of the hidden layers, and of the output. Other arguments as for ``linear_init``. Raises
    GraphError.

    >>> [layer["weight"].shape for layer in networks.mlp_init(np.random.default_rng(0), (2, 16, 16, 3))]
    [(16, 2), (16, 16), (3, 16)]
    """
    if len(widths) < 2:
        raise GraphError(f"an MLP has the widths of its input and its output at least, not {list(widths)}")
    pairs = itertools.pairwise(widths)
    return [linear_init(rng, a, b, bias=bias, scheme=scheme) for a, b in pairs]


def attention_init(
    rng: np.random.Generator, channels: int, *, bias: bool = True, scheme: Scheme = xavier_uniform
) -> dict[str, dict[str, np.ndarray]]:
    """Arrays for ``self_attention``: linear layers "query", "key", "value" and "output", from channels to channels.

    channels: of the tokens. Other arguments as for ``linear_init``. Raises GraphError.

    >>> list(networks.attention_init(np.random.default_rng(0), 8))
    ['query', 'key', 'value', 'output']
    """
    names = ("query", "key", "value", "output")
    return {name: linear_init(rng, channels, channels, bias=bias, scheme=scheme) for name in names}
