"""Checkpoints that were crafted or damaged: one sentence each, nothing unpickled, no memory for what is not there."""

import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dressi.errors import InputError
from dressi.render.fit import FitOptions
from dressi.render.fit.disk.archive import Damaged
from dressi.render.fit.disk.checkpoint import NAME, Checkpoint, task_key
from dressi.render.fit.disk.keeper import Keeper
from dressi.render.mesh.primitives import octasphere

STEPS = (5, 5, 4)
STATE = {
    "position": np.zeros((1, 1, 18, 3), np.float32),
    "position.adam_m": np.zeros((1, 1, 18, 3), np.float32),
    "step": np.full((1, 1, 1), 2, np.int32),
}


def good() -> Checkpoint:
    losses = [(0, 1.0)] * 5 + [(1, 0.5)] * 2
    return Checkpoint("key", 1, 2, dict(STATE), octasphere(1), losses, 2.5, np.repeat(np.eye(4)[None], 3, 0))


def arrays_of(folder: Path) -> dict[str, np.ndarray]:
    good().save(folder)
    with np.load(folder / NAME) as file:
        return {name: file[name] for name in file.files}


def load(folder: Path) -> Checkpoint:
    """As a fit does."""
    keeper = Keeper(folder)
    point = keeper.load("key", STEPS, 3, 1 << 24)
    keeper.check_mesh(point, octasphere(1), True)
    try:
        point.check_state(STATE)
    except Damaged as error:
        raise InputError(f"is damaged: {error}") from None
    return point


def refused(folder: Path, word: str = "") -> None:
    path = folder / NAME
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"damaged|another target") as error:
        load(folder)
    text = str(error.value)
    assert len(text.splitlines()) == 1 and len(text) < 500 and word in text, text
    assert path.read_bytes() == before and [f.name for f in folder.iterdir()] == [NAME]


def test_a_good_one_is_read(tmp_path: Path):
    good().save(tmp_path)
    assert load(tmp_path).step == 2


def facts(**changes: Any) -> np.ndarray:
    values = {"key": "key", "round": 1, "step": 2, "seconds": 2.5} | changes
    return np.array(json.dumps({k: v for k, v in values.items() if v is not None}))


def nan_in(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flat[0] = np.nan
    return array


CHANGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "round -1": lambda a: {"facts": facts(round=-1)},
    "round 99": lambda a: {"facts": facts(round=99)},
    "round of a float": lambda a: {"facts": facts(round=1.0)},
    "round of a bool": lambda a: {"facts": facts(round=True)},
    "round of text": lambda a: {"facts": facts(round="1")},
    "step -1": lambda a: {"facts": facts(step=-1)},
    "step 10**30": lambda a: {"facts": facts(step=10**30)},
    "another step": lambda a: {"facts": facts(step=1)},
    "seconds that never were": lambda a: {"facts": facts(seconds=-1.0)},
    "seconds past all numbers": lambda a: {"facts": facts(seconds=10**400)},
    "seconds NaN": lambda a: {"facts": facts(seconds=float("nan"))},
    "no key": lambda a: {"facts": facts(key=None)},
    "a key of a number": lambda a: {"facts": facts(key=3)},
    "another key": lambda a: {"facts": facts(key="other")},
    "facts that are a list": lambda a: {"facts": np.array("[1, 2]")},
    "facts that are no JSON": lambda a: {"facts": np.array("{")},
    "facts that nest": lambda a: {"facts": np.array("[" * 100_000)},
    "facts of numbers": lambda a: {"facts": np.zeros(4)},
    "no facts": lambda a: {"facts": None},
    "no losses": lambda a: {"losses": None},
    "fewer losses": lambda a: {"losses": a["losses"][:-1]},
    "losses of three columns": lambda a: {"losses": np.zeros((7, 3))},
    "losses of float32": lambda a: {"losses": a["losses"].astype(np.float32)},
    "losses of round NaN": lambda a: {"losses": nan_in(a["losses"])},
    "losses of round 1e300": lambda a: {"losses": np.full((7, 2), 1e300)},
    "losses of other rounds": lambda a: {"losses": a["losses"][::-1]},
    "no mesh": lambda a: {name: None for name in a if name.startswith("mesh/")},
    "a part of a mesh": lambda a: {"mesh/uvs": None},
    "faces out of range": lambda a: {"mesh/faces": a["mesh/faces"] + 9},
    "faces below zero": lambda a: {"mesh/faces": a["mesh/faces"] - 1},
    "faces of floats": lambda a: {"mesh/faces": a["mesh/faces"].astype(float)},
    "other faces": lambda a: {"mesh/faces": a["mesh/faces"][::-1]},
    "fewer faces": lambda a: {"mesh/faces": a["mesh/faces"][:3]},
    "no faces": lambda a: {"mesh/faces": a["mesh/faces"][:0], "mesh/uv_faces": a["mesh/uv_faces"][:0]},
    "positions NaN": lambda a: {"mesh/positions": nan_in(a["mesh/positions"])},
    "positions in a plane": lambda a: {"mesh/positions": a["mesh/positions"][:, :2]},
    "positions of complex numbers": lambda a: {"mesh/positions": a["mesh/positions"].astype(complex)},
    "UVs infinite": lambda a: {"mesh/uvs": a["mesh/uvs"] + np.inf},
    "views NaN": lambda a: {"views": nan_in(a["views"])},
    "views that shear": lambda a: {"views": a["views"] * 2},
    "more views": lambda a: {"views": np.repeat(np.eye(4)[None], 4, 0)},
    "no views": lambda a: {"views": None},
    "views of one": lambda a: {"views": np.eye(4)},
    "a state that is missing": lambda a: {"state/step": None},
    "a state of others": lambda a: {"state/colour": np.zeros(3, np.float32)},
    "a state of another shape": lambda a: {"state/position": np.zeros((1, 1, 3, 3), np.float32)},
    "a state of another type": lambda a: {"state/position": np.zeros((1, 1, 18, 3))},
    "a state of the other byte order": lambda a: {"state/position": STATE["position"].astype(">f4")},
    "a state of text": lambda a: {"state/position": np.full((1, 1, 18, 3), "x")},
    "a state NaN": lambda a: {"state/position": nan_in(STATE["position"])},
    "a counter of other steps": lambda a: {"state/step": np.full((1, 1, 1), -7, np.int32)},
    "something else": lambda a: {"extra": np.zeros(3)},
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_no_fit_writes(tmp_path: Path, name: str):
    arrays: dict[str, Any] = arrays_of(tmp_path)
    arrays |= CHANGES[name](arrays)
    np.savez(tmp_path / NAME, **{key: array for key, array in arrays.items() if array is not None})
    refused(tmp_path)


class Bomb:
    """Would be found out by a file if it were unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (Path.write_text, (self.path, "unpickled"))


def test_nothing_is_unpickled(tmp_path: Path):
    folder, sign = tmp_path / "out", tmp_path / "sign"
    folder.mkdir()
    arrays = arrays_of(folder)
    arrays["state/position"] = np.array([Bomb(sign)], dtype=object)
    np.savez(folder / NAME, allow_pickle=True, **arrays)  # type: ignore[arg-type]
    refused(folder)
    (folder / NAME).write_bytes(pickle.dumps(Bomb(sign)))
    refused(folder)
    assert not sign.exists()


def member(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


HEADERS = {
    "huge": "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }\n",
    "past all numbers": "{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000000000000000000000,), }\n",
    "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n",
    "of text": "{'descr': '<f4', 'fortran_order': False, 'shape': ('a',), }\n",
    "of objects": "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n",
    "of records": "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (0,), }\n",
    "of long text": "{'descr': '<U4294967295', 'fortran_order': False, 'shape': (4294967295,), }\n",
    "of no size": "{'descr': '<U0', 'fortran_order': False, 'shape': (99999999999999,), }\n",
    "of code": "{'descr': __import__('os').getcwd(), 'fortran_order': False, 'shape': (1,), }\n",
    "nested": "(" * 5000 + ")" * 5000 + "\n",
    "empty": "\n",
    "of a type that is none": "{'descr': 'zz', 'fortran_order': False, 'shape': (1,), }\n",
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_are_not_believed(tmp_path: Path, name: str):
    with zipfile.ZipFile(tmp_path / NAME, "w") as file:
        file.writestr("facts.npy", member(HEADERS[name], b"\0" * 16))
    tracemalloc.start()
    try:
        refused(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def rewritten(data: bytes, compression: int = zipfile.ZIP_STORED, extra: tuple[str, ...] = ()) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w", compression) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
        for name in extra:
            new.writestr(name, b"")
    return stream.getvalue()


def test_files_that_are_packed_otherwise(tmp_path: Path):
    good().save(tmp_path)
    path, data = tmp_path / NAME, (tmp_path / NAME).read_bytes()
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path.write_bytes(rewritten(data, method))
        refused(tmp_path, "compressed")
    # The flag of encryption, in the directory and before each member.
    locked = bytearray(rewritten(data))
    for mark, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        start = locked.find(mark)
        while start >= 0:
            locked[start + place] |= 1
            start = locked.find(mark, start + 4)
    path.write_bytes(locked)
    refused(tmp_path, "encrypted")
    for name in ("../../escape.npy", "readme.txt", "/etc/passwd.npy"):
        path.write_bytes(rewritten(data, extra=(name,)))
        refused(tmp_path)
    assert not (tmp_path.parent / "escape.npy").exists()
    stream = io.BytesIO(data)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(stream, "a") as file:
        file.writestr("losses.npy", b"")
    path.write_bytes(stream.getvalue())
    refused(tmp_path, "two arrays")
    # Larger than any checkpoint of the fit: a file of holes costs its author nothing.
    path.write_bytes(data)
    with path.open("r+b") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(InputError, match="at most"):
        load(tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_random_damage_is_said_or_harmless(tmp_path: Path, seed: int):
    """Bits that are flipped, bytes that are cut out, doubled or overwritten; what is read is what was written."""
    good().save(tmp_path)
    path, data = tmp_path / NAME, (tmp_path / NAME).read_bytes()
    random, read = np.random.default_rng(seed), 0
    for _ in range(100):
        changed = bytearray(data)
        for _ in range(random.integers(1, 4)):
            a, b = sorted(random.integers(0, len(changed) + 1, 2).tolist())
            b = min(b, a + int(random.integers(1, 200)))
            kind = random.integers(5)
            if kind == 0 and a < len(changed):
                changed[a] ^= 1 << int(random.integers(8))
            elif kind == 1:
                del changed[a:b]
            elif kind == 2:
                changed[a:a] = changed[a:b]
            elif kind == 3:
                changed[a:b] = random.bytes(b - a)
            else:
                del changed[max(a, 1) :]
        path.write_bytes(changed)
        try:
            point = load(tmp_path)
        except InputError as error:
            assert len(str(error).splitlines()) == 1
            continue
        read += 1
        assert (point.round, point.step, point.losses) == (1, 2, good().losses)
        for name, array in STATE.items():
            np.testing.assert_array_equal(point.state[name], array)
    assert read < 50


def test_what_is_no_file(tmp_path: Path):
    (tmp_path / NAME).mkdir()
    with pytest.raises(InputError, match="nothing to resume"):
        load(tmp_path)


OPTIONS = FitOptions(size=(24, 24), views=3, steps=30, texture_size=16, colours=False, joint=False)


def test_a_checkpoint_comes_back(tmp_path: Path):
    state = {"position": np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3), "step": np.array([[[7]]])}
    mesh = octasphere(1)
    Checkpoint("key", 1, 7, state, mesh, [(0, 0.5), (1, 1 / 3)], 2.5).save(tmp_path)
    back = Checkpoint.load(tmp_path, "key")
    assert (back.round, back.step, back.losses, back.seconds) == (1, 7, [(0, 0.5), (1, 1 / 3)], 2.5)
    for name, array in state.items():
        np.testing.assert_array_equal(back.state[name], array)
        assert back.state[name].dtype == array.dtype
    assert back.mesh is not None and back.mesh.uvs is not None
    for name in ("positions", "faces", "uvs", "uv_faces"):
        np.testing.assert_array_equal(getattr(back.mesh, name), getattr(mesh, name))
    with pytest.raises(InputError, match="other options"):
        Checkpoint.load(tmp_path, "another key")
    Checkpoint.remove(tmp_path)
    with pytest.raises(InputError, match="nothing to resume"):
        Checkpoint.load(tmp_path, "key")


def test_a_damaged_checkpoint(tmp_path: Path):
    Checkpoint("key").save(tmp_path)
    data = (tmp_path / NAME).read_bytes()
    for damage in (b"", b"junk", data[: len(data) // 2]):
        (tmp_path / NAME).write_bytes(damage)
        with pytest.raises(InputError, match="damaged"):
            Checkpoint.load(tmp_path, "key")


def test_keys_tell_tasks_apart():
    keys = {task_key(OPTIONS.as_dict(), np.eye(3)), task_key(OPTIONS.as_dict(), np.ones((3, 3)))}
    keys.add(task_key(replace(OPTIONS, seed=1).as_dict(), np.eye(3)))
    assert len(keys) == 3
