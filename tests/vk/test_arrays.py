"""Arrays become Variables and come back in their own form; graphs may be deep."""

from dataclasses import replace

import numpy as np
import pytest

import dressi
from dressi import F, GraphError, Variable, gradient, sgd
from dressi.ad.evaluate import evaluate as meaning
from dressi.ad.program import Program
from dressi.ad.types import FLOAT, INT, IVEC2, MAT3, MAT4, VEC2, VEC3
from dressi.vk.plan.model.records import DATA_CENTRE
from dressi.vk.run.engine import DressiAD
from dressi.vk.run.executor import VulkanExecutor


def test_arrays_say_what_they_are():
    def kind(array, *a, **k):
        v = Variable.of(array, *a, **k)
        return v.vtype, v.size, v.batch, v.count

    many = np.zeros((5000, 3))
    assert kind(1.0) == (FLOAT, (1, 1), 1, None) and kind([1, 2]) == (dressi.IVEC2, (1, 1), 1, None)
    assert kind(np.zeros((7, 3))) == (VEC3, (7, 1), 1, 7) and kind(many) == (VEC3, (4096, 2), 1, 5000)
    assert kind(np.zeros(9)) == (FLOAT, (9, 1), 1, 9) and kind(np.zeros((9, 1))) == (FLOAT, (9, 1), 1, 9)
    assert kind(np.zeros((48, 64, 3))) == (VEC3, (64, 48), 1, None)
    assert kind(np.zeros((48, 64))) == (FLOAT, (64, 48), 1, None)
    assert kind(np.zeros((48, 64), bool)) == (FLOAT, (64, 48), 1, None)
    assert kind(np.zeros((5, 48, 64, 2))) == (VEC2, (64, 48), 5, None)
    assert kind(np.zeros((6, 4, 4)), MAT4, batched=True) == (MAT4, (1, 1), 6, None)
    assert kind(np.zeros((3, 3)), MAT3) == (MAT3, (1, 1), 1, None)
    assert kind(np.zeros((3, 3)), VEC3) == (VEC3, (3, 1), 1, 3)
    assert kind(np.zeros((2, 7, 3)), batched=True) == (VEC3, (7, 1), 2, 7)
    for array, words in [
        (np.zeros((3, 3)), "one MAT3, a list of 3 VEC3 or an image of 3x3 FLOAT"),
        (np.zeros((6, 4, 4)), "a list of 6 MAT4, an image of 4x6 VEC4 or 6 images of 4x4 FLOAT"),
        (np.zeros((2, 3, 4, 5, 6)), "too many axes"),
        (np.zeros((0, 3)), "is empty"),
        (["a"], "holds numbers"),
        (np.zeros(3) * 1j, "holds numbers"),
    ]:
        with pytest.raises(GraphError, match=words):
            Variable.of(array)
    with pytest.raises(GraphError, match="does not end in"):
        Variable.of(np.zeros((5, 2)), VEC3)


@pytest.mark.vk
def test_lists_come_back_as_lists(device):
    rng = np.random.default_rng(0)
    for shape, batched in [
        ((5000, 3), False),
        ((7, 3), False),
        ((2, 5000, 3), True),
        ((1, 7, 3), True),
        ((6,), False),
    ]:
        points = rng.random(shape)
        v = Variable.of(points, batched=batched, name="points")
        expected = points[0] if shape == (1, 7, 3) else points
        loss = F.sum(F.square(v)) if v.vtype is FLOAT else F.sum(F.dot(v, v))
        with DressiAD(device) as ad:
            ad.set_loss(loss)
            ad.set_optimizer(sgd(0.25), [v])
            found = ad.evaluate([v, v * 2.0 + points, *gradient(loss, [v])])
            assert all(a.shape == expected.shape for a in found)
            for a, factor in zip(found, (1, 3, 2), strict=True):
                assert np.abs(a - factor * expected).max() < 1e-5
            ad.step()
            assert np.abs(ad.recv(v) - 0.5 * expected).max() < 1e-6
            ad.send(v, np.ones(expected.shape))
            assert (ad.recv(v) == 1).all()
            with pytest.raises(GraphError, match="takes an array of shape"):
                ad.send(v, np.ones(3000))


def test_arrays_stand_beside_variables():
    rng = np.random.default_rng(0)
    image, plain = rng.random((4, 5, 3)), rng.random((4, 5))
    x, s = Variable.of(image), Variable.of(plain)
    points, weights = rng.random((7, 3)), rng.random(7)
    p = Variable.of(points)
    ints = Variable.of(np.arange(12).reshape(3, 4), INT)
    for variable, expected in [
        (x + image, 2 * image),
        (image - x, 0 * image),
        (x * plain, image * plain[..., None]),
        (s * plain.tolist(), plain**2),
        (2.0**s, 2.0**plain),
        (s**2.0, plain**2),
        (abs(s - 0.5), abs(plain - 0.5)),
        (5.0 % (s + 1.0), 5.0 % (plain + 1)),
        (+s, plain),
        (p * weights, points * weights[:, None]),
        (p + [1.0, 2.0, 3.0], points + [1, 2, 3]),
        (np.eye(3) @ p, points),
        (F.where(F.less(s, 0.5), plain, 1.0), np.where(plain < 0.5, plain, 1)),
        (ints + np.arange(12).reshape(3, 4), 2 * np.arange(12).reshape(3, 4)),
    ]:
        found = variable.as_given(meaning([variable])[0])
        assert np.allclose(found.reshape(np.shape(expected)), expected)
    with pytest.raises(GraphError, match=r"array of shape \(9, 9\) does not fit"):
        x + rng.random((9, 9))


@pytest.mark.release
def test_deep_graphs_are_built_and_freed():
    x = Variable(FLOAT, (2, 2), data=np.zeros((1, 2, 2)))
    y = x
    for _ in range(30_000):
        y = y + 1.0
    assert meaning([y])[0].max() == 30_000
    (slope,) = gradient(F.sum(y), [x])
    assert meaning([slope])[0].max() == 1
    del y, slope


@pytest.mark.vk
def test_pairs_in_images_of_four_components(device):
    """As on devices whose shaders cannot read and write one image of two: in place, in 16 bits, and copied."""
    rng = np.random.default_rng(0)
    x = Variable(VEC2, (9, 7), 2, name="x", data=rng.normal(size=(2, 7, 9, 2)))
    n = Variable(IVEC2, (9, 7), name="n", data=rng.integers(-9, 9, (1, 7, 9, 2)))
    program = Program({"y": F.shift(x * 2.0, 1, 0)}, ((x, x * 0.5 + F.to_float(n)), (n, n + 1)))
    model = replace(DATA_CENTRE, prefers_attachments=False)
    found = []
    for pairs in (True, False):
        limits = replace(device.limits, pair_images=pairs)
        with VulkanExecutor(program, device, cost=model, limits=limits) as run:
            run.run(3)
            found.append([run.recv(v) for v in (x, n, program.outputs["y"])])
            text = "".join(t for s in run.plan.shaders.values() for t in s.sources.values())
        assert ("rg32" in text) == pairs and ("rgba32" in text) != pairs
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
