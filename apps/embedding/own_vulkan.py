"""A program with Vulkan of its own: dressi optimises on its device and draws into its surface.

python apps/embedding/own_vulkan.py [--steps 400]
"""

import glfw
import vulkan as vk
from shape import fitting, options

from dressi import Device
from dressi.viewer import Viewer, host_canvas

given = options(__doc__, device=False)

# What the program has anyway: a window, an instance, a surface, a device, a queue.
ready = glfw.init() and glfw.vulkan_supported()
glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
window = glfw.create_window(720, 480, "Vulkan of its own", None, None) if ready else None
if window is None:
    raise SystemExit(
        "no window can be opened: run it in a desktop session, with DISPLAY set and a Vulkan loader"
    )
application = vk.VkApplicationInfo(apiVersion=vk.VK_MAKE_VERSION(1, 1, 0))
wanted = {"ppEnabledExtensionNames": glfw.get_required_instance_extensions()}
instance = vk.vkCreateInstance(vk.VkInstanceCreateInfo(pApplicationInfo=application, **wanted), None)
surface = vk.ffi.new("VkSurfaceKHR*")
glfw.create_window_surface(instance, window, None, surface)
physical = vk.vkEnumeratePhysicalDevices(instance)[0]
features = ["shaderStorageImageExtendedFormats"]
queues = [vk.VkDeviceQueueCreateInfo(queueFamilyIndex=0, queueCount=1, pQueuePriorities=[1.0])]
info = vk.VkDeviceCreateInfo(
    pQueueCreateInfos=queues,
    ppEnabledExtensionNames=["VK_KHR_swapchain"],
    pEnabledFeatures=vk.VkPhysicalDeviceFeatures(**dict.fromkeys(features, True)),
)
device = vk.vkCreateDevice(physical, info, None)
queue = vk.vkGetDeviceQueue(device, 0, 0)

# dressi beside it.
with Device.from_handles(instance, physical, device, 0, queue, features=features) as own:
    engine, session = fitting(own, given.steps)
    canvas = host_canvas(surface[0], lambda: glfw.get_framebuffer_size(window))

    def pointer(kind: str) -> None:
        x, y = glfw.get_cursor_pos(window)
        held = (1,) if glfw.get_mouse_button(window, glfw.MOUSE_BUTTON_LEFT) else ()
        canvas.submit({"event_type": kind, "x": x, "y": y, "button": 1, "buttons": held, "modifiers": ()})

    glfw.set_cursor_pos_callback(window, lambda *_: pointer("pointer_move"))
    glfw.set_mouse_button_callback(window, lambda *given: pointer(("pointer_up", "pointer_down")[given[2]]))
    viewer = Viewer(session, canvas)
    while viewer.tick() and not glfw.window_should_close(window):
        glfw.poll_events()
    print(f"closed with loss {engine.losses()[-1]:.4f}")
    canvas.close()
    engine.close()
vk.vkGetInstanceProcAddr(instance, "vkDestroySurfaceKHR")(instance, surface[0], None)
vk.vkDestroyDevice(device, None)
vk.vkDestroyInstance(instance, None)
