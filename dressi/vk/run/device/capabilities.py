"""What a physical device offers, as plain data, and whether that is enough.

``read_capabilities`` asks the driver once. ``missing`` is a pure function of the answer, so any device can be
imagined in a test. What dressi can do without is a field of ``DeviceLimits``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ....errors import DeviceError
from ...plan.core.limits import LIMITS, NO_MATRIX, UNLIMITED, DeviceLimits, MatrixShape
from ...plan.core.substage import GROUP
from ...plan.execution.images import ANY, NOTHING, Usage
from .results import Binding

VERSION = (1, 1)
"""The version of Vulkan that dressi speaks."""

FORMATS: dict[str, Usage] = {
    **{f"{channels}_{kind}": ANY for channels in ("R32", "R32G32", "R32G32B32A32") for kind in ("SFLOAT", "SINT")},
    "D32_SFLOAT": Usage.DEPTH,
}  # fmt: skip
"""Formats of the images of plans, and every use that a plan may make of them."""
HALF_FORMATS = ("R16_SFLOAT", "R16G16_SFLOAT", "R16G16B16A16_SFLOAT")
"""Formats of 16-bit intermediate values. A device may lack them: see ``DeviceLimits.half_images``."""

_LAVAPIPE = 13
"""Its VkDriverId."""

_TRANSFER_SOURCE, _TRANSFER_TARGET = 0x4000, 0x8000  # VK_FORMAT_FEATURE_TRANSFER_{SRC,DST}_BIT
_CURE = "choose another device (`dressi devices` lists them) or update its driver"


class QueueFamily(NamedTuple):
    """One queue family of a device."""

    graphics: bool
    compute: bool
    timestamp_bits: int


@dataclass(frozen=True)
class Capabilities:
    """What dressi may use of a physical device.

    features: names of members of VkPhysicalDeviceFeatures, and ``shaderBufferInt64Atomics``. formats: by the
    name of a VkFormat, what images with optimal tiling may be used for. limits: what plans must respect.
    """

    version: tuple[int, int]
    queue_families: tuple[QueueFamily, ...]
    extensions: frozenset[str]
    features: frozenset[str]
    formats: Mapping[str, Usage]
    limits: DeviceLimits
    max_memory_allocations: int

    @property
    def family(self) -> int:
        """The number of the first queue family for graphics and compute."""
        return next(k for k, family in enumerate(self.queue_families) if family.graphics and family.compute)


def missing(c: Capabilities) -> list[str]:
    """What the device lacks that every plan needs, in words; empty where it can be used."""
    found = []
    if c.version < VERSION:
        found.append("Vulkan {}.{} (it has {}.{})".format(*VERSION, *c.version))
    if not any(family.graphics and family.compute for family in c.queue_families):
        found.append("a queue for both graphics and compute")
    found += [str(feature) for feature in REQUIRED if feature.name not in c.features]
    for name, wanted in FORMATS.items():
        absent = wanted & ~c.formats.get(name, NOTHING)
        if absent:
            found.append(f"images of the format {name} as {absent.words}")
    found += [
        f"{name} of at least {row.needed} (it has {getattr(c.limits, name)})"
        for name, row in LIMITS.items()
        if row.needed and getattr(c.limits, name) < row.needed
    ]
    return found


def check(name: str, c: Capabilities) -> None:
    """Raises DeviceError, which names all that is missing, for a device that dressi cannot use."""
    if found := missing(c):
        raise DeviceError(f"{name} lacks {'; '.join(found)}; {_CURE}")


class Driver:
    """What the driver of a VkPhysicalDevice of a VkInstance answers. The rows of DeviceLimits read it.

    limits: VkPhysicalDeviceLimits.  features: those that are ``enabled``; absent, all that the device has.
    """

    def __init__(self, vk: Binding, instance: Any, physical: Any, enabled: frozenset[str] | None = None):
        self._vk, self._instance, self._physical = vk, instance, physical
        # ``limits`` is a view of this structure, which has to live as long.
        self._properties = vk.vkGetPhysicalDeviceProperties(physical)
        self.api_version, self.limits = self._properties.apiVersion, self._properties.limits
        every = vk.vkEnumerateDeviceExtensionProperties(physical, None)
        self.extensions = frozenset(e.extensionName for e in every)
        self.features = supported_features(vk, physical, self.extensions)
        if enabled is not None:
            self.features &= enabled
        details = driver_properties(vk, physical, self.api_version)
        self.is_lavapipe = details is not None and details.driverID == _LAVAPIPE

    def _format_features(self, name: str) -> int:
        vk = self._vk
        found = vk.vkGetPhysicalDeviceFormatProperties(self._physical, getattr(vk, f"VK_FORMAT_{name}"))
        return found.optimalTilingFeatures

    def offers(self, feature: str) -> bool:
        """Whether all colour formats of 32-bit floats have VK_FORMAT_FEATURE_``feature``_BIT."""
        bit = getattr(self._vk, f"VK_FORMAT_FEATURE_{feature}_BIT")
        names = (name for name in FORMATS if name[0] == "R" and name.endswith("FLOAT"))
        return all(self._format_features(name) & bit for name in names)

    @cached_property
    def formats(self) -> dict[str, Usage]:
        """What images of the formats of plans may be used for."""
        vk = self._vk
        bits = {
            vk.VK_FORMAT_FEATURE_SAMPLED_IMAGE_BIT: Usage.SAMPLED,
            vk.VK_FORMAT_FEATURE_STORAGE_IMAGE_BIT: Usage.STORAGE,
            # An input attachment needs a format for colours, or for sampling.
            vk.VK_FORMAT_FEATURE_COLOR_ATTACHMENT_BIT: Usage.COLOR | Usage.INPUT,
            vk.VK_FORMAT_FEATURE_DEPTH_STENCIL_ATTACHMENT_BIT: Usage.DEPTH,
            _TRANSFER_SOURCE: Usage.SOURCE,
            _TRANSFER_TARGET: Usage.TARGET,
        }
        found = dict.fromkeys((*FORMATS, *HALF_FORMATS), NOTHING)
        for name in found:
            offered = self._format_features(name)
            for bit, usage in bits.items():
                if offered & bit:
                    found[name] |= usage
        return found

    @property
    def half_images(self) -> bool:
        """Whether images of 16-bit floats can be used for everything."""
        return all(not ANY & ~self.formats[name] for name in HALF_FORMATS)

    @property
    def lazy_memory(self) -> bool:
        memory = self._vk.vkGetPhysicalDeviceMemoryProperties(self._physical)
        lazy = self._vk.VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT
        return any(t.propertyFlags & lazy for t in list(memory.memoryTypes)[: memory.memoryTypeCount])

    def properties(self, structure: str) -> Any:
        """A structure of properties, by its name."""
        found = getattr(self._vk, structure)()
        chain = self._vk.VkPhysicalDeviceProperties2(pNext=found)
        self._vk.vkGetPhysicalDeviceProperties2(self._physical, chain)
        return found

    @property
    def subgroup(self) -> int:
        """Invocations of a compute shader that can take values from each other, 1 where none can."""
        vk, found = self._vk, self.properties("VkPhysicalDeviceSubgroupProperties")
        wanted = vk.VK_SUBGROUP_FEATURE_BASIC_BIT | vk.VK_SUBGROUP_FEATURE_SHUFFLE_BIT
        stages = found.supportedStages & vk.VK_SHADER_STAGE_COMPUTE_BIT
        return found.subgroupSize if stages and not wanted & ~found.supportedOperations else 1

    @property
    def matrix(self) -> MatrixShape:
        """The largest product of half-precision matrices that a subgroup adds in single precision and that
        workgroups can be made of."""
        if not self.features >= MATRICES:
            return NO_MATRIX
        vk, lanes = self._vk, self.properties("VkPhysicalDeviceSubgroupProperties").subgroupSize
        name = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
        address = vk.lib.vkGetInstanceProcAddr(self._instance, vk.ffi.new("char[]", name.encode()))
        ask, count = vk.ffi.cast(f"PFN_{name}", address), vk.ffi.new("uint32_t *")
        ask(self._physical, count, vk.ffi.NULL)
        # The binding's own function leaves the type of the structures out.
        every = vk.ffi.new("VkCooperativeMatrixPropertiesKHR[]", count[0])
        for m in every:
            m.sType = vk.VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
        ask(self._physical, count, every)
        half, single = vk.VK_COMPONENT_TYPE_FLOAT16_KHR, vk.VK_COMPONENT_TYPE_FLOAT32_KHR
        wanted = half, half, single, single, vk.VK_SCOPE_SUBGROUP_KHR
        shapes = (
            MatrixShape(m.MSize, m.NSize, m.KSize, lanes)
            for m in every
            if (m.AType, m.BType, m.CType, m.ResultType, m.scope) == wanted
        )
        return max(
            (s for s in shapes if s.parts(GROUP, GROUP, GROUP)), key=lambda s: s[:3], default=NO_MATRIX
        )


def read_capabilities(
    vk: Binding, instance: Any, physical: Any, enabled: frozenset[str] | None = None
) -> Capabilities:
    """Asks the driver of a VkPhysicalDevice. enabled: the features that count; absent, all do."""
    driver = Driver(vk, instance, physical, enabled)
    limits = DeviceLimits.read(driver)
    if driver.is_lavapipe:
        # It has room for so many of both together: what is beyond reads 0, or ends the process.
        # Newer ones say that all of it may be either.
        both = limits.max_storage_images
        attachments = min(limits.max_input_attachments, both // 8)
        limits = replace(limits, max_input_attachments=attachments, max_storage_images=both - attachments)
    families = tuple(
        QueueFamily(
            bool(f.queueFlags & vk.VK_QUEUE_GRAPHICS_BIT),
            bool(f.queueFlags & vk.VK_QUEUE_COMPUTE_BIT),
            f.timestampValidBits,
        )
        for f in vk.vkGetPhysicalDeviceQueueFamilyProperties(physical)
    )
    version = driver.api_version >> 22 & 127, driver.api_version >> 12 & 1023
    allocations = min(driver.limits.maxMemoryAllocationCount, UNLIMITED)
    return Capabilities(
        version, families, driver.extensions, driver.features, driver.formats, limits, allocations
    )


def driver_properties(vk: Binding, physical: Any, version: int) -> Any:
    """VkPhysicalDeviceDriverProperties; None before Vulkan 1.2. version: the device's ``apiVersion``."""
    if version < vk.VK_MAKE_VERSION(1, 2, 0):
        return None
    details = vk.VkPhysicalDeviceDriverProperties()
    vk.vkGetPhysicalDeviceProperties2(physical, vk.VkPhysicalDeviceProperties2(pNext=details))
    return details


# Features of Vulkan that dressi uses: those a device must have, and those it uses where they are enabled.

CORE = "VkPhysicalDeviceFeatures"


@dataclass(frozen=True)
class Feature:
    """A member of one of Vulkan's structures of features, or an extension without one.

    use: what dressi uses it for.  structure: of which it is a member, the core's or an extension's, or "".
    """

    name: str
    use: str
    required: bool = False
    structure: str = CORE
    extension: str | None = None

    def __str__(self) -> str:
        return f"{self.use} ({self.name})"


def _extending(structure: str, extension: str, **uses: str) -> list[Feature]:
    """The features of a structure that comes with an extension, by what dressi uses them for."""
    return [Feature(name, use, structure=structure, extension=extension) for name, use in uses.items()]


FEATURES = (
    Feature("shaderStorageImageExtendedFormats", "storage images of two components", required=True),
    Feature("fragmentStoresAndAtomics", "scatters that are drawn over primitives"),
    Feature("multiDrawIndirect", "one call for all draws of a list"),
    Feature("shaderInt64", "64-bit sums"),
    *_extending(
        "VkPhysicalDeviceShaderAtomicInt64Features",
        "VK_KHR_shader_atomic_int64",
        shaderBufferInt64Atomics="sums by one atomic operation instead of two",
    ),
    *_extending(
        "VkPhysicalDeviceShaderFloat16Int8Features",
        "VK_KHR_shader_float16_int8",
        shaderFloat16="operands of matrix products in half precision",
    ),
    *_extending(
        "VkPhysicalDeviceVulkanMemoryModelFeatures",
        "VK_KHR_vulkan_memory_model",
        vulkanMemoryModel="matrices in the registers of a subgroup",
        vulkanMemoryModelDeviceScope="atomic operations under that memory model",
    ),
    *_extending(
        "VkPhysicalDeviceSubgroupSizeControlFeatures",
        "VK_EXT_subgroup_size_control",
        computeFullSubgroups="workgroups of full subgroups",
    ),
    *_extending(
        "VkPhysicalDeviceCooperativeMatrixFeaturesKHR",
        "VK_KHR_cooperative_matrix",
        cooperativeMatrix="matrix products by subgroups",
    ),
    *(
        Feature(
            f"VK_KHR_external_{what}_{handle}",
            use,
            structure="",
            extension=f"VK_KHR_external_{what}_{handle}",
        )
        for handle in ("fd", "win32")
        for what, use in {"memory": "tensors of CUDA", "semaphore": "waits for CUDA on the device"}.items()
    ),
)
REQUIRED = tuple(f for f in FEATURES if f.required)
"""Those without which no plan runs."""
MATRICES = frozenset(
    "shaderFloat16 vulkanMemoryModel vulkanMemoryModelDeviceScope computeFullSubgroups cooperativeMatrix".split()
)
"""Those of matrix products. A device that lacks one of them counts as having none."""


def supported_features(vk: Any, physical: Any, extensions: Iterable[str]) -> frozenset[str]:
    """Names of the core's features, and of FEATURES, that a physical device with these extensions has."""
    core = vk.vkGetPhysicalDeviceFeatures(physical)
    found = {name for name, _ in vk.ffi.typeof(CORE).fields if getattr(core, name)}
    for f in FEATURES:
        if f.extension is None or f.extension not in extensions:
            continue
        if f.structure:
            chained = getattr(vk, f.structure)()
            vk.vkGetPhysicalDeviceFeatures2(physical, vk.VkPhysicalDeviceFeatures2(pNext=chained))
        if not f.structure or getattr(chained, f.name):
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
        if structure not in (CORE, ""):
            chain = getattr(vk, structure)(pNext=chain, **dict.fromkeys(enabled, True))
    return {
        "pNext": chain,
        "pEnabledFeatures": getattr(vk, CORE)(**dict.fromkeys(members.get(CORE, ()), True)),
        "ppEnabledExtensionNames": list(dict.fromkeys(f.extension for f in chosen if f.extension)),
    }
