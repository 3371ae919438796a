"""The cache in hostile places: damaged entries, links, other owners, full disks, no home, two processes at once."""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from dressi import Device, DressiAD, InputError, Variable
from dressi.config import config, default_cache
from dressi.vk.run.host import cache, link
from dressi.vk.run.shaders import pyglslang
from dressi.vk.run.shaders.pyglslang import GlslangLibrary, compile_glsl

POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owners here")
SHADER = "#version 450\nlayout(local_size_x = 64) in;\nvoid main() {}\n"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A cache of its own, and nothing that was said before."""
    monkeypatch.setattr(cache, "_told", set())
    monkeypatch.setattr(cache, "_swept", set())
    pyglslang.compiler()
    with config(cache=tmp_path / "cache"):
        yield tmp_path / "cache"


@pytest.fixture
def silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file or a folder another user's; only root can, others pretend to be somebody else."""
    if os.geteuid() == 0:
        os.chown(path, 4321, 4321)
    else:
        real = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: real + 1)


# ---- entries


@pytest.mark.usefixtures("silence")
def test_an_entry_comes_back(place):
    cache.save("a/b", "name", b"content")
    assert cache.load("a/b", "name") == b"content"
    assert cache.load("a/b", "other") is None and cache.load("c", "name") is None
    if hasattr(os, "geteuid"):
        assert not any(file.stat().st_mode & 0o077 for file in [place, *place.rglob("*")])


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:20],
        lambda data: data + b"x",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: os.urandom(len(data)),
    ],
    ids=["empty", "truncated", "cut in the head", "longer", "flipped", "flipped magic", "noise"],
)
def test_damaged_entries_are_dropped(place, damage):
    cache.save("a", "name", b"content")
    file = place / "a" / "name"
    file.write_bytes(damage(file.read_bytes()))
    assert cache.load("a", "name") is None and not file.exists()
    cache.save("a", "name", b"content")
    assert cache.load("a", "name") == b"content"


def test_an_entry_under_another_name_is_not_taken(place):
    cache.save("a", "name", b"content")
    os.replace(place / "a" / "name", place / "a" / "other")
    assert cache.load("a", "other") is None


@POSIX
@pytest.mark.parametrize("what", ["file", "folder", "root"])
def test_what_belongs_to_another_user_is_not_used(place, monkeypatch, what):
    cache.save("a", "name", b"content")
    give_away({"file": place / "a" / "name", "folder": place / "a", "root": place}[what], monkeypatch)
    with pytest.warns(RuntimeWarning, match="belongs to another user.*DRESSI_CACHE"):
        assert cache.load("a", "name") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.load("a", "name") is None  # said once


@POSIX
@pytest.mark.parametrize("what", ["file", "folder", "root"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_can_write_is_not_used(place, what, mode):
    cache.save("a", "name", b"content")
    path = {"file": place / "a" / "name", "folder": place / "a", "root": place}[what]
    path.chmod(path.stat().st_mode | mode)
    with pytest.warns(RuntimeWarning, match="can be written by other users.*go-w"):
        assert cache.load("a", "name") is None
    if what != "file":
        cache.save("a", "new", b"content")
        assert not (place / "a" / "new").exists()


@POSIX
def test_links_are_not_followed(place, tmp_path):
    cache.save("a", "name", b"content")
    kept = tmp_path / "kept"
    kept.write_bytes((place / "a" / "name").read_bytes())
    (place / "a" / "name").unlink()
    (place / "a" / "name").symlink_to(kept)
    with pytest.warns(RuntimeWarning, match="symbolic link"):
        assert cache.load("a", "name") is None
    before = kept.read_bytes()
    cache.save("a", "name", b"something else")
    assert kept.read_bytes() == before and cache.load("a", "name") == b"something else"
    (tmp_path / "elsewhere").mkdir()
    (place / "b").symlink_to(tmp_path / "elsewhere")
    with pytest.warns(RuntimeWarning, match="symbolic link"):
        cache.save("b", "name", b"content")
    assert not list((tmp_path / "elsewhere").iterdir())


@POSIX
def test_temporary_names_cannot_be_planted(place, tmp_path):
    """Links under every name that older versions wrote to: the file behind them stays as it is."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    cache.save("spirv/ab", "first", b"x")
    folder = place / "spirv" / "ab"
    for name in ("key.spv", "calibration.json"):
        for planted in (f"{name}.{os.getpid()}", f"{os.getpid()}-{name}", f"key.{os.getpid()}.tmp"):
            if not (folder / planted).is_symlink():
                (folder / planted).symlink_to(victim)
    cache.save("spirv/ab", "key.spv", b"content")
    assert victim.read_bytes() == b"mine" and cache.load("spirv/ab", "key.spv") == b"content"


@POSIX
def test_the_cache_itself_may_be_a_link_of_ones_own(place, tmp_path, silence):
    (tmp_path / "disk").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "disk")
    cache.save("a", "name", b"content")
    assert cache.load("a", "name") == b"content" and (tmp_path / "disk" / "a" / "name").is_file()


@POSIX
def test_pipes_and_folders_in_the_place_of_a_file_do_not_hang(place):
    cache.save("a", "other", b"content")
    os.mkfifo(place / "a" / "pipe")
    (place / "a" / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.warns(RuntimeWarning, match="not a plain file|no plain file"):
            assert cache.load("a", name) is None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_full_or_read_only_disk_is_said_once_and_leaves_nothing(place, monkeypatch, function, code):
    cache.save("a", "name", b"content")

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as planted:
        planted.setattr(cache.os, function, fail)
        with pytest.warns(RuntimeWarning, match=os.strerror(code)) as said:
            cache.save("a", "new", b"content")
            cache.save("a", "newer", b"content")
    assert len(said) == 1
    assert [file.name for file in (place / "a").iterdir()] == ["name"]
    assert cache.load("a", "name") == b"content"


def test_what_a_killed_process_left_is_swept_away(place):
    cache.save("a", "name", b"content")
    old, new = place / "a" / ".new-old", place / "a" / ".new-new"
    left = place / "a" / ".new-folder"
    left.mkdir()
    for file in (old, new, left / "lib.so"):
        file.write_bytes(b"torn")
    for file in (old, left):
        os.utime(file, (time.time() - 7200,) * 2)
    cache._swept.clear()
    cache.save("a", "next", b"content")
    assert {file.name for file in (place / "a").iterdir()} == {"name", "next", ".new-new"}


# ---- no home


@POSIX
def test_without_a_home_nothing_is_cached_and_that_is_said(monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "DRESSI_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    config._values.pop("cache")  # the fixture brings back what was before
    from dressi import config as module

    module._warn_no_home.cache_clear()
    with pytest.warns(RuntimeWarning, match="no home folder.*DRESSI_CACHE") as said:
        assert default_cache() is None and config.cache is None
        assert compile_glsl(SHADER, "compute", "empty")
    assert len(said) == 1
    monkeypatch.setenv("DRESSI_CACHE", "~nobody-of-this-name/cache")
    with pytest.raises(InputError, match=r"DRESSI_CACHE=.*full path"):
        _ = config.cache


# ---- the linked library


@pytest.fixture(scope="module")
def static() -> Path:
    folders = [folder for folder in pyglslang._library_folders() if (folder / "libglslang.a").is_file()]
    if not folders:
        pytest.skip("there are no static libraries of glslang")
    return folders[0]


@pytest.fixture(scope="module")
def made(static, tmp_path_factory) -> Path:
    """A cache with the library linked in it: linking takes a second."""
    folder = tmp_path_factory.mktemp("linked") / "cache"
    with config(cache=folder):
        link.link_static(static)
    return folder


@pytest.fixture
def linked(made, static, place) -> Path:
    """The library in the cache of the test, a copy."""
    for part in ("glslang", "manifests"):
        shutil.copytree(made / part, place / part)
    for folder in (place, *place.iterdir()):
        folder.chmod(0o700)
    return link.link_static(static)


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes()[:5000]),
        lambda file: file.write_bytes(file.read_bytes()[:-1] + b"!"),
    ],
    ids=["truncated", "flipped"],
)
def test_a_damaged_library_is_linked_again_and_that_is_said(static, linked, damage):
    damage(linked)
    with pytest.warns(RuntimeWarning, match="linked again"):
        again = link.link_static(static)
    assert GlslangLibrary(again).compile([pyglslang.Shader(SHADER, "compute", "c")])
    assert link.link_static(static) == again


@POSIX
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_the_library_of_another_user_is_not_loaded(static, linked, monkeypatch):
    """Their library would run code in this process."""
    give_away(linked, monkeypatch)
    with pytest.warns(RuntimeWarning, match="belongs to another user|linked again"):
        again = link.link_static(static)
    assert again.stat().st_uid == 0


@POSIX
def test_in_a_foreign_cache_the_library_is_linked_elsewhere(static, linked, place, monkeypatch):
    give_away(place, monkeypatch)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        path = link.link_static(static)
    assert not path.is_relative_to(place) and ctypes.CDLL(str(path))


def test_why_a_library_cannot_be_used_is_said(static, monkeypatch):
    monkeypatch.setattr(link.shutil, "which", lambda name, path=None: None)
    monkeypatch.setattr(pyglslang, "programs", lambda: iter(()))
    monkeypatch.setattr(pyglslang, "packaged", list)
    monkeypatch.setattr(pyglslang, "_shared", lambda *stems: [])
    with pytest.raises(pyglslang.ShaderError, match=r"no GLSL compiler.*needs a C\+\+ compiler"):
        pyglslang.find_compiler()


@pytest.mark.release
def test_two_processes_may_build_at_once(static, place):
    text = (
        "from dressi.vk.run.shaders.pyglslang import compile_glsl\n"
        f"for k in range(20): assert compile_glsl({SHADER!r} + '//' + str(k), 'compute', 'c')\n"
        "from dressi.vk.run.host import link\nfrom pathlib import Path\n"
        f"assert link.link_static(Path({str(static)!r})).is_file()\n"
    )
    environment = {**os.environ, "DRESSI_CACHE": str(place)}
    command = [sys.executable, "-W", "error", "-c", text]
    pair = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in pair] == [("", 0)] * 2
    assert not list(place.rglob(".new-*"))
    assert link.link_static(static).parent == place / "glslang"


# ---- the cache of pipelines


def test_only_pipelines_of_this_device_reach_the_driver(device, place):
    from dressi.vk.run.shaders.pipeline import PipelineCache

    with Device(device.physical, validation=device.instance.validation) as own:

        def run() -> None:
            with DressiAD(own, model=own.record) as ad:  # what a measurement compiles is in the file, too
                ad.set_output("y", Variable(data=[[[3.0]]]) * 2)
                ad.step()
                assert ad.recv("y")[0, 0, 0] == 6

        def loaded() -> int:
            found = PipelineCache(own)
            own.destroy(found.handle)
            return found.loaded

        run()
        name = f"{own.key}.bin"
        good = cache.load("pipelines", name)
        assert good is not None and loaded() == len(good)
        for bad in (
            b"",
            good[:31],
            good[:8] + b"\xff\xff\xff\xff" + good[12:],  # another vendor
            good[:16] + bytes(16) + good[32:],  # another driver
            b"\x00\x00\x00\x00" + good[4:],
        ):
            cache.save("pipelines", name, bad)
            assert loaded() == 0
        file = place / "pipelines" / name
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        assert loaded() == 0 and not file.exists()
        run()
        again = cache.load("pipelines", name)
        assert again is not None and loaded() == len(again)
