"""The house: which part may import which, and how long a file may be."""

import ast
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "dressi"
FILES = sorted(PACKAGE.rglob("*.py"))
EVERYWHERE = {"dressi.errors", "dressi.config", "dressi.engines", "dressi.figures", "dressi.lazy"}

# part -> parts of dressi that it may import, beside itself and EVERYWHERE; longer names win.
ALLOWED: dict[str, set[str]] = {
    "dressi.errors": set(),
    "dressi.config": set(),
    "dressi.engines": set(),
    "dressi.figures": set(),
    "dressi.lazy": set(),
    "dressi.ad": set(),
    "dressi.vk": {"dressi.ad"},
    "dressi.vk.plan": {"dressi.ad"},
    "dressi.render": {"dressi.ad"},
    "dressi.frameworks": {"dressi.ad", "dressi.render", "dressi.vk"},
    "dressi.jax": {"dressi.ad", "dressi.frameworks"},
    "dressi.numpy": {"dressi.ad", "dressi.frameworks"},
    "dressi.torch": {"dressi.ad", "dressi.frameworks"},
    "dressi.__main__": {"dressi.cli"},
    "dressi.viewer": {"dressi", "dressi.ad", "dressi.render", "dressi.vk"},
    "dressi.docs": set(),
    "dressi.notebook": {"dressi.ad", "dressi.render", "dressi.vk"},
    "dressi.report": {"dressi.render"},
    "dressi.cli": {"dressi", "dressi.ad", "dressi.render", "dressi.report", "dressi.viewer", "dressi.vk"},
    "dressi": {"dressi.ad", "dressi.notebook", "dressi.render", "dressi.vk"},
}
# Packages from outside that only one part may import.
OUTSIDE = {
    "vulkan": "dressi.vk.run",
    "typer": "dressi.cli",
    "rich": "dressi.cli",
    "tqdm": "dressi.cli",
    "rendercanvas": "dressi.viewer",
    "glfw": "dressi.viewer",
}

# Parts whose folders, too, import each other in one direction only.
LAYERED = ("dressi.ad", "dressi.cli", "dressi.render", "dressi.report", "dressi.vk.plan", "dressi.vk.run")


def module_name(file: Path) -> str:
    parts = file.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(file: Path) -> set[str]:
    """Full names of every module that the file imports, at any depth of the text."""
    package = module_name(file).split(".")
    if file.name != "__init__.py":
        package = package[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join(base + (node.module.split(".") if node.module else []))
            found.add(module)
            # `from dressi import vk` and `from .. import vk` import a part by its name.
            for alias in node.names:
                name = f"{module}.{alias.name}"
                path = REPOSITORY.joinpath(*name.split("."))
                if module.startswith("dressi") and (path.is_dir() or path.with_suffix(".py").is_file()):
                    found.add(name)
    return found


def inside(name: str, part: str) -> bool:
    return name == part or name.startswith(part + ".")


def part_of(name: str) -> str:
    return max((part for part in ALLOWED if inside(name, part)), key=len)


def forbidden(file: Path) -> list[str]:
    """The imports of a file that go against the arrows."""
    name = module_name(file)
    part = part_of(name)
    wrong = []
    for imported in sorted(imports(file)):
        if imported.split(".")[0] == "dressi":
            joined = imported == "dressi" and part != "dressi.cli"
            allowed = (ALLOWED[part] | {part} | EVERYWHERE) - {"dressi"}
            stranger = imported != "dressi" and not any(inside(imported, other) for other in allowed)
            device = part == "dressi.vk.plan" and inside(imported, "dressi.vk.run")
            if joined or stranger or device:
                wrong.append(imported)
        else:
            owner = OUTSIDE.get(imported.split(".")[0])
            if owner is not None and not inside(name, owner):
                wrong.append(f"{imported} (only {owner} may)")
    return wrong


def test_imports_follow_the_arrows():
    assert {module_name(file): wrong for file in FILES if (wrong := forbidden(file))} == {}


def test_the_ad_needs_only_numpy():
    known = {*sys.stdlib_module_names, "numpy", "dressi"}
    needed = {
        f: {name.split(".")[0] for name in imports(f)} for f in FILES if f.is_relative_to(PACKAGE / "ad")
    }
    assert {module_name(f): more for f, names in needed.items() if (more := names - known)} == {}


def folder(file: Path) -> str:
    """The folder that a module lies in: files count with the folder, that of the part itself too."""
    name = module_name(file)
    return name if file.name == "__init__.py" else name.rpartition(".")[0]


def arrows(part: str, group: Callable[[Path], str]) -> dict[str, set[str]]:
    """Which groups of modules of a part import which others, with imports at any depth of the text."""
    names = {module_name(file): group(file) for file in FILES if inside(module_name(file), part)}
    found: dict[str, set[str]] = {name: set() for name in names.values()}
    for file in FILES:
        name = module_name(file)
        if name in names:
            found[names[name]].update(
                names[i] for i in imports(file) if names.get(i, names[name]) != names[name]
            )
    return found


def on_circles(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """What remains of a graph when nodes that import nothing, and nodes that nothing imports, are taken away."""
    graph = dict(graph)
    while True:
        kept = {name: imported & graph.keys() for name, imported in graph.items()}
        used = set().union(*kept.values())
        kept = {name: imported for name, imported in kept.items() if imported and name in used}
        if len(kept) == len(graph):
            return kept
        graph = kept


def test_imports_have_no_circles():
    """Imports inside of functions and of type checkers count, too."""
    assert on_circles(arrows("dressi", module_name)) == {}


@pytest.mark.parametrize("part", LAYERED)
def test_folders_have_no_circles(part: str):
    assert on_circles(arrows(part, folder)) == {}


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert on_circles(graph) == {"b": {"c"}, "c": {"b"}}
    assert on_circles({"a": {"b"}, "b": set()}) == {}


SOURCES = [
    file.relative_to(REPOSITORY)
    for top in ("dressi", "tests", "apps")
    for file in sorted((REPOSITORY / top).rglob("*.py"))
]


def test_files_stay_short():
    """A file is one concept: usually 150 to 600 lines, at most 900, tests and applications too."""
    lengths = {
        file.as_posix(): len((REPOSITORY / file).read_text(encoding="utf-8").splitlines()) for file in SOURCES
    }
    assert {name: length for name, length in lengths.items() if length > 900} == {}


def test_folders_stay_small():
    """At most 14 files, so that a folder is read at a glance."""
    sizes = Counter(file.parent.as_posix() for file in SOURCES)
    assert {name: size for name, size in sizes.items() if size > 14} == {}


def name_tests(text: str) -> list[int]:
    """Lines that compare a ``form`` or the ``__name__`` of a class with a text: such a rule belongs into what is so named."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            called = {getattr(side, "attr", getattr(side, "id", "")) for side in sides}
            texts = [s for s in ast.walk(node) if isinstance(s, ast.Constant) and isinstance(s.value, str)]
            if called & {"form", "__name__"} and texts:
                found.append(node.lineno)
    return found


@pytest.mark.parametrize("part", ["ad", "render", "vk"])
def test_nothing_is_decided_by_a_name(part: str):
    found = {
        f"{file.relative_to(REPOSITORY)}:{line}"
        for file in sorted((PACKAGE / part).rglob("*.py"))
        for line in name_tests(file.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_decisions_by_a_name_are_found():
    text = """if form == "outer": pass
if f.form in ("face", "outer") or type(f).__name__ == "Add": pass
if form == other or name == "": pass
"""
    assert name_tests(text) == [1, 2, 2]


def test_the_rule_reader_sees_every_form_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = PACKAGE / "render" / "_example.py"
    text = "import numpy.linalg\nfrom .. import vk\nfrom ..vk.run import device\ndef f():\n    from dressi.ad import graph\n"
    monkeypatch.setattr(Path, "read_text", lambda self, encoding=None: text)
    found = imports(file)
    assert {"numpy.linalg", "dressi.vk", "dressi.vk.run.device", "dressi.ad.graph"} <= found
