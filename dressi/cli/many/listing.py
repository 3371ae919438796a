"""Reads and checks the list of `dressi fit --many`: a CSV file whose columns are options of `dressi fit`."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from dressi.cli.fitting.request import OPTIONS, Request, check_files, check_options
from dressi.cli.many.job import Job
from dressi.errors import InputError, shown
from dressi.render.fit.options.option import Row

NAME = "name"
MOST_BYTES, MOST_ROWS = 16 << 20, 100_000
LONGEST_CELL = 500
"""Characters: more than a path of a sane folder has."""
_FOLDER = re.compile(r"[\w][\w.+-]{0,99}")
_RESERVED = re.compile(
    r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*\.|fit\.lock|results\.(csv|json)", re.IGNORECASE
)


def read_list(path: Path, defaults: Request) -> list[Job]:
    """The jobs of a list, one a row, in its order; every row is checked, and no mesh or picture is read.

    defaults: the command line, whose options hold where a cell is empty. Raises InputError with the row.
    """
    header, rows = _read(path)
    columns = _columns(header, path)
    jobs: list[Job] = []
    lines: dict[str, int] = {}
    for line, cells in rows:
        try:
            job = _job(columns, cells, path.parent, defaults)
            if (before := lines.setdefault(job.name.lower(), line)) != line:
                raise InputError(
                    f"its name {job.name!r} is that of line {before} too; give each its own in a column {NAME!r}"
                )
        except InputError as error:
            raise InputError(f"'{path}', line {line}: {error}") from None
        jobs.append(job)
    return jobs


def _read(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and the rows with their line numbers. Raises InputError."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(
                f"--many '{path}' has more than {MOST_BYTES >> 20} MiB; give a list of objects as CSV"
            )
        text = path.read_bytes().decode("utf-8-sig")
        reader = csv.reader(text.splitlines(), strict=True, skipinitialspace=True)
        table = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except OSError as error:
        raise InputError(
            f"--many '{path}' cannot be read ({error.strerror}); give a CSV file with a header such as"
            " target,name,size"
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"--many '{path}' is no CSV file in UTF-8 ({error}); save it as one") from None
    table = [(line, row) for line, row in table if any(row)]
    if len(table) < 2:
        raise InputError(
            f"--many '{path}' lists no object; give a header such as target,name,size and a row for each object"
        )
    if len(table) > MOST_ROWS:
        raise InputError(f"--many '{path}' has more than {MOST_ROWS} rows; split it")
    (_, header), *rows = table
    for line, row in rows:
        if len(row) > len(header):
            raise InputError(
                f"'{path}', line {line}: it has {len(row)} cells under {len(header)} columns; quote cells with commas"
            )
        if (longest := max(map(len, row))) > LONGEST_CELL:
            raise InputError(
                f"'{path}', line {line}: a cell has {longest:,} characters, and options at most {LONGEST_CELL}"
            )
    return header, rows


def _columns(header: list[str], path: Path) -> list[Row | None]:
    """None is the column of names. Raises InputError."""
    own = {row.flag[2:]: row for row in OPTIONS.values()}
    columns: list[Row | None] = []
    seen: set[str] = set()
    for text in header:
        name = text.lstrip("-").replace("_", "-").lower()
        if name in seen:
            raise InputError(f"'{path}' has two columns '{shown(text)}'; remove one")
        seen.add(name)
        if name in own and own[name].option.whole:
            raise InputError(
                f"'{path}' has a column '{shown(text)}', which is of the whole list; give --{name} on the command line"
            )
        if name != NAME and name not in own:
            usable = ", ".join([NAME, *sorted(name for name, row in own.items() if not row.option.whole)])
            raise InputError(f"'{path}' has a column '{shown(text)}', which is no option; there are {usable}")
        columns.append(None if name == NAME else own[name])
    return columns


_YES, _NO = ("yes", "true", "1", "on"), ("no", "false", "0", "off")
_NUMBERS = {int: "a whole number", float: "a number"}


def _value(row: Row, text: str, folder: Path) -> Any:
    """The value of a cell. folder: that of the list, where paths start. Raises InputError."""
    if row.option.read is not None:
        return row.option.read(text, folder)
    if row.kind is bool:
        if text.lower() not in (*_YES, *_NO):
            raise InputError("give yes or no")
        return text.lower() in _YES
    if row.kind in _NUMBERS:
        try:
            return row.kind(text)
        except ValueError:
            raise InputError(f"it is not {_NUMBERS[row.kind]}") from None
    return (folder / Path(text).expanduser()).absolute() if row.kind is Path else text


def _job(columns: list[Row | None], cells: list[str], folder: Path, defaults: Request) -> Job:
    """Raises InputError."""
    values: dict[str, Any] = {}
    name = ""
    for column, cell in zip(columns, cells):
        if cell and column is None:
            name = cell
        elif cell and column is not None:
            try:
                values[column.name] = _value(column, cell, folder)
            except InputError as error:
                raise InputError(f"{column.flag[2:]} is '{shown(cell)}'; {error}") from None
    request = defaults.changed(values)
    check_options(request)
    check_files(request)
    source = request.target or request.photos
    assert source is not None
    name = name or (source.stem if request.target else source.name)
    if not _FOLDER.fullmatch(name) or _RESERVED.fullmatch(name):
        raise InputError(
            f"'{shown(name)}' cannot be the name of a folder of results; give letters, digits, '.', '+', '-' and '_'"
            f" in the column {NAME!r}"
        )
    return Job(name, replace(request, out=defaults.out.absolute() / name))
