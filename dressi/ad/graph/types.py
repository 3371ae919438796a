"""Types of texels, domains of images, and how a Function reads its inputs."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ...errors import GraphError

Size = tuple[int, int]
"""Width and height of one tile, in texels."""


def whole(value: Any, what: str, least: int | None = None) -> int:
    """``value`` as an int, never rounded. Raises GraphError unless it is a whole number of at least
    ``least``. what: its name, for the error."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        integral = isinstance(value, (float, np.floating)) and float(value).is_integer()
        exact: Any = int(value) if integral else value
        number = operator.index(exact)
    except TypeError:
        raise GraphError(f"{what} must be a whole number, not {value!r}") from None
    if least is not None and number < least:
        raise GraphError(f"{what} must be at least {least}, not {number}")
    return number


def size_of(value: Any, what: str = "a size") -> Size:
    """``value`` as (W, H). Raises GraphError, naming ``what``, unless it is two whole numbers above 0."""
    try:
        width, height = value
    except (TypeError, ValueError):
        raise GraphError(f"{what} is (width, height), not {value!r}") from None
    return whole(width, f"the width of {what}", 1), whole(height, f"the height of {what}", 1)


class Domain(NamedTuple):
    """A batch of images with channels, as tiles of one size: channel c of image n is n * channels + c."""

    size: Size
    tiles: int
    channels: int = 1

    @property
    def batch(self) -> int:
        return self.tiles // self.channels

    @property
    def area(self) -> int:
        return self.size[0] * self.size[1]

    @property
    def texels(self) -> int:
        return self.area * self.tiles

    def __str__(self) -> str:
        text = f"{self.size[0]}x{self.size[1]}" + (f" x {self.batch}" if self.batch != 1 else "")
        return text if self.channels == 1 else f"{text}, {self.channels} channels"


def domain_of(size: Any, batch: Any = 1, channels: Any = 1) -> Domain:
    """The domain of images of that size. Raises GraphError if a number is not whole and at least 1."""
    channels = whole(channels, "a number of channels", 1)
    return Domain(size_of(size), whole(batch, "a batch", 1) * channels, channels)


def inferred_domain(given: Any) -> Domain | None:
    """The domain that a class of a user returned, ((W, H), tiles) or a Domain; None if it is malformed."""
    try:
        size, tiles, *channels = given
        each = whole(channels[0], "a number of channels", 1) if channels else 1
        return domain_of(size, tiles // each, each) if len(channels) < 2 else None
    except (TypeError, ValueError, GraphError):
        return None


def broadcast(domains: Sequence[Domain]) -> Domain | None:
    """The domain that all broadcast to, one texel for none; None if two differ where neither is 1."""
    first = domains[0] if domains else Domain((1, 1), 1)
    if all(domain == first for domain in domains):
        return first
    extents = [1, 1, 1, 1]
    for domain in domains:
        for k, n in enumerate((*domain.size, domain.batch, domain.channels)):
            if extents[k] == 1:
                extents[k] = n
            elif n not in (1, extents[k]):
                return None
    width, height, batch, channels = extents
    return Domain((width, height), batch * channels, channels)


class VType(Enum):
    """Type of one texel. Members are ``(GLSL name, NumPy shape)``.

    NumPy arrays of a Variable have the shape ``(batch, height, width) + vtype.shape``; matrices are stored as
    ``[row, column]`` in NumPy, while GLSL numbers columns first (``m[column][row]``).

    >>> VEC3.shape, VEC3.components, MAT4.shape, IVEC2.is_int
    ((3,), 3, (4, 4), True)
    >>> Variable(VEC3, (64, 48), batch=2).shape
    (2, 48, 64, 3)
    """

    FLOAT = ("float", ())
    VEC2 = ("vec2", (2,))
    VEC3 = ("vec3", (3,))
    VEC4 = ("vec4", (4,))
    MAT2 = ("mat2", (2, 2))
    MAT3 = ("mat3", (3, 3))
    MAT4 = ("mat4", (4, 4))
    INT = ("int", ())
    IVEC2 = ("ivec2", (2,))
    IVEC3 = ("ivec3", (3,))
    IVEC4 = ("ivec4", (4,))

    def __init__(self, glsl: str, shape: tuple[int, ...]):
        self.glsl = glsl
        self.shape = shape
        self.components = math.prod(shape)
        """Scalars in one texel."""
        self.is_int = glsl.startswith("i")
        self.is_matrix = len(shape) == 2
        self.is_scalar = not shape
        self.planes = (shape[0],) * shape[1] if self.is_matrix and shape[0] > 2 else (self.components,)
        """Components in each image that stores this type. MAT3 and MAT4 take one image a column."""

    @property
    def dtype(self) -> type:
        """NumPy type of the values as a device stores them."""
        return np.int32 if self.is_int else np.float32

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__
    # Members are singletons, so the hash of the object will do; Enum's own takes five times as long.
    __hash__ = object.__hash__


FLOAT, VEC2, VEC3, VEC4 = VType.FLOAT, VType.VEC2, VType.VEC3, VType.VEC4
MAT2, MAT3, MAT4 = VType.MAT2, VType.MAT3, VType.MAT4
INT, IVEC2, IVEC3, IVEC4 = VType.INT, VType.IVEC2, VType.IVEC3, VType.IVEC4


def vector_type(components: int, *, integer: bool = False) -> VType:
    """FLOAT, VEC2..4 (or INT, IVEC2..4) with that many components."""
    return ((INT, IVEC2, IVEC3, IVEC4) if integer else (FLOAT, VEC2, VEC3, VEC4))[components - 1]


def matrix_type(order: int) -> VType:
    return (MAT2, MAT3, MAT4)[order - 2]


class Access(Enum):
    """How a Function reads one of its inputs: its ``access`` lists one of these for each.

    SAME_PIXEL: the texel at the coordinates of the output texel; sizes and batches of 1 broadcast. FETCH: any
    texels, by integer coordinates. PULL: any texels, by the vertex shader. SAMPLE: anywhere between texels,
    by the device's sampler; the Function has a ``sampler``. Planners use SAMPLE, see ``F.sample``.

    >>> F.shift(Variable.of([1.0, 2.0, 3.0, 4.0, 5.0]), 1, 0).creator.access
    (<Access.FETCH: 'fetch'>,)
    """

    SAME_PIXEL = "same pixel"
    FETCH = "fetch"
    PULL = "pull"
    SAMPLE = "sample"

    __hash__ = object.__hash__


class Sampler(NamedTuple):
    """How a sampler reads an image: filter is "nearest" or "bilinear", wrap is "repeat" or "clamp"."""

    filter: str
    wrap: str

    def __str__(self) -> str:
        return f"{self.filter}_{self.wrap}"


LIST_WIDTH = 4096
"""The largest width of the image of a list (vertices, faces, corners), which every Vulkan device supports.
Entry i is texel (i % W, i // W)."""


def list_size(count: int) -> Size:
    """Size of the image that holds a list of ``count`` entries."""
    return (min(count, LIST_WIDTH), -(-count // LIST_WIDTH))


def list_image(values: np.ndarray) -> np.ndarray:
    """A list (count, ...) as an image (1, H, W, ...). The rest of the last row is 0."""
    values = np.asarray(values)
    width, height = list_size(len(values))
    image = np.zeros((width * height, *values.shape[1:]), values.dtype)
    image[: len(values)] = values
    return image.reshape(1, height, width, *values.shape[1:])


def list_values(image: np.ndarray, count: int) -> np.ndarray:
    """The ``count`` entries of a list from its image (N, H, W, ...): an array (N, count, ...)."""
    return image.reshape(len(image), -1, *image.shape[3:])[:, :count]
