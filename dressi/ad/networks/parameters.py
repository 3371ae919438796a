"""Parameters of networks: made, initialised, read from .safetensors files and written."""

from __future__ import annotations

import itertools
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...errors import GraphError, InputError, shown
from ..graph import Variable
from ..graph.evaluation import leaf_value
from ..graph.types import FLOAT, vector_type
from ..graph.user_code import check_function

__all__ = [
    "arrays", "assigned", "attention_init", "convolution_init", "flat", "kaiming_normal",
    "kaiming_uniform", "linear_init", "load_safetensors", "mlp_init", "nested", "norm_init", "parameters",
    "save_safetensors", "variables", "xavier_normal", "xavier_uniform",
]  # fmt: skip


Tree = Any
"""A leaf, or a dict, list or tuple of trees."""


class Parameter(Variable):
    """A leaf of a network, which knows the shape of its array: that of files, and of other frameworks."""

    __slots__ = ("array_shape",)
    array_shape: tuple[int, ...]


def parameters(tree: Tree, name: str = "") -> Tree:
    """The same tree with a FLOAT leaf for each array, named by its path, such as "decoder.0.weight".

    tree: a dict, list or tuple of arrays, however deep. What an array becomes follows from its axes: () one
    texel; (C,) one texel of C channels, a bias; (O, I) a matrix of O rows, the weight of ``linear``; (O, I,
    H, W) a batch of O kernels with I channels, the weight of ``convolution``; (L, T, F) a batch of L lists of
    T vectors of F <= 4 components, the tables of ``hash_grid``. These are the shapes of PyTorch. name: the
    path of the tree itself. Raises GraphError for other arrays.

    >>> networks.parameters({"layer": {"weight": np.zeros((4, 3)), "bias": np.zeros(4)}})
    {'layer': {'weight': FLOAT layer.weight (3x4), 'bias': FLOAT layer.bias (1x1, 4 channels)}}
    """
    return _mapped(tree, _parameter, name)


def _mapped(tree: Tree, function: Callable[[Any, str], Any], name: str = "") -> Tree:
    """The tree with function(leaf, path) for each leaf. Tuples and lists keep their type."""
    if isinstance(tree, Mapping):
        return {key: _mapped(below, function, _joined(name, key)) for key, below in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_mapped(below, function, _joined(name, key)) for key, below in enumerate(tree))
    return function(tree, name)


def _parameter(values: Any, name: str) -> Parameter:
    array = None if isinstance(values, Variable) else np.asarray(values)
    if array is None or array.dtype.kind != "f":
        what = values if array is None else f"an array of {array.dtype}"
        raise GraphError(
            f"the parameter '{shown(name)}' is an array of floats, not {what}; leave it out of the tree, or"
            " convert it"
        )
    shape = array.shape
    match shape:
        case ():
            leaf = Parameter(FLOAT, name=name)
        case (channels,):
            leaf = Parameter(FLOAT, channels=channels, name=name)
        case (rows, columns):
            leaf = Parameter(FLOAT, (columns, rows), name=name)
        case (outputs, inputs, height, width):
            leaf = Parameter(FLOAT, (width, height), outputs, channels=inputs, name=name)
        case (_, _, features) if features <= 4:
            leaf = cast(Parameter, Parameter.of(array, vector_type(features), batched=True, name=name))
        case _:
            raise GraphError(
                f"the parameter '{shown(name)}' has the shape {shape}; parameters are (C,), (O, I), (O, I, H,"
                " W), or tables (L, T, F) with F <= 4"
            )
    if leaf.data is None:
        leaf.data = leaf.conform(array.reshape(leaf.shape))
    leaf.array_shape = shape
    return leaf


def _joined(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def flat(tree: Tree, name: str = "") -> dict[str, Any]:
    """The leaves of a tree by their paths, in order: the state_dict of PyTorch.

    tree: a dict, list or tuple of anything, such as arrays or FLOAT Variables. name: the path of the tree.

    >>> networks.flat({"layer": [{"bias": 1}, {"bias": 2}]})
    {'layer.0.bias': 1, 'layer.1.bias': 2}
    """
    leaves: dict[str, Any] = {}
    _mapped(tree, lambda leaf, path: leaves.update({path: leaf}), name)
    return leaves


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of dicts whose paths are the names of leaves: the reverse of ``flat``, with dicts for lists.

    leaves: by names with dots, such as ``load_safetensors`` gives. Numbers are in their order, whatever that
    of the names is. Raises GraphError where a name is both a leaf and the beginning of another.

    >>> networks.nested({"layer.0.bias": 1, "layer.1.bias": 2})
    {'layer': {'0': {'bias': 1}, '1': {'bias': 2}}}
    """
    root: dict[str, Any] = {}
    for name, leaf in leaves.items():
        *path, last = name.split(".")
        at = root
        for key in path:
            at = at.setdefault(key, {})
            if not isinstance(at, dict):
                raise GraphError(
                    f"'{shown(name)}' lies below a leaf of the name '{shown(key)}'; rename one of them"
                )
        if last in at:
            raise GraphError(f"'{shown(name)}' is a leaf, and the beginning of other names; rename it")
        at[last] = leaf
    return _in_order(root)


def _in_order(tree: Tree) -> Tree:
    """Sorts dicts whose keys are numbers: files are sorted by name, "10" before "2"."""
    if not isinstance(tree, dict):
        return tree
    keys = sorted(tree, key=int) if all(key.isdecimal() and len(key) < 10 for key in tree) else [*tree]
    return {key: _in_order(tree[key]) for key in keys}


def variables(tree: Tree) -> list[Variable]:
    """The leaves of a tree of parameters, for ``DressiAD.set_optimizer`` and ``gradient``.

    tree: as ``parameters`` makes it, FLOAT. Raises GraphError where a leaf is no Variable.

    >>> networks.variables(networks.parameters([np.zeros((4, 3)), np.zeros(4)]))
    [FLOAT 0 (3x4), FLOAT 1 (1x1, 4 channels)]
    """
    leaves = flat(tree)
    for name, leaf in leaves.items():
        if not isinstance(leaf, Variable):
            raise GraphError(
                f"the parameter '{shown(name)}' is no Variable, but {type(leaf).__name__};"
                " networks.parameters makes them"
            )
    return list(leaves.values())


def arrays(tree: Tree, engine: Any = None) -> Tree:
    """The same tree with the value of each parameter: float32, of the shape that its array had.

    tree: FLOAT parameters.  engine: the DressiAD that trains them, None for first values. Raises GraphError.

    >>> layer = networks.parameters({"weight": np.ones((2, 3)), "bias": np.zeros(2)})
    >>> networks.arrays(layer)["weight"].tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    leaves = variables(tree)
    values = [leaf_value(x) for x in leaves] if engine is None else engine.evaluate(leaves)
    value_of = dict(zip(leaves, values, strict=True))

    def array(leaf: Variable, name: str) -> np.ndarray:
        value = value_of[leaf]
        if leaf.count is not None and value.shape != getattr(leaf, "array_shape", None):
            value = value.reshape(leaf.batch, -1, *leaf.vtype.shape)[:, : leaf.count]
        return np.asarray(value, np.float32).reshape(getattr(leaf, "array_shape", value.shape))

    return _mapped(tree, array)


def assigned(tree: Tree, values: Tree) -> dict[Variable, np.ndarray]:
    """New values of parameters, as ``DressiAD.send_many`` and ``evaluate`` take them.

    tree: of FLOAT parameters.  values: a tree of arrays with the same paths, or a flat dict of them, such as
    ``load_safetensors`` gives; axes of length 1 may differ. Raises GraphError for others.

    >>> layer = networks.parameters({"weight": np.ones((2, 3)), "bias": np.zeros(2)})
    >>> values = networks.assigned(layer, {"weight": np.zeros((2, 3, 1, 1)), "bias": np.ones(2)})
    >>> evaluate(layer["bias"], values).ravel().tolist()
    [1.0, 1.0]
    """
    leaves, given = flat(tree), flat(values)
    if missing := [name for name in leaves if name not in given]:
        raise GraphError(
            f"there are no values of '{shown(missing[0])}', one of {len(missing)} that are missing"
        )
    if extra := [name for name in given if name not in leaves]:
        raise GraphError(
            f"there is no parameter '{shown(extra[0])}' for its values; leave it out, or rename it"
        )
    new = {}
    for name, leaf in leaves.items():
        array, shape = np.asarray(given[name]), getattr(leaf, "array_shape", leaf.shape)
        same = [n for n in array.shape if n != 1] == [n for n in shape if n != 1]
        if array.dtype.kind != "f" or not same:
            raise GraphError(
                f"the parameter '{shown(name)}' takes floats of shape {shape}, not {array.dtype} of"
                f" {array.shape}"
            )
        table = (leaf.batch, leaf.count, *leaf.vtype.shape)
        new[leaf] = array.reshape(leaf.shape if leaf.count is None else table)
    return new


# Initial weights of layers, as arrays: Kaiming, Xavier, and the trees that layers take.

Scheme = Callable[[np.random.Generator, Sequence[int]], np.ndarray]
"""Draws a weight of a shape."""


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """(inputs of each output, outputs of each input) of a weight (O, I, ...). Raises GraphError."""
    if len(shape) < 2 or min(shape) < 1:
        raise GraphError(f"a weight is (O, I) or (O, I, H, W), not of shape {tuple(shape)}")
    texels = math.prod(shape[2:])
    return shape[1] * texels, shape[0] * texels


def kaiming_normal(
    rng: np.random.Generator, shape: Sequence[int], gain: float = math.sqrt(2.0), fan: str = "in"
) -> np.ndarray:
    """Normal numbers with standard deviation gain / sqrt(fan). He et al., Delving Deep into Rectifiers.

    rng: numpy.random.default_rng(seed). shape: (O, I) or (O, I, H, W). gain: sqrt(2) before a ReLU, 1 before
    nothing, 5/3 before a tanh. fan: "in" keeps the size of values, "out" that of gradients. The array is
    float64. Raises GraphError.

    >>> bool(0.9 < networks.kaiming_normal(np.random.default_rng(0), (64, 200)).std() * 10 < 1.1)
    True
    """
    return gain / math.sqrt(_fan(shape, fan)) * rng.standard_normal(shape)


def kaiming_uniform(
    rng: np.random.Generator, shape: Sequence[int], gain: float = math.sqrt(2.0), fan: str = "in"
) -> np.ndarray:
    """Uniform numbers in [-b, b], b = gain sqrt(3 / fan). Arguments and result as for ``kaiming_normal``.

    >>> bool(abs(networks.kaiming_uniform(np.random.default_rng(0), (8, 6), gain=1.0)).max() < 0.71)
    True
    """
    bound = gain * math.sqrt(3.0 / _fan(shape, fan))
    return rng.uniform(-bound, bound, shape)


def xavier_normal(rng: np.random.Generator, shape: Sequence[int], gain: float = 1.0) -> np.ndarray:
    """Normal numbers with variance gain^2 2 / (fan in + fan out). Glorot and Bengio, equation 16.

    rng: numpy.random.default_rng(seed). shape: (O, I) or (O, I, H, W). gain: as for ``kaiming_normal``. The
    array is float64. Raises GraphError.

    >>> bool(0.9 < networks.xavier_normal(np.random.default_rng(0), (100, 100)).std() * 10 < 1.1)
    True
    """
    return gain * math.sqrt(2.0 / sum(fans(shape))) * rng.standard_normal(shape)


def xavier_uniform(rng: np.random.Generator, shape: Sequence[int], gain: float = 1.0) -> np.ndarray:
    """Uniform numbers in [-b, b], b = gain sqrt(6 / (fan in + fan out)). Arguments as for ``xavier_normal``.

    >>> bool(abs(networks.xavier_uniform(np.random.default_rng(0), (3, 3))).max() < 1.0)
    True
    """
    bound = gain * math.sqrt(6.0 / sum(fans(shape)))
    return rng.uniform(-bound, bound, shape)


def _fan(shape: Sequence[int], fan: str) -> int:
    if fan not in ("in", "out"):
        raise GraphError(f"the fan of a weight is 'in' or 'out', not {fan!r}")
    return fans(shape)[fan == "out"]


def linear_init(
    rng: np.random.Generator, inputs: int, outputs: int, *, bias: bool = True, scheme: Scheme = kaiming_normal
) -> dict[str, np.ndarray]:
    """Arrays for ``linear``: weight (outputs, inputs), and bias (outputs,) of zeros.

    rng: numpy.random.default_rng(seed). inputs, outputs: numbers of channels. bias: whether there is one.
    scheme: draws the weight, such as ``xavier_uniform``. Raises GraphError.

    >>> {name: array.shape for name, array in networks.linear_init(np.random.default_rng(0), 3, 8).items()}
    {'weight': (8, 3), 'bias': (8,)}
    """
    return _weighed(_drawn(scheme, rng, (outputs, inputs)), bias)


def convolution_init(
    rng: np.random.Generator,
    inputs: int,
    outputs: int,
    size: int = 3,
    *,
    groups: int = 1,
    bias: bool = True,
    scheme: Scheme = kaiming_normal,
) -> dict[str, np.ndarray]:
    """Arrays for ``convolution``: weight (outputs, inputs / groups, size, size), bias (outputs,) of zeros.

    size: rows and columns of the kernels. groups: independent parts of the channels. Other arguments as for
    ``linear_init``. Raises GraphError.

    >>> layer = networks.convolution_init(np.random.default_rng(0), 3, 8)
    >>> {name: array.shape for name, array in layer.items()}
    {'weight': (8, 3, 3, 3), 'bias': (8,)}
    """
    if inputs % groups or outputs % groups:
        raise GraphError(f"{inputs} and {outputs} channels do not divide into {groups} groups")
    return _weighed(_drawn(scheme, rng, (outputs, inputs // groups, size, size)), bias)


def _drawn(scheme: Scheme, rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    check_function(scheme, 2, "the scheme of a weight", "give networks.xavier_uniform, for example")
    return scheme(rng, shape)


def _weighed(weight: np.ndarray, bias: bool) -> dict[str, np.ndarray]:
    return {"weight": weight, "bias": np.zeros(len(weight))} if bias else {"weight": weight}


def norm_init(channels: int, *, bias: bool = True) -> dict[str, np.ndarray]:
    """Arrays for normalisations such as ``batch_norm``: weight (C,) of ones, bias (C,) of zeros.

    channels: C. bias: whether there is one; an ``rms_norm`` has none.

    >>> {name: array.tolist() for name, array in networks.norm_init(2).items()}
    {'weight': [1.0, 1.0], 'bias': [0.0, 0.0]}
    """
    return _weighed(np.ones(channels), bias)


def mlp_init(
    rng: np.random.Generator, widths: Sequence[int], *, bias: bool = True, scheme: Scheme = kaiming_normal
) -> list[dict[str, np.ndarray]]:
    """Arrays for ``mlp``: a layer from each number of channels to the next.

    widths: channels of the input, of the hidden layers, and of the output. Other arguments as for
    ``linear_init``. Raises GraphError.

    >>> [layer["weight"].shape for layer in networks.mlp_init(np.random.default_rng(0), (2, 16, 16, 3))]
    [(16, 2), (16, 16), (3, 16)]
    """
    if len(widths) < 2:
        raise GraphError(f"an MLP has the widths of its input and its output at least, not {list(widths)}")
    return [linear_init(rng, a, b, bias=bias, scheme=scheme) for a, b in itertools.pairwise(widths)]


def attention_init(
    rng: np.random.Generator, channels: int, *, bias: bool = True, scheme: Scheme = xavier_uniform
) -> dict[str, dict[str, np.ndarray]]:
    """Arrays for ``self_attention``: the square linear layers "query", "key", "value" and "output".

    channels: those of the tokens. Other arguments as for ``linear_init``. Raises GraphError.

    >>> list(networks.attention_init(np.random.default_rng(0), 8))
    ['query', 'key', 'value', 'output']
    """
    names = ("query", "key", "value", "output")
    return {name: linear_init(rng, channels, channels, bias=bias, scheme=scheme) for name in names}


# Arrays in and out of safetensors files: a header of JSON, and the numbers behind it.

TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
BFLOAT = "BF16"
LONGEST = 100_000_000  # bytes of a header, by the format


def load_safetensors(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors file by name.

    path: of the file. Types are those of the file, with float32 for bfloat16; a NumPy array each.
    ``networks.nested`` makes a tree of them. The file is not trusted: nothing in it is executed, and what
    does not fit is refused. Raises InputError.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "net.safetensors"
    ...     networks.save_safetensors(file, {"layer": {"bias": np.ones(2, np.float32)}})
    ...     networks.load_safetensors(file)
    {'layer.bias': array([1., 1.], dtype=float32)}
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read the weights '{path}': {error.strerror or error}; check the path"
        ) from None
    try:
        return _arrays(data)
    except _Wrong as error:
        raise InputError(
            f"'{path}' is no safetensors file that can be read: {error}; save it again, with"
            " safetensors.torch.save_file or networks.save_safetensors"
        ) from None


class _Wrong(Exception):
    """What a file has that the format does not allow."""


def _arrays(data: bytes) -> dict[str, np.ndarray]:
    if len(data) < 8:
        raise _Wrong("it is shorter than the length of its header")
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(len(data) - 8, LONGEST):
        raise _Wrong(f"its header would take {length} bytes")
    try:
        header = json.loads(data[8 : 8 + length].decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise _Wrong("its header is no JSON") from None
    if not isinstance(header, dict):
        raise _Wrong("its header is no JSON object")
    body = memoryview(data)[8 + length :]
    header.pop("__metadata__", None)
    arrays = {name: _array(name, entry, body) for name, entry in header.items()}
    reached = 0
    for begin, end in sorted(tuple(entry["data_offsets"]) for entry in header.values()):
        if begin != reached:
            raise _Wrong("its arrays overlap, or leave gaps")
        reached = end
    if reached != len(body):
        raise _Wrong(f"{len(body) - reached} bytes follow the last array")
    return arrays


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise _Wrong("its header has a name twice")
    return entries


def _array(name: str, entry: Any, body: memoryview) -> np.ndarray:
    entry = entry if isinstance(entry, dict) else {}
    shape, span, kind = entry.get("shape"), entry.get("data_offsets"), entry.get("dtype")
    if not (
        _whole_numbers(shape) and _whole_numbers(span) and len(span) == 2 and span[0] <= span[1] <= len(body)
    ):
        raise _Wrong(f"'{shown(name)}' has no shape, or lies outside of the file")
    if not isinstance(kind, str) or (kind not in TYPES and kind != BFLOAT):
        raise _Wrong(
            f"'{shown(name)}' is of the type {shown(repr(kind), 20)}, which is none of"
            f" {', '.join([*TYPES, BFLOAT])}"
        )
    dtype = np.dtype(TYPES.get(kind, "<u2"))
    if len(shape) > 32 or math.prod(shape) * dtype.itemsize != span[1] - span[0]:
        raise _Wrong(f"'{shown(name)}' has another number of bytes than its shape {shown(shape)}")
    numbers = np.frombuffer(body[span[0] : span[1]], dtype)
    if kind == BFLOAT:
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    try:
        return numbers.reshape(shape).copy()
    except ValueError:  # a product of 0 says nothing about the other extents
        raise _Wrong(f"'{shown(name)}' has the shape {shown(shape)}, which no array has") from None


def _whole_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in values)


def save_safetensors(path: str | Path, tree: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays into a .safetensors file, which PyTorch, JAX and others read.

    path: of the file. tree: a dict of NumPy arrays, or a tree of them such as ``networks.arrays`` gives;
    names are paths, such as "layer.0.weight". metadata: texts by name. Raises InputError.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     networks.save_safetensors(pathlib.Path(folder) / "net.safetensors", [{"bias": np.zeros(3)}])
    ...     list(networks.load_safetensors(pathlib.Path(folder) / "net.safetensors"))
    ['0.bias']
    """
    codes = {np.dtype(text): code for code, text in TYPES.items()}
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    parts, at = [], 0
    for name, value in flat(tree).items():
        array = np.asarray(value)
        code = codes.get(array.dtype.newbyteorder("<"))
        if code is None:
            raise InputError(
                f"'{shown(name)}' is an array of {array.dtype}, which safetensors files do not hold; use"
                " float32"
            )
        bits = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [at, at + len(bits)]}
        parts.append(bits)
        at += len(bits)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    try:
        Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    except OSError as error:
        raise InputError(f"cannot write the weights '{path}': {error.strerror or error}") from None
