"""Attention over short sequences, and over the windows of an image."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from ..types import whole
from .layers import Weights, features, linear, weight_of


def attention(
    query: Variable, key: Variable, value: Variable, heads: int = 1, bias: Variable | None = None
) -> Variable:
    """Softmax of scaled products, times values. Vaswani et al., Attention Is All You Need, equation 1.

    query: FLOAT of C channels, a row of Tq tokens for each image of the batch: size (Tq, 1).  key, value: the same with Tk
    tokens; value may have other channels.  heads: divide the channels; each attends by itself.  bias: FLOAT (Tk, Tq), added
    to the products of all heads before the softmax, such as -1e9 where a token may not look. The result is FLOAT (Tq, 1) of
    the channels of value. Differentiable in all. Raises GraphError.

    >>> x = Variable(FLOAT, (16, 1), batch=2, channels=8)
    >>> networks.attention(x, x, x, heads=2).shape
    (2, 8, 1, 16)
    """
    heads = whole(heads, "the number of heads", 1)
    for x in (query, key, value):
        if x.size[1] != 1:
            raise GraphError(
                f"{x} is no row of tokens; networks.windows makes rows of the windows of an image"
            )
        if x.channels % heads:
            raise GraphError(f"{x.channels} channels of {x} do not divide among {heads} heads")
    if query.channels != key.channels or key.size != value.size:
        raise GraphError(
            f"query {query} and key {key} have equal channels, key and value {value} equally many tokens"
        )
    per = query.channels // heads
    products = F.contract(
        "out[n, h, i, j] = q[n, per * h + c, 0, i] * k[n, per * h + c, 0, j]",
        q=query * (1.0 / math.sqrt(per)), k=key, per=per, extents={"h": heads, "c": per},
    )  # fmt: skip
    weights = F.softmax(products if bias is None else products + bias, "x")
    return F.contract(
        "out[n, per * h + c, y, i] = w[n, h, i, j] * v[n, per * h + c, y, j]",
        w=weights, v=value, per=value.channels // heads, extents={"h": heads, "c": value.channels // heads},
    )  # fmt: skip


def self_attention(
    layer: Mapping[str, Weights], x: Variable, heads: int = 1, bias: Variable | None = None
) -> Variable:
    """Attention of tokens to each other, with linear layers before and after.

    layer: parameters of the linear layers "query", "key", "value" and "output", see ``attention_init``.  x: FLOAT of C
    channels, a row of tokens (T, 1) for each image of the batch.  heads, bias: as for ``attention``. The result is FLOAT (T, 1) of
    the channels of "output". Differentiable in all. Raises GraphError.

    >>> layer = networks.parameters(networks.attention_init(np.random.default_rng(0), 8))
    >>> tokens = networks.windows(Variable(FLOAT, (16, 8), channels=8), 4)
    >>> tokens.shape, networks.self_attention(layer, tokens, heads=2).shape
    ((8, 8, 1, 16), (8, 8, 1, 16))
    """
    x = features(x, "attention")
    for name in ("query", "key", "value", "output"):
        if name not in layer:
            weight_of({}, name, "attention")
    query, key, value = (linear(layer[name], x) for name in ("query", "key", "value"))
    found = attention(query, key, value, heads, bias)
    return linear(layer["output"], found)


def windows(x: Variable, size: int) -> Variable:
    """The windows of an image side by side, each as a row of tokens, as Swin transformers have them.

    x: FLOAT (W, H), any channels; the size of the windows divides W and H.  size: texels along each side. The result is FLOAT (size *
    size, 1) with the channels of x and a batch of its windows, row by row, image by image. Differentiable. Raises GraphError.

    >>> networks.windows(Variable(FLOAT, (16, 8), batch=2, channels=3), 4).shape
    (16, 3, 1, 16)
    """
    down, across = _windows_in(x.size, size)
    return F.contract(
        "out[down * across * n + across * a + b, c, 0 * z + z, s * j + i] = x[n, c, s * a + j + z, s * b + i]",
        x=x, s=size, down=down, across=across, extents={"a": down, "b": across, "j": size, "i": size, "z": 1},
    )  # fmt: skip


def from_windows(x: Variable, size: tuple[int, int]) -> Variable:
    """The image of which ``windows`` made rows of tokens: the reverse.

    x: FLOAT, as ``windows`` gives it.  size: (W, H) of the image. Differentiable. Raises GraphError.

    >>> x = Variable.of(np.arange(32.0).reshape(4, 8))
    >>> bool((evaluate(networks.from_windows(networks.windows(x, 2), (8, 4))) == x.data).all())
    True
    """
    side = math.isqrt(x.size[0])
    down, across = _windows_in(size, side)
    if side * side != x.size[0] or x.batch % (down * across):
        raise GraphError(f"{x} are not the windows of images of size {size[0]}x{size[1]}")
    return F.contract(
        "out[n, c, s * a + j, s * b + i] = x[down * across * n + across * a + b, c, 0, s * j + i]",
        x=x, s=side, down=down, across=across,
        extents={"n": x.batch // (down * across), "a": down, "b": across, "j": side, "i": side},
    )  # fmt: skip


def _windows_in(size: tuple[int, int], side: int) -> tuple[int, int]:
    side = whole(side, "the size of a window", 1)
    if size[0] % side or size[1] % side:
        raise GraphError(
            f"windows of {side}x{side} do not divide an image of {size[0]}x{size[1]}; use F.pad or F.resize"
        )
    return size[1] // side, size[0] // side
