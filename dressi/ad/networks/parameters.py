"""Weights of networks: trees of arrays on the host, and the same trees of Variables in a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...errors import GraphError, shown
from ..evaluate import leaf_value
from ..graph import Variable
from ..types import FLOAT, vector_type

Tree = Any
"""A leaf, or a dict, list or tuple of trees."""


class Parameter(Variable):
    """A leaf of a network, which knows the shape of its array: that of files, and of other frameworks."""

    __slots__ = ("array_shape",)
    array_shape: tuple[int, ...]


def parameters(tree: Tree, name: str = "") -> Tree:
    """The same tree with a FLOAT leaf for each array, named by its path, such as "decoder.0.weight".

    tree: a dict, list or tuple of arrays, however deep. What an array becomes follows from its axes: () one texel; (C,) one
    texel of C channels, a bias; (O, I) a matrix of O rows, the weight of ``linear``; (O, I, H, W) a batch of O kernels with I
    channels, the weight of ``convolution``; (L, T, F) a batch of L lists of T vectors of F <= 4 components, the tables of
    ``hash_grid``. These are the shapes of PyTorch. name: the path of the tree itself. Raises GraphError for other arrays.

    >>> networks.parameters({"layer": {"weight": np.zeros((4, 3)), "bias": np.zeros(4)}})
    {'layer': {'weight': FLOAT layer.weight (3x4), 'bias': FLOAT layer.bias (1x1, 4 channels)}}
    """
    if isinstance(tree, Mapping):
        return {key: parameters(below, _joined(name, key)) for key, below in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(parameters(below, _joined(name, key)) for key, below in enumerate(tree))
    return _parameter(tree, name)


def _parameter(values: Any, name: str) -> Parameter:
    array = None if isinstance(values, Variable) else np.asarray(values)
    if array is None or array.dtype.kind != "f":
        what = values if array is None else f"an array of {array.dtype}"
        raise GraphError(
            f"the parameter '{shown(name)}' is an array of floats, not {what}; leave it out of the tree, or convert it"
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
                f"the parameter '{shown(name)}' has the shape {shape}; parameters are (C,), (O, I), (O, I, H, W), or tables"
                " (L, T, F) with F <= 4"
            )
    if leaf.data is None:
        leaf.data = leaf.conform(array.reshape(leaf.shape))
    leaf.array_shape = shape
    return leaf


def _joined(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def flat(tree: Tree, name: str = "") -> dict[str, Any]:
    """The leaves of a tree by their paths, in order: the state_dict of PyTorch.

    tree: a dict, list or tuple of anything, such as arrays or FLOAT Variables. name: the path of the tree itself.

    >>> networks.flat({"layer": [{"bias": 1}, {"bias": 2}]})
    {'layer.0.bias': 1, 'layer.1.bias': 2}
    """
    if isinstance(tree, Mapping):
        below: Iterator[tuple[Any, Any]] = iter(tree.items())
    elif isinstance(tree, (list, tuple)):
        below = iter(enumerate(tree))
    else:
        return {name: tree}
    return {path: leaf for key, part in below for path, leaf in flat(part, _joined(name, key)).items()}


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of dicts whose paths are the names of leaves: the reverse of ``flat``, with dicts for lists.

    leaves: by names with dots, such as ``load_safetensors`` gives. Numbers are in their order, whatever that of the names is. Raises GraphError where a name is both a leaf and the beginning of another.

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
    """Dicts whose keys are numbers in the order of these: files have theirs in the order of names, "10" before "2"."""
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
    found = flat(tree)
    for name, leaf in found.items():
        if not isinstance(leaf, Variable):
            raise GraphError(
                f"the parameter '{shown(name)}' is no Variable, but {type(leaf).__name__}; networks.parameters makes them"
            )
    return list(found.values())


def arrays(tree: Tree, engine: Any = None) -> Tree:
    """The same tree with the value of each parameter: float32, of the shape that its array had.

    tree: of FLOAT parameters.  engine: the DressiAD that trains them; None: the values that they were made with. Raises
    GraphError.

    >>> layer = networks.parameters({"weight": np.ones((2, 3)), "bias": np.zeros(2)})
    >>> networks.arrays(layer)["weight"].tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    leaves = variables(tree)
    values = [leaf_value(x, None) for x in leaves] if engine is None else engine.evaluate(leaves)
    told = iter(zip(leaves, values, strict=True))

    def rebuilt(part: Tree) -> Tree:
        if isinstance(part, Mapping):
            return {key: rebuilt(below) for key, below in part.items()}
        if isinstance(part, (list, tuple)):
            return type(part)(rebuilt(below) for below in part)
        leaf, value = next(told)
        if leaf.count is not None and value.shape != getattr(leaf, "array_shape", None):
            value = value.reshape(leaf.batch, -1, *leaf.vtype.shape)[:, : leaf.count]
        return np.asarray(value, np.float32).reshape(getattr(leaf, "array_shape", value.shape))

    return rebuilt(tree)


def assigned(tree: Tree, values: Tree) -> dict[Variable, np.ndarray]:
    """New values of parameters, as ``DressiAD.send_many`` and ``evaluate`` take them.

    tree: of FLOAT parameters.  values: a tree of arrays with the same paths, or a flat dict of them, such as
    ``load_safetensors`` gives; axes of length 1 may differ. Raises GraphError where one is missing, too many, or of another
    shape.

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
    found = {}
    for name, leaf in leaves.items():
        array, shape = np.asarray(given[name]), getattr(leaf, "array_shape", leaf.shape)
        if array.dtype.kind != "f" or _solid(array.shape) != _solid(shape):
            raise GraphError(
                f"the parameter '{shown(name)}' takes floats of shape {shape}, not {array.dtype} of {array.shape}"
            )
        table = (leaf.batch, leaf.count, *leaf.vtype.shape)
        found[leaf] = array.reshape(leaf.shape if leaf.count is None else table)
    return found


def _solid(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if extent != 1)
