"""The order of imports never matters: every module of dressi can be the first that a program imports."""

import ast
import gc
import subprocess
import sys
import weakref
from importlib import import_module
from pathlib import Path

import pytest

import dressi.render
from dressi.lazy import uncollected

REPOSITORY = Path(__file__).resolve().parents[1]

# One process for all. Importing a.b.c runs a, then a.b, then c: every child of a package is imported from the state that
# the package leaves, and forgotten again with what it brought of the package; what the package itself imports needs no
# try. What a child brought from elsewhere stays: arrows between packages go one way, so no circle runs through it.
EACH_FIRST = """
import importlib, sys

def inside(package):
    return {name for name in sys.modules if name.startswith(package + ".")}

def forget(package, known):
    for name in inside(package) - known:
        del sys.modules[name]
        parent, _, child = name.rpartition(".")
        if parent in sys.modules and child in vars(sys.modules[parent]):
            delattr(sys.modules[parent], child)

def visit(name):
    try:
        importlib.import_module(name)
    except Exception as error:
        # Libraries of extras may be missing; then the message names the extra.
        if "pip install 'dressi[" not in str(error):
            print(f"{name}: {error!r}")
        return
    known = inside(name)
    for child in sys.argv[1:]:
        if child.rpartition(".")[0] == name and child not in known:
            visit(child)
            forget(name, known)

visit("dressi")
"""


def modules() -> list[str]:
    files = (REPOSITORY / "dressi").rglob("*.py")
    parts = (file.relative_to(REPOSITORY).with_suffix("").parts for file in files)
    names = (".".join(p[:-1] if p[-1] == "__init__" else p) for p in parts)
    return sorted(name for name in names if not name.endswith("__main__"))


@pytest.mark.release
def test_every_module_can_be_imported_first():
    found = modules()
    assert "dressi.render.drawing.draw" in found and "dressi.ad.functional" in found
    result = subprocess.run(
        [sys.executable, "-c", EACH_FIRST, *found], capture_output=True, text=True, timeout=300, cwd=REPOSITORY, check=False
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == ""


def test_modules_of_the_package_are_found_by_both_ways_of_writing():
    script = (
        "from dressi.least_squares import Robust; from dressi.optim import adam; import dressi, dressi.ad.least_squares as a;"
        "assert dressi.least_squares is a and a.Robust is Robust and dressi.optim.adam is dressi.adam is adam"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    "module", ["dressi.cli.commands", "dressi.cli.doctor.machine", "dressi.cli.doctor.probe"]
)
def test_the_command_line_starts_without_heavy_libraries(module: str):
    """`dressi --help` answers at once, and `dressi doctor` on a machine where NumPy or the loader is broken."""
    heavy = {"numpy", "scipy", "PIL", "trimesh", "vulkan", "matplotlib"}
    code = f"import {module}, sys; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_names_of_render_are_those_of_the_modules_that_it_names():
    """They are looked up when they are used; type checkers read the imports."""
    tree = ast.parse(Path(dressi.render.__file__).read_text(encoding="utf-8"))
    (imports,) = [node.body for node in tree.body if isinstance(node, ast.If)]
    named = {}
    for node in imports:
        assert isinstance(node, ast.ImportFrom)
        module = import_module(f"dressi.render.{node.module}")
        own = {k: v for k, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__}
        every = [name for name in dressi.render.__all__ if name in own]
        names = every if node.names[0].name == "*" else [alias.name for alias in node.names]
        named |= {name: getattr(module, name, None) for name in names}
    named["primitives"] = import_module("dressi.render.mesh.primitives")
    assert named == {name: getattr(dressi.render, name) for name in dressi.render.__all__}


def test_the_graph_of_a_silhouette_needs_no_planner_and_no_large_library():
    code = (
        "import sys, numpy as np; from dressi import Variable; from dressi.render import primitives, render, ring;"
        "mesh = primitives.octasphere(1); positions = Variable.of(mesh.positions);"
        "picture = render(mesh, ring(np.zeros(3), 1.0, 1, (16, 16)), positions=positions);"
        "picture.mask - picture.soft_target(np.eye(16)[None]);"
        "print(*{'scipy', 'PIL', 'trimesh', 'vulkan', 'dressi.vk.plan.compiler'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_the_collector_finds_what_was_made_while_it_was_off():
    class Circle:
        def __init__(self):
            self.self = self

    with uncollected():
        seen = weakref.ref(Circle())
        assert not gc.isenabled()
    assert gc.isenabled() and seen() is not None
    gc.collect()
    assert seen() is None
