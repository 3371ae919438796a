"""glslang as a shared library, linked from the distribution's static ones and kept in the cache."""

import atexit
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

from . import cache
from .platforms import current

# In the order in which GNU ld needs them; some releases lack some of them.
_STATIC = ["glslang", "MachineIndependent", "GenericCodeGen", "OSDependent", "OGLCompiler", "SPIRV", "HLSL"]
_STATIC_PLAIN = ["SPIRV-Tools-opt", "SPIRV-Tools"]
_FOLDER, _MANIFESTS = "glslang", "manifests"


def link_static(folder: Path) -> Path:
    """One shared library out of the static ones in `folder`, made once and kept in the cache.

    Every process checks its hash, which is kept in another file: a library that was changed is linked again,
    with a warning. Raises OSError when the static libraries or a C++ compiler are missing.
    """
    whole = [folder / f"lib{name}.a" for name in [*_STATIC, "glslang-default-resource-limits"]]
    whole = [file for file in whole if file.is_file()]
    plain = [file for name in _STATIC_PLAIN if (file := folder / f"lib{name}.a").is_file()]
    if not whole or whole[0].name != "libglslang.a":
        raise OSError(f"no libglslang.a in {folder}")
    # Machines with other processors and C libraries may share a home folder.
    system = hashlib.sha256(repr((platform.machine(), platform.libc_ver())).encode()).hexdigest()[:8]
    key = f"{cache.fingerprint(whole + plain)}-{system}.json"
    if (known := _known(key)) is not None:
        return known
    place = cache.trusted_folder(_FOLDER, make=True)
    made = _link(whole, plain, place)
    if place is None:
        return made
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    target = place / f"libglslang-{digest[:16]}{made.suffix}"
    try:
        with open(
            made, "rb+"
        ) as file:  # on disk before it is renamed: a crash leaves the old file or the complete new one
            os.fsync(file.fileno())
        os.replace(made, target)
        made.parent.rmdir()
        cache.save(_MANIFESTS, key, json.dumps({"name": target.name, "sha256": digest}).encode())
    except OSError:  # a full disk: link again in the next process
        atexit.register(shutil.rmtree, made.parent, ignore_errors=True)
        return made
    return target


def _known(key: str) -> Path | None:
    """The library that the manifest names, if it is the one that was linked."""
    manifest = cache.load(_MANIFESTS, key)
    if manifest is None:
        return None
    with suppress(ValueError, KeyError, TypeError):
        entry = json.loads(manifest)
        name, digest = Path(str(entry["name"])).name, entry["sha256"]
        place = cache.trusted_folder(_FOLDER)
        data = cache.read(_FOLDER, name)
        if place is not None and data is not None and hashlib.sha256(data).hexdigest() == digest:
            return place / name
        cache.remove(_FOLDER, name)
        warnings.warn(
            f"the linked glslang {name} in the cache is missing or not the one that was linked; it is linked again",
            RuntimeWarning,
            stacklevel=4,
        )
    cache.remove(_MANIFESTS, key)
    return None


def _link(whole: list[Path], plain: list[Path], place: Path | None) -> Path:
    """Link into a new folder that only this user can write, in ``place`` or else a temporary one."""
    linker = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if linker is None:
        raise OSError(f"{whole[0]} needs a C++ compiler (c++, g++ or clang++) to be linked")
    try:
        folder = Path(tempfile.mkdtemp(prefix=".new-", dir=place))
    except OSError:  # read-only or full
        folder = Path(tempfile.mkdtemp(prefix="dressi-glslang-"))
        place = None
    if place is None:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    system = current()
    made = folder / f"libglslang{system.shared}"
    command = [linker, "-shared", "-o", str(made), *system.link_options(whole, plain)]
    result = subprocess.run(command, capture_output=True, check=False)
    if result.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise OSError(f"linking {whole[0]} failed: {result.stderr.decode(errors='replace').strip()}")
    made.chmod(0o700)
    return made
