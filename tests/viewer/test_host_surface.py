"""A program with Vulkan of its own: dressi draws into the surface that it has already."""

import asyncio
import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
import vulkan as vk
from screen import Screen, steady
from viewer import Viewer as Program

from dressi import Device, DressiAD, F, Variable, adam
from dressi.errors import DeviceError
from dressi.viewer import EngineSession, Viewer, host_canvas
from dressi.viewer.presenter import Layer, SwapchainPresenter
from dressi.vk.run.present.procedures import SURFACE_LOST, Procedures

pytestmark = pytest.mark.vk
SURFACES, SWAPCHAIN = ("VK_KHR_surface", "VK_KHR_xcb_surface"), ("VK_KHR_swapchain",)
SIZE = (64, 48)
CODES = np.random.default_rng(2).integers(0, 256, (SIZE[1], SIZE[0], 3)).astype(np.uint8)


class Host(Program):
    """A Vulkan program with a window and its VkSurfaceKHR."""

    def __init__(self, device: Device, *, swapchain: tuple[str, ...] = SWAPCHAIN):
        import glfw

        validation = device.instance.validation
        super().__init__(device.name, validation=validation, surfaces=SURFACES, swapchain=swapchain)
        assert glfw.init()
        glfw.default_window_hints()
        glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
        self.window = glfw.create_window(*SIZE, "host", None, None)
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
    image = Variable.of(CODES / np.float32(255), name="image")
    with Device.from_handles(*host.handles, features=host.features) as own, DressiAD(own) as ad:
        ad.set_output("picture", F.clamp(image, 0.0, 1.0))
        for surface in (host.surface, number):
            window = SwapchainPresenter(surface, lambda: SIZE)
            layer = Layer("picture", (0, 0, *SIZE))

            def right(picture: np.ndarray) -> bool:
                return np.array_equal(picture[: SIZE[1], : SIZE[0]], CODES)

            assert right(steady(screen, right, lambda: window.present(ad, [layer])))  # noqa: B023
            window.close()
            assert "SurfaceKHR" not in own.live_objects()


def test_the_viewer_runs_in_the_window_of_the_host(host, screen):
    """Beside a loop of asyncio, with what the host's user does passed on."""
    image = Variable.of(CODES / np.float32(255), name="image")
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
        canvas = host_canvas(host.surface, lambda: SIZE)
        viewer = Viewer(EngineSession(ad, image=image, codes=True, steps=6), canvas, panel=False)
        asyncio.run(program(viewer))
        assert canvas.closed and others > 1 and len(ad.losses()) == 6
        canvas.close()


def test_a_lost_surface_of_the_host_is_the_hosts_to_replace(host, monkeypatch):
    image = Variable.of(CODES / np.float32(255), name="image")
    with Device.from_handles(*host.handles, features=host.features) as own, DressiAD(own) as ad:
        window = SwapchainPresenter(host.surface, lambda: SIZE)
        assert window.present(ad, [Layer(image, (0, 0, *SIZE))])
        call = Procedures.__call__

        def lost(procedures, name, *arguments):
            return SURFACE_LOST if "Capabilities" in name else call(procedures, name, *arguments)

        with (
            monkeypatch.context() as patch,
            pytest.raises(DeviceError, match="make a Swapchain with its new VkSurf"),
        ):
            patch.setattr(Procedures, "__call__", lost)
            window.present(ad, [Layer(image, (0, 0, *SIZE))])
        window.close()


def test_an_adopted_device_without_swapchains_says_what_to_enable(device, screen):
    host = Host(device, swapchain=())
    image = Variable.of(CODES / np.float32(255), name="image")
    with Device.from_handles(*host.handles, features=host.features) as own, DressiAD(own) as ad:
        window = SwapchainPresenter(host.surface, lambda: SIZE)
        with pytest.raises(
            DeviceError, match="VK_KHR_swapchain is not enabled in the adopted device; name it"
        ):
            window.present(ad, [Layer(image, (0, 0, *SIZE))])
    host.close()
    assert host.messages == []
