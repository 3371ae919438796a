"""Normalisations: values less their mean, over their standard deviation, scaled and moved by channel."""

from __future__ import annotations

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from .layers import Weights, biased, features, of_channels

EPS = 1e-5


def batch_norm(
    layer: Weights, x: Variable, statistics: tuple[Variable, Variable] | None = None, eps: float = EPS
) -> Variable:
    """Each channel normalised over all texels and images of the batch. Ioffe and Szegedy, Batch Normalization.

    layer: "weight" and "bias" of C channels, see ``norm_init``.  x: FLOAT of C channels.  statistics: mean and variance to
    use instead, FLOAT of C channels and one texel, for inference: those of the training set, by ``batch_statistics``.  eps:
    added to the variance. The result has the domain of x. Differentiable in all. Raises GraphError.

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

    layer, x, eps: as for ``batch_norm``.  groups: of equally many neighbouring channels; as many as channels for an instance
    norm. The result has the domain of x. Differentiable in all. Raises GraphError.

    >>> layer = networks.parameters(networks.norm_init(8))
    >>> networks.group_norm(layer, Variable(FLOAT, (32, 24), batch=2, channels=8), groups=4).shape
    (2, 8, 24, 32)
    """
    x = features(x, "a group norm")
    if groups < 1 or x.channels % groups:
        raise GraphError(f"{x.channels} channels do not divide into {groups} groups")
    per = x.channels // groups

    def mean(values: Variable) -> Variable:
        found = F.mean(values, "xy")
        if per > 1:
            found = F.contract(
                "out[n, g, y, x] = m[n, per * g + c, y, x]", m=found, per=per, extents={"g": groups, "c": per}
            )
            found = F.contract(
                "out[n, per * g + c, y, x] = m[n, g, y, x]", m=found, per=per, extents={"c": per}
            )
            found = found * (1.0 / per)
        return found

    centred = x - mean(x)
    return _scaled(layer, centred * F.inversesqrt(mean(F.square(centred)) + eps), "a group norm")


def layer_norm(layer: Weights, x: Variable, eps: float = EPS) -> Variable:
    """The channels of each texel normalised by themselves, as in transformers. Ba, Kiros and Hinton, Layer Normalization.

    layer, x, eps: as for ``batch_norm``. The result has the domain of x. Differentiable in all. Raises GraphError.

    >>> layer = networks.parameters(networks.norm_init(8))
    >>> networks.layer_norm(layer, Variable(FLOAT, (16, 1), batch=2, channels=8)).shape
    (2, 8, 1, 16)
    """
    x = features(x, "a layer norm")
    centred = x - F.mean(x, "c")
    return _scaled(layer, centred * F.inversesqrt(F.mean(F.square(centred), "c") + eps), "a layer norm")


def rms_norm(layer: Weights, x: Variable, eps: float = EPS) -> Variable:
    """The channels of each texel over the root of their mean square. Zhang and Sennrich, Root Mean Square Layer Normalization.

    layer: "weight" of C channels, see ``norm_init``, and perhaps "bias".  x, eps: as for ``batch_norm``. The result has the
    domain of x. Differentiable in all. Raises GraphError.

    >>> layer = networks.parameters(networks.norm_init(8, bias=False))
    >>> networks.rms_norm(layer, Variable(FLOAT, (16, 1), batch=2, channels=8)).shape
    (2, 8, 1, 16)
    """
    x = features(x, "an RMS norm")
    return _scaled(layer, x * F.inversesqrt(F.mean(F.square(x), "c") + eps), "an RMS norm")


def _scaled(layer: Weights, x: Variable, what: str) -> Variable:
    return biased(layer, x * of_channels(layer, "weight", x.channels, what), what)
