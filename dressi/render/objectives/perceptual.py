"""A perceptual distance: differences of the features of a convolutional network, as LPIPS takes them."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path

import numpy as np

from ...ad import functional as F
from ...ad import networks
from ...ad.graph import Variable
from ...ad.graph.types import VEC3
from ...ad.ops.pixel.constant import Like, operands
from ...errors import InputError, shown

SHIPPED = Path(__file__).with_name("perceptual.safetensors")
"""Weights of a small network, which apps/pipelines/perceptual/train_perceptual.py trains."""
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and deviation of the sRGB codes of ImageNet, by which VGG, AlexNet and LPIPS normalise."""
LEAST = 1e-10
"""Squared length of features below which their direction fades."""

_LAYER = re.compile(r"^(?:net\.slice\d+\.|features\.)?(\d{1,6})\.(weight|bias)$")
_SCALE = re.compile(r"^lin(\d{1,6})\.(?:model\.\d+\.)?weight$")
_BIG_KERNEL = 11
"""That of AlexNet's first layer, from which follow its stride, its padding, and its pools of 3x3 texels."""


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution with its ReLU. pooled: whether the values before it are pooled.  tapped: whether its
    features are compared, and ``scale``, FLOAT of one number a channel, by how much; None: 1."""

    parameters: Mapping[str, Variable]
    pooled: bool
    tapped: bool
    scale: Variable | None


class Features:
    """A network whose features are compared: convolutions with ReLUs, pools between them.

    arrays: weights by name, as of ``networks.load_safetensors``. Recognised are VGG and AlexNet of
    torchvision ("features.0.weight", ...), and these of LPIPS with its linear layers ("net.slice1.0.weight",
    "lin0.model.1.weight"). The numbers in the names count ReLUs and pools too, which tells where pools are.
    Features before each pool and at the end are compared; of all layers where LPIPS has a linear layer for
    each. Raises InputError for other names and shapes.

    >>> first = {"features.0.weight": np.zeros((8, 3, 3, 3)), "features.0.bias": np.zeros(8)}
    >>> second = {"features.3.weight": np.zeros((4, 8, 3, 3)), "features.3.bias": np.zeros(4)}
    >>> Features({**first, **second}).layers[1].pooled
    True
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        found: dict[int, dict[str, np.ndarray]] = {}
        scales: dict[int, np.ndarray] = {}
        for name, array in arrays.items():
            values = np.asarray(array)
            if match := _LAYER.match(name):
                found.setdefault(int(match[1]), {})[match[2]] = values.astype(np.float32)
            elif match := _SCALE.match(name):
                scales[int(match[1])] = values.astype(np.float32)
        if not found:
            raise InputError(
                "the weights are those of no network that is known here: there is no 'features.0.weight' of"
                " VGG or AlexNet and no 'net.slice1.0.weight' of LPIPS"
            )
        _check(found)
        numbers = sorted(found)
        gaps = [0, *np.diff(numbers)]
        ends = [*(gap == 3 for gap in gaps[1:]), True]
        if scales and len(scales) == len(numbers):
            ends = [True] * len(numbers)
        taps = [number for number, end in zip(numbers, ends, strict=True) if end]
        _check_scales(scales, [found[number]["weight"].shape[0] for number in taps])
        named = networks.parameters({f"features.{n}": found[n] for n in numbers})
        lins = networks.parameters({f"lin{k}": {"weight": s.reshape(-1)} for k, s in scales.items()})
        self.parameters: dict[str, Variable] = networks.flat({**named, **lins})
        """The leaves by name, for training."""
        self.big = found[0]["weight"].shape[2] == _BIG_KERNEL if 0 in found else False
        self.layers: tuple[Layer, ...] = tuple(
            Layer(
                named[f"features.{number}"],
                bool(gap == 3),
                number in taps,
                lins[f"lin{taps.index(number)}"]["weight"] if scales and number in taps else None,
            )
            for number, gap in zip(numbers, gaps, strict=True)
        )

    @property
    def least(self) -> int:
        """Texels along each side that an image has at least: one at the last layer."""
        return 63 if self.big else 1 << sum(layer.pooled for layer in self.layers)

    def of(self, image: Variable) -> list[Variable]:
        """The features that are compared, each FLOAT of as many channels as its layer has, divided by their
        length.

        image: VEC3 of sRGB codes, or FLOAT of 3 channels. Differentiable. Raises InputError.
        """
        if not (image.vtype is VEC3 or (image.vtype.is_scalar and image.channels == 3)):
            raise InputError(f"features are those of colours, VEC3 or three channels, not of {image}")
        if min(image.size) < self.least:
            raise InputError(
                f"{image} is too small for the features, which take {self.least}x{self.least} texels at least"
            )
        x = F.to_channels(image) if image.vtype is VEC3 else image
        own = networks.parameters({"shift": -np.array(MEAN), "scale": 1.0 / np.array(DEVIATION)})
        x, found = (x + own["shift"]) * own["scale"], []
        for number, layer in enumerate(self.layers):
            if layer.pooled:
                x = F.max_pool(x, 3, 2) if self.big else F.max_pool(x, 2)
            if self.big and number == 0:
                x = networks.convolution(layer.parameters, F.pad(x, 2, 2, 2, 2), stride=4, border=None)
            else:
                x = networks.convolution(layer.parameters, x)
            x = F.store(F.relu(x))  # the sum over channels would compute all of them for each
            if layer.tapped:
                found.append(x * F.inversesqrt(F.sum(F.square(x), "c") + LEAST))
        return found


def _check(found: Mapping[int, Mapping[str, np.ndarray]]) -> None:
    channels, before = 3, None
    for number in sorted(found):
        weight, bias = found[number].get("weight"), found[number].get("bias")
        name = f"layer {number} of the network"
        if weight is None or bias is None or weight.ndim != 4 or bias.shape != weight.shape[:1]:
            shapes = " and ".join("none" if x is None else f"{x.shape}" for x in (weight, bias))
            raise InputError(
                f"{name} is a convolution with weight (O, I, H, W) and bias (O,), not with {shapes}"
            )
        if weight.shape[1] != channels:
            raise InputError(
                f"{name} takes {weight.shape[1]} channels, and the one before it makes {channels}"
            )
        if (number if before is None else number - before) not in ((0,) if before is None else (2, 3)):
            raise InputError(
                f"{name} does not follow layer {before} with a ReLU, or a ReLU and a pool, between them"
            )
        channels, before = weight.shape[0], number


def _check_scales(scales: Mapping[int, np.ndarray], channels: Sequence[int]) -> None:
    if not scales:
        return
    sizes = [scales[k].size if k in scales else 0 for k in range(len(channels))]
    if len(scales) != len(channels) or sizes != list(channels):
        raise InputError(
            f"the linear layers of LPIPS have {shown(', '.join(map(str, sizes)))} weights; the network has"
            f" {shown(', '.join(map(str, channels)))} channels"
        )


@cache
def shipped_features() -> Features:
    """The network that comes with dressi: six layers of 3x3, 28,000 weights."""
    return Features(networks.load_safetensors(SHIPPED))


def load_features(path: str | Path) -> Features:
    """A network from a .safetensors file: VGG, AlexNet, LPIPS of these, or what
    apps/pipelines/perceptual/train_perceptual.py writes.

    path: of the file. The ``Features`` take images of VEC3. Raises InputError, which names the file.
    """
    try:
        return Features(networks.load_safetensors(path))
    except InputError as error:
        text = str(error)
        raise InputError(text if str(path) in text else f"'{path}': {text}") from None


def perceptual(
    image: Variable, target: Like, features: Features | None = None, weight: Like | None = None
) -> Variable:
    """FLOAT 1x1: how different two images look: LPIPS, Zhang et al. 2018, equation 1.

    image: VEC3, or FLOAT of three channels: sRGB codes in [0, 1]; of 16x16 texels at least.  target: of its
    type and size; batch 1 is shared.  features: of a network, see ``load_features``; by default the one that
    comes with dressi, trained to forgive shifts and exposures and to see blur, noise and missing structure.
    weight: FLOAT of the size of the image, such as a mask, multiplies both images. The features are compared
    in direction, by squared differences, in the mean over texels and images, and summed over layers.
    Differentiable in both. Raises InputError.

    >>> image = Variable.of(np.random.default_rng(0).uniform(size=(16, 16, 3)))
    >>> evaluate(perceptual(image, image)).item()
    0.0
    """
    features = shipped_features() if features is None else features
    _, other = operands(image, target)
    if (image.vtype, image.size, image.channels) != (other.vtype, other.size, other.channels):
        raise InputError(f"{image} and {other}, which are compared, are of one type and size")
    if weight is not None:
        image, other = image * weight, other * weight
    return F.mean(perceptual_by_image(features, image, other), "n")


def perceptual_by_image(features: Features, image: Variable, target: Variable) -> Variable:
    """FLOAT 1x1, a tile for each image of the batch: the distance of ``perceptual``."""
    parts = []
    taps = [layer for layer in features.layers if layer.tapped]
    for layer, a, b in zip(taps, features.of(image), features.of(target), strict=True):
        squares = F.square(a - b)
        if layer.scale is not None:
            squares = squares * F.maximum(layer.scale, 0.0)
        parts.append(F.mean(F.sum(squares, "c"), "xy"))
    return reduce(operator.add, parts)
