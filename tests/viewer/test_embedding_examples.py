"""The programs of apps/embedding: short, and with the picture in their windows until the user closes them."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from screen import SIZE, Screen, until

from dressi import Device

FOLDER = Path(__file__).resolve().parents[2] / "apps" / "embedding"
PROGRAMS = {"glfw_loop": "glfw", "own_vulkan": "glfw", "qt_pane": "PySide6"}
"""Programs, and the library that each needs."""
NOTEBOOK = FOLDER / "notebook.ipynb"


def test_examples_are_short():
    lengths = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in FOLDER.glob("*.py")}
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    lengths[NOTEBOOK.name] = sum(len(cell["source"]) for cell in cells)
    assert {*PROGRAMS, "shape"} == {Path(name).stem for name in lengths} - {"notebook"}
    assert max(lengths.values()) <= 60


def clay(picture: np.ndarray) -> np.ndarray:
    """Pixels of the shape: lighter than the background and darker than widgets."""
    red, green, blue = picture.astype(int).transpose(2, 0, 1)
    return (red > 120) & (red < 210) & (red - green > 1) & (green - blue > 1)


@pytest.mark.vk
@pytest.mark.release
@pytest.mark.one_driver
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_window_shows_the_shape_until_it_is_closed(device: Device, screen: Screen, program):
    pytest.importorskip(PROGRAMS[program])
    screen.managed()
    watched = (
        device.instance.validation and program == "own_vulkan"
    )  # the others differ in nothing that it sees
    layer = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation"} if watched else {}
    environment = {**os.environ, **layer, "DRESSI_DEVICE": device.name}
    running = subprocess.Popen(
        [sys.executable, str(FOLDER / f"{program}.py"), "--steps", "60"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def ended() -> bool:
        return running.poll() is not None

    try:
        # Pictures of the screen are dear, and the program starts sooner where nobody takes the processor from it.
        assert until(lambda: ended() or clay(screen.picture()).sum() > 0.03 * SIZE[0] * SIZE[1], 90, 0.1)
        assert not ended(), running.communicate()

        def closed() -> bool:
            # A window that took long to come has not the focus: it is clicked before the key is pressed.
            shape = np.argwhere(clay(screen.picture()))
            if len(shape):
                y, x = np.median(shape, axis=0).astype(int)
                screen.user("mousemove", str(x), str(y), "click", "1", "key", "alt+F4")
            time.sleep(0.2)
            return ended()

        assert until(closed, 30)
        said, errors = running.communicate()
        assert running.returncode == 0, errors
        assert "closed with loss 0." in said and "Validation" not in said + errors
    finally:
        running.kill()
        running.communicate()


@pytest.mark.vk
@pytest.mark.release
@pytest.mark.one_driver
def test_the_notebook_runs_from_top_to_bottom(device: Device, tmp_path: Path):
    pytest.importorskip("jupyter_rfb")
    pytest.importorskip("nbconvert")
    pytest.importorskip("ipykernel")
    options = ["--to", "notebook", "--execute", "--output-dir", str(tmp_path)]
    result = subprocess.run(
        [sys.executable, "-m", "nbconvert", *options, str(NOTEBOOK)],
        env={**os.environ, "DRESSI_DEVICE": device.name},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    cells = json.loads((tmp_path / NOTEBOOK.name).read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert any("loss 0.0" in "".join(output.get("text", "")) for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any("application/vnd.jupyter.widget-view+json" in output.get("data", {}) for output in outputs)
