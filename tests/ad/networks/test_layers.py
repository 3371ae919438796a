"""Layers against their formulas in NumPy, central differences, and devices."""

import math

import numpy as np
import pytest

from dressi import FLOAT, INT, VEC2, VEC3, F, GraphError, Variable, networks
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable as Leaf
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.vk.plan.options import BASELINE
from dressi.vk.run.executor import VulkanExecutor

RNG = np.random.default_rng(0)


def image(channels: int, size=(6, 4), batch: int = 2, name: str = "x") -> Variable:
    data = RNG.normal(size=(batch, channels, size[1], size[0]))
    data = data if channels > 1 else data[:, 0]
    return Variable(FLOAT, size, batch, channels=channels, name=name, data=data)


def weights(**shapes: tuple[int, ...]) -> dict[str, Variable]:
    return networks.parameters({name: RNG.normal(size=shape) for name, shape in shapes.items()})


def normalised(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def by_channel(values: Variable) -> np.ndarray:
    return values.data.reshape(1, -1, 1, 1)


def case_linear():
    x, p = image(3), weights(weight=(5, 3), bias=(5,))
    y = np.einsum("oc,nchw->nohw", p["weight"].data[0], x.data) + by_channel(p["bias"])
    return networks.linear(p, x), [x, *p.values()], y


def case_convolution():
    """Stride 2, two groups, padding 1: entry by entry."""
    x, p = image(4), weights(weight=(6, 2, 3, 3), bias=(6,))
    padded, w = np.pad(x.data, ((0, 0), (0, 0), (1, 1), (1, 1))), p["weight"].data
    y = np.empty((2, 6, 2, 3))
    for o, i, j in np.ndindex(6, 2, 3):
        group = slice(2 * (o // 3), 2 * (o // 3) + 2)
        y[:, o, i, j] = (padded[:, group, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] * w[o]).sum((1, 2, 3))
    return networks.convolution(p, x, stride=2, groups=2), [x, *p.values()], y + by_channel(p["bias"])


def case_mlp():
    x = Variable.of(RNG.normal(size=(4, 6, 3)), VEC3, name="x")
    p = networks.parameters(networks.mlp_init(RNG, (3, 8, 2)))
    hidden = np.einsum("oc,hwc->ohw", p[0]["weight"].data[0], x.data[0])
    hidden = hidden / (1 + np.exp(-hidden))
    y = np.tanh(np.einsum("oc,chw->ohw", p[1]["weight"].data[0], hidden))[None]
    return networks.mlp(p, x, F.silu, F.tanh), [x, *networks.variables(p)], y


def case_batch_norm():
    x, p = image(3), weights(weight=(3,), bias=(3,))
    y = normalised(x.data, (0, 2, 3)) * by_channel(p["weight"]) + by_channel(p["bias"])
    return networks.batch_norm(p, x), [x, *p.values()], y


def case_batch_norm_at_inference():
    x, p, own = image(3), weights(weight=(3,), bias=(3,)), weights(mean=(3,), variance=(3,))
    own["variance"].data[:] = np.square(own["variance"].data)
    y = (x.data - by_channel(own["mean"])) / np.sqrt(by_channel(own["variance"]) + 1e-5)
    y = y * by_channel(p["weight"]) + by_channel(p["bias"])
    return networks.batch_norm(p, x, (own["mean"], own["variance"])), [x, *p.values()], y


def case_group_norm():
    x, p = image(6), weights(weight=(6,), bias=(6,))
    y = normalised(x.data.reshape(2, 3, -1), (2,)).reshape(x.shape)
    return networks.group_norm(p, x, 3), [x], y * by_channel(p["weight"]) + by_channel(p["bias"])


def case_instance_norm():
    x, p = image(2), weights(weight=(2,), bias=(2,))
    y = normalised(x.data, (2, 3)) * by_channel(p["weight"]) + by_channel(p["bias"])
    return networks.group_norm(p, x, 2), [x], y


def case_layer_norm():
    x, p = image(5), weights(weight=(5,), bias=(5,))
    return (
        networks.layer_norm(p, x),
        [x],
        normalised(x.data, (1,)) * by_channel(p["weight"]) + by_channel(p["bias"]),
    )


def case_rms_norm():
    x, p = image(5), weights(weight=(5,))
    y = x.data / np.sqrt((x.data**2).mean(1, keepdims=True) + 1e-5) * by_channel(p["weight"])
    return networks.rms_norm(p, x), [x, p["weight"]], y


def case_attention():
    """Two heads, more keys than queries, and a token that none may look at."""
    q, k, v = image(4, (3, 1), name="q"), image(4, (5, 1), name="k"), image(6, (5, 1), name="v")
    bias = Variable.of(np.where(np.arange(5) == 2, -1e9, 0.1 * np.arange(15).reshape(3, 5)), FLOAT)
    y = np.empty((2, 6, 1, 3))
    for n, h in np.ndindex(2, 2):
        a, b, c = (t.data[n, :, 0].reshape(2, -1, t.size[0])[h] for t in (q, k, v))
        y[n, 3 * h : 3 * h + 3, 0] = c @ softmax(a.T @ b / math.sqrt(2) + bias.data[0]).T
    return networks.attention(q, k, v, 2, bias), [q, k, v], y


def case_window_attention():
    """In windows of 2x2, with layers that pass everything on: each window's tokens attend to each other alone."""
    x = image(2, (4, 2))
    passes = {"weight": np.eye(2)}
    p = networks.parameters(dict.fromkeys(("query", "key", "value", "output"), passes))
    tokens = x.data.reshape(2, 2, 1, 2, 2, 2).transpose(0, 2, 4, 1, 3, 5).reshape(4, 2, 4)
    mixed = np.stack([t @ softmax(t.T @ t / math.sqrt(2)).T for t in tokens])
    y = mixed.reshape(2, 1, 2, 2, 2, 2).transpose(0, 3, 1, 4, 2, 5).reshape(x.shape)
    found = networks.from_windows(networks.self_attention(p, networks.windows(x, 2)), (4, 2))
    return found, [x], y


def case_fourier_features():
    x = Variable.of(RNG.uniform(size=(4, 6, 2)), VEC2, name="x")
    angle = np.moveaxis(x.data[0], -1, 0)[:, None] * (math.pi * np.array([1.0, 2.0, 4.0]))[:, None, None]
    angle = angle.reshape(6, 4, 6)
    return networks.fourier_features(x, 3), [x], np.concatenate((np.sin(angle), np.cos(angle)))[None]


def case_hash_grid():
    """Three levels in the plane: two that fit into their table, one that is hashed."""
    x = Variable.of(RNG.uniform(0.02, 0.98, size=(2, 3, 2)), VEC2, name="x")
    p = networks.parameters({"tables": RNG.normal(size=(3, 64, 2))})
    tables, parts = p["tables"].data.reshape(3, -1, 2), []
    for level, n in enumerate((2, 5, 13)):
        place = x.data[0] * n
        low = np.floor(place).astype(int)
        total = np.zeros((2, 3, 2))
        for i, j in np.ndindex(2, 2):
            a, b = low[..., 0] + i, low[..., 1] + j
            at = b * (n + 1) + a if n < 7 else (a ^ (b * 2654435761 % 2**32)) % 64
            weight = np.abs(1 - i - (place - low)[..., 0]) * np.abs(1 - j - (place - low)[..., 1])
            total += tables[level][at] * weight[..., None]
        parts += [total[..., 0], total[..., 1]]
    return networks.hash_grid(p, x, 2, 13), [x, p["tables"]], np.stack(parts)[None]


def case_hash_grid_in_space():
    """The features of a level that is a linear function of the vertex are that function everywhere."""
    x = Variable.of(RNG.uniform(size=(2, 3, 3)), VEC3, name="x")
    z, y, column = np.meshgrid(*(np.arange(4),) * 3, indexing="ij")
    told = np.stack((column + 2 * y, z - y), axis=-1).reshape(1, 64, 2) / 3.0
    p = networks.parameters({"tables": told})
    a, b, c = np.moveaxis(x.data[0], -1, 0)
    return networks.hash_grid(p, x, 3, 3), [x, p["tables"]], np.stack((a + 2 * b, c - b))[None]


def case_log_softmax():
    x = image(5)
    return F.log_softmax(x), [x], np.log(np.moveaxis(softmax(np.moveaxis(x.data, 1, -1)), -1, 1))


CASES = {name[5:]: make for name, make in list(globals().items()) if name.startswith("case_")}


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_layers_are_their_formulas(make):
    y, leaves, expected = make()
    found = evaluate([y])[0]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-12 + 1e-10 * np.abs(expected).max())
    assert check_gradient(y, leaves) < 1e-5


@pytest.mark.one_driver
def test_devices_compute_them(device):
    """All layers, and their gradients by all parameters, packed and one Function a pass."""
    outputs: dict[str, Leaf] = {}
    for name, make in CASES.items():
        y, leaves, _ = make()
        seed = Variable(FLOAT, y.size, y.batch, channels=y.channels, data=RNG.normal(size=y.shape))
        outputs |= {f"{name} {k}": v for k, v in enumerate([y, *gradient(y, leaves, seed)])}
    expected = evaluate(list(outputs.values()))
    for options in ({}, {"options": BASELINE}):
        with VulkanExecutor(Program(outputs), device, **options) as run:
            run.run()
            for (name, v), value in zip(run.program.outputs.items(), expected, strict=True):
                np.testing.assert_allclose(run.recv(v), value, atol=3e-5 * np.abs(value).max(), err_msg=name)


def test_first_weights_have_the_variances_of_the_papers():
    shape = (40, 30, 3, 3)
    for scheme, variance in (
        (networks.kaiming_normal, 2 / 270),
        (networks.kaiming_uniform, 2 / 270),
        (networks.xavier_normal, 2 / 630),
        (networks.xavier_uniform, 2 / 630),
    ):
        assert scheme(np.random.default_rng(0), shape).var() == pytest.approx(variance, rel=0.05)
    assert networks.kaiming_normal(RNG, shape, fan="out").var() == pytest.approx(2 / 360, rel=0.05)


LAYER = networks.parameters(networks.linear_init(RNG, 3, 4))
KERNELS = networks.parameters(networks.convolution_init(RNG, 1, 4, 7))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda: networks.linear(LAYER, image(5)), "maps 3 channels; .* has 5"),
        (lambda: networks.linear({}, image(3)), "'weight', not none"),
        (lambda: networks.linear({"weight": np.eye(3)}, image(3)), "networks.parameters makes them"),
        (lambda: networks.linear({**LAYER, "bias": LAYER["weight"]}, image(3)), "'bias' .* 4 channels"),
        (lambda: networks.linear(LAYER, Variable(INT, (2, 2))), "takes channels of floats"),
        (lambda: networks.convolution(KERNELS, image(1), border=None), "smaller than the kernel"),
        (lambda: networks.convolution(KERNELS, image(3)), "maps 1 channels; .* has 3"),
        (lambda: networks.group_norm(LAYER, image(5), 2), "5 channels do not divide into 2 groups"),
        (lambda: networks.attention(image(4), image(4), image(4)), "no row of tokens"),
        (lambda: networks.windows(image(1), 4), "windows of 4x4 do not divide an image of 6x4"),
        (lambda: networks.mlp([LAYER, LAYER], image(3), "relu"), "is a function, not 'relu'; .* such as F.relu$"),
        (lambda: networks.mlp([LAYER], image(3), last="swish"), "last activation .*'swish'; .*F.silu"),
        (lambda: networks.mlp([LAYER, LAYER], image(3), F.maximum), "gets 1 argument, but maximum takes"),
        (lambda: networks.mlp([LAYER], image(3), last=lambda x: 3.0), "returns a Variable, not 3.0"),
        (lambda: networks.mlp(5, image(3)), "a list of parameters, not 5"),
        (lambda: networks.linear_init(RNG, 3, 4, scheme="he"), "the scheme of a weight is a function, not 'he'"),
        (lambda: networks.parameters({"n": np.arange(3)}), "'n' is an array of floats, not .*int64"),
        (lambda: networks.parameters([np.zeros((2, 3, 9))]), r"'0' has the shape \(2, 3, 9\)"),
        (lambda: networks.assigned(LAYER, {"weight": np.zeros((4, 3))}), "no values of 'bias'"),
        (lambda: networks.assigned(LAYER, {"weight": np.zeros((3, 4)), "bias": np.zeros(4)}), r"'weight' .*\(4, 3\).*\(3, 4\)"),
        (lambda: networks.hash_grid_init(RNG, entries=100), "power of two"),
        (lambda: F.gelu(image(1), "fast"), "'none' or 'tanh', not 'fast'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(write, words):
    with pytest.raises(GraphError, match=words):
        write()
