"""The house: which part may import which, and how long a file may be."""

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "dressi"
FILES = sorted(PACKAGE.rglob("*.py"))
EVERYWHERE = {"dressi.errors", "dressi.config", "dressi.engines"}

# part -> parts of dressi that it may import, beside itself and EVERYWHERE; longer names win.
ALLOWED: dict[str, set[str]] = {
    "dressi.errors": set(),
    "dressi.config": set(),
    "dressi.engines": set(),
    "dressi.ad": set(),
    "dressi.vk": {"dressi.ad"},
    "dressi.vk.plan": {"dressi.ad"},
    "dressi.render": {"dressi.ad"},
    "dressi.__main__": {"dressi.cli"},
    "dressi.cli": {"dressi", "dressi.ad", "dressi.render", "dressi.vk"},
    "dressi": {"dressi.ad", "dressi.render", "dressi.vk"},
}
# Packages from outside that only one part may import.
OUTSIDE = {"vulkan": "dressi.vk.run", "typer": "dressi.cli", "rich": "dressi.cli", "tqdm": "dressi.cli"}

# Parts whose modules import each other in one direction only, and so do the folders in them.
WITHOUT_CIRCLES = ("dressi.ad",)


def module_name(file: Path) -> str:
    parts = file.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


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


@pytest.mark.parametrize("file", FILES, ids=[module_name(file) for file in FILES])
def test_imports_follow_the_arrows(file: Path):
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
    assert not wrong, f"{name} must not import {', '.join(wrong)}"


@pytest.mark.parametrize("file", sorted((PACKAGE / "ad").rglob("*.py")), ids=module_name)
def test_the_ad_needs_only_numpy(file: Path):
    known = {*sys.stdlib_module_names, "numpy", "dressi"}
    assert {name.split(".")[0] for name in imports(file)} <= known


def folder(file: Path, part: str) -> str:
    """The folder of a module inside a part. The files that lie in the part itself count each for itself."""
    name = module_name(file)
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    return name if package == part else package


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


@pytest.mark.parametrize("part", WITHOUT_CIRCLES)
def test_imports_have_no_circles(part: str):
    assert on_circles(arrows(part, module_name)) == {}
    assert on_circles(arrows(part, lambda file: folder(file, part))) == {}


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert on_circles(graph) == {"b": {"c"}, "c": {"b"}}
    assert on_circles({"a": {"b"}, "b": set()}) == {}


def test_files_stay_short():
    """One screenful of ideas a file: at most 400 lines, tests and applications too."""
    folders = (PACKAGE, REPOSITORY / "tests", REPOSITORY / "apps")
    lengths = {
        str(file.relative_to(REPOSITORY)): len(file.read_text(encoding="utf-8").splitlines())
        for folder in folders
        for file in folder.rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_the_rule_reader_sees_every_form_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = PACKAGE / "render" / "_example.py"
    text = "import numpy.linalg\nfrom .. import vk\nfrom ..vk.run import device\ndef f():\n    from dressi.ad import graph\n"
    monkeypatch.setattr(Path, "read_text", lambda self, encoding=None: text)
    found = imports(file)
    assert {"numpy.linalg", "dressi.vk", "dressi.vk.run.device", "dressi.ad.graph"} <= found
