"""Hostile files against the readers: each one loads or is refused by an InputError, soon, within bounded memory.

    python tests/render/io/fuzz_files.py --count 5000 --seed 1

prints how many were tried, loaded and refused, and what went wrong, and exits with 1 when anything did. The tests run a few
hundred the same way. Memory is bounded by the address space of this process, time by an alarm.
"""

import argparse
import contextlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hostile_files import mutations

from dressi.errors import DressiError, InputError
from dressi.render.io import load_image, load_mesh, load_photos
from dressi.render.io.calibration import read_calibration

MESHES = {".glb", ".gltf", ".obj", ".ply", ".stl", ".off"}


@dataclass
class Found:
    """loaded and refused: files.  wrong: what was raised that is no InputError, with an example.  slowest: seconds, file."""

    loaded: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    kinds: Counter = field(default_factory=Counter)


class TooLongError(BaseException):
    """Raised by the alarm; no reader may swallow it."""


def load(path: Path) -> None:
    """Load a file the way that a user would, or the mesh or folder that it belongs to."""
    if path.parent.name.startswith("set") or path.parent.parent.name.startswith("set"):
        folder = path.parent if path.parent.name.startswith("set") else path.parent.parent
        if (folder / "sparse" / "points3D.txt").exists() or (folder / "sparse" / "points3D.bin").exists():
            read_calibration(folder).points()  # without a box, whose search takes half a second
        else:
            load_photos(folder)
    elif path.suffix == ".mtl" or path.name == "a.png":
        load_mesh(path.with_name("a.obj"))
    elif path.suffix in MESHES:
        load_mesh(path)
    else:
        load_image(path)


def fuzz(folder: Path, count: int, seed: int, *, seconds: int = 20, keep: Path | None = None) -> Found:
    """Load that many mutated files. keep: a folder for copies of those that went wrong."""
    found = Found()

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for number, (path, data) in enumerate(mutations(folder, count, seed)):
            whole = path.read_bytes()
            path.write_bytes(data)
            _one(found, path, f"{seed}/{number} {path.relative_to(folder)}", seconds)
            if keep is not None and found.wrong and found.wrong[-1].startswith(f"{seed}/{number} "):
                keep.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, keep / f"{number}-{path.name}")
            path.write_bytes(whole)
    finally:
        signal.signal(signal.SIGALRM, before)
    return found


def _one(found: Found, path: Path, name: str, seconds: int) -> None:
    start = time.perf_counter()
    signal.alarm(seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load(path)
        found.loaded += 1
        found.kinds[path.suffix + " loaded"] += 1
    except InputError as error:
        found.refused += 1
        found.kinds[path.suffix + " refused"] += 1
        text = str(error)
        if "\n" in text or len(text) > 1200:
            found.wrong.append(f"{name}: not one sentence: {text[:300]!r}")
        if os.environ.get("FUZZ_SHOW"):
            print(f"{name}: {text}")
    except DressiError as error:
        found.wrong.append(f"{name}: {type(error).__name__}: {error}")
    except TooLongError:
        found.wrong.append(f"{name}: longer than {seconds} s")
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        found.wrong.append(f"{name}: {type(error).__name__}: {error} ({where.filename}:{where.lineno})"[:400])
    finally:
        signal.alarm(0)
    found.slowest = max(found.slowest, (time.perf_counter() - start, name))


def limit_memory(more: int) -> None:
    """Let this process have so many bytes more of address space than it has now."""
    with contextlib.suppress(ValueError, OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(
            resource.RLIMIT_AS, (pages * resource.getpagesize() + more, resource.RLIM_INFINITY)
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="files (1000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=int, default=2048, help="MB that reading may add (2048)")
    parser.add_argument("--keep", type=Path, help="folder for the files that went wrong")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole = fuzz(Path(folder), 1, options.seed)  # imports and first uses come before the limit
        del whole
        limit_memory(options.memory << 20)
        found = fuzz(Path(folder), options.count, options.seed, keep=options.keep)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{options.count} files: {found.loaded} loaded, {found.refused} refused, {len(found.wrong)} wrong")
    print(f"slowest {found.slowest[0]:.2f} s ({found.slowest[1]}), peak {peak} MB")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(found.kinds.items())))
    for line in found.wrong:
        print("WRONG", line)
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
