"""Weights in and out of files: trees and names, round trips, and files that are not to be trusted."""

import json
import struct

import numpy as np
import pytest

from dressi import FLOAT, DressiAD, F, GraphError, InputError, Variable, adamw, evaluate, networks
from dressi.ad.networks.safetensors import TYPES

RNG = np.random.default_rng(0)
TREE = {
    "encoder": [networks.convolution_init(RNG, 1, 1, 1), networks.convolution_init(RNG, 3, 4)],
    "norm": networks.norm_init(4),
    "grid": networks.hash_grid_init(RNG, levels=2, entries=16),
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
        np.testing.assert_array_equal(values[leaf].reshape(found[name].shape), found[name])
    again = networks.flat(networks.arrays(networks.parameters(networks.nested(found))))
    for name, array in found.items():
        assert again[name].shape == array.shape
        np.testing.assert_allclose(again[name], array, rtol=1e-6)


@pytest.mark.one_driver
def test_trained_weights_are_read_from_the_engine(device):
    """A layer that learns a matrix, decayed; its arrays have the shapes that they came with."""
    truth = RNG.normal(size=(2, 3))
    x = Variable(FLOAT, (8, 8), channels=3, data=RNG.normal(size=(1, 3, 8, 8)))
    target = np.einsum("oc,nchw->nohw", truth, x.data)
    net = networks.parameters({"layer": networks.linear_init(RNG, 3, 2), "grid": TREE["grid"]})
    loss = F.mean(F.square(networks.linear(net["layer"], x) - target))
    loss = loss + F.mean(F.dot(net["grid"]["tables"], net["grid"]["tables"]))
    with DressiAD(device) as ad:
        ad.set_loss(loss)
        ad.set_optimizer(adamw(0.05, decay=0.0), networks.variables(net))
        ad.step(200)
        found = networks.arrays(net, ad)
        ad.send_many(networks.assigned(net, networks.arrays(net)))
        assert np.allclose(ad.recv(net["layer"]["weight"])[0], net["layer"]["weight"].data[0], atol=1e-6)
    np.testing.assert_allclose(found["layer"]["weight"], truth, atol=1e-2)
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
    assert (
        "\n" not in str(found.value) and "bad.safetensors" in str(found.value) and len(str(found.value)) < 900
    )


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
    np.testing.assert_array_equal(networks.load_safetensors(path)["a"], np.array([1.5, -2.0], np.float32))
    for text in TYPES.values():
        networks.save_safetensors(tmp_path / "t", {"a": np.ones((2, 1), text)})
        assert networks.load_safetensors(tmp_path / "t")["a"].dtype == np.dtype(text)


def test_both_ways_with_the_package(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    arrays = {"a.weight": RNG.normal(size=(3, 2)).astype(np.float32), "a.bias": np.arange(3.0)}
    networks.save_safetensors(tmp_path / "ours", arrays)
    package.save_file(arrays, tmp_path / "theirs")
    for found in (package.load_file(tmp_path / "ours"), networks.load_safetensors(tmp_path / "theirs")):
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
    assert evaluate(networks.parameters(arrays)["a.bias"]).ravel().tolist() == [0.0, 1.0, 2.0]
