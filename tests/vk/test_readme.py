"""The example of the README runs as it stands there."""

import re
from pathlib import Path

import pytest

from dressi.vk.run.device import Device

README = Path(__file__).resolve().parent.parent.parent / "README.md"


@pytest.mark.vk
def test_the_example_fits_its_image(
    device: Device, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("DRESSI_DEVICE", device.name)
    code = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    exec(code.group(1), {})
    printed = re.fullmatch(r"\[(.*)\] \(1, 64, 96, 3\)\n", capsys.readouterr().out)
    assert printed is not None
    losses = [float(number) for number in printed.group(1).split(",")]
    assert losses[-1] < 0.1 * losses[0]
