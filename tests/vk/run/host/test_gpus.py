"""GPUs that Vulkan does not list, on faked systems: why, and the one warning."""

import os
import sys
import warnings

import pytest

from dressi import Device
from dressi.config import config
from dressi.vk.run.device import device as opening
from dressi.vk.run.host import gpus
from dressi.vk.run.host.gpus import Gpus, find_gpus, hidden_gpus, warn_of_hidden_gpus

pytestmark = pytest.mark.one_driver


def node(root, name: str, driver: str = "") -> None:
    """A device node, and what /sys tells of its kernel driver."""
    (root / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "dev" / name).touch()
    if driver:
        (root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        link = root / "sys/class/drm" / os.path.basename(name) / "device"
        link.mkdir(parents=True)
        (link / "driver").symlink_to(root / "drivers" / driver)


SYSTEMS = [
    # nodes with kernel drivers, environment, nodes that are closed -> words of the sentence
    ({"dri/renderD128": "amdgpu"}, {}, (), "mesa-vulkan-drivers"),
    ({"dri/renderD128": "amdgpu"}, {}, ("renderD128",), "usermod -aG render,video"),
    ({"dri/renderD128": "i915"}, {"container": "podman"}, ("renderD128",), "--group-add"),
    ({"dri/renderD128": "nouveau"}, {}, (), "install NVIDIA's driver, or Mesa's"),
    ({"kfd": ""}, {}, (), "--device /dev/dri"),
    ({"dxg": ""}, {}, (), "Dozen"),
    ({"nvidia0": "", "nvidiactl": ""}, {}, (), "nvidia_icd.json"),
    ({"nvidia0": ""}, {"NVIDIA_VISIBLE_DEVICES": "all"}, (), "NVIDIA_DRIVER_CAPABILITIES is not set"),
    (
        {"nvidia0": ""},
        {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"},
        (),
        "is compute,utility, without graphics; start the container with `-e NVIDIA_DRIVER_CAPABILITIES=all`",
    ),
    (
        {"nvidia0": ""},
        {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,graphics"},
        (),
        "nvidia_icd.json",
    ),
    ({"dri/renderD128": "virtio_gpu", "dri/card0": ""}, {}, (), None),
    ({}, {"NVIDIA_DRIVER_CAPABILITIES": "compute"}, (), None),
]


@pytest.mark.parametrize(("nodes", "environment", "closed", "words"), SYSTEMS)
def test_a_gpu_without_a_driver_names_the_cure(monkeypatch, tmp_path, nodes, environment, closed, words):
    monkeypatch.setattr(sys, "platform", "linux")
    for name, driver in nodes.items():
        node(tmp_path, name, driver)
    found = find_gpus(tmp_path, environment, lambda node: os.path.basename(node) not in closed)
    said = hidden_gpus(found)
    if words is None:
        assert said is None
    else:
        assert said is not None and words in said and all(node in said for node in found.nodes)


def test_other_systems_have_no_device_nodes(monkeypatch, tmp_path):
    node(tmp_path, "nvidia0")
    monkeypatch.setattr(sys, "platform", "win32")
    assert find_gpus(tmp_path, {}) == Gpus()


def test_one_warning_a_process_and_none_for_drivers_that_the_user_named(monkeypatch):
    monkeypatch.setattr(gpus, "_warned", False)
    there = Gpus(nvidia=("/dev/nvidia0",))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        monkeypatch.setenv("VK_DRIVER_FILES", "/somewhere/lvp_icd.json")
        warn_of_hidden_gpus("llvmpipe", gpus=there)
        assert not said
        monkeypatch.delenv("VK_DRIVER_FILES")
        monkeypatch.delenv("VK_ICD_FILENAMES", raising=False)
        warn_of_hidden_gpus("llvmpipe", gpus=Gpus())
        assert not said
        for _ in range(2):
            warn_of_hidden_gpus("llvmpipe", gpus=there)
    (warning,) = said
    assert warning.filename == __file__
    assert "runs on the CPU" in str(warning.message) and "DRESSI_DEVICE=llvmpipe" in str(warning.message)


def test_a_device_warns_only_where_nobody_named_it(device, monkeypatch):
    if device.physical.type != "cpu":
        pytest.skip("the CPU is not the best device here")
    said: list[str] = []
    monkeypatch.setattr(opening, "warn_of_hidden_gpus", lambda name, stacklevel: said.append(name))
    with Device(device.name), config(device=device.name), Device():
        assert not said
    with config(device=None), Device() as own, Device(" "):
        assert said == [own.name] * 2
