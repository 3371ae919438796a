"""A program with Vulkan of its own: dressi optimises on its device and draws into its surface.

python apps/embedding/own_vulkan.py [--steps 200]
"""

import glfw
import vulkan as vk
from shape import Shape, centred, options

from dressi import Device
from dressi.viewer.presenter import Layer, SwapchainPresenter

given = options(__doc__)

# What the program has anyway: a window, an instance, a surface, a device, a queue.
glfw.init()
glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
window = glfw.create_window(384, 384, "Vulkan of its own", None, None)
instance = vk.vkCreateInstance(
    vk.VkInstanceCreateInfo(
        pApplicationInfo=vk.VkApplicationInfo(apiVersion=vk.VK_MAKE_VERSION(1, 1, 0)),
        ppEnabledExtensionNames=glfw.get_required_instance_extensions(),
    ),
    None,
)
surface = vk.ffi.new("VkSurfaceKHR*")
glfw.create_window_surface(instance, window, None, surface)
physical = vk.vkEnumeratePhysicalDevices(instance)[0]
features = ["shaderStorageImageExtendedFormats"]
device = vk.vkCreateDevice(
    physical,
    vk.VkDeviceCreateInfo(
        pQueueCreateInfos=[
            vk.VkDeviceQueueCreateInfo(queueFamilyIndex=0, queueCount=1, pQueuePriorities=[1.0])
        ],
        ppEnabledExtensionNames=["VK_KHR_swapchain"],
        pEnabledFeatures=vk.VkPhysicalDeviceFeatures(**dict.fromkeys(features, True)),
    ),
    None,
)
queue = vk.vkGetDeviceQueue(device, 0, 0)

# dressi beside it.
with Device.from_handles(instance, physical, device, 0, queue, features=features) as own:
    shape = Shape(own, (384, 384))
    picture = SwapchainPresenter(surface[0], lambda: glfw.get_framebuffer_size(window))
    for _ in range(given.steps):
        glfw.poll_events()
        if glfw.window_should_close(window):
            break
        shape.engine.step()
        picture.present(shape.engine, [Layer("view", centred(picture.size))])
    print(f"loss {shape.engine.losses()[-1]:.4f}")
    picture.close()
    shape.engine.close()
vk.vkGetInstanceProcAddr(instance, "vkDestroySurfaceKHR")(instance, surface[0], None)
vk.vkDestroyDevice(device, None)
vk.vkDestroyInstance(instance, None)
