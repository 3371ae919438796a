"""Several images of one size as the tiles of one batch, and a graph that is computed for all of them at once.

What a graph does for each of K images costs K copies of its Functions, which are K shaders to build. As tiles
of one batch they are one: the graph is built once, for placeholders, and then rebuilt over the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Variable
from ..graph.traversal import rebuilt, topological_order
from ..ops.image.coordinates import tile_index
from ..ops.image.lookup import take
from ..ops.image.reduce import expand
from ..ops.pixel.arithmetic import div, total


def stacked(images: Sequence[Variable]) -> Variable:
    """The images as one batch: of K images with N tiles each, tile k N + n is tile n of image k.

    images: of one type, size and batch.  Differentiable.

    >>> x, y = (Variable.of([[k], [k + 1.0]], FLOAT, batched=True) for k in (1.0, 3.0))
    >>> evaluate(stacked([x, y])).ravel().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    count = max(image.batch for image in images)
    wide = [image if image.batch == count else expand(image, count) for image in images]
    if len(wide) == 1:
        return wide[0]
    index = tile_index((1, 1), len(images) * count)
    return total([take(image, index - k * count) for k, image in enumerate(wide)])


def unstacked(batch: Variable, count: int) -> list[Variable]:
    """The ``count`` images that ``stacked`` made this batch of. Differentiable."""
    tiles = batch.batch // count
    if count == 1:
        return [batch]
    return [take(batch, tile_index((1, 1), tiles) + k * tiles) for k in range(count)]


def over_tiles(
    outputs: Sequence[Variable], placeholders: Sequence[Variable], values: Sequence[Variable], count: int
) -> list[Variable]:
    """Applies a graph to ``stacked`` values. Differentiable in the values and in what else the graph reads.

    outputs: of the graph, each with N tiles or one. placeholders: leaves that the graph reads, of batch N or
    1. values: for each of them a batch of ``count`` times its tiles. The outputs have ``count`` N tiles.
    Other Variables are the same for all tiles.
    """
    tiles = max(x.batch for x in (*outputs, *placeholders))
    index = tile_index((1, 1), count * tiles)
    made: dict[Variable, Variable] = {}
    for x, value in zip(placeholders, values, strict=True):
        made[x] = value if x.batch == tiles else take(value, div(index, tiles))
    shared: dict[Variable, Variable] = {}

    def wide(x: Variable) -> Variable:
        if x.batch == 1:
            return x
        if x not in shared:
            shared[x] = take(x, index % tiles)
        return shared[x]

    rebuilt(topological_order(outputs), made, wide)
    results = [made[y] if y in made else wide(y) for y in outputs]
    return [y if y.batch == count * tiles else expand(y, count * tiles) for y in results]
