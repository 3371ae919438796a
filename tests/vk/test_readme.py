"""The examples of the README run as they stand there."""

import re

import numpy as np
import pytest
from pages import README, blocks, run_block

from dressi.vk.run.device.device import Device

pytestmark = pytest.mark.one_driver

EXAMPLES = {block.heading: block for block in blocks(README) if block.language == "python"}


@pytest.fixture
def printed(device: Device, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs an example by its heading and gives what it prints."""
    monkeypatch.setenv("DRESSI_DEVICE", device.name)

    def run(heading: str) -> str:
        run_block(README, EXAMPLES[heading], {"np": np})
        return capsys.readouterr().out

    return run


def test_the_example_fits_its_image(printed):
    found = re.fullmatch(r"\[(.*)\] \(1, 64, 96, 3\)\n", printed("Fit an image"))
    assert found is not None
    losses = [float(number) for number in found.group(1).split(",")]
    assert losses[-1] < 0.1 * losses[0]


def test_the_example_moves_a_sphere(printed):
    found = re.fullmatch(r"\[(.*)\] <?Mesh.*\n", printed("From a mesh to a picture to a gradient"))
    assert found is not None
    losses = [float(number) for number in found.group(1).split(",")]
    assert losses[-1] < 0.2 * losses[0]


def test_the_example_has_a_function_of_its_own(printed):
    assert printed("Functions of your own") == "[0.21  0.393 0.5   0.393 0.21 ]\n"


def test_the_example_finds_the_roughness(printed):
    found = re.fullmatch(r"\[\[\[(.*)\]\]\]\n", printed("Light and material"))
    assert found is not None
    assert abs(float(found.group(1)) - 0.3) < 0.05


def test_no_example_is_left_out():
    assert len(EXAMPLES) == README.read_text(encoding="utf-8").count("```python") == 4
