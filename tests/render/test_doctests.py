"""The examples of the docstrings of files and meshes run, and every public name has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import dressi.render.io
import dressi.render.mesh

PACKAGES = (dressi.render.io, dressi.render.mesh)
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
