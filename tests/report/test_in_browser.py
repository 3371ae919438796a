"""The page in a browser, loaded once, without a network."""

import io
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, chromium
from folders import write_fit
from PIL import Image

from dressi.report import write_report
from dressi.report.parts.page import MOST_BYTES

VIEWER = "document.querySelector('.viewer')"


def looks(browser: Browser, selector: str) -> np.ndarray:
    """The pixels of an element."""
    browser.value(
        f"document.querySelector('{selector}').scrollIntoView({{block: 'center', behavior: 'instant'}})"
    )
    box = browser.value(
        f"(() => {{ const b = document.querySelector('{selector}').getBoundingClientRect();"
        " return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height}; })()"
    )
    return np.asarray(Image.open(io.BytesIO(browser.picture(clip=box))).convert("RGB"), float)


def frames(browser: Browser) -> int:
    return int(browser.value(f"Number({VIEWER}.dataset.drawn || 0)"))


@pytest.mark.release
@pytest.mark.skipif(chromium() is None, reason="there is no Chromium: apt-get install chromium")
def test_the_page_works_offline_from_the_keyboard_and_on_a_narrow_screen(tmp_path: Path):
    page = write_report(write_fit(tmp_path, size=(96, 64)))
    assert page.stat().st_size < MOST_BYTES
    with Browser(1280, 900) as browser:
        browser(
            "Network.emulateNetworkConditions",
            offline=True,
            latency=0,
            downloadThroughput=0,
            uploadThroughput=0,
        )
        browser.open(page)
        browser.wait(f"{VIEWER}.dataset.ready === 'yes' && Number({VIEWER}.dataset.drawn) > 0")
        assert browser.complaints() == []

        # The model covers a part of the canvas, and the background of it is even.
        before = looks(browser, ".viewer canvas")
        background = before[4, before.shape[1] // 2]
        model = np.abs(before - background).max(-1) > 60
        assert 0.02 < model.mean() < 0.8 and before[model].std() > 5

        # Arrow keys turn it, and a look in the tools shows it otherwise.
        drawn = frames(browser)
        browser.value("document.querySelector('.viewer canvas').focus({preventScroll: true})")
        for _ in range(6):
            browser.key("ArrowRight")
        browser.wait(f"Number({VIEWER}.dataset.drawn) > {drawn}")
        turned = looks(browser, ".viewer canvas")
        assert np.abs(turned - before).mean() > 0.5
        for control in ("[name=look][value=normals]", "#wire", "#cameras"):
            drawn = frames(browser)
            browser.value(f"document.querySelector('{control}').click()")
            browser.wait(f"Number({VIEWER}.dataset.drawn) > {drawn}")
        assert np.abs(looks(browser, ".viewer canvas") - turned).mean() > 0.5

        # A slider moves by its keys, and the picture with it.
        half = looks(browser, ".compare")
        browser.value("document.querySelector('.compare input').focus({preventScroll: true})")
        for _ in range(30):
            browser.key("ArrowLeft")
        assert browser.value("document.querySelector('.compare').style.getPropertyValue('--at')") == "20%"
        assert np.abs(looks(browser, ".compare") - half).mean() > 0.5

        # A chart tells its values.
        browser.value("document.querySelector('.area').focus({preventScroll: true})")
        browser.key("ArrowRight")
        assert browser.value("document.querySelector('.legend output').textContent") == "0.5"

        for width in (380, 1920):
            browser(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=800,
                deviceScaleFactor=1,
                mobile=False,
            )
            assert browser.value("document.documentElement.scrollWidth") <= width
        assert browser.complaints() == []
