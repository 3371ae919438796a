"""Functions can be evaluated at any texels, not only over whole images: fragments of a rasterizer need that."""

import numpy as np
import pytest
from examples import EXAMPLES, Build

from dressi.ad.evaluate import Evaluator, with_tiles
from dressi.ad.graph import At, DrawFunction, ScatterFunction
from dressi.ad.types import Access

CASES = [
    pytest.param(build, id=f"{cls.__name__}-{k}")
    for cls, builds in EXAMPLES.items()
    for k, build in enumerate(builds)
]


@pytest.mark.parametrize("build", CASES)
def test_scattered_texels_have_the_values_of_the_image(build: Build):
    function = build().output.creator
    assert function is not None
    if isinstance(function, (ScatterFunction, DrawFunction)):
        return
    *inputs, whole = (
        values.reshape(v.tiled)
        for v, values in zip(
            (*function.inputs, function.output), Evaluator([*function.inputs, function.output])(), strict=True
        )
    )
    (width, height), batch, _ = function.output.domain
    rng = np.random.default_rng(3)
    x, y, tile = (rng.integers(0, n, (1, 1, 17)) for n in (width, height, batch))
    at = At(x, y, tile)
    local = []
    for variable, values, access in zip(function.inputs, inputs, function.access, strict=True):
        if access is Access.SAME_PIXEL:
            values = with_tiles(values, variable, function.output.domain)
            # As in a fragment: one value for each place, or a single one where the input has one texel.
            place = [np.minimum(i, n - 1) for i, n in zip((tile, y, x), values.shape)]
            single = values.shape[:3] == (1, 1, 1)
            local.append(values if single else values[tuple(place)])
        else:
            local.append(values)
    found = np.broadcast_to(function.evaluate(at, *local), (1, 1, 17, *function.output.vtype.shape))
    assert np.allclose(found, whole[tile, y, x], equal_nan=True)
