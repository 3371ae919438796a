"""The command line `dressi`. Each command is a module beside this one; heavy imports stay inside its functions.

Every error that a user can cause ends in one sentence on stderr and exit code 2; `DRESSI_DEBUG=1` shows the traceback.
"""

import os
import sys
import warnings
from collections.abc import Sequence

import typer

from dressi.cli.bench import bench
from dressi.cli.devices import devices
from dressi.cli.fit import fit
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
app.command()(devices)
app.command()(fit)
app.command()(bench)


@app.callback(invoke_without_command=True)
def _main(context: typer.Context) -> None:
    """Differentiable rendering on any Vulkan device."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits: 0 done, 2 bad input, 130 interrupted."""
    warnings.showwarning = _warn
    try:
        code = app(arguments, prog_name="dressi", standalone_mode=False)
    except Exception as error:
        message = _sentence(error)
        if message is None or _debugging():
            raise
        print(f"dressi: error: {message}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("dressi: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


def _sentence(error: BaseException) -> str | None:
    """What the user is told, on one line; None for errors that are ours to mend."""
    if isinstance(error, DressiError):
        first, *rest = str(error).strip().splitlines() or [type(error).__name__]
        return f"{first} (DRESSI_DEBUG=1 shows all)" if rest else first
    if hasattr(error, "format_message"):  # an option or argument that the parser refuses
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "dressi"
        return f"{error.format_message().rstrip('.')}; see `{command} --help`"  # type: ignore[attr-defined]
    if type(error).__name__ == "Abort":
        return "interrupted"
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
    print(f"dressi: warning: {' '.join(str(message).split())}", file=sys.stderr)


if "PYTHONWARNINGS" not in os.environ:
    # Warnings of libraries are for programmers; our own are UserWarning and RuntimeWarning.
    warnings.filterwarnings("ignore", category=DeprecationWarning)
