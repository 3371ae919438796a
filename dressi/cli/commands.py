"""The commands as one program, and what its user is told when one of them fails."""

import functools
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from dressi import __version__
from dressi.cli.bench_command import bench
from dressi.cli.core.terminal import say
from dressi.cli.count import count
from dressi.cli.devices import devices
from dressi.cli.doctor.command import doctor
from dressi.cli.fit import FitCommand, fit
from dressi.cli.report_command import report
from dressi.cli.view import view
from dressi.config import config
from dressi.errors import DressiError, InputError

app = typer.Typer(
    name="dressi",
    help="Differentiable rendering on any Vulkan device.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _Interrupted(BaseException):
    """Ctrl-C inside a command, under a name that the parser does not handle: it would exit without a word."""


def _command(function: Callable[..., Any]) -> None:
    @functools.wraps(function)
    def run_it(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except KeyboardInterrupt:
            raise _Interrupted from None

    if function is fit:
        FitCommand.call = staticmethod(run_it)
    app.command(cls=FitCommand if function is fit else None)(run_it)


for _function in (devices, doctor, fit, bench, count, report, view):
    _command(_function)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"dressi {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Differentiable rendering on any Vulkan device."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 done, 2 bad input, or what the command says.

    Raises KeyboardInterrupt and BrokenPipeError, and what is a mistake of this program.
    """
    warnings.showwarning = _warn
    try:
        code = app(arguments, prog_name="dressi", standalone_mode=False)
    except _Interrupted:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        raise
    except Exception as error:
        message = _sentence(error)
        if message is None or _debugging():
            raise
        say(f"dressi: error: {message}")
        return 2
    return code if isinstance(code, int) else 0


def _sentence(error: BaseException) -> str | None:
    """What the user is told, on one line; None for errors that are ours to mend."""
    if isinstance(error, DressiError):
        first, *rest = str(error).strip().splitlines() or [type(error).__name__]
        return f"{first} (DRESSI_DEBUG=1 shows all)" if rest else first
    if hasattr(error, "format_message"):  # an option or argument that the parser refuses
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "dressi"
        return f"{error.format_message().rstrip('.')}; see `{command} --help`"  # type: ignore[attr-defined]
    if isinstance(error, OSError) and error.strerror:
        name = error.filename if error.filename is not None else "a file"
        return f"{name}: {error.strerror}; choose another folder or file, or free some space"
    if type(error).__module__.split(".")[0] == "vulkan":
        return f"the Vulkan driver reports {type(error).__name__}; try a smaller --size, or another --device"
    if isinstance(error, MemoryError):
        return "the machine is out of memory; use a smaller --size or fewer --views"
    return None


def _debugging() -> bool:
    try:
        return config.debug >= 1
    except InputError:
        return False


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    say(f"dressi: warning: {' '.join(str(message).split())}")


if "PYTHONWARNINGS" not in os.environ:
    # Warnings of libraries are for programmers; our own are UserWarning and RuntimeWarning.
    warnings.filterwarnings("ignore", category=DeprecationWarning)
