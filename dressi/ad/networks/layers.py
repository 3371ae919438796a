"""Layers of networks, and encodings of what goes into them."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import PixelFunction, Variable
from ..graph.types import FLOAT, INT, IVEC2, IVEC3, VEC2, VEC3, whole
from ..graph.user_code import check_function
from ..ops.pixel.constant import Like, operands

__all__ = [
    "attention", "batch_norm", "batch_statistics", "convolution", "fourier_features", "from_windows",
    "group_norm", "hash_grid", "hash_grid_init", "layer_norm", "linear", "mlp", "rms_norm",
    "self_attention", "sinusoidal_positions", "windows",
]  # fmt: skip


Weights = Mapping[str, Variable]
"""The parameters of one layer by name."""


def features(x: Like, what: str) -> Variable:
    """An image of channels: those of FLOAT, or the components of VECn. Raises GraphError. what: who asks."""
    (x,) = operands(x)
    if x.vtype is FLOAT:
        return x
    if x.vtype.is_int or x.vtype.is_matrix:
        raise GraphError(f"{what} takes channels of floats, or VECn, not {x}; use F.to_float")
    return F.to_channels(x)


def weight_of(layer: Weights, name: str, what: str) -> Variable:
    """A parameter of a layer. Raises GraphError, which names it. what: the layer."""
    if not isinstance(layer, Mapping) or name not in layer:
        has = ", ".join(map(str, layer)) if isinstance(layer, Mapping) else type(layer).__name__
        raise GraphError(f"{what} takes parameters with {name!r}, not {has or 'none'}")
    weight = layer[name]
    if not isinstance(weight, Variable):
        raise GraphError(
            f"{name!r} of {what} is no Variable, but {type(weight).__name__}; networks.parameters makes them"
        )
    return weight


def of_channels(layer: Weights, name: str, channels: int, what: str) -> Variable:
    """A parameter of one number a channel. Raises GraphError for others."""
    weight = weight_of(layer, name, what)
    if (weight.size, weight.batch) != ((1, 1), 1) or weight.channels != channels:
        raise GraphError(f"{name!r} of {what} has {channels} channels and one texel, not {weight}")
    return weight


def linear(layer: Weights, x: Variable) -> Variable:
    """A linear map of the channels of each texel: weight x + bias.

    layer: "weight", a FLOAT matrix (O, I), and perhaps "bias" of O channels; see ``linear_init``.  x: FLOAT
    of I channels, or VECn of I components, of any size and batch: pixels of images, or tokens of sequences.
    The result is FLOAT of O channels. Differentiable in all. Raises GraphError.

    >>> layer = networks.parameters({"weight": np.array([[1.0, 2.0, 3.0]]), "bias": np.array([10.0])})
    >>> evaluate(networks.linear(layer, Variable.of(np.ones((1, 1, 3))))).item()
    16.0
    """
    x, weight = features(x, "a linear layer"), weight_of(layer, "weight", "a linear layer")
    if weight.size[0] != x.channels or weight.tiles != 1:
        raise GraphError(
            f"the weight {weight} of a linear layer maps {weight.size[0]} channels; {x} has {x.channels}"
        )
    made = F.contract("out[n, o, y, x] = image[n, c, y, x] * weight[0, 0, o, c]", image=x, weight=weight)
    return biased(layer, made, "a linear layer")


def biased(layer: Weights, x: Variable, what: str) -> Variable:
    return x + of_channels(layer, "bias", x.channels, what) if "bias" in layer else x


def convolution(layer: Weights, x: Variable, **options: Any) -> Variable:
    """A layer of a convolutional network: the correlation with the weight, and the bias.

    layer: "weight", FLOAT (O, I, H, W), and perhaps "bias" of O channels; see ``convolution_init``.  x: FLOAT
    channels, or VECn.  options: stride, dilation, groups and border of ``F.correlate``; with the default
    border "zero" a 3x3 kernel has what PyTorch calls padding=1. The result is FLOAT of O channels.
    Differentiable in all. Raises GraphError.

    >>> layer = networks.parameters(networks.convolution_init(np.random.default_rng(0), 3, 8))
    >>> networks.convolution(layer, Variable(VEC3, (32, 24), batch=2), stride=2).shape
    (2, 8, 12, 16)
    """
    x, weight = features(x, "a convolution"), weight_of(layer, "weight", "a convolution")
    # One kernel of one channel would serve all channels in F.correlate; as a layer it takes one.
    takes = weight.channels * options.get("groups", 1)
    if takes != x.channels:
        raise GraphError(f"the weight {weight} of a convolution maps {takes} channels; {x} has {x.channels}")
    return biased(layer, F.correlate(x, weight, **options), "a convolution")


def mlp(
    layers: Sequence[Weights] | Mapping[str, Weights],
    x: Variable,
    activation: Callable[[Variable], Variable] = F.relu,
    last: Callable[[Variable], Variable] | None = None,
) -> Variable:
    """A multilayer perceptron at each texel: linear layers with an activation between them.

    layers: parameters of ``linear`` layers, see ``mlp_init``.  x: FLOAT channels, or VECn.  activation: after
    all layers but the last, such as ``F.relu``.  last: after the last one, such as ``F.sigmoid``; None:
    nothing. The result is FLOAT of the channels of the last layer. Differentiable in all. Raises GraphError.

    >>> layers = networks.parameters(networks.mlp_init(np.random.default_rng(0), (2, 16, 3)))
    >>> networks.mlp(layers, Variable(VEC2, (64, 64)), F.silu, F.sigmoid).shape
    (1, 3, 64, 64)
    """
    if not isinstance(layers, Mapping | list | tuple):
        raise GraphError(
            f"the layers of an MLP are a list of parameters, not {layers!r}; see networks.mlp_init"
        )
    chain = list(layers.values()) if isinstance(layers, Mapping) else list(layers)
    if not chain:
        raise GraphError("an MLP has one layer at least")
    for layer in chain[:-1]:
        x = _activated(activation, linear(layer, x), "the activation of an MLP")
    x = linear(chain[-1], x)
    return x if last is None else _activated(last, x, "the last activation of an MLP")


def _activated(function: Callable[[Variable], Variable], x: Variable, what: str) -> Variable:
    cure = f"F.{function}" if str(function) in F.__all__ else "F.relu, F.tanh, F.silu"
    check_function(function, 1, what, f"give the operation itself, such as {cure}")
    value = function(x)
    if not isinstance(value, Variable):
        raise GraphError(f"{what} returns a Variable, not {value!r}")
    return value


# Normalisations: values less their mean, over their standard deviation, scaled and moved by channel.

EPS = 1e-5


def batch_norm(
    layer: Weights, x: Variable, statistics: tuple[Variable, Variable] | None = None, eps: float = EPS
) -> Variable:
    """Each channel normalised over all texels of the batch. Ioffe and Szegedy, Batch Normalization.

    layer: "weight" and "bias" of C channels, see ``norm_init``.  x: FLOAT of C channels.  statistics: mean
    and variance to use instead, FLOAT of C channels and one texel, for inference: those of the training set,
    by ``batch_statistics``.  eps: added to the variance. The result is like x. Differentiable. Raises
    GraphError.

    >>> layer = networks.parameters(networks.norm_init(8))
    >>> networks.batch_norm(layer, Variable(FLOAT, (32, 24), batch=2, channels=8)).shape
    (2, 8, 24, 32)
    """
    x = features(x, "a batch norm")
    mean, variance = batch_statistics(x) if statistics is None else statistics
    return _scaled(layer, (x - mean) * F.inversesqrt(variance + eps), "a batch norm")


def batch_statistics(x: Variable) -> tuple[Variable, Variable]:
    """The mean and the (biased) variance of each channel over all texels and images, FLOAT of one texel.

    x: FLOAT, any channels. Differentiable. Average them over the training set for inference.

    >>> mean, variance = networks.batch_statistics(Variable.of([[1.0, 3.0, 1.0, 3.0, 1.0, 3.0]]))
    >>> evaluate(mean).item(), evaluate(variance).item()
    (2.0, 1.0)
    """
    mean = F.mean(x, "xyn")
    return mean, F.mean(F.square(x - mean), "xyn")


def group_norm(layer: Weights, x: Variable, groups: int, eps: float = EPS) -> Variable:
    """Groups of channels of each image normalised together over its texels. Wu and He, Group Normalization.

    layer, x, eps: as for ``batch_norm``.  groups: of equally many neighbouring channels; as many as channels
    for an instance norm. The result has the domain of x. Differentiable in all. Raises GraphError.

    >>> layer = networks.parameters(networks.norm_init(8))
    >>> networks.group_norm(layer, Variable(FLOAT, (32, 24), batch=2, channels=8), groups=4).shape
    (2, 8, 24, 32)
    """
    x = features(x, "a group norm")
    if groups < 1 or x.channels % groups:
        raise GraphError(f"{x.channels} channels do not divide into {groups} groups")
    per = x.channels // groups

    def mean(values: Variable) -> Variable:
        means = F.mean(values, "xy")
        if per == 1:
            return means
        sums = F.contract(
            "out[n, g, y, x] = m[n, per * g + c, y, x]", m=means, per=per, extents={"g": groups, "c": per}
        )
        spread = F.contract("out[n, per * g + c, y, x] = m[n, g, y, x]", m=sums, per=per, extents={"c": per})
        return spread * (1.0 / per)

    centred = x - mean(x)
    return _scaled(layer, centred * F.inversesqrt(mean(F.square(centred)) + eps), "a group norm")


def layer_norm(layer: Weights, x: Variable, eps: float = EPS) -> Variable:
    """The channels of each texel normalised together. Ba, Kiros and Hinton, Layer Normalization.

    layer, x, eps: as for ``batch_norm``. The result has the domain of x. Differentiable. Raises GraphError.

    >>> layer = networks.parameters(networks.norm_init(8))
    >>> networks.layer_norm(layer, Variable(FLOAT, (16, 1), batch=2, channels=8)).shape
    (2, 8, 1, 16)
    """
    x = features(x, "a layer norm")
    centred = x - F.mean(x, "c")
    return _scaled(layer, centred * F.inversesqrt(F.mean(F.square(centred), "c") + eps), "a layer norm")


def rms_norm(layer: Weights, x: Variable, eps: float = EPS) -> Variable:
    """Channels over the root of their mean square. Zhang and Sennrich, Root Mean Square Layer Normalization.

    layer: "weight" of C channels, see ``norm_init``, and perhaps "bias".  x, eps: as for ``batch_norm``. The
    result has the domain of x. Differentiable in all. Raises GraphError.

    >>> layer = networks.parameters(networks.norm_init(8, bias=False))
    >>> networks.rms_norm(layer, Variable(FLOAT, (16, 1), batch=2, channels=8)).shape
    (2, 8, 1, 16)
    """
    x = features(x, "an RMS norm")
    return _scaled(layer, x * F.inversesqrt(F.mean(F.square(x), "c") + eps), "an RMS norm")


def _scaled(layer: Weights, x: Variable, what: str) -> Variable:
    return biased(layer, x * of_channels(layer, "weight", x.channels, what), what)


# Attention over short sequences, and over the windows of an image.


def attention(
    query: Variable, key: Variable, value: Variable, heads: int = 1, bias: Variable | None = None
) -> Variable:
    """Softmax of scaled products, times values. Vaswani et al., Attention Is All You Need, equation 1.

    query: FLOAT of C channels, a row of Tq tokens for each image of the batch: size (Tq, 1).  key, value: the
    same with Tk tokens; value may have other channels.  heads: divide the channels; each attends by itself.
    bias: FLOAT (Tk, Tq), added to the products of all heads before the softmax, such as -1e9 where a token
    may not look. The result is FLOAT (Tq, 1) of the channels of value. Differentiable. Raises GraphError.

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

    layer: parameters of the linear layers "query", "key", "value" and "output", see ``attention_init``.  x:
    FLOAT of C channels, a row of tokens (T, 1) for each image of the batch.  heads, bias: as for
    ``attention``. The result is FLOAT (T, 1) of the channels of "output". Differentiable. Raises GraphError.

    >>> layer = networks.parameters(networks.attention_init(np.random.default_rng(0), 8))
    >>> tokens = networks.windows(Variable(FLOAT, (16, 8), channels=8), 4)
    >>> tokens.shape, networks.self_attention(layer, tokens, heads=2).shape
    ((8, 8, 1, 16), (8, 8, 1, 16))
    """
    x = features(x, "attention")
    for name in ("query", "key", "value", "output"):
        if name not in layer:
            weight_of({}, name, "attention")  # raises
    query, key, value = (linear(layer[name], x) for name in ("query", "key", "value"))
    return linear(layer["output"], attention(query, key, value, heads, bias))


def windows(x: Variable, size: int) -> Variable:
    """The windows of an image side by side, each as a row of tokens, as Swin transformers have them.

    x: FLOAT (W, H), any channels; the size of the windows divides W and H.  size: texels along each side. The
    result is FLOAT (size * size, 1) with the channels of x and a batch of its windows, row by row, image by
    image. Differentiable. Raises GraphError.

    >>> networks.windows(Variable(FLOAT, (16, 8), batch=2, channels=3), 4).shape
    (16, 3, 1, 16)
    """
    down, across = _windows_in(x.size, size)
    return F.contract(
        "out[down * across * n + across * a + b, c, 0 * z + z, s * j + i]"
        " = x[n, c, s * a + j + z, s * b + i]",
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


# Encodings of positions, from which networks learn details: Fourier features, sinusoids, hash grids.


def fourier_features(x: Variable, frequencies: int | np.ndarray, include: bool = False) -> Variable:
    """Sines and cosines of positions: of pi 2^k times each coordinate (Mildenhall et al., NeRF, equation 4),
    or of 2 pi times random products (Tancik et al., Fourier Features).

    x: FLOAT of D channels, or VECn of D components.  frequencies: how many octaves k = 0, 1, ..., or an array
    (M, D), such as normal numbers times a scale.  include: whether x itself is there too, at first. The
    result is FLOAT of 2 M channels, all sines before all cosines, with M = D times the octaves, coordinate by
    coordinate. Differentiable in x. Raises GraphError.

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

    length: tokens, a row. channels: an even number; sines and cosines take turns. The result is FLOAT
    (length, 1) of these channels, a constant without derivative. Raises GraphError.

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


# Grids of features at many resolutions, whose fine levels share a table by a hash (instant-ngp).

PRIMES = (1, 2654435761, 805459861)
"""Factors of the coordinates in the hash: equation 4."""


class GridIndex(PixelFunction):
    """Input IVEC2 or IVEC3, a vertex of a grid of ``resolution`` cells: INT, its place in a table of
    ``entries``, row by row if all vertices fit, else by the hash of Mueller et al., equation 4."""

    operations = 10.0
    zero_derivative = True
    fields = ("resolution", "entries")
    resolution: int
    entries: int

    def infer(self):
        if self.inputs[0].vtype not in (IVEC2, IVEC3):
            raise self.fail("takes IVEC2 or IVEC3")
        if not self.dense and self.entries & (self.entries - 1):
            raise self.fail(f"the table holds a power of two of entries, not {self.entries}")
        return INT, self.broadcast()

    @property
    def dimensions(self) -> int:
        return self.inputs[0].vtype.components

    @property
    def dense(self) -> bool:
        return (self.resolution + 1) ** self.dimensions <= self.entries

    @property
    def glsl(self) -> str:
        axes = "xyz"[: self.dimensions]
        if self.dense:
            return " + ".join(f"$0.{a} * {(self.resolution + 1) ** k}" for k, a in enumerate(axes))
        mixed = " ^ ".join(f"(uint($0.{a}) * {p}u)" for a, p in zip(axes, PRIMES, strict=False))
        return f"int(({mixed}) & {self.entries - 1}u)"

    def eval(self, vertex):
        axes = [np.asarray(vertex[..., k], np.int64) for k in range(self.dimensions)]
        if self.dense:
            return sum(a * (self.resolution + 1) ** k for k, a in enumerate(axes))
        mixed = np.zeros_like(axes[0])
        for a, p in zip(axes, PRIMES, strict=False):
            mixed ^= (a * p) & 0xFFFFFFFF
        return mixed & (self.entries - 1)


def hash_grid_init(
    rng: np.random.Generator, levels: int = 8, entries: int = 1 << 14, features: int = 2
) -> dict[str, np.ndarray]:
    """Arrays for ``hash_grid``: "tables" (levels, entries, features), uniform in [-1e-4, 1e-4].

    rng: numpy.random.default_rng(seed). levels: of resolution. entries: of each table, a power of two.
    features: of each entry, 2 to 4. Raises GraphError.

    >>> networks.hash_grid_init(np.random.default_rng(0), levels=4, entries=256)["tables"].shape
    (4, 256, 2)
    """
    if entries < 1 or entries & (entries - 1):
        raise GraphError(
            f"the tables of a hash grid hold a power of two of entries, such as 16384, not {entries}"
        )
    if not 2 <= features <= 4 or levels < 1:
        raise GraphError(f"a hash grid has levels of 2 to 4 features, not {levels} of {features}")
    return {"tables": rng.uniform(-1e-4, 1e-4, (levels, entries, features))}


def resolutions(levels: int, coarsest: int, finest: int) -> list[int]:
    """Cells along a side of every level, by a constant factor: equations 2 and 3. Raises GraphError."""
    if not 1 <= coarsest <= finest:
        raise GraphError(
            f"resolutions of a hash grid go from coarse to fine, not from {coarsest} to {finest}"
        )
    growth = (finest / coarsest) ** (1.0 / max(levels - 1, 1))
    return [math.floor(coarsest * growth**level + 1e-6) for level in range(levels)]


def hash_grid(layer: Weights, x: Variable, coarsest: int = 16, finest: int = 512) -> Variable:
    """Features at positions, interpolated in grids. Mueller et al., Instant Neural Graphics Primitives.

    layer: "tables", see ``hash_grid_init``.  x: VEC2 or VEC3 in [0, 1]; what lies outside is moved to the
    border.  coarsest, finest: cells along each side of the first and the last level. The result is FLOAT, of
    levels times features channels. Differentiable in the tables and, in cells, in x. Raises GraphError.

    >>> grid = networks.parameters(networks.hash_grid_init(np.random.default_rng(0), levels=4, entries=256))
    >>> networks.hash_grid(grid, Variable(VEC2, (32, 32)), 4, 64).shape
    (1, 8, 32, 32)
    """
    tables = weight_of(layer, "tables", "a hash grid")
    if tables.count is None or tables.vtype.is_scalar:
        raise GraphError(f"the tables of a hash grid are (levels, entries, features), not {tables}")
    if x.vtype not in (VEC2, VEC3) or x.channels > 1:
        raise GraphError(f"a hash grid takes positions VEC2 or VEC3, not {x}")
    levels = []
    for level, cells in enumerate(resolutions(tables.batch, coarsest, finest)):
        place = F.clamp(x, 0.0, 1.0) * float(cells)
        lower = F.minimum(F.floor(place), float(cells - 1))
        within, vertex = place - lower, F.to_int(lower)
        table = tables if tables.batch == 1 else F.take(tables, level)
        parts = []
        for corner in itertools.product((0, 1), repeat=x.vtype.components):
            index = GridIndex(vertex + corner, cells, tables.count).output
            parts.append(F.lookup(table, index) * _weight(within, corner))
        levels.append(F.to_channels(functools.reduce(operator.add, parts)))
    return F.concatenate_channels(*levels)


def _weight(within: Variable, corner: Sequence[int]) -> Variable:
    """The weight of a corner of a cell: linear along each axis."""
    sides = [
        F.component(within, k) if high else 1.0 - F.component(within, k) for k, high in enumerate(corner)
    ]
    return functools.reduce(operator.mul, sides)
