"""What Python, NumPy and PyTorch write on Variables is computed, or refused with the name to use."""

import re
import warnings

import numpy as np
import pytest

from dressi import FLOAT, VEC2, VEC3, VEC4, F, GraphError, Variable, evaluate, gradient
from dressi.ad.graph.names import _CURES
from dressi.ad.graph.traversal import topological_order

image = Variable.of(np.arange(24.0).reshape(4, 6), name="image")
points = Variable.of(np.arange(15.0).reshape(5, 3), name="points")
photograph = Variable.of(np.ones((4, 6, 3)), name="photograph")
views = Variable.of(np.ones((2, 4, 4, 3)), name="views")


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda: (image > 1) & (image < 3), "&.*F.logical_and"),
        (lambda: np.ones(3) | points, "F.logical_or"),
        (lambda: True ^ image, "F.not_equal"),
        (lambda: ~image, "~.*F.logical_not"),
        (lambda: image // 2, "F.floor"),
        (lambda: np.sin(image), "np.sin.*F.sin"),
        (lambda: np.arctan2(1.0, image), "F.atan2"),
        (lambda: np.add.reduce(image), "np.add"),
        (lambda: np.mean(image), "np.mean.*F.mean"),
        (lambda: np.clip(image, 0, 1), "np.clip.*F.clamp"),
        (lambda: np.stack([image, image]), "np.stack.*F.vec2"),
        (lambda: np.linalg.norm(points), "F.length"),
        (lambda: F.sum(image, 0), "letters of 'xycn'.*not 0; .* is 'n'"),
        (lambda: F.mean(image, (2, -1)), r"not \(2, -1\); .* is 'yx'"),
        (lambda: F.max(image, axes=0), "not 0"),
        (lambda: F.min(image, image, "x"), "either a second value or axes"),
        (lambda: F.softmax(image, None), "not None"),
        (lambda: F.flip(image, 1), "'x', 'y' or 'xy', not 1"),
        (lambda: image - np.ones((6, 4)), r"shape \(6, 4\) does not fit FLOAT image .*shape \(1, 4, 6\)"),
        (lambda: points - np.ones((7, 3)), r"\(7, 3\) does not fit .*points.*\(5, 3\)"),
        (lambda: F.mean(np.ones((6, 4))), r"shape \(6, 4\).*Variable\.of.*positions="),
    ],
)
def test_what_has_no_meaning_names_what_has(write, words):
    with pytest.raises(GraphError, match=words):
        write()


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda: image.sum(), "F.sum"),
        (lambda: image.backward(), "gradient"),
        (lambda: image.detach(), "F.stop_gradient"),
        (lambda: image.T, "F.transpose"),
        (lambda: image.item(), "evaluate"),
        (lambda: image.normalise(), "F.normalize"),
        (lambda: F.swish(image), "F.silu"),
        (lambda: F.clip(image, 0, 1), "F.clamp"),
        (lambda: F.arctan2(image, 1), "F.atan2"),
        (lambda: F.squares(image), "F.square"),
        (lambda: F.conv2d(image, image), "F.correlate"),
        (lambda: F.avg_pool2d(image, 2), "F.average_pool"),
        (lambda: F.quantile(image), "NumPy"),
    ],
)
def test_names_of_others_are_attribute_errors_with_the_name_here(write, words):
    with pytest.raises(AttributeError, match=words):
        write()
    assert not hasattr(image, "no_such_name") and not hasattr(F, "__wrapped__")


def test_what_errors_offer_exists():
    for cure in _CURES.values():
        for name in re.findall(r"\bF\.(\w+)", cure):
            assert hasattr(F, name), cure


@pytest.mark.parametrize("key", [0, -1, slice(2)])
@pytest.mark.parametrize("x", [points, points * 2.0, views, photograph])
def test_an_entry_is_not_a_component_in_silence(x, key):
    what = r"(list of 5|batch of 2|image of 6x4)"
    with pytest.raises(GraphError, match=rf"{what}.*F\.component.*F\.lookup.*F\.crop"):
        x[key]
    with pytest.raises(GraphError, match=what):
        list(x)
    assert evaluate(F.component(x, 0)).shape == evaluate(x.x).shape


def test_comparisons_of_values_are_masks_and_never_truth_values():
    three, values = Variable.of(np.full((4, 6), 3.0)), np.arange(24.0).reshape(4, 6)
    for y, meant in ((three, 3.0), (3.0, 3.0), (np.full((4, 6), 3.0), 3.0), (image, values)):
        assert np.array_equal(evaluate(image == y).reshape(4, 6), values == meant)
        assert np.array_equal(evaluate(y != image).reshape(4, 6), values != meant)
    assert np.array_equal(evaluate(F.select(image == three, 100.0, image)).ravel()[2:5], [2.0, 100.0, 4.0])
    assert evaluate(F.mean(image == three)).item() == pytest.approx(1 / 24)
    with pytest.raises(GraphError, match=r"no truth value.*any\(v is x"):
        assert image in [three, image]
    for wrong in (
        lambda: F.select(image is three, 1.0, image),
        lambda: F.where(np.bool_(True), image, 0.0),
        lambda: F.mean(image is three),
        lambda: F.max(True),
        lambda: F.logical_and(image, image is three),
        lambda: F.logical_not(False),
    ):
        with pytest.raises(GraphError, match=r"not the truth value (True|False): .*x == y"):
            wrong()


def test_identity_and_the_operators_of_arrays_stay():
    other = image + 0.0
    assert image in {image: 1} and other not in {image} and image in [image, other]
    assert topological_order([other, image])[-1] is other.creator and gradient(F.sum(other), [image, image])
    assert image != None and image != "image"  # noqa: E711
    array = np.arange(24.0).reshape(4, 6) + 1.0
    values = np.arange(24.0).reshape(4, 6)
    for built, meant in (
        (array + image, array + values),
        (array - image, array - values),
        (array * image, array * values),
        (np.float64(7) / (image + 1.0), 7 / (values + 1)),
        (np.float32(2) ** image, 2**values),
        (array % (image + 1.0), array % (values + 1)),
        (array < image * 2.0, array < values * 2),
        (array >= image * 2.0, array >= values * 2),
        (np.float64(5) > image, values < 5),
        (np.multiply(array, image), array * values),
    ):
        assert np.allclose(evaluate(built).reshape(4, 6), meant)
    matrix = np.diag([1.0, 2.0, 3.0])
    assert np.allclose(evaluate(matrix @ points), np.arange(15.0).reshape(5, 3) * [1, 2, 3])


def test_arrays_beside_channels_are_channels():
    """(3, H, W) is one image of three channels there: as three images it would broadcast to nine."""
    values = np.random.default_rng(0).uniform(size=(2, 3, 4, 6))
    for batch in (1, 2):
        x = Variable(FLOAT, (6, 4), batch, channels=3, data=values[:batch])
        given = [values[:batch], values[0, 0]] + [values[0]] * (batch == 1)
        for array in given:
            built = x - array
            assert built.domain == x.domain
            assert np.allclose(evaluate(built), values[:batch] - array)
    for shape in ((3, 4, 6), (2, 4, 6), (6, 4, 6), (1, 3, 4, 6)):
        with pytest.raises(GraphError, match=r"does not fit .*3 channels"):
            x - np.ones(shape)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_a_square_array_is_no_matrix_in_silence(order):
    array, one = np.eye(order), Variable.of(2.0)
    wide = Variable.of(np.ones((8, 8)))
    for build in (
        lambda: F.relu(array),
        lambda: F.mean(array.tolist()),
        lambda: one * array,
        lambda: array + wide,
        lambda: F.select(array, 1.0, 2.0),
        lambda: F.clamp(array),
    ):
        words = rf"one MAT{order} or an image of {order}x{order}.*F\.constant.*Variable\.of"
        with pytest.raises(GraphError, match=words):
            build()
    vector = Variable.of(np.ones(order), (VEC2, VEC3, VEC4)[order - 2])
    square = Variable.of(np.ones((order, order)), FLOAT)
    for matrix in (array @ vector, F.inverse(array) + array, F.matmul(array, array), F.constant(array) * one):
        assert matrix.size == (1, 1) and not matrix.vtype.is_scalar
    assert (square + array).vtype is FLOAT and evaluate(F.matmul(array, square)).shape == square.shape
    words = rf"one MAT{order}, a list of {order} VEC{order} or an image of .*FLOAT"
    with pytest.raises(GraphError, match=words):
        Variable.of(array)


@pytest.mark.parametrize("values", [[[1, 2], [3]], [[1.0], 2.0], [[[1, 2]], [[3]]]])
def test_lists_that_are_no_rectangle_are_named(values):
    for build in (
        lambda: Variable.of(values),
        lambda: Variable(FLOAT, (2, 2), data=values),
        lambda: evaluate(image, {image: values}),
        lambda: F.constant(values),
        lambda: image + values,
        lambda: F.select(values, image, 0.0),
        lambda: F.lookup(image, values),
    ):
        with pytest.raises(GraphError, match=r"lists of numbers have one length at every depth, which \["):
            build()


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((2,), "one VEC2, not as a list.*FLOAT"),
        ((3,), "one VEC3"),
        ((4,), "one VEC4"),
        ((48, 64, 5), "batch of 48 images.*5 channels"),
        ((3, 48, 64), r"batch of 3 images.*moveaxis"),
    ],
)
def test_shapes_that_may_mean_something_else_are_said(shape, words):
    with pytest.warns(UserWarning, match=words):
        Variable.of(np.ones(shape))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Variable.of(np.ones(shape), FLOAT)
        for clear in ((1,), (5,), (48, 64), (48, 64, 3), (6, 48, 64), (2, 48, 64, 3)):
            Variable.of(np.ones(clear))
