"""The window of `dressi fit --view` after the fit, without one."""

import sys
from typing import cast

import pytest

from dressi import Device
from dressi.cli.fitting.window import FitWindow
from dressi.render.mesh import primitives

pytestmark = pytest.mark.one_driver


class Canvas:
    """A window that is open."""

    closed = False


@pytest.mark.parametrize("stdin", [None, open])
def test_a_run_without_a_person_ends(monkeypatch, tmp_path, stdin):
    (tmp_path / "in").write_text("")
    with open(tmp_path / "in") as file:
        monkeypatch.setattr(sys, "stdin", None if stdin is None else file)
        window = object.__new__(FitWindow)
        window.canvas = cast("object", Canvas())  # type: ignore[assignment]
        window.stay(primitives.cube(1.0), cast(Device, None))  # a Device would be asked for
