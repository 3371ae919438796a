"""Canvases: pictures of engines in windows of others, in notebooks and in Qt."""

import asyncio
import ctypes
import doctest
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import vulkan as vk
from screen import SIZE, Screen, steady, until
from viewer import Viewer as Program

import dressi
from dressi import Device, DeviceError, DressiAD, F, GraphError, InputError, Variable, adam
from dressi.viewer import EngineSession, Viewer, host_canvas, presenter, qt_pane
from dressi.viewer import canvas as canvases
from dressi.viewer.canvas import BACKENDS, Canvas, OffscreenWindow, open_canvas
from dressi.viewer.presenter import CopyPresenter, Layer, OffscreenPresenter, SwapchainPresenter
from dressi.vk.run.present.surface import SURFACE_LOST, Procedures

CODES = np.random.default_rng(4).integers(0, 256, (48, 64, 3)).astype(np.uint8)


@pytest.fixture
def canvas(screen: Screen) -> Iterator[Canvas]:
    pytest.importorskip("rendercanvas")
    with open_canvas("glfw", (200, 100), "hands") as canvas:
        yield canvas


@pytest.mark.vk
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


@pytest.mark.vk
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

        async def shown() -> int:
            """How many frames go to a browser that shows the widget."""
            canvas.widget._has_visible_views = True
            canvas.presenter.present(ad, [Layer(picture(), (0, 0, 64, 48))])
            await asyncio.sleep(0.01)
            return canvas.widget.get_stats()["sent_frames"]

        assert asyncio.run(shown()) == 1
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


@pytest.mark.vk
@pytest.mark.release
@pytest.mark.parametrize("backend", ["glfw", "qt"])
def test_without_a_display_one_sentence_says_so(backend):
    pytest.importorskip("rendercanvas")
    if backend == "qt":
        pytest.importorskip("PySide6")
    found = run(f"from dressi.viewer.canvas import open_canvas; open_canvas({backend!r})")
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith("dressi.errors.InputError: no window can be opened, because there is no display")
    assert "xvfb-run" in last


@pytest.mark.vk
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


@pytest.mark.vk
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


PROGRAM = Path(__file__).parent / "qt_program.py"


def qt_run(device: Device, binding: str, *fault: str, platform: str = "xcb") -> dict:
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


@pytest.mark.one_driver
@pytest.mark.release
@pytest.mark.parametrize("binding", ["PySide6", "PyQt6"])
def test_a_pane_has_a_swapchain_of_its_own(device, screen: Screen, binding):
    found = qt_run(device, binding)
    check(found, copies=False)
    assert found["warnings"] == []


@pytest.mark.one_driver
@pytest.mark.release
def test_where_there_is_no_swapchain_pictures_are_copied_and_a_warning_says_why(device, screen: Screen):
    found = qt_run(device, "PySide6", "fault")
    check(found, copies=True)
    assert found["warnings"] == ["pictures are copied through the host: no swapchain here"]


@pytest.mark.one_driver
@pytest.mark.release
def test_where_qt_has_no_windows_of_the_system_pictures_are_copied(device):
    check(qt_run(device, "PySide6", platform="offscreen"), copies=True)


SURFACES, SWAPCHAIN = ("VK_KHR_surface", "VK_KHR_xcb_surface"), ("VK_KHR_swapchain",)
SURFACE_SIZE = (64, 48)
WHOLE = (0, 0, *SURFACE_SIZE)
SURFACE_CODES = np.random.default_rng(2).integers(0, 256, (*SURFACE_SIZE[::-1], 3)).astype(np.uint8)


def surface_picture() -> Variable:
    return Variable.of(SURFACE_CODES / np.float32(255), name="image")


class Host(Program):
    """A Vulkan program with a window and its VkSurfaceKHR."""

    def __init__(self, device: Device, *, swapchain: tuple[str, ...] = SWAPCHAIN):
        import glfw

        validation = device.instance.validation
        super().__init__(device.name, validation=validation, surfaces=SURFACES, swapchain=swapchain)
        assert glfw.init()
        glfw.default_window_hints()
        glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
        self.window = glfw.create_window(*SURFACE_SIZE, "host", None, None)
        connection = ctypes.CDLL("libX11-xcb.so.1").XGetXCBConnection
        connection.restype, connection.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        address = connection(glfw.get_x11_display())
        info = vk.VkXcbSurfaceCreateInfoKHR(
            connection=vk.ffi.cast("struct xcb_connection_t*", address),
            window=glfw.get_x11_window(self.window),
        )
        make = vk.vkGetInstanceProcAddr(self.instance, "vkCreateXcbSurfaceKHR")
        self.surface = make(self.instance, info, None)

    def close(self) -> None:
        import glfw

        vk.vkGetInstanceProcAddr(self.instance, "vkDestroySurfaceKHR")(self.instance, self.surface, None)
        glfw.destroy_window(self.window)
        super().close()


@pytest.fixture
def host(device: Device, screen: Screen) -> Iterator[Host]:
    host = Host(device)
    yield host
    host.close()
    assert host.messages == []


def test_pictures_come_into_the_surface_of_the_host(host, screen):
    number = int(vk.ffi.cast("uintptr_t", host.surface))
    image = surface_picture()
    with Device.from_handles(*host.handles, features=host.features) as own, DressiAD(own) as ad:
        ad.set_output("picture", F.clamp(image, 0.0, 1.0))
        for surface in (host.surface, number):
            window = SwapchainPresenter(surface, lambda: SURFACE_SIZE)
            layer = Layer("picture", WHOLE)

            def right(picture: np.ndarray) -> bool:
                return np.array_equal(picture[: SURFACE_SIZE[1], : SURFACE_SIZE[0]], SURFACE_CODES)

            assert right(steady(screen, right, lambda: window.present(ad, [layer])))  # noqa: B023
            window.close()
            assert "SurfaceKHR" not in own.live_objects()


def test_the_viewer_runs_in_the_window_of_the_host(host, screen):
    """Beside a loop of asyncio, with what the host's user does passed on."""
    image = surface_picture()
    others = 0

    async def program(viewer: Viewer) -> None:
        nonlocal others
        running = asyncio.create_task(viewer.live())
        while not running.done():
            await asyncio.sleep(0)
            others += 1
            if viewer.session.status.finished and viewer.frames and not canvas.closed:
                canvas.submit({"event_type": "key_down", "key": "q", "modifiers": ()})

    with Device.from_handles(*host.handles, features=host.features) as own, DressiAD(own) as ad:
        ad.set_loss(F.mean(F.square(F.length(image - 0.5))))
        ad.set_optimizer(adam(0.01), [image])
        canvas = host_canvas(host.surface, lambda: SURFACE_SIZE)
        viewer = Viewer(EngineSession(ad, image=image, codes=True, steps=6), canvas, panel=False)
        asyncio.run(program(viewer))
        assert canvas.closed and others > 1 and len(ad.losses()) == 6
        canvas.close()


def test_a_lost_surface_of_the_host_is_the_hosts_to_replace(host, monkeypatch):
    image = surface_picture()
    with Device.from_handles(*host.handles, features=host.features) as own, DressiAD(own) as ad:
        window = SwapchainPresenter(host.surface, lambda: SURFACE_SIZE)
        assert window.present(ad, [Layer(image, WHOLE)])
        call = Procedures.__call__

        def lost(procedures, name, *arguments):
            return SURFACE_LOST if "Capabilities" in name else call(procedures, name, *arguments)

        advice = "make a Swapchain with its new VkSurf"
        with monkeypatch.context() as patch, pytest.raises(DeviceError, match=advice):
            patch.setattr(Procedures, "__call__", lost)
            window.present(ad, [Layer(image, WHOLE)])
        window.close()


def test_an_adopted_device_without_swapchains_says_what_to_enable(device, screen):
    host = Host(device, swapchain=())
    image = surface_picture()
    with Device.from_handles(*host.handles, features=host.features) as own, DressiAD(own) as ad:
        window = SwapchainPresenter(host.surface, lambda: SURFACE_SIZE)
        advice = "VK_KHR_swapchain is not enabled in the adopted device; name it"
        with pytest.raises(DeviceError, match=advice):
            window.present(ad, [Layer(image, WHOLE)])
    host.close()
    assert host.messages == []


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


@pytest.mark.release
@pytest.mark.one_driver
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_window_shows_the_shape_until_it_is_closed(device: Device, screen: Screen, program):
    pytest.importorskip(PROGRAMS[program])
    screen.managed()
    # The others differ in nothing that validation sees.
    watched = device.instance.validation and program == "own_vulkan"
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


@pytest.mark.release
@pytest.mark.one_driver
def test_the_notebook_runs_from_top_to_bottom(device: Device, tmp_path: Path):
    for library in ("jupyter_rfb", "nbconvert", "ipykernel"):
        pytest.importorskip(library)
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
