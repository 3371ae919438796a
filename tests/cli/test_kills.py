"""A few of the fits that ``kills.py`` runs many of."""

import importlib.util
import sys
from pathlib import Path

import pytest

from dressi.errors import DressiError
from dressi.render.formats import save_mesh
from dressi.render.mesh.primitives import pear


@pytest.mark.release
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_fit_that_is_killed_again_and_again_ends_as_if_it_had_not_been(tmp_path: Path):
    from dressi.vk.run.device.choose import list_devices

    try:
        list_devices()
    except DressiError as error:
        pytest.skip(str(error))
    spec = importlib.util.spec_from_file_location("kills", Path(__file__).parent / "kills.py")
    assert spec is not None and spec.loader is not None
    kills = importlib.util.module_from_spec(spec)
    sys.modules["kills"] = kills
    spec.loader.exec_module(kills)
    kills.OPTIONS = "--views 2 --size 16 --steps 24 --texture-size 8 --no-colours".split()
    target = tmp_path / "pear.glb"
    save_mesh(target, pear(16, 12, 32))
    expected = kills.undisturbed(target, tmp_path / "whole")
    # This seed kills it after 3.3 seconds, and interrupts what goes on after 3.7.
    outcome = kills.disturbed(target, tmp_path / "killed", expected, 111, ["KILL", "INT"], 2, 4.0)
    assert outcome.wrong == []
