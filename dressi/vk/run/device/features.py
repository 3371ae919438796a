"""Features of Vulkan that dressi uses: those a device must have, and those it uses where they are enabled."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

CORE = "VkPhysicalDeviceFeatures"


@dataclass(frozen=True)
class Feature:
    """A member of one of Vulkan's structures of features.

    use: what dressi uses it for.  structure: of which it is a member; others than the core's come with an extension.
    """

    name: str
    use: str
    required: bool = False
    structure: str = CORE
    extension: str | None = None

    def __str__(self) -> str:
        return f"{self.use} ({self.name})"


FEATURES = (
    Feature("shaderStorageImageExtendedFormats", "storage images of two components", required=True),
    Feature("fragmentStoresAndAtomics", "scatters that are drawn over primitives"),
    Feature("multiDrawIndirect", "one call for all draws of a list"),
    Feature("shaderInt64", "64-bit sums"),
    Feature(
        "shaderBufferInt64Atomics",
        "sums by one atomic operation instead of two",
        structure="VkPhysicalDeviceShaderAtomicInt64Features",
        extension="VK_KHR_shader_atomic_int64",
    ),
    Feature(
        "shaderFloat16",
        "operands of matrix products in half precision",
        structure="VkPhysicalDeviceShaderFloat16Int8Features",
        extension="VK_KHR_shader_float16_int8",
    ),
    Feature(
        "vulkanMemoryModel",
        "matrices in the registers of a subgroup",
        structure="VkPhysicalDeviceVulkanMemoryModelFeatures",
        extension="VK_KHR_vulkan_memory_model",
    ),
    Feature(
        "vulkanMemoryModelDeviceScope",
        "atomic operations under that memory model",
        structure="VkPhysicalDeviceVulkanMemoryModelFeatures",
        extension="VK_KHR_vulkan_memory_model",
    ),
    Feature(
        "computeFullSubgroups",
        "workgroups of full subgroups",
        structure="VkPhysicalDeviceSubgroupSizeControlFeatures",
        extension="VK_EXT_subgroup_size_control",
    ),
    Feature(
        "cooperativeMatrix",
        "matrix products by subgroups",
        structure="VkPhysicalDeviceCooperativeMatrixFeaturesKHR",
        extension="VK_KHR_cooperative_matrix",
    ),
)
REQUIRED = tuple(f for f in FEATURES if f.required)
"""Those without which no plan runs."""
MATRICES = frozenset(
    (
        "shaderFloat16",
        "vulkanMemoryModel",
        "vulkanMemoryModelDeviceScope",
        "computeFullSubgroups",
        "cooperativeMatrix",
    )
)
"""Those of matrix products, which are of use together alone: a device that lacks one of them counts as having none."""


def supported_features(vk: Any, physical: Any, extensions: Iterable[str]) -> frozenset[str]:
    """Names of the core's features, and of FEATURES, that a physical device with these extensions has."""
    core = vk.vkGetPhysicalDeviceFeatures(physical)
    found = {name for name, _ in vk.ffi.typeof(CORE).fields if getattr(core, name)}
    for f in FEATURES:
        if f.extension is not None and f.extension in extensions:
            chained = getattr(vk, f.structure)()
            vk.vkGetPhysicalDeviceFeatures2(physical, vk.VkPhysicalDeviceFeatures2(pNext=chained))
            if getattr(chained, f.name):
                found.add(f.name)
    return usable(found)


def usable(names: Iterable[str]) -> frozenset[str]:
    """The names of features without those of MATRICES where not all are there."""
    found = frozenset(names)
    return found if found >= MATRICES else found - MATRICES


def all_features(vk: Any) -> frozenset[str]:
    """Names of all features of Vulkan that the binding knows."""
    found = set[str]()
    for structure in (n for n in dir(vk.module) if n.startswith("VkPhysicalDevice") and "Features" in n):
        with suppress(vk.ffi.error):  # the binding names some that it does not declare
            found.update(name for name, _ in vk.ffi.typeof(structure).fields)
    return frozenset(found)


def enabling(vk: Any, names: frozenset[str]) -> dict[str, Any]:
    """Arguments of VkDeviceCreateInfo that enable these FEATURES: pNext, pEnabledFeatures and the extensions'
    names."""
    chosen = [f for f in FEATURES if f.name in names]
    members: dict[str, list[str]] = {}
    for f in chosen:
        members.setdefault(f.structure, []).append(f.name)
    chain = None
    for structure, enabled in members.items():
        if structure != CORE:
            chain = getattr(vk, structure)(pNext=chain, **dict.fromkeys(enabled, True))
    return {
        "pNext": chain,
        "pEnabledFeatures": getattr(vk, CORE)(**dict.fromkeys(members.get(CORE, ()), True)),
        "ppEnabledExtensionNames": list(dict.fromkeys(f.extension for f in chosen if f.extension)),
    }
