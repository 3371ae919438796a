"""Fixtures for windows on a screen of their own."""

import os
from collections.abc import Iterator

import pytest
from screen import MISSING, Screen
from tiny_fits import TinyFits, fits_on


@pytest.fixture(scope="session")
def xvfb() -> Iterator[Screen]:
    if MISSING:
        pytest.skip(f"windows are tested where there is {', '.join(MISSING)}: `.ci/setup test` installs it")
    glfw = pytest.importorskip("glfw")
    before = os.environ.get("DISPLAY")
    screen = Screen()
    os.environ["DISPLAY"] = screen.name
    yield screen
    glfw.terminate()  # it ends the process when its server goes first
    screen.close()
    if before is None:
        del os.environ["DISPLAY"]
    else:
        os.environ["DISPLAY"] = before


@pytest.fixture
def screen(xvfb: Screen) -> Iterator[Screen]:
    """A screen without a window manager, unless the test asks for one."""
    yield xvfb
    xvfb.alone()


@pytest.fixture(scope="module")
def tiny_fits(device) -> TinyFits:
    return fits_on(device)
