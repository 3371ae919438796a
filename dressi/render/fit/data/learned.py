"""The training data of the rounds: arrays of the views, and the image size of a round."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.ndimage import binary_erosion, distance_transform_edt, map_coordinates

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.graph.types import INT, VType
from ....errors import InputError
from ...core.engine import Engine
from ...core.lists import list_leaf
from ...forms.hard_soft_ras import SOFT_FORMS
from ...forms.soft_target import outline_distances
from ...io.images import resize, scaled_size
from .dataset import Dataset

PIXELS = 400_000
"""Most pixels of all views together in the shape phase."""
CHEAP_PIXELS = 1_000_000
"""The same for forms with ``full_resolution``, whose pixels cost less."""


class Learned(NamedTuple):
    """Arrays of the training views; ``Observations`` explains them."""

    matrices: np.ndarray
    """(N, 4, 4) from units of the scene to clip space."""
    masks: np.ndarray
    colors: np.ndarray
    known: np.ndarray | None
    depths: np.ndarray | None
    """In units of the scene."""


def learned(dataset: Dataset) -> Learned:
    """The arrays of the training views. A single view is used twice: so values of a view always have another
    domain than shared values, and one view gets the same plan as many. The losses are means and stay the
    same."""
    train = dataset.train
    depths = None if train.depths is None else train.depths / dataset.radius
    views = Learned(dataset.matrices, train.masks, train.colors, train.known, depths)
    if len(dataset.matrices) > 1:
        return views
    return Learned(*(None if array is None else np.repeat(array, 2, axis=0) for array in views))  # type: ignore


def resized(images: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(N, h, w, ...) float32: images (N, H, W, ...) at a size (w, h)."""
    return np.stack([resize(image.astype(np.float32), size) for image in images])


def round_size(size: tuple[int, int], rows: int, views: int, form: str = "outer") -> tuple[int, int]:
    """A size with the proportions of ``size`` and about ``rows`` rows, at most ``size`` and within the limit
    of pixels."""
    width, height = size
    most = CHEAP_PIXELS if SOFT_FORMS[form].full_resolution else PIXELS
    scale = min(1.0, rows / height, float(np.sqrt(most / (width * height * views))))
    return scaled_size(size, scale)


# Random batches of views: which views each step learns from, as data on the device.

ROUNDS = 64
"""Number of permutations before the sequence repeats."""


class ViewBatches:
    """Picks ``size`` of ``count`` views in each step, by the step counter alone.

    Seeded permutations of all views follow each other, and each step takes the next ``size`` entries, so that
    all views are used equally often. If ``size`` does not divide ``count``, a step across two permutations
    may use a view twice. Raises InputError.
    """

    def __init__(self, count: int, size: int, counter: Variable, seed: int = 0):
        if not 1 <= size <= count:
            raise InputError(f"a batch holds 1 to {count} of {count} views, not {size}")
        random = np.random.default_rng(seed)
        self.order = np.concatenate([random.permutation(count) for _ in range(ROUNDS)])
        table = list_leaf("order of views", INT, self.order)
        place = counter * size + F.tile_index((1, 1), size)
        self.size, self.index = size, F.lookup(table, place % len(self.order))
        """INT 1x1, ``size`` tiles: the views of this step."""

    def __call__(self, x: Variable) -> Variable:
        return F.take(x, self.index) if x.batch > 1 else x


MOST = 20_000_000
"""Pixels of all views beyond which the device holds the pictures of the next steps alone."""


class Pictures:
    """Images of ``count`` views at a size, of which each step takes those that ``pick`` picks.

    make: the images (n, H, W, ...) by name, of views (n,).  types: theirs.  room: pictures that the device holds at once,
    where all views have more than ``MOST`` pixels; then ``send`` has to be called before the steps that pick others.
    """

    def __init__(
        self, make: Callable[[np.ndarray], dict[str, np.ndarray]], types: dict[str, VType], size: tuple[int, int], count: int,
        pick: Callable[[Variable], Variable], room: int,
    ):  # fmt: skip
        self.make, self.room = make, room
        self._there: set[int] = set()
        many = room < count and count * size[0] * size[1] > MOST
        self._batches = pick if many and isinstance(pick, ViewBatches) else None
        if self._batches is not None:
            self.leaves = {name: Variable(vtype, size, room, name=name) for name, vtype in types.items()}
            self._slots = list_leaf("slots of views", INT, np.zeros(count, np.int64))
            slot = F.lookup(self._slots, self._batches.index)
            self.picked = {name: F.take(leaf, slot) for name, leaf in self.leaves.items()}
        else:
            data = make(np.arange(count))
            leaves = {name: Variable(v, size, count, name=name, data=data[name]) for name, v in types.items()}
            self.picked = {name: pick(leaf) for name, leaf in leaves.items()}

    @property
    def streamed(self) -> bool:
        """Whether pictures are sent as steps need them."""
        return self._batches is not None

    def before(self, engine: Engine, step: int, steps: int) -> None:
        """Send what so many steps from a step on pick."""
        if self._batches is not None:
            order, size = self._batches.order, self._batches.size
            self._send(engine, order[np.arange(step * size, (step + steps) * size) % len(order)])

    def next(self, engine: Engine) -> None:
        """Send what the next step picks."""
        if self._batches is not None:
            self._send(engine, engine.evaluate(self._batches.index).reshape(-1))

    def _send(self, engine: Engine, views: np.ndarray) -> None:
        views = np.unique(views).astype(np.int64)
        if self._there.issuperset(views.tolist()):
            return
        slots = np.zeros(self._slots.shape, np.int64)
        slots.reshape(-1)[views] = np.arange(len(views))
        engine.send(self._slots, slots)
        for name, images in self.make(np.resize(views, self.room)).items():
            engine.send(self.leaves[name], images)
        self._there = set(views.tolist())


# Masks as signed distances to their outline, at any size: what the target of a soft silhouette is computed
# from.


def signed_distances(masks: np.ndarray, size: tuple[int, int], margin: int = 0) -> np.ndarray:
    """(N, h, w) distances to the outline of masks (N, H, W), in image heights, positive inside; size is (w,
    h).

    The outline runs where the coverage is 1/2: of masks of 0 and 1 half way between covered and uncovered
    pixel centres, of filtered ones through the partly covered pixels. At a smaller size it is still placed
    between the pixels. A mask that covers everything, or nothing, is far from its outline.  margin: pixels of
    that size added on every side, for images drawn ``with_margin``, (N, h + 2 margin, w + 2 margin).
    """
    pad = _pad(masks, size, margin)
    signed = (outline_distances(np.pad(np.asarray(mask, np.float64), pad)) / len(mask) for mask in masks)
    return np.stack([_at_centres(image, size, margin, pad) for image in signed])


def cut_off(masks: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """(N,) bool: masks (N, H, W) that touch unknown pixels, beyond the border of the picture or where
    ``known`` (N, H, W) is false. Such a mask may be truncated; any other object is taken to lie inside the
    picture as a whole."""
    result = np.zeros(len(masks), dtype=bool)
    for i, mask in enumerate(np.asarray(masks) >= 0.5):
        told = np.ones(mask.shape, dtype=bool) if known is None else np.asarray(known[i]) > 0
        # Within two pixels counts as touching: resampling moves both borders.
        safe = np.asarray(binary_erosion(told, np.ones((3, 3)), iterations=2), dtype=bool)
        result[i] = bool((mask > safe).any())
    return result


def least_distances(
    masks: np.ndarray, size: tuple[int, int], margin: int = 0, known: np.ndarray | None = None
) -> np.ndarray:
    """``signed_distances`` of all pixels that may be covered: for masks that are ``cut_off`` the unknown
    pixels too.

    Beyond the border of a truncated mask the coverage is unknown. The true distance of a pixel outside the
    object lies between this one and the distance to the mask.
    """
    pad, images = _pad(masks, size, margin), []
    for i, cut in enumerate(cut_off(masks, known)):
        found = outline_distances(np.pad(np.asarray(masks[i], np.float64), pad))
        told = np.pad(np.ones(masks.shape[1:], bool) if known is None else known[i] > 0, pad)
        if cut and not told.all():
            # Pixels are known as a whole, whatever the outline of the mask is between them.
            inside, outside = (np.asarray(distance_transform_edt(part)) for part in (~told, told))
            found = np.maximum(found, np.where(told, 0.5 - outside, inside - 0.5))
        images.append(found / masks.shape[1])
    return np.stack([_at_centres(image, size, margin, pad) for image in images])


def _pad(masks: np.ndarray, size: tuple[int, int], margin: int) -> int:
    """The margin, given in pixels of ``size``, in pixels of the masks, rounded up."""
    height, width = masks.shape[1:]
    return math.ceil(margin * max(height / size[1], width / size[0]))


def _at_centres(image: np.ndarray, size: tuple[int, int], margin: int, pad: int) -> np.ndarray:
    """Values at the pixel centres of ``size`` with its margin; the image has ``pad`` pixels around the
    picture."""
    rows, columns = (
        (np.arange(count + 2 * margin) - margin + 0.5) * (have - 2 * pad) / count + pad - 0.5
        for have, count in zip(image.shape, reversed(size), strict=True)
    )
    return map_coordinates(image, np.meshgrid(rows, columns, indexing="ij"), order=1, mode="nearest")
