"""Functions of Variables as functions of arrays, one program for each signature, and what arrays are taken."""

import doctest
import gc

import numpy as np
import pytest
from clip_scenes import TRIANGLE, octahedron, perspective

import dressi
import dressi.numpy as dn
from dressi import VEC2, VEC4, F, GraphError, InputError, Variable, gradient
from dressi.ad.evaluate import evaluate
from dressi.frameworks.engine import Engine
from dressi.numpy import operations
from dressi.render import hard_soft_ras

pytestmark = pytest.mark.one_driver  # graphs of Functions that are tested on every driver


@pytest.mark.vk
def test_the_gradient_of_a_wrapped_graph_is_that_of_gradient(on_device, random):
    def function(image, weight):
        blurred = image + F.shift(image, 1, 0) * weight
        return F.sigmoid(blurred), F.mean(F.square(blurred))

    image, weight = random.normal(size=(5, 7, 3)), random.normal(size=(5, 7))
    (blurred, mean), pull = dn.wrap(function)(image, weight)
    assert blurred.shape == (1, 5, 7, 3) and mean.shape == (1, 1, 1, 3)
    seeds = random.normal(size=blurred.shape), random.normal(size=mean.shape)
    x, w = Variable.of(image), Variable.of(weight)
    y, m = function(x, w)
    total = sum(F.sum(F.dot(Variable.of(s), v)) for s, v in zip(seeds, (y, m)))
    expected = evaluate([y, m, *gradient(total, [x, w])])
    found = pull(*seeds)
    assert np.abs(blurred - expected[0]).max() < 1e-6
    assert np.abs(found["image"] - expected[2][0]).max() < 1e-5
    assert np.abs(found["weight"] - expected[3][0]).max() < 1e-5
    assert np.abs(pull(None, seeds[1])["image"] - expected[2][0]).max() > 1e-3


@pytest.mark.vk
def test_lists_and_batches_come_back_as_they_were_given(on_device, random):
    points = random.normal(size=(3, 5, 2))
    double = dn.wrap(lambda points: points * 2.0, types={"points": VEC2}, batched=True)
    value, pull = double(points)
    assert np.allclose(value, 2 * points) and pull(value)["points"].shape == (3, 5, 2)
    value, pull = dn.wrap(lambda points: points * 2.0)(points[0])
    assert value.shape == (5, 2) and pull(value)["points"].shape == (5, 2)
    counted, _ = dn.wrap(lambda points: F.to_int(points))(points[0])
    assert counted.dtype == np.int32


@pytest.mark.vk
def test_soft_silhouettes_of_tensors(on_device):
    points, triangles = octahedron(0.8)

    def silhouette(position):
        clip = F.vec4(position.xy, (position.z + position.w) * 0.5, position.w)
        return hard_soft_ras(
            clip, triangles, face_count=8, size=(24, 24), radius=0.2, form="outer"
        ).silhouette

    soft, pull = dn.wrap(silhouette, types={"position": VEC4})(perspective(points - [0, 0, 3]))
    assert 0 < soft.min(initial=1, where=soft > 0) < 0.5 and soft.max() == 1
    outwards = pull(np.ones_like(soft))["position"][:, :2] * perspective(points - [0, 0, 3])[:, :2]
    assert outwards.sum() > 1  # growing covers more


@pytest.mark.vk
def test_one_program_serves_all_calls_of_a_signature(device):
    from dressi.frameworks import engine

    calls = []
    with engine.using(device) as found:
        function = dn.wrap(lambda image: calls.append(image) or image + 1.0)
        for value in (0.0, 1.0, 2.0):
            assert function(np.full((4, 6), value))[0].max() == value + 1
        once = len(calls)
        for _ in range(3):
            function(np.zeros((6, 4)))
        assert len(found._kept) == 2 and len(calls) == 2 * once
    assert isinstance(found, Engine) and not found._kept


@pytest.mark.vk
def test_meshes_of_similar_size_share_programs(device, random):
    """As with remeshing: the rest of the lists is not drawn, and gradients have the shapes of the inputs."""
    from dressi.frameworks import engine

    points, triangles = octahedron()
    with engine.using(device) as found:
        pictures = []
        for extra in (27, 28):
            more = np.concatenate([points - [0, 0, 3], random.normal(size=(extra, 3))])
            pos = perspective(more)[None]
            unused = np.full((extra, 3), 3)  # points
            faces = np.concatenate([triangles, unused])
            (rast, _), pull = dn.rasterize(pos, faces, (16, 16))
            mask = (rast[..., 3:] > 0).astype(float)
            smooth, pull_smooth = dn.antialias(mask, rast, pos, faces)
            pictures.append(smooth)
            assert pull(rast)["pos"].shape == pos.shape == pull_smooth(mask)["pos"].shape
        assert len(found._kept) == 2
    assert all(np.array_equal(picture, pictures[0]) for picture in pictures)


@pytest.mark.vk
def test_programs_in_excess_are_dropped(device, monkeypatch):
    from dressi.frameworks import engine

    monkeypatch.setattr(engine, "KEPT", 2)
    with engine.using(device) as found:
        function = dn.wrap(lambda image: image * 2.0)
        for width in (1, 2, 3, 1):
            value, pull = function(np.ones((5, width)))
            assert pull(value)["image"].max() == 4
        gc.collect()
        assert len(found._kept) == 2


@pytest.mark.vk
def test_anything_with_dlpack_is_an_array(on_device):
    class Other:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **options):
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    pos = np.array([[[-1, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]]], np.float32)
    (rast, _), _ = dn.rasterize(Other(pos), Other(TRIANGLE), (4, 4))
    assert rast[..., 3].sum() > 4 and np.from_dlpack(rast).shape == (1, 4, 4, 4)


BAD = {
    "wrap takes a function": lambda: dn.wrap(3),
    "has no argument 'x'": lambda: dn.wrap(lambda y: y, types={"x": VEC2}),
    "has positional arguments alone": lambda: dn.wrap(lambda *x: x[0]),
    "takes image, not 2 arrays": lambda: dn.wrap(lambda image: image)(1.0, 2.0),
    "returns a Variable": lambda: dn.wrap(lambda image: 3.0)(np.zeros((4, 6))),
    "there are 1 outputs, not 2": lambda: dn.wrap(lambda image: image)(np.zeros((4, 6)))[1](0, 0),
    "has the shape": lambda: dn.wrap(lambda image: image)(np.zeros((4, 6)))[1](np.zeros(3)),
    "not numbers": lambda: dn.wrap(lambda image: image)(np.array(["a"])),
    "no array that NumPy can read": lambda: dn.wrap(lambda image: image)([[1.0], [1.0, 2.0]]),
}


@pytest.mark.vk
@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_ends_in_one_sentence(on_device, sentence):
    with pytest.raises((InputError, GraphError), match=sentence):
        BAD[sentence]()


@pytest.mark.vk
@pytest.mark.one_driver
def test_examples_run(on_device):
    names = {"np": np, **{name: getattr(dressi, name) for name in dressi.__all__}}
    result = doctest.testmod(operations, extraglobs=names)
    assert result.failed == 0 and result.attempted > 15
