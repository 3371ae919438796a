"""The reference as Markdown pages, one for each public module, from signatures and docstrings.

    python -m dressi.docs.reference out/reference

``dressi``, ``dressi.F``, ``dressi.optim`` and ``dressi.render`` list what their ``__all__`` names. Packages
below ``dressi.render`` list the public classes and functions of their modules. Other packages beside them,
which may need extras, have a page if they have an ``__all__`` and can be imported.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from dressi.errors import DressiError, InputError

FRONT = ("dressi", "dressi.F", "dressi.optim", "dressi.networks", "dressi.schedules", "dressi.render")
"""Public names of modules, as a user imports them; ``F``, ``optim``, ``networks`` and ``schedules`` are
attributes of ``dressi``."""
INTERNAL = frozenset({"ad", "cli", "docs", "render", "vk"})
"""Packages of dressi without a page of their own, or with one of FRONT."""
LIBRARIES = frozenset({"jax", "numpy", "torch"})
"""Modules of dressi for the arrays of a library, with a page where it is installed."""
CODE = re.compile(r"(``.*?``|`[^`\n]*`)", re.DOTALL)


@dataclass(frozen=True)
class Page:
    """One page.  names: what it documents, by the name under which it is shown, in groups with a title."""

    module: str
    text: str
    groups: Mapping[str, Mapping[str, Any]]

    @property
    def file(self) -> str:
        return f"{self.module}.md"

    @property
    def names(self) -> dict[str, Any]:
        return {name: value for group in self.groups.values() for name, value in group.items()}


def pages() -> Iterator[Page]:
    """All pages, in the order of the index."""
    package = import_module("dressi")
    for name in FRONT:
        module = package
        for part in name.split(".")[1:]:
            module = getattr(module, part)
        yield Page(name, text_of(module), {"": _listed(module)})
    for info in pkgutil.walk_packages(import_module("dressi.render").__path__, "dressi.render."):
        if info.ispkg:
            inner = import_module(info.name)
            yield Page(info.name, text_of(inner), _by_module(inner))
    for info in pkgutil.iter_modules(package.__path__, "dressi."):
        name = info.name.rpartition(".")[2]
        if name in LIBRARIES or (info.ispkg and name not in INTERNAL):
            try:
                module = import_module(info.name)
            except (DressiError, ImportError) as error:
                print(f"{info.name} is left out: {error}", file=sys.stderr)
                continue
            if hasattr(module, "__all__"):
                yield Page(info.name, text_of(module), {"": _listed(module)})


def _listed(module: ModuleType) -> dict[str, Any]:
    """What ``__all__`` names, without modules."""
    values = {name: getattr(module, name) for name in module.__all__}
    return {name: value for name, value in values.items() if not isinstance(value, ModuleType)}


def _by_module(package: ModuleType) -> dict[str, dict[str, Any]]:
    """Public classes and functions with a docstring, by the module of the package that defines them."""
    inside = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    groups = {}
    for name in [package.__name__, *(info.name for info in inside if not info.ispkg)]:
        public = {key: value for key, value in vars(import_module(name)).items() if key[0] != "_"}
        groups[name] = {
            key: value
            for key, value in public.items()
            if getattr(value, "__module__", "") == name
            and (inspect.isroutine(value) or inspect.isclass(value))
            and text_of(value)
        }
    return {name: group for name, group in groups.items() if group}


def text_of(value: Any) -> str:
    """The docstring of a class, function or module itself, or that of the class of another value. Empty where
    there is none; the one that dataclasses make of their signature does not count."""
    own = value if isinstance(value, type | FunctionType | ModuleType) else type(value)
    if isinstance(own, type) and not own.__module__.startswith("dressi"):
        return ""  # a plain value, such as a number or a kind of values
    text = inspect.cleandoc((vars(own).get("__doc__") if isinstance(own, type) else own.__doc__) or "")
    return "" if text.startswith(f"{own.__name__}(") else text


def signature(name: str, value: Any) -> str:
    """``name(arguments) -> result`` of callables; else the name. Objects as defaults are shown as ``...``."""
    if not callable(value) or (isinstance(value, type) and issubclass(value, Exception)):
        return name
    try:
        own = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    shown = [
        p if p.default is p.empty else p.replace(default=_Shown(p.default))
        for p in own.parameters.values()
        if p.name != "self"
    ]
    text = str(own.replace(parameters=shown))
    return name + re.sub(r"ForwardRef\(([^()]*)\)", r"\1", text.replace("'", ""))


class _Shown:
    """A default as it is printed."""

    def __init__(self, value: Any):
        self.text = repr(value)

    def __repr__(self) -> str:
        return "..." if re.search(r"[<]|\w\(", self.text) else self.text


def members(cls: type) -> dict[str, Any]:
    """Public methods and properties of a class with a docstring, with those of its base classes in dressi."""
    kinds = (FunctionType, classmethod, staticmethod, property, cached_property)
    return {
        name: value
        for base in reversed(cls.__mro__)
        if base.__module__.startswith("dressi")
        for name, value in vars(base).items()
        if name[0] != "_" and isinstance(value, kinds) and inspect.getdoc(value)
    }


def markdown(text: str, arguments: Collection[str] = ()) -> str:
    """A docstring as Markdown: examples and indented parts become code; signs of Markdown are escaped.
    arguments: names that begin an item of a list where they begin a line."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", text) if text else ():
        lines = paragraph.split("\n")
        if lines[0].lstrip().startswith(">>>"):
            parts.append("```python\n" + inspect.cleandoc(paragraph) + "\n```")
        elif all(line.startswith(("    ", "\t")) for line in lines if line):
            parts.append("```text\n" + paragraph + "\n```")
        elif lines[0].lstrip().startswith("|"):
            parts.append("\n".join(line.strip() for line in lines))
        else:
            parts.append(_prose(lines, arguments))
    return "\n\n".join(parts)


def _prose(lines: Sequence[str], arguments: Collection[str]) -> str:
    shown = []
    for line in lines:
        named = re.match(r"(\w+)(?:, \w+)*: ", line)
        escaped = [re.sub(r"([*_<\[\]])", r"\\\1", part) for part in CODE.split(line)[::2]]
        codes = [*CODE.split(line)[1::2], ""]
        text = "".join(part for pair in zip(escaped, codes) for part in pair)
        shown.append(f"- {text}" if named and named[1] in arguments else text)
    return "\n".join(shown)


def arguments(value: Any) -> list[str]:
    """Names of the arguments of what can be called."""
    try:
        return list(inspect.signature(value).parameters) if callable(value) else []
    except (TypeError, ValueError):
        return []


def described(name: str, value: Any) -> Iterator[str]:
    """The lines of a name: how it is called, and its text, or the value itself if it has no docstring."""
    yield from ("```python", signature(name, value), "```", "")
    yield from (markdown(text_of(value), arguments(value)) or f"The value `{value!r}`.", "")
    for key, member in members(value).items() if isinstance(value, type) else ():
        call = getattr(member, "__func__", member)
        shown = signature(key, call) if isinstance(call, FunctionType) else key
        yield from (f"`{shown}`", "", markdown(inspect.getdoc(member) or "", arguments(call)), "")


def page_text(page: Page) -> str:
    """The whole page."""
    lines = [f"# {page.module}", "", markdown(page.text), ""]
    for title, group in page.groups.items():
        lines += [f"## {title}", "", markdown(text_of(sys.modules[title])), ""] if title else []
        for name, value in group.items():
            lines += [f"### {name}", "", *described(name, value)]
    return "\n".join(lines)


def write(folder: Path, say: Callable[[str], None] = print) -> dict[str, Page]:
    """Write all pages and an index; returns the pages by their file. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = {page.file: page for page in pages()}
        for file, page in made.items():
            (folder / file).write_text(page_text(page), encoding="utf-8")
        rows = [f"- [{p.module}]({file}): {p.text.partition(chr(10))[0]}" for file, p in made.items()]
        (folder / "index.md").write_text("# Reference\n\n" + "\n".join(rows) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"the reference cannot be written into '{folder}': {error.strerror}; give another folder"
        ) from None
    names = sum(len(page.names) for page in made.values())
    say(f"{len(made)} pages with {names} names in '{folder}', index.md first")
    return made


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 2 with a sentence on stderr."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m dressi.docs.reference FOLDER", file=sys.stderr)
        return 0 if arguments and arguments[0] in ("-h", "--help") else 2
    try:
        write(Path(arguments[0]))
    except DressiError as error:
        print(f"dressi: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
