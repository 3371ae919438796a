"""A pane of dressi's in a program of Qt: by a swapchain, as copies where there is none, in another window later."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from screen import Screen

from dressi import Device

pytestmark = [pytest.mark.vk, pytest.mark.one_driver]
PROGRAM = Path(__file__).parent / "qt_program.py"


def run(device: Device, binding: str, *fault: str, platform: str = "xcb") -> dict:
    pytest.importorskip(binding)
    environment = {**os.environ, "QT_QPA_PLATFORM": platform}
    arguments = [sys.executable, str(PROGRAM), binding, device.name, *fault]
    result = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def check(found: dict, *, copies: bool) -> None:
    assert found["same"] == [True, True] and found["copies"] == [copies] * 2
    assert found["events"][0] == "resize" and found["events"].count("close") == 1 and found["closed"]
    assert found["fell"] and found["alive"] == [] and found["messages"] == []


@pytest.mark.release
@pytest.mark.parametrize("binding", ["PySide6", "PyQt6"])
def test_a_pane_has_a_swapchain_of_its_own(device, screen: Screen, binding):
    found = run(device, binding)
    check(found, copies=False)
    assert found["warnings"] == []


@pytest.mark.release
def test_where_there_is_no_swapchain_pictures_are_copied_and_a_warning_says_why(device, screen: Screen):
    found = run(device, "PySide6", "fault")
    check(found, copies=True)
    assert found["warnings"] == ["pictures are copied through the host: no swapchain here"]


@pytest.mark.release
def test_where_qt_has_no_windows_of_the_system_pictures_are_copied(device):
    check(run(device, "PySide6", platform="offscreen"), copies=True)
