"""The list of `dressi fit --many`: what it means, and what is said about a wrong one before anything starts."""

from pathlib import Path

import pytest
from command_line import refuses, run
from stub_work import request

from dressi.cli.many.listing import read_list
from dressi.errors import InputError


def listed(folder: Path, text: str, **defaults: object) -> list:
    for name in ("a.glb", "b.glb", "sub/c.obj"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    (folder / "photos").mkdir(exist_ok=True)
    (folder / "list.csv").write_text(text, encoding="utf-8")
    return read_list(folder / "list.csv", request(out=folder / "out", **defaults))


def test_rows_are_options(tmp_path: Path):
    text = """\ufefftarget, name,seed,texture-size,remesh,spread
a.glb,,3,,,
sub/c.obj,first,,64,no,2.5

./b.glb,"second",0,,YES,
"""
    jobs = listed(tmp_path, text, seed=7, size="48")
    assert [job.name for job in jobs] == ["a", "first", "second"]
    assert [job.request.target for job in jobs] == [
        tmp_path / "a.glb",
        tmp_path / "sub/c.obj",
        tmp_path / "b.glb",
    ]
    assert [job.request.fit.seed for job in jobs] == [3, 7, 0]
    assert [job.request.fit.texture_size for job in jobs] == [None, 64, None]
    assert [job.request.fit.remesh for job in jobs] == [None, False, True]
    assert jobs[1].request.fit.spread == 2.5 and {job.request.size for job in jobs} == {"48"}
    assert jobs[1].request.out == tmp_path / "out" / "first"
    assert len({job.key for job in jobs}) == 3


def test_photographs_and_paths_in_options(tmp_path: Path):
    (tmp_path / "empty.png").touch()
    jobs = listed(tmp_path, "photos,masks\nphotos,background:empty.png\n")
    assert jobs[0].name == "photos" and jobs[0].request.photos == tmp_path / "photos"
    assert jobs[0].request.masks == f"background:{tmp_path / 'empty.png'}"


def test_the_key_says_what_the_result_depends_on(tmp_path: Path):
    (one,) = listed(tmp_path, "target\na.glb\n")
    (moved,) = listed(tmp_path, "target,device,name\na.glb,1,other\n", preview=True)
    (other,) = listed(tmp_path, "target,steps\na.glb,5\n")
    assert one.key == moved.key != other.key


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["lists no object"]),
        ("target\n", ["lists no object"]),
        ("target,colour\na.glb,red\n", ["'colour'", "texture-size"]),
        ("target,out\na.glb,x\n", ["'out'", "command line"]),
        ("target,target\na.glb,a.glb\n", ["two columns"]),
        ("target\na.glb\nnone.glb\n", ["line 3", "none.glb"]),
        ("target\na.glb,b.glb\n", ["line 2", "2 cells"]),
        ("target,photos\na.glb,photos\n", ["line 2", "not both"]),
        ("target,photos\na.glb,\n,nothing\n", ["line 3", "nothing"]),
        ("name\nx\n", ["line 2", "--target"]),
        ("target\na.glb\nsub/../a.glb\n", ["line 3", "'a'", "line 2", "'name'"]),
        ("target,name\na.glb,Same\nb.glb,same\n", ["line 3", "line 2"]),
        ("target,name\na.glb,../up\n", ["line 2", "../up"]),
        ("target,name\na.glb,.hidden\n", ["line 2", ".hidden"]),
        ("target,name\na.glb,fit.lock\n", ["line 2", "fit.lock"]),
        ("target,name\na.glb,nul\n", ["line 2", "nul"]),
        ("target,seed\na.glb,some\n", ["line 2", "seed", "whole number"]),
        ("target,seed\na.glb,-1\n", ["line 2", "seed"]),
        ("target,spread\na.glb,nan\n", ["line 2", "nan"]),
        ("target,remesh\na.glb,maybe\n", ["line 2", "remesh", "yes or no"]),
        ("target,size\na.glb,0\n", ["line 2", "--size 0"]),
        ("target,form\na.glb,round\n", ["line 2", "round"]),
        ("target,optimize\na.glb,shine\n", ["line 2", "shine"]),
        ("target,light\na.glb,sky.hdr\n", ["line 2", "--light"]),
        ("photos,masks\nphotos,magic\n", ["line 2", "magic"]),
        ('target\n"a.glb\n', ["no CSV file"]),
    ],
)
def test_what_is_wrong_with_a_list(tmp_path: Path, text: str, words: list[str]):
    with pytest.raises(InputError) as error:
        listed(tmp_path, text)
    sentence = str(error.value)
    assert "list.csv" in sentence and "\n" not in sentence
    for word in words:
        assert word in sentence, sentence


def test_files_that_are_no_lists(tmp_path: Path):
    for content in (b"\xff\xfe\x00a", b"target\n\x00\n"):
        (tmp_path / "list.csv").write_bytes(content)
        with pytest.raises(InputError, match=r"list\.csv"):
            read_list(tmp_path / "list.csv", request())
    with pytest.raises(InputError, match="cannot be read"):
        read_list(tmp_path / "none.csv", request())
    with pytest.raises(InputError, match="cannot be read"):
        read_list(tmp_path, request())


def test_options_that_do_not_go_with_many(tmp_path: Path):
    listed(tmp_path, "target\na.glb\n")
    many = ("fit", "--many", tmp_path / "list.csv", "--out", tmp_path / "out")
    refuses(run(*many, "--plan"), "--plan", "--many")
    refuses(run(*many, "--workers", "0"), "--workers", "not 0")
    refuses(run("fit", "--target", tmp_path / "a.glb", "--workers", "2"), "--workers", "--many")
    refuses(run("fit", "--target", tmp_path / "a.glb", "--ray"), "--ray", "--many")
    refuses(run(*many, "--device", "llvmpipe,Voodoo"), "Voodoo")
    assert not (tmp_path / "out").exists()


def test_ray_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import sys

    listed(tmp_path, "target\na.glb\n")
    monkeypatch.setitem(sys.modules, "ray", None)
    refuses(run("fit", "--many", tmp_path / "list.csv", "--out", tmp_path / "out", "--ray"), "dressi[ray]")
    assert not (tmp_path / "out").exists()
