"""Options as rows of a table: one row gives the field of a record, its check, its sentence, and its place on
a command line.

    @described
    @dataclass(frozen=True)
    class Blur:
        width: float = option(1.0, "Standard deviation in pixels.", least=0, most=64)
        edge: str = option("clamp", "What lies beyond the border.", choices=("clamp", "zero"))

        def __post_init__(self) -> None:
            check_rows(self)

A command line reads ``rows(Blur)``, and so do lists of jobs; reports and checkpoints hold the values.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from ....errors import InputError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """A row. help: a sentence for users, who know options by their names on a command line.

    group: the heading under which it is listed.  least, most: its range.  inside: whether the ends are left
    out.  choices: its values, if they are names.  check: raises InputError for other values that cannot be.
    example: what a message proposes; None: the default.

    command: whether a command line has it.  whole: it is of a list of jobs as a whole, not of one.  effect:
    whether results depend on it.  read: from its text in a list of jobs, and the folder of that list, to the
    value.  term: of a loss, whose weight it is: a class (``Term``).
    """

    help: str
    group: str
    least: float | None = None
    most: float | None = None
    inside: bool = False
    choices: Collection[str] | None = None
    check: Callable[[Any], object] | None = None
    example: Any = None
    command: bool = True
    whole: bool = False
    effect: bool = True
    term: Any = None
    read: Callable[[str, Path], Any] | None = None


@dataclass(frozen=True)
class Row:
    """An option of a record: its name there, the type of its values (None aside), whether None is one, and
    the default."""

    name: str
    kind: type
    automatic: bool
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """Its name on a command line."""
        return "--" + self.name.strip("_").replace("_", "-")

    @property
    def takes(self) -> str:
        """What it takes, for a sentence: "a whole number from 1 to 8"."""
        own = self.option
        if own.choices is not None:
            return f"one of {', '.join(own.choices)}"
        number = "a whole number" if self.kind is int else "a number"
        least, most = (
            None if x is None else f"{x:g}" if x % 1 else f"{x:.0f}" for x in (own.least, own.most)
        )
        if own.most is None or own.most >= 1e12:
            return number if least is None else f"{number}, at least {least}"
        return f"{number} between {least} and {most}" if own.inside else f"{number} from {least} to {most}"

    def check(self, value: Any) -> None:
        """Raise InputError, with the cure, for a value that cannot be."""
        own = self.option
        if value is None and self.automatic:
            return
        if own.check is not None:
            own.check(value)
        if self._allows(value):
            return
        example = self.default if own.example is None else own.example
        near = did_you_mean(value, own.choices) if own.choices is not None else ""
        cure = near or (f"; try {self.flag} {example}" if example is not None else "")
        raise InputError(f"{self.flag} is {self.takes}, not {value!r}{cure}")

    def _allows(self, value: Any) -> bool:
        own = self.option
        if own.choices is not None:
            return value in own.choices
        if self.kind not in (int, float):
            return True
        if isinstance(value, bool) or not isinstance(value, Integral if self.kind is int else Real):
            return False
        number: Any = value
        least = -math.inf if own.least is None else own.least
        most = math.inf if own.most is None else own.most
        return least < number < most if own.inside else least <= number <= most


def option(default: Any, help: str, group: str, **facts: Any) -> Any:
    """A field of a record, with its row. facts: those of ``Option``."""
    return field(default=default, metadata={"option": Option(help, group, **facts)})


def rows(record: type) -> dict[str, Row]:
    """The options of a record by their names, in order."""
    kinds, table = get_type_hints(record), {}
    for one in fields(record):
        if "option" in one.metadata:
            kind = kinds[one.name]
            parts = get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
            (plain,) = (part for part in parts if part is not type(None))
            plain = get_origin(plain) or plain
            table[one.name] = Row(one.name, plain, len(parts) > 1, one.default, one.metadata["option"])
    return table


def check_rows(record: Any) -> None:
    """Raise InputError for a value of a record that cannot be."""
    for name, row in rows(type(record)).items():
        row.check(getattr(record, name))


def described(record: type[T]) -> type[T]:
    """The record with its rows in its docstring."""
    lines = [f"    {name}: {row.option.help}" for name, row in rows(record).items()]
    record.__doc__ = "\n".join([(record.__doc__ or "").rstrip(), "", *lines, ""])
    return record
