"""Layers of networks, and their weights in files."""

import json
import math
import struct

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dressi
from dressi import FLOAT, INT, VEC2, VEC3, DressiAD, F, GraphError, InputError, Variable, adamw, networks
from dressi.ad.check import check_gradient
from dressi.ad.graph import Variable as Leaf
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.networks.parameters import TYPES
from dressi.ad.transform.gradient import gradient
from dressi.vk.plan.core.options import BASELINE, DEFAULT
from dressi.vk.run.execution.executor import VulkanExecutor

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
    y = normalised(x.data, (1,)) * by_channel(p["weight"]) + by_channel(p["bias"])
    return networks.layer_norm(p, x), [x], y


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
    """Windows of 2x2, with layers that pass everything on: the tokens of a window attend to each other."""
    x = image(2, (4, 2))
    passes = {"weight": np.eye(2)}
    p = networks.parameters(dict.fromkeys(("query", "key", "value", "output"), passes))
    tokens = x.data.reshape(2, 2, 1, 2, 2, 2).transpose(0, 2, 4, 1, 3, 5).reshape(4, 2, 4)
    mixed = np.stack([t @ softmax(t.T @ t / math.sqrt(2)).T for t in tokens])
    y = mixed.reshape(2, 1, 2, 2, 2, 2).transpose(0, 3, 1, 4, 2, 5).reshape(x.shape)
    return networks.from_windows(networks.self_attention(p, networks.windows(x, 2)), (4, 2)), [x], y


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
    assert_allclose(found, expected, atol=1e-12 + 1e-10 * np.abs(expected).max())
    assert check_gradient(y, leaves) < 1e-5


@pytest.mark.one_driver
@pytest.mark.parametrize("options", [DEFAULT, BASELINE], ids=["packed", "baseline"])
@pytest.mark.release("baseline")
def test_devices_compute_them(device, options):
    """All layers, and their gradients by all parameters, packed and one Function a pass."""
    outputs: dict[str, Leaf] = {}
    for name, make in CASES.items():
        y, leaves, _ = make()
        seed = Variable(FLOAT, y.size, y.batch, channels=y.channels, data=RNG.normal(size=y.shape))
        outputs |= {f"{name} {k}": v for k, v in enumerate([y, *gradient(y, leaves, seed)])}
    expected = evaluate(list(outputs.values()))
    with VulkanExecutor(Program(outputs), device, options=options) as run:
        run.run()
        for (name, v), value in zip(run.program.outputs.items(), expected, strict=True):
            assert_allclose(run.recv(v), value, atol=3e-5 * np.abs(value).max(), err_msg=name)


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


WEIGHT_RNG = np.random.default_rng(0)
TREE = {
    "encoder": [networks.convolution_init(WEIGHT_RNG, 1, 1, 1), networks.convolution_init(WEIGHT_RNG, 3, 4)],
    "norm": networks.norm_init(4),
    "grid": networks.hash_grid_init(WEIGHT_RNG, levels=2, entries=16),
    "scale": np.array(0.5),
}


def test_a_tree_comes_back_from_a_file(tmp_path):
    path = tmp_path / "net.safetensors"
    networks.save_safetensors(path, TREE, {"made by": "a test"})
    found = networks.load_safetensors(path)
    assert list(found) == list(networks.flat(TREE))
    net = networks.parameters(TREE)
    values = networks.assigned(net, found)
    for name, leaf in networks.flat(net).items():
        assert_array_equal(values[leaf].reshape(found[name].shape), found[name])
    again = networks.flat(networks.arrays(networks.parameters(networks.nested(found))))
    for name, array in found.items():
        assert again[name].shape == array.shape
        assert_allclose(again[name], array, rtol=1e-6)


@pytest.mark.one_driver
def test_trained_weights_are_read_from_the_engine(device):
    """A layer that learns a matrix, decayed; its arrays have the shapes that they came with."""
    truth = WEIGHT_RNG.normal(size=(2, 3))
    x = Variable(FLOAT, (8, 8), channels=3, data=WEIGHT_RNG.normal(size=(1, 3, 8, 8)))
    target = np.einsum("oc,nchw->nohw", truth, x.data)
    net = networks.parameters({"layer": networks.linear_init(WEIGHT_RNG, 3, 2), "grid": TREE["grid"]})
    loss = F.mean(F.square(networks.linear(net["layer"], x) - target))
    loss = loss + F.mean(F.dot(net["grid"]["tables"], net["grid"]["tables"]))
    with DressiAD(device) as ad:
        ad.set_loss(loss)
        ad.set_optimizer(adamw(0.05, decay=0.0), networks.variables(net))
        ad.step(200)
        found = networks.arrays(net, ad)
        ad.send_many(networks.assigned(net, networks.arrays(net)))
        assert np.allclose(ad.recv(net["layer"]["weight"])[0], net["layer"]["weight"].data[0], atol=1e-6)
    assert_allclose(found["layer"]["weight"], truth, atol=1e-2)
    assert found["layer"]["bias"].shape == (2,) and found["grid"]["tables"].shape == (2, 16, 2)


def written(path, header, body: bytes = b"\0" * 8):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def row(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"{", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"a":{},"a":{}}', "a name twice"),
        ({"a": 3}, "'a' has no shape"),
        ({"a": row(dtype="F128")}, "of the type 'F128'"),
        ({"a": row(dtype=["F32"])}, "of the type"),
        ({"a": row(shape=(3,))}, "another number of bytes"),
        ({"a": row(shape=(2**62, 2**62))}, "another number of bytes"),
        ({"a": row(shape=(-2, -1))}, "has no shape"),
        ({"a": row(shape=(True, 2))}, "has no shape"),
        ({"a": row(offsets=(8, 16))}, "outside of the file"),
        ({"a": row(), "b": row()}, "overlap"),
        ({"a": row(shape=(1,), offsets=(4, 8))}, "gaps"),
        ({"a": row(shape=(1,), offsets=(0, 4))}, "4 bytes follow"),
        ({"a": row(shape=(1,) * 31 + (2, 1))}, "another number of bytes"),
        ({"a": row(shape=(0, 2**62), offsets=(0, 0))}, "which no array has"),
        ({"a" * 90_000: row(dtype="F" * 90_000)}, r"a\.\.\.' is of the type 'F"),
        ({"a" * 90_000: row(shape=(3,) * 9_000)}, "another number of bytes"),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, header, words):
    with pytest.raises(InputError, match=words) as found:
        networks.load_safetensors(written(tmp_path / "bad.safetensors", header))
    text = str(found.value)
    assert "\n" not in text and "bad.safetensors" in text and len(text) < 900


def test_layers_of_a_file_are_in_the_order_of_their_numbers():
    names = sorted(f"layers.{k}.bias" for k in range(12))
    assert list(networks.nested(dict.fromkeys(names, 0))["layers"]) == [str(k) for k in range(12)]


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot read the weights .*none\.safetensors"):
        networks.load_safetensors(tmp_path / "none.safetensors")
    for data, words in ((b"abc", "shorter"), (b"\xff" * 20, "would take 18446744073709551615 bytes")):
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(InputError, match=words):
            networks.load_safetensors(tmp_path / "bad")
    with pytest.raises(InputError, match="'a' is an array of complex128"):
        networks.save_safetensors(tmp_path / "bad", {"a": np.zeros(2, complex)})
    with pytest.raises(GraphError, match=r"'a\.b' lies below a leaf"):
        networks.nested({"a": 1, "a.b": 2})


def test_half_floats_are_read(tmp_path):
    body = np.array([1.5, -2.0], "<f4").view("<u4").astype("<u4") >> 16
    path = written(tmp_path / "b", {"a": row("BF16", (2,), (0, 4))}, body.astype("<u2").tobytes())
    assert_array_equal(networks.load_safetensors(path)["a"], np.array([1.5, -2.0], np.float32))
    for text in TYPES.values():
        networks.save_safetensors(tmp_path / "t", {"a": np.ones((2, 1), text)})
        assert networks.load_safetensors(tmp_path / "t")["a"].dtype == np.dtype(text)


def test_both_ways_with_the_package(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    arrays = {"a.weight": WEIGHT_RNG.normal(size=(3, 2)).astype(np.float32), "a.bias": np.arange(3.0)}
    networks.save_safetensors(tmp_path / "ours", arrays)
    package.save_file(arrays, tmp_path / "theirs")
    for found in (package.load_file(tmp_path / "ours"), networks.load_safetensors(tmp_path / "theirs")):
        for name, array in arrays.items():
            assert_array_equal(found[name], array)
    assert dressi.evaluate(networks.parameters(arrays)["a.bias"]).ravel().tolist() == [0.0, 1.0, 2.0]
