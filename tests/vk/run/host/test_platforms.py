"""Platforms and GPUs that the host knows."""

import builtins
import os
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from dressi import Device, NoDriverError, ShaderError
from dressi.config import config, default_cache
from dressi.vk.run.device import device as opening
from dressi.vk.run.device import instance
from dressi.vk.run.host import cache, link, platforms
from dressi.vk.run.host.platforms import (
    LINUX,
    MACOS,
    WINDOWS,
    Gpus,
    current,
    find_gpus,
    hidden_gpus,
    warn_of_hidden_gpus,
)
from dressi.vk.run.shaders import pyglslang

SYSTEMS = {"linux": LINUX, "darwin": MACOS, "win32": WINDOWS, "freebsd14": LINUX}


@pytest.fixture(params=SYSTEMS)
def system(request, monkeypatch):
    monkeypatch.setattr(sys, "platform", request.param)
    settings = "VULKAN_SDK VK_DRIVER_FILES VK_ICD_FILENAMES DRESSI_CACHE XDG_CACHE_HOME LOCALAPPDATA"
    for name in settings.split():
        monkeypatch.delenv(name, raising=False)
    return SYSTEMS[request.param]


def test_the_system_is_found(system):
    assert current() is system


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, "/home/me/.cache/dressi"),
        ("linux", {"XDG_CACHE_HOME": "/disk/cache"}, "/disk/cache/dressi"),
        ("linux", {"XDG_CACHE_HOME": "not/absolute"}, "/home/me/.cache/dressi"),
        ("darwin", {}, "/home/me/Library/Caches/dressi"),
        ("darwin", {"XDG_CACHE_HOME": "/disk/cache"}, "/home/me/Library/Caches/dressi"),
        ("win32", {"LOCALAPPDATA": "/c/Users/me/AppData/Local"}, "/c/Users/me/AppData/Local/dressi"),
        ("win32", {}, "/home/me/AppData/Local/dressi"),
        ("freebsd14", {}, "/home/me/.cache/dressi"),
    ],
)
def test_the_cache_lies_where_the_system_wants_it(monkeypatch, platform, environment, expected):
    for name in ("DRESSI_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    assert default_cache() == Path(expected) == config.cache


WORDS = {
    "linux": ("libvulkan.so.1", "apt-get install libvulkan1 mesa-vulkan-drivers", "glslang-dev"),
    "darwin": ("libvulkan.dylib", "MoltenVK", "brew install glslang"),
    "win32": ("vulkan-1.dll", "driver of your GPU", "Vulkan SDK"),
    "freebsd14": ("libvulkan.so.1", "mesa-vulkan-drivers", "Vulkan SDK"),
}


def test_a_missing_loader_names_the_file_and_the_cure(system, monkeypatch):
    real = builtins.__import__

    def missing(name, *rest, **named):
        if name == "vulkan":
            raise OSError("Cannot find Vulkan SDK version")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    loader, driver, _ = WORDS[sys.platform]
    with pytest.raises(NoDriverError, match=rf"loader \({loader}\) is missing; install") as caught:
        instance.load_vulkan()
    assert driver in str(caught.value)
    assert ("apt" in str(caught.value)) == (system is LINUX)


def test_a_missing_driver_names_the_cure(system, monkeypatch, tmp_path):
    assert WORDS[sys.platform][1] in str(instance._no_driver())
    there = tmp_path / "there.json"
    there.write_text("{}")
    names = ["C:\\drivers\\a.json" if system is WINDOWS else "/drivers/a.json", str(there)]
    monkeypatch.setenv("VK_DRIVER_FILES", system.separator.join(names))
    assert system.driver_files() == names
    assert f"(VK_DRIVER_FILES names {names[0]}, not a file)" in str(instance._no_driver())
    monkeypatch.setenv("VK_DRIVER_FILES", str(there))
    assert f"(VK_DRIVER_FILES names {there})" in str(instance._no_driver())


def test_a_missing_compiler_names_the_cure(system, monkeypatch):
    monkeypatch.setattr(pyglslang, "_library_folders", list)
    monkeypatch.setattr(pyglslang, "programs", lambda: iter(()))
    monkeypatch.setattr(pyglslang, "packaged", list)
    with pytest.raises(ShaderError, match="no GLSL compiler was found; install ") as caught:
        pyglslang.find_compiler()
    assert WORDS[sys.platform][2] in str(caught.value)


FILES = {
    "linux": ("lib/libglslang.so", "lib/libshaderc_shared.so.1"),
    "darwin": ("lib/libglslang.dylib", "lib/libshaderc_shared.1.dylib"),
    "win32": ("Bin/glslang.dll", "Bin/shaderc_shared.dll"),
    "freebsd14": ("lib/libglslang.so", "lib/libshaderc_shared.so.1"),
}


def test_the_vulkan_sdk_is_searched_first_by_the_names_of_the_system(system, monkeypatch, tmp_path):
    monkeypatch.setenv("VULKAN_SDK", str(tmp_path))
    files = [tmp_path / name for name in FILES[sys.platform]]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"no library")
    assert system.library_folders()[0] == files[0].parent
    assert pyglslang._shared("glslang")[0] == files[0]
    assert pyglslang._shared("shaderc_shared")[0] == files[1]
    failures: list[str] = []
    monkeypatch.setattr(pyglslang, "programs", lambda: iter(()))
    monkeypatch.setattr(pyglslang, "packaged", list)
    monkeypatch.setattr(pyglslang, "_library_folders", lambda: [files[0].parent])
    with pytest.raises(ShaderError, match="cannot be used"):
        pyglslang.find_compiler(failures)
    assert [failure.partition(" ")[0] for failure in failures] == [str(file) for file in files]


def test_static_libraries_are_linked_as_the_system_wants(monkeypatch, tmp_path):
    (tmp_path / "libglslang.a").write_bytes(b"")
    seen: list[list[str]] = []

    def run(command, **_):
        seen.append(command)
        Path(command[command.index("-o") + 1]).write_bytes(b"library")
        return type("Result", (), {"returncode": 0})

    monkeypatch.setattr(link.subprocess, "run", run)
    monkeypatch.setattr(link.shutil, "which", lambda name: "/usr/bin/c++")
    with config(cache=tmp_path / "cache"):
        monkeypatch.setattr(sys, "platform", "darwin")
        assert link.link_static(tmp_path).suffix == ".dylib"
        assert f"-Wl,-force_load,{tmp_path / 'libglslang.a'}" in seen[0]
    with config(cache=tmp_path / "other"):
        monkeypatch.setattr(sys, "platform", "linux")
        assert link.link_static(tmp_path).suffix == ".so"
        assert "-Wl,--whole-archive" in seen[1]


def test_without_owners_of_files_entries_are_still_verified(monkeypatch, tmp_path):
    """Windows has neither geteuid nor O_NOFOLLOW."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(os, "geteuid", raising=False)
    monkeypatch.setattr(cache, "_FLAGS", os.O_RDONLY)
    with config(cache=tmp_path / "cache"):
        cache.save("a", "name", b"content")
        cache.save("a", "name", b"content again")  # os.replace, where os.rename would fail on Windows
        assert cache.load("a", "name") == b"content again"
        file = tmp_path / "cache" / "a" / "name"
        file.write_bytes(file.read_bytes()[:-1])
        assert cache.load("a", "name") is None and not file.exists()


def test_drivers_on_top_of_other_interfaces_are_asked_for(monkeypatch):
    """MoltenVK is only listed to programs that enable the portability extension and its flag."""
    import vulkan

    seen: list = []
    extension = SimpleNamespace(extensionName="VK_KHR_portability_enumeration")
    monkeypatch.setattr(vulkan, "vkEnumerateInstanceExtensionProperties", lambda layer: [extension])

    def create(info, allocator):
        seen.append((info.flags, vulkan.ffi.string(info.ppEnabledExtensionNames[0]).decode()))
        raise vulkan.VkErrorIncompatibleDriver

    monkeypatch.setattr(vulkan, "vkCreateInstance", create)
    monkeypatch.setattr(instance, "_used_in", os.getpid())
    with pytest.raises(NoDriverError):
        instance.Instance()
    assert seen == [(1, "VK_KHR_portability_enumeration")]


def node(root, name: str, driver: str = "") -> None:
    """A device node, and what /sys tells of its kernel driver."""
    (root / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "dev" / name).touch()
    if driver:
        (root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        link = root / "sys/class/drm" / os.path.basename(name) / "device"
        link.mkdir(parents=True)
        (link / "driver").symlink_to(root / "drivers" / driver)


GPU_SYSTEMS = [
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


@pytest.mark.parametrize(("nodes", "environment", "closed", "words"), GPU_SYSTEMS)
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
    monkeypatch.setattr(platforms, "_warned", False)
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


@pytest.mark.one_driver
def test_a_device_warns_only_where_nobody_named_it(device, monkeypatch):
    if device.physical.type != "cpu":
        pytest.skip("the CPU is not the best device here")
    said: list[str] = []
    monkeypatch.setattr(opening, "warn_of_hidden_gpus", lambda name, stacklevel: said.append(name))
    with Device(device.name), config(device=device.name), Device():
        assert not said
    with config(device=None), Device() as own, Device(" "):
        assert said == [own.name] * 2
