"""Layers with weights: linear maps of channels, convolutions, and MLPs of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from ..graph.user_code import check_function
from ..ops.pixel.constant import Like, operands
from ..types import FLOAT

Weights = Mapping[str, Variable]
"""The parameters of one layer by name."""


def features(x: Like, what: str) -> Variable:
    """An image of channels: FLOAT as it is, the components of VECn as channels. Raises GraphError. what: who asks."""
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
    found = layer[name]
    if not isinstance(found, Variable):
        raise GraphError(
            f"{name!r} of {what} is no Variable, but {type(found).__name__}; networks.parameters makes them"
        )
    return found


def of_channels(layer: Weights, name: str, channels: int, what: str) -> Variable:
    """A parameter of one number a channel. Raises GraphError for others."""
    found = weight_of(layer, name, what)
    if (found.size, found.batch) != ((1, 1), 1) or found.channels != channels:
        raise GraphError(f"{name!r} of {what} has {channels} channels and one texel, not {found}")
    return found


def linear(layer: Weights, x: Variable) -> Variable:
    """A linear map of the channels of each texel: weight x + bias.

    layer: "weight", a FLOAT matrix (O, I), and perhaps "bias" of O channels; see ``linear_init``.  x: FLOAT of I channels, or
    VECn of I components, of any size and batch: pixels of images, or tokens of sequences. The result is FLOAT of O channels.
    Differentiable in all. Raises GraphError.

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
    """x with the bias of a layer, if it has one."""
    return x + of_channels(layer, "bias", x.channels, what) if "bias" in layer else x


def convolution(layer: Weights, x: Variable, **options: Any) -> Variable:
    """A layer of a convolutional network: the correlation with the weight, and the bias.

    layer: "weight", FLOAT (O, I, H, W), and perhaps "bias" of O channels; see ``convolution_init``.  x: FLOAT channels, or
    VECn.  options: stride, dilation, groups and border of ``F.correlate``; with the default border "zero" a 3x3 kernel has
    what PyTorch calls padding=1. The result is FLOAT of O channels. Differentiable in all. Raises GraphError.

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

    layers: parameters of ``linear`` layers, see ``mlp_init``.  x: FLOAT channels, or VECn.  activation: after all layers but
    the last, such as ``F.relu``.  last: after the last one, such as ``F.sigmoid``; None: nothing. The result is FLOAT of the
    channels of the last layer. Differentiable in all. Raises GraphError.

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
    """function(x). Raises GraphError unless that is a Variable."""
    cure = f"F.{function}" if str(function) in F.__all__ else "F.relu, F.tanh, F.silu"
    check_function(function, 1, what, f"give the operation itself, such as {cure}")
    found = function(x)
    if not isinstance(found, Variable):
        raise GraphError(f"{what} returns a Variable, not {found!r}")
    return found
