"""Settings: the environment, overrides, and files that ship with the package."""

from pathlib import Path

import pytest

from dressi.config import config, default_cache, shader_path, shader_text
from dressi.errors import InputError

SHADERS = Path(__file__).resolve().parent.parent / "shaders"


def test_the_environment_is_read_at_each_access(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in ("DEBUG", "CHECK", "DUMP", "DEVICE", "CACHE", "DATA"):
        monkeypatch.delenv(f"DRESSI_{name}", raising=False)
    assert (config.debug, config.check, config.dump, config.device, config.data) == (
        0,
        False,
        None,
        None,
        None,
    )
    assert config.cache == default_cache()
    monkeypatch.setenv("DRESSI_DEBUG", "3")
    monkeypatch.setenv("DRESSI_CHECK", "1")
    monkeypatch.setenv("DRESSI_DUMP", str(tmp_path))
    monkeypatch.setenv("DRESSI_DEVICE", "llvmpipe")
    monkeypatch.setenv("DRESSI_CACHE", "off")
    assert (config.debug, config.check, config.dump, config.device) == (3, True, tmp_path, "llvmpipe")
    assert config.cache is None


def test_a_block_overrides_and_restores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRESSI_DEBUG", "1")
    with config(debug=2, cache="/somewhere") as inner:
        assert inner is config and config.debug == 2 and config.cache == Path("/somewhere")
        with pytest.raises(ZeroDivisionError), config(debug=4, cache=None):
            assert config.debug == 4 and config.cache is None
            raise ZeroDivisionError
        assert config.debug == 2 and config.cache == Path("/somewhere")
    assert config.debug == 1


def test_unknown_settings_and_wrong_numbers_are_named(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match="'colour'; there are debug"):
        config(colour=1)
    with pytest.raises(AttributeError, match="'colour'; there are debug"):
        _ = config.colour
    monkeypatch.setenv("DRESSI_DEBUG", "much")
    with pytest.raises(InputError, match="DRESSI_DEBUG='much'"):
        _ = config.debug


def test_shaders_are_found():
    for file in SHADERS.iterdir():
        assert shader_text(file.name) == file.read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"'nothing\.glsl'"):
        shader_path("nothing.glsl")
