"""Every Function that `dressi.render` declares: an example, its rules, its derivative."""

import importlib
import pkgutil

import numpy as np
import pytest
from render_examples import EXAMPLES

import dressi.render
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Function
from dressi.ad.transform.verify import verify
from dressi.ad.traversal import topological_order

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
