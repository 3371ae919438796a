"""Sentences about arrays that do not fit."""

from __future__ import annotations

from ..ad.types import whole
from ..errors import GraphError, InputError
from .layout import Spec

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
