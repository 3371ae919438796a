"""`dressi report`: the page of a fit or of benchmarks."""

from pathlib import Path
from typing import Annotated

import typer

from dressi.cli.core.interrupt import imports


def report(
    folder: Annotated[
        Path, typer.Argument(help="What `dressi fit --out` or `dressi bench all --out` wrote.", metavar="DIR")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The file to write. Default: report.html in the folder.")
    ] = None,
) -> None:
    """Make one HTML page of a folder of results, which needs no network and no other file."""
    with imports():
        from dressi.report import write_report

    path = write_report(folder, out)
    print(f"the page is '{path}' ({path.stat().st_size / 1e6:.1f} MB)")
