"""`dressi report`: one HTML page of the folder of a fit or of benchmarks, which needs no network and no other
file.

`write_report(folder)` is all there is to call.

>>> import tempfile
>>> write_report(tempfile.mkdtemp())
Traceback (most recent call last):
    ...
dressi.errors.InputError: '...' holds no results ...
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InputError
from ..render.io.files import usable, write_files
from .bench.page import bench_page
from .bench.tables import BenchFolder
from .fit import MESH, REPORT, FitFolder, fit_page
from .parts.model import page_model
from .parts.page import MOST_BYTES

__all__ = ["PAGE", "write_report"]
PAGE = "report.html"
SIDES = (640, 400, 256, 128)
"""Pixels of the longer side of a picture, the first with which the page is small enough."""


def write_report(folder: str | os.PathLike, out: str | os.PathLike | None = None) -> Path:
    """Write the page of a folder and return its path.

    folder: what `dressi fit --out` or `dressi bench all --out` wrote, or one with files of `dressi bench CASE
    --json`.
    out: the file to write; by default ``report.html`` in the folder. It replaces an older one. The page has
    less than 10 MB: where a model or pictures are larger, smaller ones are shown, and the page says so.

    Raises InputError: no such folder, nothing in it that can be shown, damaged files, or a place that cannot
    be written.
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise InputError(
            f"'{folder}' {what}; name the folder that `dressi fit --out` or `dressi bench all --out` wrote"
        )
    html = _page(folder)
    path = folder / PAGE if out is None else Path(out)
    write_files({path: html})
    return path


def _page(folder: Path) -> bytes:
    if (folder / REPORT).exists():
        fit = FitFolder.read(folder)
        model, html = page_model(folder / MESH), b""
        for side in SIDES:
            with usable(folder / REPORT, "its report"):
                html = fit_page(fit, model, side).html()
            if len(html) <= MOST_BYTES:
                return html
        raise InputError(
            f"the page of '{folder}' would have {len(html):,} bytes; fit with fewer views or faces"
        )
    bench = BenchFolder.read(folder)
    if bench is None:
        fits = sorted(file.parent.name for file in folder.glob(f"*/{REPORT}"))
        if fits:
            raise InputError(
                f"'{folder}' holds the results of {len(fits)} fits, each in a folder of its own; name one, such as"
                f" '{folder / fits[0]}'"
            )
        raise InputError(
            f"'{folder}' holds no results of `dressi fit` ({REPORT}) or `dressi bench` (JSON files); name the folder of one"
        )
    with usable(folder, "its results"):
        return bench_page(bench).html()
