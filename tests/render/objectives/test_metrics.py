"""Losses and measures of pictures and shapes."""

import importlib.util

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.ndimage import gaussian_filter

from dressi import FLOAT, VEC3, F, InputError, Variable, gradient, networks
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.render import (
    charbonnier,
    l2,
    multiscale_structural_similarity,
    primitives,
    pyramid,
    structural_similarity,
)
from dressi.render.fit import FitOptions
from dressi.render.fit.data.textures import LEAST_SIZE, LOSSES
from dressi.render.objectives import metrics
from dressi.render.objectives.perceptual import Features, load_features, perceptual, shipped_features
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear
from dressi.vk.run.execution.executor import VulkanExecutor


def test_srgb_is_exact_in_both_pieces_and_inverts():
    assert_allclose(linear_to_srgb(np.array([0.0031308, 0.5, 1.0])), [0.04045, 0.7353569, 1.0], atol=1e-5)
    values = np.linspace(0, 1, 1001)
    assert_allclose(linear_to_srgb(srgb_to_linear(values)), values, atol=1e-7)
    assert_allclose(linear_to_srgb(np.array([-1.0, 2.0])), [0, 1], atol=1e-12)


def test_iou_is_the_mean_over_the_views():
    a, b = np.zeros((3, 4, 4)), np.zeros((3, 4, 4))
    a[0, :2], b[0, 1:3] = 1, 1  # 4 of 12
    a[1, 0], b[1, 0] = 0.5, 0.9  # soft masks count from a half
    assert metrics.iou_per_view(a, b) == pytest.approx([1 / 3, 1, 1])
    assert metrics.iou(a, b) == pytest.approx(7 / 9)
    with pytest.raises(InputError, match="one size"):
        metrics.iou(a, b[:, :2])


def test_psnr_is_pooled_in_srgb_over_the_masks():
    targets = np.full((2, 4, 4, 3), srgb_to_linear(np.array(0.5)))
    images, masks = targets.copy(), np.zeros((2, 4, 4))
    masks[0, :2], masks[1, :1] = 1, 1
    images[0, 0] = srgb_to_linear(np.array(0.6))
    images[:, 3] = 1.0  # outside the masks
    assert metrics.psnr(images, targets, masks) == pytest.approx(-10 * np.log10(0.01 * 4 / 12), abs=1e-5)
    assert metrics.psnr(targets, targets, masks) == float("inf")
    with pytest.raises(InputError, match="empty"):
        metrics.psnr(images, targets, masks * 0)


def test_chamfer_of_two_spheres_is_the_gap_between_them():
    small, large = primitives.icosphere(3), primitives.icosphere(3, 1.2)
    assert metrics.chamfer(small, large, 5000) == pytest.approx(0.2, abs=0.01)
    assert metrics.chamfer(small.positions, small.positions) == 0
    points = metrics.sample_surface(primitives.cube(), 6000, seed=1)
    assert np.abs(points).max(1) == pytest.approx(1.0)
    on_top = (points[:, 1] > 0.999).mean()
    assert on_top == pytest.approx(1 / 6, abs=0.02)


def test_silhouettes_are_compared_where_they_are_known():
    a, b, known = np.zeros((1, 4, 4)), np.zeros((1, 4, 4)), np.ones((1, 4, 4))
    a[0, :2], b[0, 1:3] = 1, 1
    known[0, 2:] = 0
    assert metrics.iou(a, b, known) == pytest.approx(1 / 2)
    with pytest.raises(InputError, match="one size"):
        metrics.iou(a, b, known[:, 1:])


def test_ssim_is_that_of_the_paper():
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 1, 16, 20, 3))
    masks = np.zeros((1, 16, 20))
    masks[0, 8, 9] = 1  # the whole window lies in the picture
    window = np.exp(-0.5 * (np.hypot(*np.mgrid[-5:6, -5:6]) / 1.5) ** 2)
    window = window[..., None] / window.sum()
    p, q = (linear_to_srgb(v[0, 3:14, 4:15]) for v in (x, y))
    mean_p, mean_q = (window * p).sum((0, 1)), (window * q).sum((0, 1))
    var_p, var_q = (window * (p - mean_p) ** 2).sum((0, 1)), (window * (q - mean_q) ** 2).sum((0, 1))
    both = (window * (p - mean_p) * (q - mean_q)).sum((0, 1))
    expected = (2 * mean_p * mean_q + 1e-4) * (2 * both + 9e-4)
    expected /= (mean_p**2 + mean_q**2 + 1e-4) * (var_p + var_q + 9e-4)
    assert metrics.ssim(x, y, masks) == pytest.approx(expected.mean())
    whole = np.ones_like(masks)
    assert metrics.ssim(x, x, whole) == pytest.approx(1) and metrics.ssim(x, y, whole) < 0.2
    with pytest.raises(InputError, match="empty"):
        metrics.ssim(x, y, masks * 0)


def test_ssim_does_not_look_where_nothing_is_known():
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 1, 16, 20, 3))
    known = np.ones((1, 16, 20), bool)
    known[:, :, 14:] = False
    cropped = metrics.ssim(x[:, :, :14], y[:, :, :14], np.ones((1, 16, 14)))
    x[:, :, 14:] = 0.7
    assert metrics.ssim(x, y, np.ones((1, 16, 20)), known) == pytest.approx(cropped)


def test_inside_of_both_masks_colours_count_without_rims_and_exposures():
    rng = np.random.default_rng(0)
    targets = rng.uniform(0.1, 0.35, (2, 20, 24, 3))
    masks, covered = np.zeros((2, 20, 24)), np.zeros((2, 20, 24))
    masks[:, 2:18, 2:20], covered[:, 4:18, 2:24] = 1, 1
    inside = metrics.interior(covered, masks)
    assert inside[0].sum() == 8 * 12 and inside[0, 7:15, 5:17].all()
    gains = np.array([[0.8, 1.0, 1.3], [1.1, 0.9, 0.7]])
    images = srgb_to_linear(linear_to_srgb(targets) / gains[:, None, None])
    images[:, :7] = 7.0  # beside the interior anything may be
    for k, codes in enumerate(zip(linear_to_srgb(images), linear_to_srgb(targets), strict=True)):
        assert_allclose(metrics.code_gains(*codes, inside[k]), gains[k])
        assert (metrics.code_gains(*codes, np.zeros_like(inside[k])) == 1).all()


@pytest.mark.parametrize("shape", [(2, 4, 5, 1), (2, 4, 5, 3)])
def test_charbonnier_is_its_formula(shape):
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=shape), rng.normal(size=shape)
    weight = rng.random((*shape[:3], 1))
    squares = ((x - target) ** 2).sum(-1, keepdims=True)
    for scale in (0.01, 1.0, 100.0):
        each = scale**2 * (np.sqrt(1 + squares / scale**2) - 1)
        image, other = Variable.of(x), Variable.of(target)
        mean, total = (
            charbonnier(image, other, scale=scale),
            charbonnier(image, other, Variable.of(weight), "sum", scale=scale),
        )
        found = [float(value.item()) for value in evaluate([mean, total])]
        assert found == pytest.approx([each.mean(), (each * weight).sum()], rel=1e-6)
        assert check_gradient(mean, [image]) < 1e-6


def test_charbonnier_of_equal_images_is_zero_and_flat():
    image = Variable.of(np.ones((4, 4, 3)))
    assert float(evaluate([charbonnier(image, 1.0, scale=0.1)])[0].item()) == 0
    assert check_gradient(charbonnier(image, 1.0, scale=0.1), [image]) < 1e-6
    with pytest.raises(InputError, match="positive"):
        charbonnier(image, 1.0, scale=0.0)


RNG = np.random.default_rng(0)
TAPS = np.exp(-0.5 * (np.arange(-5, 6) / 1.5) ** 2)
WINDOW = np.outer(TAPS, TAPS) / TAPS.sum() ** 2


def pair(size=(18, 16), batch=2, noise=0.15) -> tuple[Variable, Variable]:
    a = RNG.uniform(size=(batch, size[1], size[0], 3))
    b = np.clip(a + noise * RNG.normal(size=a.shape), 0, 1)
    return Variable(VEC3, size, batch, name="a", data=a), Variable(VEC3, size, batch, name="b", data=b)


def blurred(x: np.ndarray) -> np.ndarray:
    """(H, W) under the window, where it lies inside."""
    return (np.lib.stride_tricks.sliding_window_view(x, (11, 11)) * WINDOW).sum((-1, -2))


def parts(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Luminance, and contrast times structure: variances about the mean of each window."""
    a, b = blurred(x), blurred(y)
    covariance = blurred(x * y) - a * b
    spread = blurred(x * x) - a * a + blurred(y * y) - b * b
    return (2 * a * b + 1e-4) / (a * a + b * b + 1e-4), (2 * covariance + 9e-4) / (spread + 9e-4)


def planes(x: Variable) -> list[np.ndarray]:
    return [picture[..., c] for picture in x.data for c in range(3)]


def test_structural_similarity_is_that_of_the_paper():
    a, b = pair()
    each = [np.prod(parts(x, y), axis=0) for x, y in zip(planes(a), planes(b), strict=True)]
    weight = RNG.uniform(size=(16, 18))
    inside = weight[5:-5, 5:-5]
    plain, weighed = structural_similarity(a, b), structural_similarity(a, b, weight)
    found = [v.item() for v in evaluate([plain, weighed])]
    expected = [np.mean(each), np.mean([(e * inside).sum() for e in each]) / inside.sum()]
    assert_allclose(found, expected, rtol=1e-10)
    assert check_gradient(plain, [a, b]) < 1e-6 and check_gradient(weighed, [a]) < 1e-6
    if importlib.util.find_spec("skimage"):
        from skimage.metrics import structural_similarity as theirs

        same = {"gaussian_weights": True, "use_sample_covariance": False, "data_range": 1.0}
        told = np.mean([theirs(x, y, **same) for x, y in zip(planes(a), planes(b), strict=True)])
        assert found[0] == pytest.approx(told, rel=1e-10)


def test_similarity_over_scales_is_that_of_the_paper():
    """The pictures darken, so that the luminance of the last scale counts."""
    a, b = pair((26, 24), 1)
    b.data[:] *= 0.7
    scales = (0.3, 0.7)
    each = []
    for x, y in zip(planes(a), planes(b), strict=True):
        fine = parts(x, y)[1].mean()
        x, y = (p.reshape(12, 2, 13, 2).mean((1, 3)) for p in (x, y))
        each.append(fine**0.3 * np.prod(parts(x, y), axis=0).mean() ** 0.7)
    found = multiscale_structural_similarity(a, b, scales=scales)
    assert evaluate([found])[0].item() == pytest.approx(np.mean(each), rel=1e-10)
    assert check_gradient(found, [a, b]) < 1e-6


def small_network(lins: bool = True, prefix: str = "features.") -> dict[str, np.ndarray]:
    """Three layers of a few channels, a pool before the last."""
    found, before = {}, 3
    for number, width in ((0, 4), (2, 5), (5, 6)):
        layer = networks.convolution_init(RNG, before, width)
        layer["bias"] += 0.1 * RNG.normal(size=width)
        found |= {f"{prefix}{number}.{name}": array.astype(np.float32) for name, array in layer.items()}
        before = width
    return found | {
        f"lin{k}.model.1.weight": RNG.uniform(size=(1, w, 1, 1)) for k, w in ((0, 5), (1, 6)) if lins
    }


def convolved(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """(C, H, W) through a layer of 3x3 with padding 1, and a ReLU."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
    return np.maximum(np.einsum("chwij,ocij->ohw", windows, weight) + bias[:, None, None], 0)


def lpips(arrays: dict[str, np.ndarray], a: np.ndarray, b: np.ndarray) -> float:
    """Equation 1, of pictures (H, W, 3)."""

    def features(picture: np.ndarray) -> list[np.ndarray]:
        x = ((picture - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)).transpose(2, 0, 1)
        found = []
        for number, tapped in ((0, False), (2, True), (5, True)):
            if number == 5:
                x = x.reshape(len(x), x.shape[1] // 2, 2, -1, 2).max((2, 4))
            x = convolved(x, arrays[f"features.{number}.weight"], arrays[f"features.{number}.bias"])
            found += [x / np.sqrt((x**2).sum(0) + 1e-10)] * tapped
        return found

    pairs = zip(features(a), features(b), strict=True)
    weights = [arrays[f"lin{k}.model.1.weight"][0] for k in range(2)]
    return sum(((p - q) ** 2 * w).sum(0).mean() for (p, q), w in zip(pairs, weights, strict=True))


def test_perceptual_is_lpips():
    arrays, (a, b) = small_network(), pair((8, 6))
    found = perceptual(a, b, Features(arrays))
    expected = np.mean([lpips(arrays, x, y) for x, y in zip(a.data, b.data, strict=True)])
    assert evaluate([found])[0].item() == pytest.approx(expected, rel=1e-6)
    assert check_gradient(found, [a], step=1e-7) < 1e-4
    channels = Variable(FLOAT, (8, 6), 2, channels=3, data=a.data.transpose(0, 3, 1, 2))
    other = Variable(FLOAT, (8, 6), 2, channels=3, data=b.data.transpose(0, 3, 1, 2))
    assert evaluate([perceptual(channels, other, Features(arrays))])[0].item() == pytest.approx(expected)


@pytest.mark.release
@pytest.mark.one_driver
def test_devices_compute_them(device):
    a, b = pair()
    losses = [structural_similarity(a, b), perceptual(a, b)]
    outputs = {f"{k}": v for k, v in enumerate([*losses, *(gradient(loss, [a])[0] for loss in losses)])}
    expected = evaluate(list(outputs.values()))
    with VulkanExecutor(Program(outputs), device) as run:
        run.run()
        for v, value in zip(run.program.outputs.values(), expected, strict=True):
            assert_allclose(run.recv(v), value, atol=2e-4 * np.abs(value).max())


def test_layouts_are_recognised_by_names_and_shapes(tmp_path):
    plain = small_network(lins=False)
    taps = [layer.tapped for layer in Features(plain).layers]
    assert taps == [False, True, True] and Features(plain).layers[0].scale is None
    slices = {
        f"net.slice{1 + (k > 2)}.{k}.{n}": plain[f"features.{k}.{n}"]
        for k in (0, 2, 5)
        for n in ("weight", "bias")
    }
    lins = {f"lin{k}.model.1.weight": np.ones((1, w, 1, 1)) for k, w in enumerate((4, 5, 6))}
    assert all(layer.tapped and layer.scale is not None for layer in Features(slices | lins).layers)
    alex = {"features.0.weight": np.zeros((4, 3, 11, 11)), "features.0.bias": np.zeros(4)}
    alex |= {
        "features.3.weight": np.zeros((4, 4, 5, 5)),
        "features.3.bias": np.zeros(4),
        "classifier.1.weight": np.zeros((2, 2)),
    }
    assert [f.shape for f in Features(alex).of(Variable(VEC3, (64, 64)))] == [(1, 4, 15, 15), (1, 4, 7, 7)]
    networks.save_safetensors(tmp_path / "net.safetensors", plain)
    assert len(load_features(tmp_path / "net.safetensors").layers) == 3
    networks.save_safetensors(tmp_path / "other.safetensors", {"a": np.zeros(2, np.float32)})
    with pytest.raises(InputError, match=r"other\.safetensors.*no network that is known"):
        load_features(tmp_path / "other.safetensors")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features.2.weight": np.zeros((5, 3, 3, 3))}, "layer 2 .* takes 3 channels, .* makes 4"),
        ({"features.2.weight": np.zeros(5)}, r"layer 2 .* not with \(5,\)"),
        ({"features.9.weight": np.zeros((2, 6, 3, 3)), "features.9.bias": np.zeros(2)}, "layer 9 .* does not follow layer 5"),
        ({"lin1.model.1.weight": np.zeros(3)}, "have 5, 3 weights; .* 5, 6 channels"),
    ],
)  # fmt: skip
def test_weights_of_other_shapes_are_named(change, words):
    with pytest.raises(InputError, match=words):
        Features(small_network() | change)


def test_what_cannot_be_compared_is_named():
    a, b = pair()
    for write, words in (
        (lambda: structural_similarity(*pair((10, 20))), "11x11 texels at least"),
        (lambda: multiscale_structural_similarity(a, b), "176x176"),
        (lambda: structural_similarity(a, Variable(FLOAT, (18, 16))), "of one type and size"),
        (lambda: perceptual(*pair((3, 3))), "too small for the features"),
        (lambda: shipped_features().of(Variable(FLOAT, (32, 32))), "those of colours"),
    ):
        with pytest.raises(InputError, match=words):
            write()


def test_the_shipped_features_forgive_a_shift_and_see_a_blur():
    """Of a picture of stripes and noise: half a pixel to the side is farther in squares than a blur, and
    nearer in features."""
    y, x = np.mgrid[:48, :48]
    sky = RNG.normal(size=(48, 48, 3)) * 0.1
    base = 0.5 + 0.2 * np.sign(np.sin(x / 2.5) * np.sin(y / 3.5))[..., None] + sky
    soft = gaussian_filter(base, (1.5, 1.5, 0))
    leaf, near, far = (Variable.of(np.clip(p, 0, 1)) for p in (base, np.roll(base, 1, axis=1), soft))
    squares = [float(((p.data - leaf.data) ** 2).mean()) for p in (near, far)]
    found = [v.item() for v in evaluate([perceptual(leaf, near), perceptual(leaf, far)])]
    assert squares[0] > squares[1] and found[0] < found[1]


def test_a_fit_takes_them_by_name():
    a, b = pair()
    found = {name: evaluate([compare(a, b, None)])[0].item() for name, compare in LOSSES.items()}
    assert all(value > 0 for value in found.values()) and found["perceptual"] > found["l2"]
    assert FitOptions(loss="ssim").loss == "ssim" and set(LEAST_SIZE) == set(LOSSES)
    with pytest.raises(InputError, match=r"--loss perceptual .* 12x12 .* --size 16"):
        FitOptions(loss="perceptual", size=(12, 12))


def test_a_pyramid_is_the_mean_of_the_loss_over_its_levels():
    rng = np.random.default_rng(3)
    image, other, weight = (
        Variable.of(rng.uniform(size=(12, 20, *k)), VEC3 if k else FLOAT, name=n)
        for n, k in (("a", (3,)), ("b", (3,)), ("w", ()))
    )
    levels = [F.gaussian_pyramid(x, 2) for x in (image, other, weight)]
    own, weighed = evaluate(
        [pyramid(l2, 2)(image, other), pyramid(l2, 2)(image, other, weight, reduction="sum")]
    )
    each = evaluate([l2(a, b) for a, b, _ in zip(*levels, strict=True)])
    assert np.isclose(own, np.mean(each))
    each = evaluate([l2(a, b, w, "sum") for a, b, w in zip(*levels, strict=True)])
    assert np.isclose(weighed, np.mean(each))
    with pytest.raises(
        InputError, match="a pyramid of 3 levels reaches beyond an image of 20x12; it can have 2"
    ):
        pyramid(l2, 3)(image, other)
