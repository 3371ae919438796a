"""`dressi view`: a mesh, or the result of a fit, in a window."""

from pathlib import Path
from typing import Annotated

import typer

from dressi.cli.interrupt import imports


def view(
    path: Annotated[
        Path, typer.Argument(help="A mesh, as for `dressi fit --target`, or the folder of a fit.")
    ],
    size: Annotated[str, typer.Option(help="Pixels of the window, N or WxH.")] = "1000x720",
    backend: Annotated[str, typer.Option(help="glfw, qt, or offscreen, which nobody sees.")] = "glfw",
    device: Annotated[
        str | None, typer.Option(help="Vulkan device, by name or index; see `dressi devices`.")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Write the first picture to this file (.png, .jpg, ...), and close the window."),
    ] = None,
) -> None:
    """Show a mesh in a window: turn it with the mouse, 1 to 4 choose what is shown, q closes."""
    with imports():
        from dressi.cli.viewing import run_view

    run_view(path, size, backend, device, picture)
