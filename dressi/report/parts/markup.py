"""HTML as values. Text is escaped wherever it enters, so that what files say never becomes markup."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

VOID = {"input", "img", "meta", "br", "col"}
"""Elements without content."""


class Markup(str):
    """Text that is HTML already."""


def element(tag: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element. children: Markup stands as it is, None is left out, everything else is escaped; lists are
    flattened.

    attributes: `class_` and `for_` lose their underscore, other underscores become hyphens; True is an
    attribute without a value, None and False are left out.

    >>> element("p", "a < b", class_="note", data_k=1)
    '<p class="note" data-k="1">a &lt; b</p>'
    """
    said = "".join(_attribute(key, value) for key, value in attributes.items())
    if tag in VOID:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{joined(*children)}</{tag}>")


def joined(*children: Any) -> Markup:
    """Children one after the other, escaped where they are not Markup.

    >>> joined("a & b", None, [Markup("<br>"), 2])
    'a &amp; b<br>2'
    """
    return Markup("".join(_flat(children)))


def _flat(children: Iterable[Any]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            yield child
        elif isinstance(child, list | tuple):
            yield from _flat(child)
        else:
            yield escape(str(child), quote=False)


def _attribute(key: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def section(title: str, *children: Any, note: Any = None, identity: str | None = None) -> Markup:
    """A part of the page with its heading. note: a paragraph under the heading."""
    head = [element("h2", title), None if note is None else element("p", note, class_="note")]
    return element("section", head, *children, id=identity)


def figures(pairs: Sequence[tuple[str, str | None, str]]) -> Markup:
    """Key figures: (label, value, unit or remark); those without a value are left out."""
    cells = [
        element("div", element("dt", label), element("dd", value, element("small", unit)))
        for label, value, unit in pairs
        if value is not None
    ]
    return element("dl", cells, class_="figures")


def table(
    head: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    *,
    caption: str | None = None,
    text_columns: int = 1,
    classes: Sequence[str | None] | None = None,
) -> Markup:
    """A table that scrolls by itself where the window is narrow. The first ``text_columns`` are set left, the
    others right.

    rows: one of a single cell is a heading of those below it.  classes: of the rows.
    """
    rows = list(rows)
    marks = classes or [None] * len(rows)
    body = [_row(row, text_columns, len(head), mark) for row, mark in zip(rows, marks, strict=True)]
    kinds = [None if k < text_columns else "n" for k in range(len(head))]
    top = [element("th", cell, class_=kind, scope="col") for cell, kind in zip(head, kinds, strict=True)]
    title = None if caption is None else element("caption", caption)
    grid = element("table", title, element("thead", element("tr", top)), element("tbody", body))
    label = caption or str(head[0])
    return element("div", grid, class_="scroll", tabindex="0", role="region", aria_label=label)


def _row(row: Sequence[Any], text_columns: int, width: int, mark: str | None) -> Markup:
    if len(row) == 1:
        return element("tr", element("th", row[0], colspan=width, scope="rowgroup"), class_="group")
    first, *rest = row
    cells = [element("td", cell, class_=None if k < text_columns else "n") for k, cell in enumerate(rest, 1)]
    return element("tr", element("th", first, scope="row"), cells, class_=mark)


def details(summary: Any, *children: Any, opened: bool = False) -> Markup:
    """A part that opens when its summary is clicked."""
    return element("details", element("summary", summary), *children, open=opened)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def dictionary(value: Any) -> dict[str, Any]:
    """The value; an empty one where it is no dictionary, as files may have it."""
    return value if isinstance(value, dict) else {}


def number(value: Any, digits: int = 3) -> str:
    """A number with so many significant digits, grouped; a dash where there is none.

    >>> number(1234.5), number(0.012345), number(None), number(3)
    ('1,234', '0.0123', '–', '3')
    """
    if not is_number(value) or not math.isfinite(value):
        return "–"
    if isinstance(value, int) or value == 0:
        return f"{value:,.0f}"
    size = abs(value)
    if size >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    if size < 1e-4:
        return f"{value:.{digits - 1}e}"
    if size >= 1:
        return f"{value:.{max(digits - len(str(int(size))), 0)}f}"
    lead = 0
    while size * 10 ** (lead + 1) < 1:
        lead += 1
    return f"{value:.{digits + lead}f}"


def duration_text(ms: float | None) -> str:
    """Milliseconds without false precision: what is below a microsecond is said so.

    >>> duration_text(1.6e-6), duration_text(12.345), duration_text(None)
    ('< 0.001', '12.3', '–')
    """
    return "< 0.001" if ms is not None and 0 <= ms < 0.001 else number(ms)


def size_text(count: Any) -> str:
    """Bytes with a unit.

    >>> size_text(2048), size_text(3_500_000)
    ('2.0 KiB', '3.3 MiB')
    """
    if not is_number(count):
        return "–"
    if count < 1024:
        return f"{count:.0f} bytes"
    for power, unit in enumerate(("KiB", "MiB"), start=1):
        if count < 1024 ** (power + 1):
            return f"{count / 1024**power:.1f} {unit}"
    return f"{count / 1024**3:.1f} GiB"
