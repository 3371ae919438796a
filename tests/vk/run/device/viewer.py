"""A plain Vulkan program, written against the binding alone: it stands for a viewer in which dressi runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import vulkan as vk

from dressi.vk.run.shaders.pyglslang import compile_glsl

LAYER = "VK_LAYER_KHRONOS_validation"
SAMPLE = """#version 450
layout(local_size_x = 8, local_size_y = 8) in;
layout(set = 0, binding = 0) uniform sampler2D picture;
layout(set = 0, binding = 1) buffer Texels { vec4 texel[]; };
void main() {
    ivec2 size = textureSize(picture, 0), place = ivec2(gl_GlobalInvocationID.xy);
    if (place.x < size.x && place.y < size.y)
        texel[place.y * size.x + place.x] = texture(picture, (vec2(place) + 0.5) / vec2(size));
}
"""
CHANNELS = {
    vk.VK_FORMAT_R32_SFLOAT: (1, np.float32),
    vk.VK_FORMAT_R32G32_SFLOAT: (2, np.float32),
    vk.VK_FORMAT_R32G32B32A32_SFLOAT: (4, np.float32),
    vk.VK_FORMAT_R32_SINT: (1, np.int32),
}
COLOR = vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1)


class Viewer:
    """An instance, a device of that name with one queue, and reads of images on it. ``messages``: what the validation
    layer says. surfaces, swapchain: extensions of the instance and of the device, for windows."""

    def __init__(
        self,
        name: str,
        *,
        validation: bool,
        features: tuple[str, ...] | None = None,
        surfaces: tuple[str, ...] = (),
        swapchain: tuple[str, ...] = (),
    ):
        self.messages: list[str] = []
        self.validated = validation
        self._make_instance(validation, surfaces)
        devices = vk.vkEnumeratePhysicalDevices(self.instance)
        self.physical = next(d for d in devices if vk.vkGetPhysicalDeviceProperties(d).deviceName == name)
        self.family = 0
        supported = vk.vkGetPhysicalDeviceFeatures(self.physical)
        wanted = ("shaderStorageImageExtendedFormats", "fragmentStoresAndAtomics")
        self.features = [f for f in wanted if getattr(supported, f)] if features is None else [*features]
        # Named, because the binding copies it without the numbers that it points to.
        queues = [vk.VkDeviceQueueCreateInfo(queueFamilyIndex=0, queueCount=1, pQueuePriorities=[1.0])]
        info = vk.VkDeviceCreateInfo(
            pQueueCreateInfos=queues,
            ppEnabledExtensionNames=swapchain,
            pEnabledFeatures=vk.VkPhysicalDeviceFeatures(**dict.fromkeys(self.features, True)),
        )
        self.device = vk.vkCreateDevice(self.physical, info, None)
        self.queue = vk.vkGetDeviceQueue(self.device, 0, 0)
        info = vk.VkCommandPoolCreateInfo(queueFamilyIndex=0)
        self._made = [(vk.vkDestroyCommandPool, vk.vkCreateCommandPool(self.device, info, None))]
        self.pool = self._made[0][1]
        self.memory = vk.vkGetPhysicalDeviceMemoryProperties(self.physical)

    def _make_instance(self, validation: bool, surfaces: tuple[str, ...]) -> None:
        features = vk.VkValidationFeaturesEXT(
            pEnabledValidationFeatures=[vk.VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT]
        )
        application = vk.VkApplicationInfo(pApplicationName="viewer", apiVersion=vk.VK_MAKE_VERSION(1, 1, 0))
        extensions = [
            *surfaces,
            *(["VK_EXT_debug_utils", "VK_EXT_validation_features"] if validation else []),
        ]
        layers = [LAYER] if validation else []
        info = vk.VkInstanceCreateInfo(
            pNext=features if validation else None,
            pApplicationInfo=application,
            ppEnabledLayerNames=layers,
            ppEnabledExtensionNames=extensions,
        )
        self.instance = vk.vkCreateInstance(info, None)
        self._messenger = None
        if validation:
            create = vk.vkGetInstanceProcAddr(self.instance, "vkCreateDebugUtilsMessengerEXT")

            def hear(severity: int, kind: int, data: Any, user: Any) -> int:
                self.messages.append(vk.ffi.string(data.pMessage).decode(errors="replace"))
                return 0

            info = vk.VkDebugUtilsMessengerCreateInfoEXT(
                messageSeverity=vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT
                | vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
                messageType=vk.VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
            )
            # The constructor of the binding would make it the callback of all messengers in the process.
            self._hear = vk.ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", hear)
            info.pfnUserCallback = self._hear
            self._messenger = create(self.instance, info, None)

    @property
    def handles(self) -> tuple[Any, ...]:
        """What ``Device.from_handles`` takes."""
        return self.instance, self.physical, self.device, self.family, self.queue

    # ---- reading
    def copy(self, exported: Any, *, lock: Any = None) -> list[np.ndarray]:
        """The texels of each plane, (height, width, components), by a copy of the image."""
        return [self._read(exported, plane, self._record_copy, lock) for plane in exported.planes]

    def sample(self, exported: Any) -> list[np.ndarray]:
        """The texels of each plane of floats, (height, width, 4), as a sampler in a shader sees them."""
        return [self._read(exported, plane, self._record_sampling, None) for plane in exported.planes]

    def _read(self, exported: Any, plane: Any, write: Any, lock: Any) -> np.ndarray:
        width, height = exported.extent
        channels, dtype = (4, np.float32) if write == self._record_sampling else CHANNELS[plane.format]
        size = 4 * channels * width * height
        made: list[Any] = []
        buffer, memory = self._buffer(size, made)
        info = vk.VkCommandBufferAllocateInfo(commandPool=self.pool, level=0, commandBufferCount=1)
        commands = vk.vkAllocateCommandBuffers(self.device, info)[0]
        vk.vkBeginCommandBuffer(commands, vk.VkCommandBufferBeginInfo())
        # The contract of an export.
        everything = vk.VK_ACCESS_TRANSFER_READ_BIT | vk.VK_ACCESS_SHADER_READ_BIT
        barrier = vk.VkMemoryBarrier(srcAccessMask=exported.access, dstAccessMask=everything)
        stages = vk.VK_PIPELINE_STAGE_TRANSFER_BIT | vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
        vk.vkCmdPipelineBarrier(commands, exported.stage, stages, 0, 1, [barrier], 0, None, 0, None)
        write(commands, exported, plane, buffer, size, made)
        written = vk.VK_ACCESS_TRANSFER_WRITE_BIT | vk.VK_ACCESS_SHADER_WRITE_BIT
        barrier = vk.VkMemoryBarrier(srcAccessMask=written, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT)
        host = vk.VK_PIPELINE_STAGE_HOST_BIT
        vk.vkCmdPipelineBarrier(commands, stages, host, 0, 1, [barrier], 0, None, 0, None)
        vk.vkEndCommandBuffer(commands)
        fence = vk.vkCreateFence(self.device, vk.VkFenceCreateInfo(), None)
        if lock is not None:
            lock.acquire()
        vk.vkQueueSubmit(self.queue, 1, [vk.VkSubmitInfo(pCommandBuffers=[commands])], fence)
        if lock is not None:
            lock.release()
        vk.vkWaitForFences(self.device, 1, [fence], True, 10**11)
        data = np.frombuffer(vk.vkMapMemory(self.device, memory, 0, size, 0), dtype).copy()
        vk.vkUnmapMemory(self.device, memory)
        vk.vkDestroyFence(self.device, fence, None)
        vk.vkFreeCommandBuffers(self.device, self.pool, 1, [commands])
        for destroy, handle in reversed(made):
            destroy(self.device, handle, None)
        return data.reshape(height, width, channels)

    def _buffer(self, size: int, made: list[Any]) -> tuple[Any, Any]:
        usage = vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT | vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
        buffer = vk.vkCreateBuffer(self.device, vk.VkBufferCreateInfo(size=size, usage=usage), None)
        needs = vk.vkGetBufferMemoryRequirements(self.device, buffer)
        visible = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
        kind = next(
            k
            for k in range(self.memory.memoryTypeCount)
            if needs.memoryTypeBits >> k & 1 and self.memory.memoryTypes[k].propertyFlags & visible == visible
        )
        info = vk.VkMemoryAllocateInfo(allocationSize=needs.size, memoryTypeIndex=kind)
        memory = vk.vkAllocateMemory(self.device, info, None)
        vk.vkBindBufferMemory(self.device, buffer, memory, 0)
        made += [(vk.vkFreeMemory, memory), (vk.vkDestroyBuffer, buffer)]
        return buffer, memory

    def _record_copy(self, commands: Any, exported: Any, plane: Any, buffer: Any, size: int, made: list[Any]):
        region = vk.VkBufferImageCopy(
            imageSubresource=vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1),
            imageExtent=vk.VkExtent3D(*exported.extent, 1),
        )
        image = vk.ffi.cast("VkImage", plane.image)
        vk.vkCmdCopyImageToBuffer(commands, image, exported.layout, buffer, 1, [region])

    def _record_sampling(
        self, commands: Any, exported: Any, plane: Any, buffer: Any, size: int, made: list[Any]
    ):
        """A view of the viewer's own, a nearest sampler, and a dispatch that writes what it gives."""

        def own(kind: str, info: Any) -> Any:
            handle = getattr(vk, f"vkCreate{kind}")(self.device, info, None)
            made.append((getattr(vk, f"vkDestroy{kind}"), handle))
            return handle

        image = vk.ffi.cast("VkImage", plane.image)
        view = own(
            "ImageView",
            vk.VkImageViewCreateInfo(
                image=image, viewType=vk.VK_IMAGE_VIEW_TYPE_2D, format=plane.format, subresourceRange=COLOR
            ),
        )
        edge = vk.VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE
        sampler = own(
            "Sampler", vk.VkSamplerCreateInfo(addressModeU=edge, addressModeV=edge, addressModeW=edge)
        )
        kinds = (vk.VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER)
        compute = vk.VK_SHADER_STAGE_COMPUTE_BIT
        bindings = [vk.VkDescriptorSetLayoutBinding(k, kind, 1, compute) for k, kind in enumerate(kinds)]
        sets = own("DescriptorSetLayout", vk.VkDescriptorSetLayoutCreateInfo(pBindings=bindings))
        layout = own("PipelineLayout", vk.VkPipelineLayoutCreateInfo(pSetLayouts=[sets]))
        sizes = [vk.VkDescriptorPoolSize(kind, 1) for kind in kinds]
        pool = own("DescriptorPool", vk.VkDescriptorPoolCreateInfo(maxSets=1, pPoolSizes=sizes))
        allocation = vk.VkDescriptorSetAllocateInfo(descriptorPool=pool, pSetLayouts=[sets])
        descriptors = vk.vkAllocateDescriptorSets(self.device, allocation)[0]
        pictures = [vk.VkDescriptorImageInfo(sampler, view, exported.layout)]
        buffers = [vk.VkDescriptorBufferInfo(buffer, 0, size)]
        writes = [
            vk.VkWriteDescriptorSet(
                dstSet=descriptors, dstBinding=0, descriptorType=kinds[0], pImageInfo=pictures
            ),
            vk.VkWriteDescriptorSet(
                dstSet=descriptors, dstBinding=1, descriptorType=kinds[1], pBufferInfo=buffers
            ),
        ]
        vk.vkUpdateDescriptorSets(self.device, 2, writes, 0, None)
        code = compile_glsl(SAMPLE, "compute", "viewer")
        module = own("ShaderModule", vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code))
        stage = vk.VkPipelineShaderStageCreateInfo(stage=compute, module=module, pName="main")
        info = [vk.VkComputePipelineCreateInfo(stage=stage, layout=layout)]
        pipeline = vk.vkCreateComputePipelines(self.device, None, 1, info, None)[0]
        made.append((vk.vkDestroyPipeline, pipeline))
        point = vk.VK_PIPELINE_BIND_POINT_COMPUTE
        vk.vkCmdBindPipeline(commands, point, pipeline)
        vk.vkCmdBindDescriptorSets(commands, point, layout, 0, 1, [descriptors], 0, None)
        width, height = exported.extent
        vk.vkCmdDispatch(commands, -(-width // 8), -(-height // 8), 1)

    # ---- the end
    def destroy_objects(self) -> None:
        """What the viewer made on its device."""
        while self._made:
            destroy, handle = self._made.pop()
            destroy(self.device, handle, None)

    def close(self) -> None:
        """The device and the instance too; the validation layer names what is left on them."""
        self.destroy_objects()
        vk.vkDestroyDevice(self.device, None)
        if self._messenger is not None:
            destroy = vk.vkGetInstanceProcAddr(self.instance, "vkDestroyDebugUtilsMessengerEXT")
            destroy(self.instance, self._messenger, None)
        vk.vkDestroyInstance(self.instance, None)
