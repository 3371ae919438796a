"""One hostile file in a process that may take little memory: what became of it."""

import contextlib
import os
import resource
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from stub_work import request

from dressi.cli.many.listing import read_list
from dressi.errors import DressiError
from dressi.render.fit.disk.checkpoint import MOST_BYTES, Checkpoint
from dressi.render.formats import load_mesh
from dressi.render.io import load_environment, load_image, load_photos
from dressi.render.io.calibration import read_calibration, sparse_points
from dressi.report import write_report

MESHES = {".glb", ".gltf", ".obj", ".ply", ".stl", ".off"}
MOST_PRINTED = 2000
"""Bytes that a reader may print about one file."""


@dataclass(frozen=True)
class Outcome:
    """wrong: what a user would complain about, empty where the file loaded or was refused by one sentence."""

    loaded: bool
    said: str
    wrong: str = ""
    peak: int = 0


def load(path: Path) -> None:
    """Load a file the way that a user would, or the mesh or folder that it belongs to."""
    folder = next((p for p in path.parents if p.name.startswith(("set", "fit", "bench"))), None)
    if folder is not None and not folder.name.startswith("set"):
        write_report(folder, folder.parent / "page.html")
    elif folder is not None:
        if any((folder / "sparse" / f"points3D.{kind}").exists() for kind in ("txt", "bin")):
            found = read_calibration(folder)
            sparse_points(found.model, found.views)  # without a box, whose search takes half a second
        else:
            load_photos(folder, depth=(folder / "depth").is_dir())
    elif path.name == "many.csv":
        read_list(path, request())
    elif path.suffix == ".npz":
        Checkpoint.read(path, MOST_BYTES)
    elif path.suffix == ".mtl" or path.name == "a.png":
        load_mesh(path.with_name("a.obj"))
    elif path.suffix in MESHES:
        load_mesh(path)
    else:
        load_image(path)
        if path.suffix in (".hdr", ".exr"):
            load_environment(path)


def tried(path: Path) -> Outcome:
    """What became of a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load(path)
    except DressiError as error:
        text = str(error)
        wrong = f"not one sentence: {text[:300]!r}" if "\n" in text or len(text) > 1200 else ""
        return Outcome(False, text, wrong)
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(False, "", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"[:500])
    return Outcome(True, "")


def serve(pipe: Connection, memory: int, warm: list[Path]) -> None:
    """Try the paths that come until None comes, after the whole files ``warm``, whose imports come before the limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in warm:
            load(path)
    _limit(memory)
    while (path := pipe.recv()) is not None:
        with _printed() as printed:
            outcome = tried(path)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        wrong = outcome.wrong
        if printed and printed[0] > MOST_PRINTED and not wrong:
            wrong = f"{printed[0]} bytes were printed"
        pipe.send(Outcome(outcome.loaded, outcome.said[:300], wrong, peak))


@contextlib.contextmanager
def _printed() -> Iterator[list[int]]:
    """How many bytes this process writes to its output and error streams, afterwards."""
    found: list[int] = []
    with tempfile.TemporaryFile() as sink:
        kept = [(number, os.dup(number)) for number in (1, 2)]
        for number, _ in kept:
            os.dup2(sink.fileno(), number)
        try:
            yield found
        finally:
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)
            found.append(os.fstat(sink.fileno()).st_size)


def _limit(more: int) -> None:
    """Let this process have so many bytes more of address space than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, resource.RLIM_INFINITY))
