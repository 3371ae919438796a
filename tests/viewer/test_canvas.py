"""Windows and their events, and pictures that are copied."""

import doctest
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from screen import Screen, until

import dressi
from dressi import Device, DressiAD, Variable
from dressi.errors import GraphError, InputError
from dressi.viewer import EngineSession, presenter, qt_pane
from dressi.viewer import canvas as canvases
from dressi.viewer.canvas import BACKENDS, Canvas, OffscreenWindow, open_canvas
from dressi.viewer.presenter import CopyPresenter, Layer, OffscreenPresenter

pytestmark = pytest.mark.vk
CODES = np.random.default_rng(4).integers(0, 256, (48, 64, 3)).astype(np.uint8)


@pytest.fixture
def canvas(screen: Screen) -> Iterator[Canvas]:
    pytest.importorskip("rendercanvas")
    with open_canvas("glfw", (200, 100), "hands") as canvas:
        yield canvas


def test_the_users_hands_arrive_as_events(canvas, screen):
    events = []
    for kind in ("pointer_down", "pointer_move", "pointer_up", "wheel", "key_down", "key_up"):
        canvas.on(kind, events.append)

    def arrived(kind: str, **what) -> bool:
        canvas.process_events()
        return any(e["event_type"] == kind and what.items() <= e.items() for e in events)

    def soon(kind: str, **what) -> bool:
        return until(lambda: arrived(kind, **what))

    canvas.process_events()
    screen.user("mousemove", "20", "30")
    assert soon("pointer_move", x=20.0, y=30.0, buttons=())
    screen.user("mousedown", "1", "mousemove", "60", "40")
    assert soon("pointer_down", button=1) and soon("pointer_move", x=60.0, y=40.0, buttons=(1,))
    screen.user("mouseup", "1", "click", "4", "click", "5", "click", "5")
    assert soon("pointer_up", button=1)
    assert until(
        lambda: arrived("wheel") and sum(e["dy"] for e in events if e["event_type"] == "wheel") == 100
    )
    window = screen.user("search", "--name", "hands").split()[0]
    screen.user("windowfocus", window, "key", "p", "key", "ctrl+s")
    assert soon("key_down", key="p", modifiers=()) and soon("key_down", key="s", modifiers=("Control",))
    assert soon("key_up", key="s")
    assert canvas.pixel_ratio == 1.0


def test_errors_of_handlers_are_raised(canvas):
    def fail(event):
        raise ValueError(f"not {event['key']}")

    canvas.on("key_down", fail)
    canvas.submit({"event_type": "key_down", "key": "q", "modifiers": ()})
    with pytest.raises(ValueError, match="not q"):
        canvas.process_events()
    canvas.process_events()
    with pytest.raises(InputError, match="no events 'key_press'; it has pointer_down"):
        canvas.on("key_press", fail)
    with pytest.raises(InputError, match="an event has an event_type"):
        canvas.submit({"type": "key_down"})


# ---- pictures through the host
def picture() -> Variable:
    return Variable.of(CODES / np.float32(255), name="image")


def test_copies_are_what_the_engine_holds(device):
    image = picture()
    frames: list[np.ndarray] = []
    window = CopyPresenter(frames.append, lambda: (64, 48))
    with DressiAD(device) as ad:
        ad.set_output("picture", 1.0 - (1.0 - image))
        assert window.copies and window.present(ad, [Layer("picture", (0, 0, 64, 48))])
        assert np.array_equal(frames[0][..., :3], CODES) and (frames[0][..., 3] == 255).all()
        dark = Variable.of(np.full((2, 2, 4), -0.5))
        assert window.present(ad, [Layer(image, (32, 24, 64, 48)), Layer(dark, (40, 30, 8, 8))])
        wanted = np.zeros_like(CODES)
        wanted[24:, 32:] = CODES[:24, :32]
        wanted[30:38, 40:48] = 0
        assert np.array_equal(frames[1][..., :3], wanted)
        with pytest.raises(GraphError, match=r"one tile, not values of the shape \(2, 5, 5, 3\)"):
            window.present(ad, [Layer(Variable.of(np.zeros((2, 5, 5, 3))), (0, 0, 5, 5))])
        window.close()
        assert window.size == (0, 0) and not window.present(ad, [])


def test_nobody_sees_an_offscreen_window(device):
    canvas = open_canvas("offscreen", (64, 48))
    window = canvas._window
    assert isinstance(window, OffscreenWindow) and isinstance(canvas.presenter, OffscreenPresenter)
    sizes, closed = [], []
    canvas.on("resize", sizes.append)
    canvas.on("close", closed.append)
    with DressiAD(device) as ad:
        assert canvas.presenter.present(ad, [Layer(picture(), (0, 0, 64, 48))])
        assert np.array_equal(canvas.presenter.frame[..., :3], CODES)
        window.resize((32, 24))
        canvas.process_events()
        assert canvas.presenter.present(ad, []) and canvas.presenter.frame.shape == (24, 32, 4)
        window.resize((0, 0))
        assert not canvas.presenter.present(ad, [])
    canvas.close()
    canvas.close()
    assert canvas.closed and len(closed) == 1 and sizes[0]["width"] == 32
    with pytest.raises(InputError, match="a width and a height of at least 0"):
        OffscreenPresenter((4, -1))


def test_a_notebooks_canvas_sends_pictures_and_hears_the_browser(device):
    pytest.importorskip("jupyter_rfb")
    canvas = open_canvas("jupyter", (64, 48))
    events = []
    canvas.on("key_down", events.append)
    with DressiAD(device) as ad:
        assert canvas.presenter.present(ad, [Layer(picture(), (0, 0, 64, 48))])
        assert np.array_equal(canvas.widget.get_frame()[..., :3], CODES)
        # What the browser tells.
        canvas.widget._rfb_handle_msg(None, {"type": "resize", "width": 100, "height": 50, "ratio": 2.0}, [])
        canvas.widget._rfb_handle_msg(None, {"type": "key_down", "key": "p", "modifiers": []}, [])
        canvas.process_events()
        assert canvas.presenter.size == (200, 100) and canvas.pixel_ratio == 2.0
        assert [event["key"] for event in events] == ["p"]
        canvas.close()
        assert canvas.closed and not canvas.presenter.present(ad, [])


# ---- what is missing
def run(script: str, **environment: str) -> subprocess.CompletedProcess:
    given = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**given, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.release
@pytest.mark.one_driver
@pytest.mark.parametrize("backend", ["glfw", "qt"])
def test_without_a_display_one_sentence_says_so(backend):
    pytest.importorskip("rendercanvas")
    if backend == "qt":
        pytest.importorskip("PySide6")
    found = run(f"from dressi.viewer.canvas import open_canvas; open_canvas({backend!r})")
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith("dressi.errors.InputError: no window can be opened, because there is no display")
    assert "xvfb-run" in last


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "offscreen"])
def test_a_missing_library_is_named_with_its_cure(backend, monkeypatch):
    for name in [n for n in sys.modules if n.startswith("dressi.viewer.windows.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rendercanvas", None)
    for name in ("glfw", "qt", "jupyter", "contexts"):
        monkeypatch.setitem(sys.modules, f"rendercanvas.{name}", None)
    with pytest.raises(
        InputError, match=r"windows of \w+ need a library that is missing .*pip install 'dressi\["
    ):
        open_canvas(backend)
    if backend == "qt":
        with DressiAD() as ad, pytest.raises(InputError, match=r"pip install 'dressi\[qt\]'"):
            qt_pane(EngineSession(ad, image=picture()))


def test_strange_windows_are_refused():
    with pytest.raises(InputError, match="no windows of 'gtk'; there are glfw, qt, jupyter, offscreen"):
        open_canvas("gtk")
    for size in ((0, 5), (5, 20000), (-1, 5)):
        with pytest.raises(InputError, match="1 to 16384 pixels"):
            open_canvas("offscreen", size)


@pytest.mark.parametrize("module", [canvases, presenter], ids=["canvas", "presenter"])
def test_examples_run(module, device: Device, monkeypatch):
    monkeypatch.setenv("DRESSI_DEVICE", device.name)
    names = {"np": np, **{name: getattr(dressi, name) for name in dressi.__all__}}
    found = doctest.testmod(module, globs={**vars(module), **names})
    assert found.attempted and not found.failed
