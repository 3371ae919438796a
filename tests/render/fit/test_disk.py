"""What a fit leaves on the disk: results and checkpoints."""

import errno
import io
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import tracemalloc
import types
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dressi.errors import InputError
from dressi.render.fit import FILES, FitJob, FitOptions, check_folder
from dressi.render.fit import report as report_module
from dressi.render.fit.disk import checkpoint as checkpoint_module
from dressi.render.fit.disk import folder as folder_module
from dressi.render.fit.disk.checkpoint import NAME, OLD, Checkpoint, Damaged, Keeper, task_key
from dressi.render.fit.disk.folder import LOCK, locked, replace_file, temporary_prefix
from dressi.render.fit.report import HELD_OUT, keep_mesh, write_results
from dressi.render.mesh.primitives import octasphere

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks and signals")

HOLDER = """
import sys, time
from pathlib import Path
from dressi.render.fit.disk.folder import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# ---------------------------------------------------------------------------- the lock


@posix
def test_a_second_fit_is_told_who_holds_the_folder_and_a_killed_one_holds_nothing(tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
        with pytest.raises(InputError, match=f"process {holder.pid} on .* another --out"), locked(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
    assert names(tmp_path) == [LOCK]
    with locked(tmp_path):
        assert names(tmp_path) == [LOCK]
    assert names(tmp_path) == []


def test_a_thread_may_lock_again_and_another_may_not(tmp_path: Path):
    said: list[str] = []

    def other() -> None:
        try:
            with locked(tmp_path):
                said.append("locked")
        except InputError as error:
            said.append(str(error))

    with locked(tmp_path):
        with locked(tmp_path / "." / ""):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(said) == 1 and f"process {os.getpid()}" in said[0]
    with locked(tmp_path):
        pass
    assert names(tmp_path) == []


def test_leftovers_are_removed_and_files_of_others_stay(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    folder = tmp_path / "out"
    (folder / ".writing-123-abc_def").mkdir(parents=True)
    (folder / ".writing-123-abc_def" / "result.glb").write_text("half")
    (folder / ".writing-77-0a1b").write_text("half")
    (folder / ".writing-5-link").symlink_to(outside)
    for name in (".writing-notes.txt", ".writing-", "writing-1-a", "result.glb"):
        (folder / name).write_text("mine")
    with locked(folder):
        assert names(folder) == sorted([".writing-", ".writing-notes.txt", LOCK, "result.glb", "writing-1-a"])
    assert names(outside) == ["mine"]


def test_a_folder_that_knows_no_locks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def no_locks(handle: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(folder_module, "_lock", no_locks)
    (tmp_path / ".writing-1-a").write_text("of somebody who may be alive")
    with pytest.warns(UserWarning, match="without locks"), locked(tmp_path):
        pass
    assert ".writing-1-a" in names(tmp_path)


def test_locks_of_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    taken: list[tuple[int, int, int]] = []

    def locking(handle: int, mode: int, count: int) -> None:
        if taken:
            raise PermissionError(errno.EACCES, "Permission denied")
        taken.append((mode, count, os.lseek(handle, 0, os.SEEK_CUR)))

    fake = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", fake)
    monkeypatch.setattr(folder_module.sys, "platform", "win32")
    with locked(tmp_path):
        assert taken == [(2, 1, 1 << 30)]
        handle = os.open(tmp_path / LOCK, os.O_RDWR)
        with pytest.raises(PermissionError):
            folder_module._lock(handle)
        assert f"process {os.getpid()}" in folder_module._holder(handle)
        os.close(handle)
    assert names(tmp_path) == []


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / LOCK).symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match="cannot write"), locked(tmp_path):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


# ---------------------------------------------------------------------------- files and checkpoints

linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds the file of a handle in /proc")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(stream) -> None:
        stream.write(b"half")
        assert any(name.startswith(temporary_prefix()) for name in names(tmp_path))
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        replace_file(path, fail)
    assert path.read_bytes() == b"old" and names(tmp_path) == ["file"]

    def write(stream) -> None:
        stream.write(b"new")

    replace_file(path, write)
    assert path.read_bytes() == b"new" and names(tmp_path) == ["file"]


class Disk:
    """Fails flushes and renames in a folder from number ``first`` on, ``count`` times; caches elsewhere are
    well."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, folder: Path, code: int, first: int = 0, count: int = 10**9
    ):
        self.calls, self.failing = 0, range(first, first + count)
        self.code, self.folder = code, folder
        for name in ("fsync", "replace"):
            monkeypatch.setattr(os, name, self.wrapped(getattr(os, name)))

    def wrapped(self, function):
        def call(*arguments, **options):
            where = arguments[0]
            path = Path(f"/proc/self/fd/{where}").resolve() if isinstance(where, int) else Path(where)
            if not path.is_relative_to(self.folder):
                return function(*arguments, **options)
            self.calls += 1
            if self.calls - 1 in self.failing:
                raise OSError(self.code, os.strerror(self.code))
            return function(*arguments, **options)

        return call


@linux
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("first", [0, 1])
def test_a_checkpoint_that_cannot_be_written(tmp_path, monkeypatch, code, first):
    keeper = Keeper(tmp_path)
    keeper.save(Checkpoint("key", step=1, mesh=octasphere(0)))
    with monkeypatch.context() as broken:
        Disk(broken, tmp_path, code, first, 3)
        with pytest.warns(UserWarning, match="could not be written") as said:
            keeper.save(Checkpoint("key", step=2, mesh=octasphere(0)))
        assert len(said) == 1 and os.strerror(code) in str(keeper.unsaved)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            keeper.save(Checkpoint("key", step=3, mesh=octasphere(0)))
    assert keeper.unsaved is not None and Checkpoint.load(tmp_path, "key").step == 1
    keeper.save(Checkpoint("key", step=4, mesh=octasphere(0)))
    assert keeper.unsaved is None and Checkpoint.load(tmp_path, "key").step == 4
    assert names(tmp_path) == [NAME]


def test_the_checkpoint_of_another_fit_is_neither_overwritten_nor_removed(tmp_path: Path):
    Checkpoint("other", step=7).save(tmp_path)
    Keeper(tmp_path).forget()
    assert names(tmp_path) == [NAME]
    keeper = Keeper(tmp_path)
    with pytest.warns(UserWarning, match=OLD):
        keeper.save(Checkpoint("mine"))
    keeper.save(Checkpoint("mine"))
    assert names(tmp_path) == [OLD, NAME]
    keeper.forget()
    assert names(tmp_path) == [OLD]
    os.replace(tmp_path / OLD, tmp_path / NAME)
    assert Checkpoint.load(tmp_path, "other").step == 7


# ---------------------------------------------------------------------------- whole fits


@pytest.mark.release
@linux
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_disk_that_fails_does_not_end_a_fit(tiny_fits, tmp_path, monkeypatch, code):
    whole, _ = tiny_fits.whole()
    monkeypatch.setattr("dressi.render.fit.job.SAVE_SECONDS", 0.0)
    with monkeypatch.context() as broken:
        disk = Disk(broken, tmp_path, code)
        job = FitJob(tiny_fits.scene, tiny_fits.options, tiny_fits.make_engine, folder=tmp_path)
        with pytest.warns(UserWarning, match="goes on") as said:
            result = job.run()
    assert disk.calls > 3 and len(said) == 1
    assert result.finished and result.losses == whole.losses and result.unsaved is not None
    assert names(tmp_path) == [] and not job.resumable


def kept(function):
    """The function, which computes its result once for each second argument."""
    known: dict[int, object] = {}

    def call(first, second, *rest, **named):
        if id(second) not in known:
            known[id(second)] = function(first, second, *rest, **named)
        return known[id(second)]

    return call


@pytest.mark.release
@linux
def test_results_that_cannot_be_written_are_written_by_a_resume(tiny_fits, tmp_path, monkeypatch):
    scene, make_engine = tiny_fits.scene, tiny_fits.make_engine
    result = FitJob(scene, tiny_fits.options, make_engine, folder=tmp_path).run()
    facts = {"name": "d", "driver": "d", "version": "1"}

    # The same pictures are drawn for every try: what is tested is how they are written.
    for drawing in ("score", "render_turntable"):
        monkeypatch.setattr(report_module, drawing, kept(getattr(report_module, drawing)))

    def write(found) -> None:
        write_results(tmp_path, scene, found, make_engine, device=facts, total_s=lambda: 1.0)

    count = 0
    while True:
        with monkeypatch.context() as broken:
            disk = Disk(broken, tmp_path, errno.ENOSPC, count, 1)
            try:
                write(result)
            except InputError as error:
                assert "No space left" in str(error)
            else:
                break
            # Files of before are gone only where new ones of the same name have come.
            assert not any(name.startswith(".writing") for name in names(tmp_path))
            assert NAME in names(tmp_path) and disk.calls == count + 1
            count += 5
    assert count > 10 and set(FILES) < set(names(tmp_path))
    again = FitJob(scene, tiny_fits.options, make_engine, folder=tmp_path)
    rest = again.run(resume=True)
    assert rest.finished and rest.losses == result.losses
    assert_array_equal(rest.mesh.texture, result.mesh.texture)
    again.forget()
    assert names(tmp_path) == sorted([*FILES, HELD_OUT])


def test_a_resume_that_is_stopped_at_once_keeps_the_texture(tiny_fits, tmp_path: Path):
    def job() -> FitJob:
        return FitJob(tiny_fits.scene, tiny_fits.options, tiny_fits.make_engine, folder=tmp_path)

    seen: list[str] = []
    part = job().run(progress=lambda p: seen.append(p.phase), stop=lambda: "texture" in seen)
    back = job().run(resume=True, stop=lambda: True)
    assert not back.finished and back.losses == part.losses
    assert_array_equal(back.mesh.texture, part.mesh.texture)


def test_the_mesh_is_kept_somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mesh = octasphere(1)
    assert keep_mesh(tmp_path, mesh) == tmp_path / "result.glb"
    monkeypatch.setattr(folder_module.tempfile, "tempdir", str(tmp_path))
    other = keep_mesh(tmp_path / "missing", mesh)
    assert other is not None and other.is_file() and other.parent.parent == tmp_path
    monkeypatch.setattr(folder_module.tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert keep_mesh(tmp_path / "missing", mesh) is None


@linux
def test_a_folder_that_is_full_is_said_before_the_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    Disk(monkeypatch, tmp_path, errno.ENOSPC)
    with pytest.raises(InputError, match="No space left"):
        check_folder(tmp_path)
    assert checkpoint_module.NAME not in names(tmp_path)


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
    """Bits that are flipped, bytes that are cut out, doubled or overwritten; what is read is what was
    written."""
    good().save(tmp_path)
    assert load(tmp_path).step == 2
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
            assert_array_equal(point.state[name], array)
    assert read < 50


OPTIONS = FitOptions(size=(24, 24), views=3, steps=30, texture_size=16, colours=False, joint=False)


def test_a_checkpoint_comes_back(tmp_path: Path):
    state = {"position": np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3), "step": np.array([[[7]]])}
    mesh = octasphere(1)
    Checkpoint("key", 1, 7, state, mesh, [(0, 0.5), (1, 1 / 3)], 2.5).save(tmp_path)
    back = Checkpoint.load(tmp_path, "key")
    assert (back.round, back.step, back.losses, back.seconds) == (1, 7, [(0, 0.5), (1, 1 / 3)], 2.5)
    for name, array in state.items():
        assert_array_equal(back.state[name], array)
        assert back.state[name].dtype == array.dtype
    assert back.mesh is not None and back.mesh.uvs is not None
    for name in ("positions", "faces", "uvs", "uv_faces"):
        assert_array_equal(getattr(back.mesh, name), getattr(mesh, name))
    with pytest.raises(InputError, match="other options"):
        Checkpoint.load(tmp_path, "another key")
    data = (tmp_path / NAME).read_bytes()
    for damage in (b"", b"junk", data[: len(data) // 2]):
        (tmp_path / NAME).write_bytes(damage)
        with pytest.raises(InputError, match="damaged"):
            Checkpoint.load(tmp_path, "key")
    Checkpoint.remove(tmp_path)
    for _ in range(2):
        with pytest.raises(InputError, match="nothing to resume"):
            Checkpoint.load(tmp_path, "key")
        (tmp_path / NAME).mkdir(exist_ok=True)


def test_keys_tell_tasks_apart():
    keys = {task_key(OPTIONS.as_dict(), np.eye(3)), task_key(OPTIONS.as_dict(), np.ones((3, 3)))}
    keys.add(task_key(replace(OPTIONS, seed=1).as_dict(), np.eye(3)))
    assert len(keys) == 3
