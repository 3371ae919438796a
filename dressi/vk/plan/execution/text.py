"""Plans as text, for the cache on disk: what a plan is made from, as a digest, and the plan itself.

Both are written by one ``Writer``. It numbers every object that it meets: Functions with their outputs,
leaves, and the frozen records of plans (dataclasses). An object that was met before is a reference to its
number. What a plan is made from is written first, so that a plan refers to the Functions and leaves of its
program by numbers that are the same in every process that builds an equal graph:

    program   0: leaf FLOAT 64x48   1: Square of 0   2: the output of 1        -> digest, the key of the plan
    plan      3: SubStage of 1, reads 0, writes 2   4: Stage of 3   ...        -> the text that is stored

The text is JSON. Reading it makes Functions, Variables, enums, named tuples and dataclasses of dressi's
classes alone, and sets their fields; no code is in a text. What cannot be written so, such as a Function
whose class a user wrote (its code may change between processes), raises ``NotWritten``: its plans are made
anew in every process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum, Flag
from functools import cache, cached_property
from importlib import import_module
from typing import Any

import numpy as np

from ....ad.graph import Domain, Function, Variable
from ....ad.graph.includes import versions
from ....ad.graph.types import VType
from ....errors import DressiError
from ..analysis.dependencies import OldValue
from ..glsl.writer import ShaderSource
from ..lowering.scatter import InverseList

PACKAGES = ("dressi.ad.", "dressi.render.", "dressi.vk.plan.")
"""Where the classes of a text may come from."""


class NotWritten(Exception):
    """A value has no text."""


class NotRead(Exception):
    """A text that no ``Writer`` wrote, or that of another version of dressi."""


_FOLLOWING: dict[type, Callable[..., Variable]] = {InverseList: InverseList, OldValue: OldValue.of}
"""Leaves that planning adds, whose names and values follow from those of other leaves: what makes them."""


class Writer:
    """Writes values one after the other. objects: those that have numbers, in their order.

    Until ``digest``, leaves are written with what the planner may look at: their own data, of integers. After
    it, new Functions are written with the line of user code that they come from, as the number of a Function
    of the same line.
    """

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._number: dict[int, int] = {}  # by id; ``objects`` keeps them alive
        self._nodes: list[Any] = []
        self._classes: dict[type, int] = {}
        self._where: dict[str, int] = {}
        self._digested = False

    def digest(self, *values: Any) -> str:
        """A key of these values, equal for equal values in every process. Raises NotWritten."""
        text = self._text([self.write(v) for v in values])
        self._digested = True
        return hashlib.sha256(text.encode()).hexdigest()

    def text(self, value: Any) -> str:
        """A value that may refer to what was digested. Raises NotWritten."""
        return self._text(self.write(value))

    def _text(self, root: Any) -> str:
        names = [f"{kind.__module__}:{kind.__qualname__}" for kind in self._classes]
        text = json.dumps([names, self._nodes, root], separators=(",", ":"))
        self._classes, self._nodes = {}, []
        return text

    def write(self, value: Any) -> Any:
        """What stands for a value in JSON. Raises NotWritten."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if (number := self._number.get(id(value))) is not None:
            return [number]
        return _rule(kind)(self, value)

    # ---- values
    def _class(self, kind: type) -> int:
        if kind not in self._classes:
            if not kind.__module__.startswith(PACKAGES) or "." in kind.__qualname__:
                raise NotWritten(f"{kind.__qualname__} is no class of dressi's")
            self._classes[kind] = len(self._classes)
        return self._classes[kind]

    def _several(self, value: Iterable[Any]) -> Any:
        return [_TAGS[type(value)], *map(self.write, value)]

    def _set(self, value: Iterable[Any]) -> Any:
        return [_TAGS[type(value)], *sorted(map(self.write, value), key=json.dumps)]

    def _named(self, value: Any) -> Any:
        return ["n", self._class(type(value)), *map(self.write, value)]

    def _dict(self, value: dict[Any, Any]) -> Any:
        return ["d", *(self.write(x) for pair in value.items() for x in pair)]

    def _enum(self, value: Enum) -> Any:
        return ["e", self._class(type(value)), value.value if isinstance(value, Flag) else value.name]

    def _array(self, value: np.ndarray) -> Any:
        if value.dtype.hasobject:
            raise NotWritten("an array of objects")
        return ["a", value.dtype.str, list(value.shape), value.tobytes().hex()]

    def _bytes(self, value: bytes) -> Any:
        return ["b", value.hex()]

    def _range(self, value: range) -> Any:
        return ["r", value.start, value.stop, value.step]

    # ---- objects
    def _add(self, value: Any, node: list[Any]) -> list[int]:
        self._nodes.append(node)
        return [self._count(value)]

    def _count(self, value: Any) -> int:
        number = self._number[id(value)] = len(self.objects)
        self.objects.append(value)
        return number

    def _record(self, value: Any) -> Any:
        kind = type(value)
        if not vars(value).keys() <= _attributes(kind):
            raise NotWritten(f"{kind.__qualname__} has attributes that are no fields")
        return self._add(
            value, ["R", self._class(kind), *(self.write(getattr(value, n)) for n in _fields(kind))]
        )

    def _source(self, value: ShaderSource) -> Any:
        return self._add(value, ["S", str(value), self.write(value.reads)])

    def _variable(self, v: Variable) -> Any:
        if v.creator is not None:
            self._function(v.creator)
            return [self._number[id(v)]]
        node = ["V", self._class(type(v)), *_layout(v), *(self.write(getattr(v, n)) for n in _slots(type(v)))]
        if not self._digested:
            looked_at = v.data if v.vtype.is_int else None  # lists of indices
            node.append(None if looked_at is None else hashlib.sha256(looked_at.tobytes()).hexdigest())
        else:
            node.append(None if type(v) in _FOLLOWING else self.write(v.data))
        return self._add(v, node)

    def _function(self, last: Function) -> Any:
        """A Function behind those that it needs. Graphs are deep: this does not recurse along them."""
        stack, number = [last], self._number
        while stack:
            f = stack[-1]
            lacking = [m for x in f.inputs if (m := x.creator) is not None and id(m) not in number]
            stack += lacking
            if lacking:
                continue
            stack.pop()
            if id(f) not in number:
                self._count_function(f)
        return [number[id(last)]]

    def _count_function(self, f: Function) -> None:
        kind, own = type(f), f.own_state()
        inputs = [self.write(x)[0] for x in f.inputs]
        node = ["F", self._class(kind), *_layout(f.output), inputs, self.write(own) if own else None]
        node += (self.write(getattr(f, name)) for name in kind.fields)
        if not self._digested:
            node += versions(f)
            self._where.setdefault(f.where, len(self.objects))
        else:
            node.append(self._where.get(f.where))
        self._add(f, node)
        self._count(f.output)


_PLAIN = (type(None), bool, int, float, str)
_TAGS = {tuple: "t", list: "l", set: "s", frozenset: "f"}


@cache
def _rule(kind: type) -> Callable[[Writer, Any], Any]:
    """How values of a class are written. Raises NotWritten."""
    rules: dict[type, Any] = {
        **dict.fromkeys((tuple, list), Writer._several), **dict.fromkeys((set, frozenset), Writer._set),
        dict: Writer._dict, bytes: Writer._bytes, range: Writer._range, ShaderSource: Writer._source,
        Function: Writer._function, Variable: Writer._variable, Enum: Writer._enum, np.ndarray: Writer._array,
    }  # fmt: skip
    for base in kind.__mro__:
        if base in rules and not (base is tuple and hasattr(kind, "_fields")):
            return rules[base]
    if is_dataclass(kind):
        return Writer._record
    if issubclass(kind, tuple):
        return Writer._named
    raise NotWritten(f"{kind.__qualname__} has no text")


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass."""
    return tuple(f.name for f in fields(kind))


@cache
def _attributes(kind: type) -> frozenset[str]:
    """The fields of a dataclass, and what its cached properties add to an instance."""
    added = (n for base in kind.__mro__ for n, x in vars(base).items() if isinstance(x, cached_property))
    return frozenset((*_fields(kind), *added))


@cache
def _slots(kind: type) -> tuple[str, ...]:
    """What a class of leaves adds to a Variable."""
    own = [vars(base).get("__slots__", ()) for base in kind.__mro__ if base not in Variable.__mro__]
    return tuple(name for names in own for name in names if not name.startswith("_"))


def _layout(v: Variable) -> tuple[Any, ...]:
    name = None if type(v) in _FOLLOWING else v.name
    return (v.vtype.name, *v.size, v.tiles, v.channels, name, v.count)


def read(text: str, objects: Sequence[Any]) -> Any:
    """The value that a ``Writer`` with these objects has written. Raises NotRead."""
    try:
        names, nodes, root = json.loads(text)
        reader = _Reader(list(objects), [_class_of(name) for name in names])
        for node in nodes:
            reader.add(node)
        return reader.value(root)
    except (ArithmeticError, AttributeError, DressiError, ImportError, LookupError, RecursionError, TypeError,
            ValueError) as error:  # fmt: skip
        raise NotRead(f"{type(error).__name__}: {error}") from error


def _class_of(name: str) -> type:
    module, _, name = name.partition(":")
    if not module.startswith(PACKAGES):
        raise NotRead(f"{module} has no classes of plans")
    found = getattr(import_module(module), name)
    if not isinstance(found, type) or found.__module__ != module:
        raise NotRead(f"{name} is no class of {module}")
    return found


class _Reader:
    """Makes values. objects: those that have numbers. Constructors do not run: fields are set as they are."""

    def __init__(self, objects: list[Any], classes: list[type]):
        self._objects, self._classes = objects, classes

    def _class(self, number: int, base: type = object) -> Any:
        kind = self._classes[number]
        if not issubclass(kind, base):
            raise NotRead(f"{kind.__qualname__} is no {base.__qualname__}")
        return kind

    def value(self, x: Any) -> Any:
        """The value that JSON stands for."""
        if type(x) is not list:
            return x
        match x:
            case [int(number)]:
                return self._objects[number]
            case ["t", *rest]:
                return tuple(map(self.value, rest))
            case ["l", *rest]:
                return list(map(self.value, rest))
            case ["s", *rest]:
                return set(map(self.value, rest))
            case ["f", *rest]:
                return frozenset(map(self.value, rest))
            case ["d", *rest]:
                return dict(zip(*[map(self.value, rest)] * 2, strict=True))
            case ["n", number, *rest]:
                return self._class(number, tuple)._make(map(self.value, rest))
            case ["e", number, str(name)]:
                return self._class(number, Enum)[name]
            case ["e", number, value]:
                return self._class(number, Flag)(value)
            case ["a", dtype, shape, data]:
                return np.frombuffer(bytes.fromhex(data), np.dtype(dtype)).reshape(shape).copy()
            case ["b", data]:
                return bytes.fromhex(data)
            case ["r", *rest]:
                return range(*rest)
        raise NotRead(f"{x} stands for no value")

    def add(self, node: list[Any]) -> None:
        """The next object."""
        match node:
            case ["R", number, *rest]:
                kind = self._class(number)
                record = object.__new__(kind)
                record.__dict__.update(zip(_fields(kind), map(self.value, rest), strict=True))
                self._objects.append(record)
            case ["S", str(source), reads]:
                self._objects.append(ShaderSource(source, {}, {}, self.value(reads)))
            case ["V", number, *rest]:
                self._objects.append(self._leaf(self._class(number, Variable), *rest))
            case ["F", number, *rest]:
                self._function(self._class(number, Function), rest)
            case _:
                raise NotRead(f"{node} stands for no object")

    def _leaf(self, kind: Any, vtype: str, *layout: Any) -> Variable:
        width, height, tiles, channels, name, count, *own, data = layout
        added = dict(zip(_slots(kind), map(self.value, own), strict=True))
        if kind in _FOLLOWING:
            return _FOLLOWING[kind](**added)
        batch = tiles // channels
        leaf = kind(VType[vtype], (width, height), batch, name=name, count=count, channels=channels)
        leaf.data = self.value(data)
        for name, value in added.items():
            setattr(leaf, name, value)
        return leaf

    def _function(self, kind: Any, node: list[Any]) -> None:
        vtype, width, height, tiles, channels, name, count, inputs, own, *rest, where = node
        f = object.__new__(kind)
        f.inputs = tuple([self._objects[number] for number in inputs])
        f.where = "" if where is None else self._objects[where].where
        for field, value in zip(kind.fields, rest, strict=True):
            setattr(f, field, self.value(value))
        f.__dict__.update(self.value(own) or {})
        f.output = Variable.made(f, VType[vtype], Domain((width, height), tiles, channels), name)
        f.output.count = count
        self._objects += (f, f.output)
