"""The kinds of figures, each with the functions that draw it, by class."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from html import escape
from typing import Any


@singledispatch
def svg(value: Any) -> str | None:
    """The figure as SVG; None for classes without one."""
    return None


@singledispatch
def png(value: Any) -> bytes | None:
    """The figure as PNG; None for classes without one."""
    return None


@singledispatch
def html(value: Any) -> str | None:
    """The figure as a part of a page; None for classes without one."""
    return None


KINDS: dict[str, Callable[[Any], Any]] = {"svg": svg, "png": png, "html": html}


def draw(kind: str, value: Any) -> Any:
    """The figure of that kind, one of KINDS; None where the class of the value has none."""
    return KINDS[kind](value)


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """An HTML table of values, written as text. A cell of HTML is given as ``Raw``."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td {_LEFT}>{cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_LEFT = 'style="text-align:left;vertical-align:top"'


class Raw(str):
    """Text that is HTML."""


def cell(value: Any) -> str:
    """A value as HTML; lines stay lines."""
    return value if isinstance(value, Raw) else escape(str(value)).replace("\n", "<br>")


def image(data: bytes, text: str) -> str:
    """A PNG as a part of a page.  text: for readers that do not see it."""
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{b64encode(data).decode()}">'


def folded(title: str, content: str) -> str:
    """A part of a page that opens with a click."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def memory(count: float) -> str:
    """A number of bytes, in KiB or MiB."""
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"
