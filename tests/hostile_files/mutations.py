"""Damaged files, and a process that loads them."""

import contextlib
import json
import os
import re
import resource
import struct
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from stub_work import request

from dressi import DressiError, networks
from dressi.cli.many.job import read_list
from dressi.render import load_features, load_mesh, load_scene
from dressi.render.faces.files import load_face_model
from dressi.render.fit.disk.checkpoint import MOST_BYTES, Checkpoint
from dressi.render.io import load_environment, load_image, load_photos
from dressi.render.io.calibration import read_calibration, sparse_points
from dressi.report import write_report
from hostile_files.known import compare

NUMBERS = (
    "-1", "0", "1", "2147483648", "4294967296", "9223372036854775808", "1" * 5000, "-9" * 9, "1e999", "-1e999", "NaN", "nan",
    "Infinity", "1.5", "true", "null", "[]", "{}", '"x"', '"../x"', '"/etc/passwd"', "1e308",
)  # fmt: skip
WORDS = (
    b"../secret.png", b"/etc/passwd", b"C:\\x.png", b"http://x.test/a", b"\0", b"%s%n", b"\xff\xfe", b"a" * 5000, b"",
)  # fmt: skip


def mutated(data: bytes, random: np.random.Generator) -> bytes:
    """One to three changes: bits, bytes, cuts, repeats, numbers of text, counts of binary files, words."""
    for _ in range(int(random.integers(1, 4))):
        if data:
            data = _CHANGES[int(random.integers(len(_CHANGES)))](data, random)
    return data


def _place(data: bytes, random: np.random.Generator) -> int:
    """Heads matter more than bodies."""
    return int(random.integers(min(len(data), 256) if random.random() < 0.5 else len(data)))


def _bit(data: bytes, random: np.random.Generator) -> bytes:
    at = _place(data, random)
    return data[:at] + bytes([data[at] ^ (1 << int(random.integers(8)))]) + data[at + 1 :]


def _noise(data: bytes, random: np.random.Generator) -> bytes:
    at, size = _place(data, random), int(random.integers(1, 16))
    return data[:at] + random.bytes(size) + data[at + size :]


def _cut(data: bytes, random: np.random.Generator) -> bytes:
    return data[: int(random.integers(len(data)))]


def _repeat(data: bytes, random: np.random.Generator) -> bytes:
    at, size = _place(data, random), int(random.integers(1, 64))
    return data[:at] + data[at : at + size] * int(random.integers(2, 40)) + data[at + size :]


def _drop(data: bytes, random: np.random.Generator) -> bytes:
    at = _place(data, random)
    return data[:at] + data[at + int(random.integers(1, 64)) :]


def _count(data: bytes, random: np.random.Generator) -> bytes:
    """A 32-bit or 64-bit number of a binary file becomes large or negative."""
    at = _place(data, random) // 4 * 4
    value = (0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x10000000, 0)[int(random.integers(5))]
    return data[:at] + struct.pack("<I", value) + data[at + 4 :]


def _number(data: bytes, random: np.random.Generator) -> bytes:
    """A number of a text becomes one that is none, or too large."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data[:20000]))
    if not found:
        return data
    one = found[int(random.integers(len(found)))]
    return data[: one.start()] + NUMBERS[int(random.integers(len(NUMBERS)))].encode() + data[one.end() :]


def _word(data: bytes, random: np.random.Generator) -> bytes:
    found = list(re.finditer(rb"[A-Za-z_./]{2,}", data[:20000]))
    if not found:
        return data
    one = found[int(random.integers(len(found)))]
    return data[: one.start()] + WORDS[int(random.integers(len(WORDS)))] + data[one.end() :]


def _line(data: bytes, random: np.random.Generator) -> bytes:
    lines = data.split(b"\n")
    a, b = (int(random.integers(len(lines))) for _ in range(2))
    lines[a] = lines[b] if random.random() < 0.5 else lines[a][: len(lines[a]) // 2]
    return b"\n".join(lines)


_CHANGES: tuple[Callable[[bytes, np.random.Generator], bytes], ...] = (
    _bit, _noise, _cut, _repeat, _drop, _count, _number, _number, _word, _line,
)  # fmt: skip


def _value(data: bytes, random: np.random.Generator) -> bytes:
    """Another value somewhere in a JSON document, which stays one."""
    try:
        document = json.loads(data)
    except ValueError:
        return data
    places: list[tuple[dict | list, str | int]] = []
    stack = [document]
    while stack:
        node = stack.pop()
        for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            places.append((node, key))
            stack.append(node[key])
    if not places:
        return data
    node, key = places[int(random.integers(len(places)))]
    if random.random() < 0.2:
        del node[key]
    else:
        node[key] = json.loads(_VALUES[int(random.integers(len(_VALUES)))])
    return json.dumps(document).encode()


_VALUES = (
    "-1", "0", "1", "2", "3", "5", "7", "1000", "268435456", "4294967296", "18446744073709551616", "1e999", "-1e999", "NaN",
    "1.5", "true", "null", "[]", "{}", '"x"', '""', '"../x"', '"/etc/passwd"', '"data:;base64,AAAA"', "[0, 0, 0, 0]", "[[]]",
    "[1e308, 1e308, 1e308]", '{"index": 0}', "[NaN, 0, 0]", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]",
)  # fmt: skip


def _glb_value(data: bytes, random: np.random.Generator) -> bytes:
    """The same inside of a GLB."""
    size = struct.unpack_from("<I", data, 12)[0]
    text = _value(data[20 : 20 + size], random)
    text += b" " * (-len(text) % 4)
    rest = data[20 + size :]
    header = struct.pack("<IIII4s", 0x46546C67, 2, 20 + len(text) + len(rest), len(text), b"JSON")
    return header + text + rest


def mutation(files: list[tuple[Path, bytes]], random: np.random.Generator) -> tuple[Path, bytes]:
    """One of the files, changed in its own way."""
    path, data = files[int(random.integers(len(files)))]
    inside = {".gltf": _value, ".json": _value, ".glb": _glb_value}.get(path.suffix)
    if inside is None or random.random() > 0.7:
        return path, mutated(data, random)
    for _ in range(int(random.integers(1, 4))):
        data = inside(data, random)
    return path, data


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
