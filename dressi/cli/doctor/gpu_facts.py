"""What a driver says of its device, as plain data."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from dressi.vk.run.device.device import Device
from dressi.vk.run.host.gpus import find_gpus, hidden_gpus

CONTAINER = (
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "VK_DRIVER_FILES",
    "VK_ICD_FILENAMES",
    "container",
)
"""Settings that decide which drivers a process sees."""


def facts(device: Device) -> dict[str, Any]:
    """Identity, conformance, memory, queue families, limits, features, formats, device nodes and container settings."""
    vk, physical, capabilities = device.vk, device.physical, device.capabilities
    memory = vk.vkGetPhysicalDeviceMemoryProperties(physical.handle)
    gpus = find_gpus()
    return {
        "device": physical.as_dict(),
        "conformance": _conformance(device),
        "memory_types": [
            {"flags": kind.propertyFlags, "heap": kind.heapIndex}
            for kind in memory.memoryTypes[0 : memory.memoryTypeCount]
        ],
        "memory_heaps": [
            {"flags": heap.flags, "bytes": heap.size}
            for heap in memory.memoryHeaps[0 : memory.memoryHeapCount]
        ],
        "queue_families": [family._asdict() for family in capabilities.queue_families],
        "limits": asdict(device.limits),
        "features": sorted(device.features),
        "extensions": sorted(capabilities.extensions),
        "timestamp_period_ns": device.timestamp_period,
        "device_nodes": asdict(gpus),
        "hidden_gpus": hidden_gpus(gpus) if physical.type == "cpu" else None,
        "container": {name: os.environ[name] for name in CONTAINER if name in os.environ},
    }


def _conformance(device: Device) -> str | None:
    """The version of the conformance tests that the driver passes; None where it does not tell."""
    vk = device.vk
    if device.capabilities.version < (1, 2):
        return None
    details = vk.VkPhysicalDeviceDriverProperties()
    vk.vkGetPhysicalDeviceProperties2(device.physical.handle, vk.VkPhysicalDeviceProperties2(pNext=details))
    found = details.conformanceVersion
    return f"{found.major}.{found.minor}.{found.subminor}.{found.patch}"
