"""A graph over several images as the tiles of one batch: values and gradients are those of one graph an image."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.transform.tiles import over_tiles, stacked, unstacked
from dressi.ad.types import FLOAT, INT


def leaf(batch: int, size: tuple[int, int], seed: int) -> Variable:
    data = np.random.default_rng(seed).normal(size=(batch, *size[::-1]))
    return Variable(FLOAT, size, batch, name=f"leaf {seed}", data=data)


@pytest.mark.parametrize("tiles", [1, 3])
def test_graph_over_tiles_is_a_graph_an_image(tiles):
    """Also where the images have one tile, and what is read beside them has several."""
    images = [leaf(1 if tiles == 3 else tiles, (3, 2), seed) for seed in range(4)]
    scale, table = leaf(tiles, (1, 1), 8), leaf(tiles, (5, 1), 9)

    def graph(x: Variable) -> Variable:
        index = F.to_int(F.clamp(x, 0.0, 1.0) * 4.0)
        return F.sin(x * scale) * F.lookup(table, index if x.batch == tiles else F.expand(index, tiles)) + x

    placeholder = Variable(FLOAT, (3, 2), tiles)
    wide = [F.expand(x, tiles) for x in images]
    batch, constant = over_tiles([graph(placeholder), F.constant(2.0)], [placeholder], [stacked(wide)], 4)
    assert constant.batch == batch.batch == 4 * tiles
    found, expected = unstacked(batch, 4), [graph(x) for x in wide]
    leaves = [*images, scale, table]

    def weighed(parts: list[Variable]) -> Variable:
        return F.sum(sum((F.square(x) * (k + 1.0) for k, x in enumerate(parts)), F.constant(0.0)))

    for a, b in zip(
        evaluate([*found, *gradient(weighed(found), leaves)]),
        evaluate([*expected, *gradient(weighed(expected), leaves)]),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_images_of_one_tile_stand_beside_others():
    x, y = Variable(INT, (2, 1), data=[[[4, -1]]]), Variable(INT, (2, 1), 2, data=[[[1, 2]], [[3, 5]]])
    (found,) = evaluate([stacked([x, y])])
    assert found.reshape(4, 2).tolist() == [[4, -1], [4, -1], [1, 2], [3, 5]]
