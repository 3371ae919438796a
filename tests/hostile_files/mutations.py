"""Seeded damage to files."""

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

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
