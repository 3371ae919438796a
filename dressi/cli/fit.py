"""`dressi fit`: shape and texture of an object from pictures. Its options are the rows of
``fitting.request.OPTIONS``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from dressi.cli.core.interrupt import imports
from dressi.errors import InputError


def fit(**given: Any) -> int:
    """Recover shape and texture from pictures of a mesh, or from photographs."""
    with imports():
        from dressi.cli.fitting.request import Request
        from dressi.cli.fitting.run import run_fit

    request = Request().changed(given)
    if request.many is not None:
        with imports():
            from dressi.cli.many.run import run_many

        return run_many(request.many, request)
    if request.ray or request.workers is not None:
        raise InputError(
            f"--{'ray' if request.ray else 'workers'} is for a list of objects; give --many list.csv with it"
        )
    return run_fit(request)


# The parser sees no options until it needs them: their table imports NumPy, and other commands start without.
fit.__signature__ = inspect.Signature()  # type: ignore[attr-defined]


class FitCommand(TyperCommand):
    """The command with the options of its table, which is imported on demand. call: takes their values."""

    call: Callable[..., Any] = staticmethod(fit)

    def get_params(self, ctx: Any) -> list[Any]:
        if not self.params:
            with imports():
                from dressi.cli.fitting.request import OPTIONS

            made = parsed(OPTIONS, self.call)
            self.params, self.callback = made.params, made.callback
        return super().get_params(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options of each group under its heading."""
        from dressi.cli.fitting.request import GROUPS, OPTIONS

        params = {param.name: param for param in self.get_params(ctx)}
        for group in GROUPS:
            names = [name for name, row in OPTIONS.items() if row.option.group == group]
            with formatter.section(group):
                formatter.write_dl([params[name].get_help_record(ctx) for name in names])
        others = [param.get_help_record(ctx) for name, param in params.items() if name not in OPTIONS]
        with formatter.section("Help"):
            formatter.write_dl(others)


def parsed(options: dict[str, Any], call: Any) -> Any:
    """A command that parses the rows and calls ``call`` with their values by name."""

    def function(**given: Any) -> Any:
        return call(**given)

    kinds, only = {name: _kind(row) for name, row in options.items()}, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(k, only, default=options[k].default, annotation=kinds[k]) for k in kinds]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = kinds
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(function)
    return typer.main.get_command(app)


def _kind(row: Any) -> Any:
    kind = row.kind | None if row.automatic else row.kind
    negative = f"/--no-{row.flag[2:]}" if row.kind is bool and row.automatic else ""
    return Annotated[kind, typer.Option(row.flag + negative, help=row.option.help)]
