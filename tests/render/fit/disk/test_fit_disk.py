"""The output folder of a fit: its lock, its checkpoint on disks that fail, and what fits that were killed leave."""

import errno
import os
import signal
import subprocess
import sys
import threading
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

from dressi.errors import InputError
from dressi.render.fit import FILES, FitJob, check_folder, keep_mesh, write_results
from dressi.render.fit import report as report_module
from dressi.render.fit.disk import checkpoint as checkpoint_module
from dressi.render.fit.disk import folder as folder_module
from dressi.render.fit.disk.checkpoint import NAME, OLD, Checkpoint
from dressi.render.fit.disk.folder import LOCK, locked, replace_file, temporary_prefix
from dressi.render.fit.disk.keeper import Keeper
from dressi.render.fit.report import HELD_OUT
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
    """Fails flushes and renames in a folder from number ``first`` on, ``count`` times; caches elsewhere are well."""

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
def test_a_checkpoint_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, first: int
):
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
@pytest.mark.vk
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_disk_that_fails_does_not_end_a_fit(
    tiny_fits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
):
    whole, _ = tiny_fits.whole()
    monkeypatch.setattr("dressi.render.fit.run.running.SAVE_SECONDS", 0.0)
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
@pytest.mark.vk
def test_results_that_cannot_be_written_are_written_by_a_resume(
    tiny_fits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    scene, make_engine = tiny_fits.scene, tiny_fits.make_engine
    result = FitJob(scene, tiny_fits.options, make_engine, folder=tmp_path).run()
    facts = {"name": "d", "driver": "d", "version": "1"}

    # The same pictures are drawn for every try: what is tested is how they are written.
    for drawing in ("score", "render_turntable"):
        monkeypatch.setattr(report_module, drawing, kept(getattr(report_module, drawing)))

    def write(found) -> None:
        write_results(tmp_path, scene, found, make_engine, device=facts, total_s=lambda: 1.0, hull=False)

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
    np.testing.assert_array_equal(rest.mesh.texture, result.mesh.texture)
    again.forget()
    assert names(tmp_path) == sorted([*FILES, HELD_OUT])


@pytest.mark.vk
def test_a_resume_that_is_stopped_at_once_keeps_the_texture(tiny_fits, tmp_path: Path):
    def job() -> FitJob:
        return FitJob(tiny_fits.scene, tiny_fits.options, tiny_fits.make_engine, folder=tmp_path)

    seen: list[str] = []
    part = job().run(progress=lambda p: seen.append(p.phase), stop=lambda: "texture" in seen)
    back = job().run(resume=True, stop=lambda: True)
    assert not back.finished and back.losses == part.losses
    np.testing.assert_array_equal(back.mesh.texture, part.mesh.texture)


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
