"""Pictures in real windows: what is on the screen is what the device holds, whatever happens to the window."""

from collections.abc import Iterator

import numpy as np
import pytest
from screen import Screen, steady, until

from dressi import Device, DeviceError, DeviceLostError, DressiAD, F, GraphError, InputError, Variable, adam
from dressi.viewer.canvas import Canvas, open_canvas
from dressi.viewer.presenter import Layer, SwapchainPresenter
from dressi.vk.run.present import swapchain
from dressi.vk.run.present.surface import (
    OUT_OF_DATE,
    SUBOPTIMAL,
    SURFACE_LOST,
    TIMEOUT,
    Procedures,
    X11Window,
)
from dressi.vk.run.present.swapchain import Swapchain

RNG = np.random.default_rng(8)
SIZE = (96, 64)
CODES = RNG.integers(0, 256, (SIZE[1], SIZE[0], 3)).astype(np.uint8)
ALL = (0, 0, *SIZE)


class Shown:
    """A window, an engine with a picture of CODES, and looks at the screen."""

    def __init__(self, device: Device, screen: Screen):
        self.device, self.screen = device, screen
        self.canvas: Canvas = open_canvas("glfw", SIZE, "shown")
        self.image = Variable.of(CODES / np.float32(255), name="image")
        self.ad = DressiAD(device)
        self.ad.set_output("picture", F.clamp(self.image, 0.0, 1.0))

    @property
    def presenter(self) -> SwapchainPresenter:
        assert isinstance(self.canvas.presenter, SwapchainPresenter)
        return self.canvas.presenter

    @property
    def swapchain(self) -> Swapchain:
        assert self.presenter._swapchain is not None
        return self.presenter._swapchain

    def present(self, *layers: Layer) -> bool:
        self.canvas.process_events()
        return self.presenter.present(self.ad, layers or [Layer("picture", ALL)])

    def seen(self, wanted: np.ndarray, *layers: Layer) -> bool:
        """Whether the window shows the codes ``wanted`` in its top left corner, now or soon."""
        height, width = wanted.shape[:2]
        picture = steady(
            self.screen, lambda p: np.array_equal(p[:height, :width], wanted), lambda: self.present(*layers)
        )
        return np.array_equal(picture[:height, :width], wanted)

    def close(self) -> None:
        self.canvas.close()
        self.ad.close()


@pytest.fixture
def shown(device: Device, screen: Screen) -> Iterator[Shown]:
    shown = Shown(device, screen)
    yield shown
    shown.close()


def test_the_screen_shows_the_codes_of_the_picture(shown):
    assert not shown.presenter.copies
    assert shown.present()
    assert shown.seen(CODES)
    shown.ad.send(shown.image, CODES[::-1] / np.float32(255))
    assert shown.seen(CODES[::-1])
    assert shown.seen(CODES[::-1], Layer(shown.image, ALL))  # a leaf, not an output


def test_layers_cover_each_other_and_the_rest_is_black(shown):
    green = Variable.of(np.broadcast_to(np.float32([-1.0, 1.0, 0.0, 0.5]), (8, 8, 4)), name="green")
    wanted = np.zeros_like(CODES)
    wanted[:32, :48] = CODES[:32, :48]
    wanted[24:40, 40:60] = (0, 255, 0)
    layers = (
        Layer("picture", ALL),
        Layer(Variable.of(np.zeros((4, 4, 3))), (48, 0, 100, 100)),
        Layer(Variable.of(np.zeros((4, 4, 3))), (-4, 32, 200, 200)),
        Layer(green, (40, 24, 20, 16)),
        Layer(green, (400, 24, 20, 16)),
    )
    assert shown.seen(wanted, *layers)
    assert shown.seen(np.zeros_like(CODES[:20]), Layer(green, (0, 30, 4, 4)))


def test_a_picture_is_scaled(device, screen):
    shown = Shown(device, screen)
    shown.presenter._smooth = False
    assert shown.seen(
        np.kron(CODES[:32, :48], np.ones((2, 2, 1), np.uint8)), Layer("picture", (0, 0, 192, 128))
    )
    # Halves of it hang over two borders.
    half = np.kron(CODES[32:, 48:], np.ones((2, 2, 1), np.uint8))
    assert shown.seen(half, Layer("picture", (-96, -64, 192, 128)))
    shown.close()


def test_a_window_that_changes_its_size_goes_on(shown):
    import glfw

    assert shown.seen(CODES)
    sizes = []
    shown.canvas.on("resize", lambda event: sizes.append((event["width"], event["height"])))
    for width, height in ((160, 100), (40, 30), (300, 200)):
        glfw.set_window_size(shown.canvas.widget._window, width, height)
        for _ in range(3):
            shown.present(Layer("picture", (0, 0, width, height)))
        wanted = np.zeros((height, width, 3), np.uint8)
        wanted[: SIZE[1], : SIZE[0]] = CODES[:height, :width]
        assert shown.seen(wanted)
        assert shown.swapchain._extent == shown.presenter.size == (width, height)
    assert sizes[-3:] == [(160, 100), (40, 30), (300, 200)]


def test_a_minimised_window_costs_nothing_and_comes_back(shown):
    import glfw

    shown.screen.managed()
    window = shown.canvas.widget._window
    assert shown.present()

    def minimised() -> bool:
        glfw.iconify_window(window)
        return not shown.present()

    assert until(minimised)
    assert shown.presenter.size == (0, 0)
    glfw.restore_window(window)
    assert until(shown.present)

    def there(picture: np.ndarray) -> bool:
        x, y = glfw.get_window_pos(window)  # where the manager has put it by now
        return np.array_equal(picture[y : y + SIZE[1], x : x + SIZE[0]], CODES)

    assert there(steady(shown.screen, there, shown.present))


def test_closing_a_window_leaves_the_optimisation_alone(device, screen):
    shown = Shown(device, screen)
    target = Variable.of(np.zeros_like(CODES / 255), name="target")
    shown.ad.set_loss(F.mean(F.square(F.length(shown.image - target))))
    shown.ad.set_optimizer(adam(0.01), [shown.image])
    closed = []
    shown.canvas.on("close", lambda event: closed.append(event["event_type"]))
    for step in range(12):
        shown.ad.step(5)
        if step == 6:
            shown.canvas.close()  # in the middle of submitted steps
        assert shown.present() == (step < 6)
    assert shown.canvas.closed and closed == ["close"]
    losses = shown.ad.losses()
    assert len(losses) == 60 and losses[-1] < 0.5 * losses[0]
    shown.close()
    shown.close()
    with pytest.raises(InputError, match="the window is closed"):
        shown.presenter.prepare(device)


def test_the_device_destroys_windows_that_are_still_open(device, screen):
    own = Device(device.name, validation=device.instance.validation)
    shown = Shown(own, screen)
    assert shown.present()
    assert "SwapchainKHR" in own.live_objects() and "SurfaceKHR" in own.live_objects()
    own.close()
    assert own.live_objects() == []
    shown.canvas.close()


# ---- what goes wrong
class Planted:
    """Results of Vulkan functions by name, the next first; then the true ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.results: dict[str, list[int]] = {}
        self.after: dict[str, list[int]] = {}
        true = Procedures.__call__

        def call(procedures, name, *arguments):
            if self.results.get(name):
                return self.results[name].pop(0)
            code = true(procedures, name, *arguments)
            return self.after[name].pop(0) if self.after.get(name) else code

        monkeypatch.setattr(Procedures, "__call__", call)


@pytest.fixture
def planted(monkeypatch) -> Planted:
    return Planted(monkeypatch)


def test_changes_of_the_window_during_a_frame_are_followed(shown, planted):
    assert shown.present()
    first = shown.swapchain._chain
    planted.results["vkAcquireNextImageKHR"] = [OUT_OF_DATE]
    assert shown.present() and shown.swapchain._chain != first
    planted.after["vkQueuePresentKHR"] = [OUT_OF_DATE]
    assert shown.present()
    planted.after["vkQueuePresentKHR"] = [SUBOPTIMAL]
    second = shown.swapchain._chain
    assert shown.present() and shown.swapchain._chain == second
    assert shown.present() and shown.swapchain._chain != second
    planted.results["vkAcquireNextImageKHR"] = [OUT_OF_DATE] * 3
    assert not shown.present()  # a window that never stops changing
    planted.results["vkAcquireNextImageKHR"] = [TIMEOUT]
    assert not shown.present()
    assert shown.seen(CODES)


def test_a_lost_surface_is_made_again_once(shown, planted):
    assert shown.present()
    first = shown.swapchain.surface.handle
    for name in ("vkAcquireNextImageKHR", "vkGetPhysicalDeviceSurfaceCapabilitiesKHR"):
        planted.results[name] = [SURFACE_LOST]
        assert shown.present()
    assert shown.swapchain.surface.handle is not first
    planted.after["vkQueuePresentKHR"] = [SURFACE_LOST]
    assert shown.present()
    assert shown.seen(CODES)
    planted.results["vkGetPhysicalDeviceSurfaceCapabilitiesKHR"] = [SURFACE_LOST] * 2
    with pytest.raises(DeviceError, match=r"the surface of the window is lost.*; open the window again"):
        shown.present()
    assert shown.ad.recv("picture").shape == (1, SIZE[1], SIZE[0], 3)  # the engine goes on
    assert shown.seen(CODES)


def test_a_device_without_a_way_into_the_window_says_so(shown, planted, monkeypatch):
    before = shown.device.live_objects()
    planted.after["vkGetPhysicalDeviceSurfaceSupportKHR"] = []
    true = Procedures.must

    def unsupported(procedures, failed, name, *arguments):
        true(procedures, failed, name, *arguments)
        if name == "vkGetPhysicalDeviceSurfaceSupportKHR":
            arguments[-1][0] = 0

    def no_surfaces(_, name, *kind):
        return name == "vkCreateSwapchainKHR" or None

    for method, faulty, words in (
        ("must", unsupported, "does not present to it; choose the device"),
        ("find", lambda *_: None, "lacks VK_KHR_swapchain; let pictures go"),
        ("find", no_surfaces, "no surfaces of this system"),
    ):
        with monkeypatch.context() as patch, pytest.raises(DeviceError, match=words):
            patch.setattr(Procedures, method, faulty)
            shown.present()
    assert shown.device.live_objects() == before
    assert shown.present()


def test_an_interrupted_frame_does_not_end_the_window(shown, monkeypatch):
    assert shown.present()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(swapchain.Copies, "record", interrupt)
        shown.present()
    assert shown.seen(CODES)


def test_the_validation_layer_watches_the_swapchain(shown, monkeypatch):
    if not shown.device.instance.validation:
        pytest.skip("there is no validation layer")
    change = swapchain.Copies._change

    def forgotten(self, buffer, image, before, after, old, new):
        if new != 1000001002:  # VK_IMAGE_LAYOUT_PRESENT_SRC_KHR
            change(self, buffer, image, before, after, old, new)

    with monkeypatch.context() as patch:
        patch.setattr(swapchain.Copies, "_change", forgotten)
        shown.present()
    shown.device.wait()
    assert any("PRESENT_SRC" in text for text in shown.device.messages)
    shown.device.messages.clear()


def test_only_pictures_of_this_device_are_shown(shown):
    flat = Variable.of(np.zeros((5, 5)), name="flat")
    two = Variable.of(np.zeros((2, 4, 4, 3)), name="two")
    for wrong, words in ((flat, "VEC3 or VEC4 of one tile, not 1 of FLOAT"), (two, "not 2 of VEC3")):
        with pytest.raises(GraphError, match=words):
            shown.present(Layer(wrong, ALL))
    with pytest.raises(GraphError, match="no output 'nothing'"):
        shown.present(Layer("nothing", ALL))
    with Device(shown.device.name) as other, DressiAD(other) as ad:
        ad.set_output("picture", shown.image)
        ad.send(shown.image, CODES / 255)
        image = ad.export("picture")
        assert shown.present()
        with pytest.raises(InputError, match="lies on another device"):
            shown.swapchain.present([(image, ALL)])


def test_what_is_no_window_is_refused(device):
    for wrong in (0, None, "window", 1.5, True):
        with pytest.raises(
            InputError, match=r"a window is a NativeWindow or a VkSurfaceKHR \(a whole number"
        ):
            Swapchain(device, wrong)
    with pytest.raises(InputError, match="the id of an X11 window is a whole number above 0, not 0"):
        X11Window(0, 1)


def test_a_lost_device_ends_the_window_with_its_sentence(device, screen, monkeypatch):
    own = Device(device.name, validation=device.instance.validation)
    shown = Shown(own, screen)
    assert shown.present()
    with monkeypatch.context() as patch, pytest.raises(DeviceLostError, match="lost the device"):
        patch.setattr(Swapchain, "_present", lambda self, image: -4)
        shown.present()
    with pytest.raises(DeviceLostError, match="cannot be used any more"):
        shown.present()
    shown.close()
    own.close()
    assert own.live_objects() == []
