"""Every name of ``dressi.render`` says what it is, with an example that runs."""

import doctest
import types

import numpy as np
import pytest

import dressi
import dressi.render as r

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
