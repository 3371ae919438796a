"""Runs applications and samples in the process of the tests, on the best device. They are tests of a release."""

import runpy
from pathlib import Path

import pytest

from dressi.errors import DressiError


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("release")
            item.add_marker("vk")


@pytest.fixture
def run_script(tmp_path, monkeypatch, capsys):
    """``run_script(file, *options)`` runs the file as a program that writes into ``tmp_path``; gives what it prints."""
    from dressi.vk.run.device.instance import list_devices

    try:
        list_devices()
    except DressiError as error:
        pytest.skip(str(error))

    def run(file: Path, *options: str) -> str:
        monkeypatch.setattr("sys.argv", [str(file), "--headless", "--out", str(tmp_path), *options])
        monkeypatch.syspath_prepend(str(file.parent))
        capsys.readouterr()
        runpy.run_path(str(file), run_name="__main__")
        return capsys.readouterr().out

    return run
