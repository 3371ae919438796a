"""An operation on arrays: its signature, graph and outputs, how arrays lie in Variables, and the libraries of frameworks."""

from __future__ import annotations

import inspect
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from importlib import import_module
from itertools import accumulate, pairwise, starmap
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from ..ad.graph import Variable
from ..ad.graph.arrays import layout_of
from ..ad.graph.types import Size, VType, list_size, list_values, vector_type, whole
from ..errors import GraphError, InputError
from ..vk.run.device.memory import empty, zeros

Array = TypeVar("Array")
GRADIENTS = "Differentiable in {}."


class Operation(ABC):
    """One operation with its options. Subclasses are frozen dataclasses: equal operations share a program.

    Its inputs are arrays of float32 or int32. Those of integers have no gradient.
    """

    names: tuple[str, ...]
    """Of the inputs, for messages and debuggers."""

    def converted(
        self,
        values: Sequence[Any],
        array_of: Callable[[str, Any], Array],
        floats: Callable[[str, Any], Array],
    ) -> list[Array]:
        """The inputs as arrays: ``array_of`` what holds whole numbers, ``floats`` of the rest."""
        named = zip(self.names, values, strict=True)
        return [(array_of if name in ("tri", "ranges") else floats)(name, value) for name, value in named]

    @abstractmethod
    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        """The shapes of the outputs. Raises InputError where the inputs do not fit each other."""

    def output_types(self, *given: Spec) -> tuple[str, ...]:
        """The types of the outputs."""
        return ("float32",) * len(self.outputs(*given))

    def complete(self, arrays: Sequence[Any]) -> list[Any]:
        """The inputs, lists ``with_room``, and behind them what else the graph needs and is computed from
        their values on the host: arrays of NumPy, or tensors that lie where the inputs do."""
        return list(arrays)

    @abstractmethod
    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        """How each of the ``complete`` inputs lies in Variables."""

    @abstractmethod
    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        """The outputs, each as Variables whose components are its channels."""


P = ParamSpec("P")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Description:
    """What the functions of all frameworks that run one operation have in common; written into their
    docstrings, behind the first line.

    arguments: what each is.  returns: what the outputs are.  smooth: what has a gradient.
    """

    arguments: Mapping[str, str]
    returns: str
    smooth: str

    def of(
        self, call: Callable[P, tuple[Operation, list[Any]]], gradients: str = GRADIENTS
    ) -> Callable[[Callable[[Operation, list[Any]], Result]], Callable[P, Result]]:
        """The decorator that gives what runs an operation the signature of ``call``, and its docstring."""

        def add(run: Callable[[Operation, list[Any]], Result]) -> Callable[P, Result]:
            returned = inspect.signature(run).return_annotation
            signature = inspect.signature(call).replace(return_annotation=returned)

            @wraps(run)
            def function(*arguments: P.args, **named: P.kwargs) -> Result:
                signature.bind(*arguments, **named)  # else the error would name ``call``
                return run(*call(*arguments, **named))

            function.__signature__ = signature  # pyright: ignore
            return self.describe(gradients)(function)

        return add

    def describe(self, gradients: str = GRADIENTS) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
        """The decorator that completes the docstring of a function. gradients: how the framework gives the
        gradients of what is ``smooth``."""

        def add(function: Callable[P, Result]) -> Callable[P, Result]:
            first, _, rest = (function.__doc__ or "").partition("\n\n")
            taken = inspect.signature(function).parameters
            lines = [f"{name}: {text}" for name, text in self.arguments.items() if name in taken]
            result = f"Returns {self.returns} {gradients.format(self.smooth)} Raises InputError."
            width: dict[str, Any] = {"width": 106, "break_long_words": False, "break_on_hyphens": False}
            parts = "\n".join(textwrap.fill(x, **width) for x in lines), textwrap.fill(result, **width)
            function.__doc__ = "\n\n".join((first, *(textwrap.indent(x, "    ") for x in parts), rest))
            return function

        return add


WRAP = Description(
    {
        "function": "takes one Variable for each array, and gives a Variable or a tuple of them. It is called once for each"
        " signature of shapes and types; the program that it describes is kept. It may use arrays and "
        "leaves with data of its own, which are constants.",
        "types": "of the texels, by name of the argument, where the shape says something else than is meant (see"
        " ``Variable.of``).",
        "batched": "names of the arguments whose first axis is the batch, or True for all.",
    },
    "a function of arrays of float32 or int32, whose results have the shapes that ``evaluate`` gives.",
    "the arguments, where the function is differentiable",
)


# How the arrays of a framework, with any number of channels, lie in Variables of at most four components.

Parts = tuple[Variable, ...]
"""The Variables that hold one array: each has the next one to four of its channels."""


class Spec(NamedTuple):
    """The shape and type ("float32" or "int32") of an array: what a program is made for."""

    shape: tuple[int, ...]
    dtype: str


def spec_of(array: Any) -> Spec:
    """The spec of an array, or of a tensor of PyTorch."""
    return Spec(tuple(array.shape), str(array.dtype).removeprefix("torch."))


@dataclass(frozen=True)
class Layout:
    """An array of ``shape`` as Variables of these types, one after the other along its last axis
    (``channels``), or as one Variable.

    count: the number of entries where the array holds lists; None where it holds images.
    """

    shape: tuple[int, ...]
    vtypes: tuple[VType, ...]
    size: Size
    batch: int
    count: int | None = None

    def leaves(self, name: str) -> Parts:
        """New leaves for such an array."""
        return tuple(Variable(v, self.size, self.batch, name=name, count=self.count) for v in self.vtypes)

    def split(self, array: Any) -> list[Any]:
        """The array of each leaf, without a copy where one leaf holds it all and a list needs no padding."""
        if len(self.vtypes) == 1:
            return [self._placed(array, self.vtypes[0])]
        return [self._placed(array[..., own], v) for own, v in zip(self._ranges(), self.vtypes, strict=True)]

    def _ranges(self) -> Iterator[slice]:
        """The channels of each Variable."""
        ends = accumulate((v.components for v in self.vtypes), initial=0)
        return starmap(slice, pairwise(ends))

    def _placed(self, part: Any, vtype: VType) -> Any:
        width, height = self.size
        if self.count is not None and self.count != width * height:
            entries = part.reshape(self.batch, self.count, *vtype.shape)
            part = zeros(part, (self.batch, width * height, *vtype.shape))
            part[:, : self.count] = entries
        return part.reshape(self.batch, height, width, *vtype.shape)

    def join(self, parts: Sequence[Any]) -> Any:
        """The array of these values of the leaves."""
        if self.count is not None:
            parts = [list_values(part, self.count) for part in parts]
        if len(parts) == 1:
            return parts[0].reshape(self.shape)
        found = empty(parts[0], self.shape)
        for part, own, v in zip(parts, self._ranges(), self.vtypes, strict=True):
            found[..., own] = part.reshape(*self.shape[:-1], v.components)
        return found


def channels(count: int, *, integer: bool = False) -> tuple[VType, ...]:
    """The types that hold so many channels: as many VEC4 as fit, and the rest."""
    whole = (vector_type(4, integer=integer),) * (count // 4)
    return (*whole, vector_type(count % 4, integer=integer)) if count % 4 else whole


def image(spec: Spec) -> Layout:
    """Images (N, H, W, C)."""
    batch, height, width, count = spec.shape
    return Layout(spec.shape, channels(count), (width, height), batch)


def entries(spec: Spec) -> Layout:
    """Lists (V, C), shared by all images, or (N, V, C)."""
    *batch, count, components = spec.shape
    vtypes = channels(components, integer=spec.dtype == "int32")
    return Layout(spec.shape, vtypes, list_size(count), batch[0] if batch else 1, count)


STEPS = 8
"""How many lengths of lists there are from one power of two to the next."""


def with_room(values: Any) -> Any:
    """A list (..., V, C) padded with zeros to one of few lengths, at most an eighth more, so that similar
    meshes share a program: vertices at zero and degenerate triangles are not drawn."""
    count = values.shape[-2]
    step = max((1 << count.bit_length() - 1) // STEPS, 1)
    more = -count % step
    if not more:
        return values
    padded = zeros(values, (*values.shape[:-2], count + more, values.shape[-1]))
    padded[..., :count, :] = values
    return padded


def computed(parts: Sequence[Variable], shape: tuple[int, ...]) -> Layout:
    """The layout of an array of this shape that a graph has computed, as Variables of one domain."""
    return Layout(shape, tuple(part.vtype for part in parts), parts[0].size, parts[0].batch, parts[0].count)


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of any array or nested lists; () without one, which is refused where it is read."""
    try:
        return tuple(np.shape(value))
    except ValueError:
        return ()


# Sentences about arrays that do not fit.

Axes = tuple[str | int, ...]
"""The shape that is asked for: numbers, and names of axes of any length."""


def need(name: str, given: Spec, dtype: str, *shapes: Axes) -> dict[str, int]:
    """The lengths of the named axes of an array that has one of these shapes. Raises InputError."""
    for axes in shapes:
        if len(axes) == len(given.shape) and all(
            isinstance(axis, str) or axis == n for axis, n in zip(axes, given.shape)
        ):
            break
    else:
        raise InputError(f"{name} has the shape {' or '.join(map(_text, shapes))}, not {given.shape}")
    if given.dtype != dtype:
        raise InputError(f"{name} holds {dtype}, not {given.dtype}; convert it")
    if 0 in given.shape:
        raise InputError(f"{name} is empty: its shape is {given.shape}")
    return {axis: n for axis, n in zip(axes, given.shape) if isinstance(axis, str)}


def _text(axes: Axes) -> str:
    return f"({', '.join(map(str, axes))})"


def same(what: str, one: str, first: int, other: str, second: int, *, broadcasts: bool = False) -> None:
    """Raises InputError unless two lengths are equal; broadcasts: the second may be 1."""
    if first != second and not (broadcasts and second == 1):
        raise InputError(f"{other} has {second} {what}, and {one} has {first}")


def one_of(what: str, value: object, names: object) -> None:
    """Raises InputError unless the value is one of the names."""
    if value not in list(names):  # type: ignore[call-overload]
        raise InputError(f"{what} is one of {', '.join(map(repr, names))}, not {value!r}")  # type: ignore[call-overload]


def resolution_of(value: object) -> tuple[int, int]:
    """(height, width). Raises InputError."""
    try:
        height, width = (whole(n, "a resolution", 1) for n in value)  # type: ignore[attr-defined]
    except (GraphError, TypeError, ValueError):
        raise InputError(
            f"the resolution is (height, width), two whole numbers above 0, not {value!r}"
        ) from None
    return height, width


# A function of Variables as an operation on arrays.


@dataclass(frozen=True)
class Wrapped(Operation):
    """``function`` maps Variables to Variables. Arrays are read as ``Variable.of`` reads them."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    types: tuple[VType | None, ...]
    """Of the inputs; None: what ``Variable.of`` finds."""
    batched: tuple[bool, ...]
    """Whether the first axis of an input is the batch."""

    def check_count(self, given: int, kind: str) -> None:
        """Raises InputError unless there is one array an argument. kind: the framework's word for arrays."""
        if given != len(self.names):
            raise InputError(f"the wrapped function takes {', '.join(self.names)}, not {given} {kind}")

    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        return tuple(layout.shape for layout in _built(self, given)[1])

    def output_types(self, *given: Spec) -> tuple[str, ...]:
        return tuple(np.dtype(layout.vtypes[0].dtype).name for layout in _built(self, given)[1])

    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        found = []
        for spec, vtype, batched in zip(given, self.types, self.batched, strict=True):
            blank = np.broadcast_to(np.zeros((), spec.dtype), spec.shape)
            if vtype is not None and blank.ndim - len(vtype.shape) > 3:
                raise InputError(
                    f"an array of shape {spec.shape} has channels, which functions of {vtype} do not take "
                    "from other libraries; give (batch, height, width)"
                )
            vtype, size, batch, count, _ = layout_of(blank, vtype, batched)
            found.append(Layout(spec.shape, (vtype,), size, batch, count))
        return tuple(found)

    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        made = self.function(*(leaf for (leaf,) in inputs))
        outputs = list(made) if isinstance(made, list | tuple) else [made]
        if not outputs or not all(isinstance(y, Variable) for y in outputs):
            raise InputError(f"a wrapped function returns a Variable, or several in a tuple, not {made!r}")
        return tuple((y,) for y in outputs)


@lru_cache(maxsize=64)
def _built(operation: Wrapped, given: tuple[Spec, ...]) -> tuple[tuple[Parts, ...], tuple[Layout, ...]]:
    """The graph for arrays of these specs, and the layouts of its outputs."""
    leaves = [
        layout.leaves(name) for layout, name in zip(operation.layouts(*given), operation.names, strict=True)
    ]
    outputs = operation.graph(*leaves)
    return outputs, tuple(computed(y, _shape(y[0])) for y in outputs)


def _shape(y: Variable) -> tuple[int, ...]:
    """The shape in which ``evaluate`` gives a Variable: lists without padding, and without a batch of 1."""
    if y.count is None:
        return y.shape
    return (*(() if y.batch == 1 else (y.batch,)), y.count, *y.vtype.shape)


def wrapped(
    function: Callable[..., Any], types: dict[str, VType] | None, batched: Sequence[str] | bool
) -> Wrapped:
    """The operation of a function. Raises InputError.

    types: by name of the argument, where ``Variable.of`` cannot know.  batched: names of the arguments whose
    first axis is the batch; True for all of them.
    """
    if not callable(function):
        raise InputError(f"wrap takes a function from Variables to Variables, not {function!r}")
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not parameters or any(p.kind not in kinds for p in parameters):
        raise InputError("a wrapped function has positional arguments alone: one for each array")
    names = tuple(p.name for p in parameters)
    chosen = names if batched is True else tuple(batched or ())
    unknown = [name for name in (*(types or {}), *chosen) if name not in names]
    if unknown:
        raise InputError(f"the wrapped function has no argument {unknown[0]!r}; it has {', '.join(names)}")
    found = tuple((types or {}).get(name) for name in names)
    return Wrapped(function, names, found, tuple(name in chosen for name in names))


# Libraries that dressi can do without.


def library(name: str, extra: str) -> Any:
    """A library that an extra of dressi installs. Raises InputError where it is missing or broken.

    extra: what ``pip install 'dressi[...]'`` names.
    """
    try:
        return import_module(name)
    except (ImportError, OSError) as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        state = "which is not installed" if missing else f"which does not load ({error})"
        raise InputError(f"dressi.{extra} needs {name}, {state}: pip install 'dressi[{extra}]'") from None
