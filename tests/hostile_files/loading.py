"""One hostile file in a process that may take little memory: what became of it."""

import contextlib
import os
import resource
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from stub_work import request

from dressi import DressiError, networks
from dressi.cli.many.listing import read_list
from dressi.render import load_features, load_mesh, load_scene
from dressi.render.faces.files import load_face_model
from dressi.render.fit.disk.checkpoint import MOST_BYTES, Checkpoint
from dressi.render.io import load_environment, load_image, load_photos
from dressi.render.io.calibration import read_calibration, sparse_points
from dressi.report import write_report

from .known import compare

MESHES = {".glb", ".gltf", ".obj", ".ply", ".stl", ".off"}
MOST_SAID = 900
"""Characters of a message or a warning: two quotes of a file, and its path."""
MOST_PRINTED = 2000
"""Bytes that a reader may print about one file."""


@dataclass(frozen=True)
class Outcome:
    """wrong: what a user would complain about, empty where the file loaded or was refused by one sentence."""

    loaded: bool
    said: str
    wrong: str = ""
    peak: int = 0
    longest: int = 0
    """Characters of the longest message or warning."""
    warned: bool = False


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
    elif path.name.endswith("face.npz"):
        load_face_model(path)
    elif path.suffix == ".safetensors":
        networks.parameters(networks.nested(networks.load_safetensors(path)))
        load_features(path)
    elif path.suffix == ".npz":
        Checkpoint.read(path, MOST_BYTES)
    elif path.parent.name == "known":
        if said := compare(path):
            raise Wrong(said)
    elif path.suffix == ".mtl" or path.name in ("a.png", "m0.png", "m1.png"):
        _load_shape(path.with_name(f"{path.name[0]}.obj"))
    elif path.suffix in MESHES:
        _load_shape(path)
    else:
        load_image(path)
        if path.suffix in (".hdr", ".exr"):
            load_environment(path)


def _load_shape(path: Path) -> None:
    """As one mesh and as nodes: a file may be refused as either. Raises the first error."""
    try:
        load_mesh(path)
    finally:
        load_scene(path)


class Wrong(Exception):
    """A file loads as something else than what it holds."""


def tried(path: Path) -> Outcome:
    """What became of a file."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        outcome = _tried(path)
    texts = [str(one.message) for one in warned if issubclass(one.category, UserWarning)]
    wrong = outcome.wrong or next((w for text in texts if (w := _not_one_sentence(text))), "")
    longest = max([len(outcome.said), *map(len, texts)])
    return replace(outcome, wrong=wrong, longest=longest, warned=len(texts) > 0)


def _not_one_sentence(text: str) -> str:
    return f"not one sentence: {text[:300]!r}" if "\n" in text or len(text) > MOST_SAID else ""


def _tried(path: Path) -> Outcome:
    try:
        load(path)
    except DressiError as error:
        return Outcome(False, str(error), _not_one_sentence(str(error)))
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
        pipe.send(replace(outcome, said=outcome.said[:300], wrong=wrong, peak=peak))


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
