"""Sums over fragments: which count, and what is said of mistakes. Derivatives: tests/ad/examples_rendering.py."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient, jvp
from dressi.ad.types import FLOAT, INT, IVEC3, VEC3, VEC4
from dressi.errors import GraphError

SIZE = (8, 8)


def grid(z=0.0):
    """Four squares of two triangles each that fill the image, and meet in edges through pixel centres."""
    steps = np.array([-1.0, 1 / 16 * 2, 1.0])  # 1 / 16 is the centre of a pixel beside the middle
    x, y = np.meshgrid(steps, steps)
    points = np.stack([x, y, np.full_like(x, z), np.ones_like(x)], -1).reshape(-1, 4)
    squares = [(3 * r + c, 3 * r + c + 1, 3 * r + c + 4, 3 * r + c + 3) for r in range(2) for c in range(2)]
    rows = [t for a, b, c, d in squares for t in ((a, b, c), (c, a, d))]  # of both orientations
    return Variable.of(points, VEC4), Variable.of(np.array(rows), IVEC3)


def ones(face, depth):
    return 1.0


def test_triangles_that_meet_cover_every_pixel_once():
    assert (evaluate([F.accumulate(*grid(), size=SIZE, value=ones)])[0] == 1).all()


def test_every_fragment_counts_in_front_of_the_limit():
    position, faces = grid()
    stack = Variable(
        VEC4, (9, 1), 3, data=np.stack([position.data[0] + [0, 0, z, 0] for z in (0.25, 0.5, 0.75)])
    )
    limit = Variable(FLOAT, SIZE, data=np.full((1, 8, 8), 0.6))
    counts = evaluate([F.accumulate(stack, faces, size=SIZE, value=ones, limit=limit)])[0]
    assert counts.reshape(3, -1).tolist() == [[1.0] * 64, [1.0] * 64, [0.0] * 64]
    twice = Variable.of(np.concatenate([faces.data.reshape(-1, 3)[:8]] * 2), IVEC3)

    def odd(face, depth):
        return F.vec3(1.0, depth, F.to_float(face)), F.mod(F.to_float(face), 2.0)

    (sums,) = evaluate([F.accumulate(stack, twice, size=SIZE, value=odd)])
    assert set(sums[0, ..., 0].ravel()) == {0.0, 2.0}
    assert np.allclose(sums[..., 1], sums[..., 0] * np.array([0.25, 0.5, 0.75])[:, None, None])
    assert sums[1, ..., 2].max() == 7 + 15


def test_derivatives_by_the_depth_and_none_by_what_decides():
    position, faces = grid(0.5)
    limit = Variable(FLOAT, data=0.9)
    drawn = F.accumulate(position, faces, size=SIZE, value=lambda face, depth: depth * 4.0, limit=limit)
    slope, none = evaluate(gradient(F.sum(drawn), [position, limit]))
    assert np.isclose(slope[..., 2].sum(), 4 * 64) and not none.any()  # the weights of corners add up to one
    moved = Variable(VEC4, position.size, data=np.tile([0.0, 0.0, 0.1, 0.0], (1, 1, 9, 1)))
    assert np.allclose(evaluate(jvp([drawn], [position], [moved]))[0], 0.4)


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (lambda face, depth: face, {}, "adds floats"),
        (lambda face, depth: (depth, face), {}, "masks of a fragment are FLOAT"),
        (lambda face, depth: None, {}, "returns the value of a fragment"),
        (lambda face, depth: F.sum(depth), {}, "texel by texel"),
        (lambda face, depth: Variable(FLOAT, (3, 3)), {}, "1x1 or 8x8"),
        (ones, {"limit": Variable(VEC3)}, "limits of a fragment are FLOAT"),
        (ones, {"limit": Variable(FLOAT, (4, 4))}, "one texel or of 8x8"),
        (ones, {"triangles": 9}, "cannot draw 9 triangles of a list of 8"),
        (ones, {"live": Variable(INT, (3, 1))}, "8 faces need as many texels"),
    ],
)
def test_mistakes_are_named(value, options, message):
    with pytest.raises(GraphError, match=message):
        F.accumulate(*grid(), size=SIZE, value=value, **options)


def test_the_depth_of_faces_of_several_triangles_has_no_derivative():
    position, faces = grid()
    drawn = F.accumulate(
        position, faces, size=SIZE, triangles_per_face=2, value=lambda face, depth: depth * depth
    )
    with pytest.raises(GraphError, match="triangles_per_face=1"):
        gradient(F.sum(drawn), [position])


def test_a_mark_in_a_value_stops_its_gradient():
    table = Variable.of([2.0, 3.0], FLOAT)
    value = {"value": lambda face, depth: F.stop_gradient(F.lookup(table, face)) * 2.0}
    position = Variable.of(2 * [[-1.0, -1, 0, 1], [3, -1, 0, 1], [-1, 3, 0, 1]], VEC4)
    (slope,) = gradient(F.sum(F.accumulate(position, size=SIZE, **value)), [table])
    assert not evaluate([slope])[0].any()
