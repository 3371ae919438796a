"""The renderer by its documentation: every name has an example, and every Function a meaning."""

import doctest
import importlib
import inspect
import pkgutil
import types

import numpy as np
import pytest
from render_examples import EXAMPLES

import dressi
import dressi.render
import dressi.render as r
import dressi.render.formats
import dressi.render.io
import dressi.render.mesh
from dressi.ad.check import check_gradient
from dressi.ad.graph import Function
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.traversal import topological_order
from dressi.ad.transform.simplify import verify

NAMES = sorted(n for n in r.__all__ if not isinstance(getattr(r, n), types.ModuleType))
GLOBALS = {
    "np": np,
    **{n: getattr(dressi, n) for n in dressi.__all__},
    **{n: getattr(r, n) for n in r.__all__},
}
FILES = ("load_features", "load_mesh", "save_mesh", "render_turntable")
"""What needs a file or an engine."""


def test_the_table_lists_every_name():
    words = set((r.__doc__ or "").replace(",", " ").split())
    assert set(r.__all__) <= words
    assert r.__all__ == sorted(r.__all__) and len(set(r.__all__)) == len(r.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs(name: str):
    value = getattr(r, name)
    text = value.__doc__ or ""
    assert len(text) > 60 and (">>>" in text or name in FILES)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    found = doctest.DocTestParser().get_doctest(text, dict(GLOBALS), name, None, None)
    failures: list[str] = []
    runner.run(found, out=failures.append)
    assert not failures, "".join(failures)


PACKAGES = (dressi.render.formats, dressi.render.io, dressi.render.mesh)
MODULES = [
    name
    for package in PACKAGES
    for _, name, _ in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore")
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_has_an_example(package):
    for name in package.__all__:
        text = inspect.getdoc(getattr(package, name)) or ""
        assert ">>>" in text, name


CASES = [
    pytest.param(cls, build, id=f"{cls.__name__}-{k}")
    for cls, builds in EXAMPLES.items()
    for k, build in enumerate(builds)
]


def declared() -> set[type[Function]]:
    """Functions of `dressi.render` that nothing derives from."""
    for module in pkgutil.walk_packages(dressi.render.__path__, "dressi.render."):
        importlib.import_module(module.name)
    found, stack = set(), [Function]
    while stack:
        cls = stack.pop()
        stack += cls.__subclasses__()
        if cls.__module__.startswith("dressi.render.") and not cls.__subclasses__():
            found.add(cls)
    return found


def test_every_function_has_an_example():
    missing = declared() - set(EXAMPLES)
    assert not missing, f"add examples of {missing} to tests/render/render_examples.py"


@pytest.mark.parametrize("cls, build", CASES)
def test_example_evaluates_and_can_be_rebuilt(cls, build):
    output = build().output
    verify([output])
    (value,) = evaluate([output])
    assert value.shape == output.shape and np.isfinite(value).all()
    assert len(np.unique(value)) > 1
    functions = [f for f in topological_order([output]) if isinstance(f, cls)]
    assert functions
    for f in functions:
        twin = f.rebuild(*f.inputs)
        assert twin.attributes == f.attributes and twin.output.domain == f.output.domain
        assert isinstance(f.glsl, str) and f.glsl


@pytest.mark.parametrize("cls, build", [c for c in CASES if c.values[1]().wrt])
def test_gradient_is_the_central_difference(cls, build):
    example = build()
    assert check_gradient(example.output, example.wrt) < 1e-6


@pytest.mark.parametrize("cls", EXAMPLES, ids=lambda c: c.__name__)
def test_shorter_loops_mean_the_same(cls):
    for f in topological_order([build().output for build in EXAMPLES[cls]]):
        for most in (2, 9):
            if f.iterations > most and (shorter := f.shortened(most)) is not None:
                np.testing.assert_allclose(*evaluate([shorter, f.output]), rtol=1e-12, atol=1e-12)
