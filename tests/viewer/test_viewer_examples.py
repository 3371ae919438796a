"""The examples in the docstrings of the viewer run."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import dressi
import dressi.viewer
from dressi.render.fit.graphs import controls

pytestmark = [pytest.mark.vk, pytest.mark.one_driver]

MODULES = [controls] + [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(dressi.viewer.__path__, "dressi.viewer.")
    if ".windows" not in found.name and ".widget" not in found.name
]
GLOBALS = {"np": np, **{name: getattr(dressi, name) for name in dressi.__all__}}
EXAMPLES = [
    example
    for module in MODULES
    for example in doctest.DocTestFinder().find(module, globs=dict(GLOBALS))
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_examples_run(example: doctest.DocTest, device):
    flags = doctest.NORMALIZE_WHITESPACE
    said: list[str] = []
    example.globs.update(vars(importlib.import_module(example.globs.get("__name__", "dressi"))) | GLOBALS)
    assert doctest.DocTestRunner(optionflags=flags).run(example, out=said.append).failed == 0, "".join(said)


def test_the_viewer_has_examples():
    assert len(EXAMPLES) >= 6
