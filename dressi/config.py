"""Settings of the process and the place of the project's own files.

Every setting is an environment variable; a program can override it, for good or for the length of a block::

    from dressi.config import config

    config.debug                    # 0, or what DRESSI_DEBUG says
    with config(debug=2, cache=None):
        ...                         # nested blocks are fine; leaving one restores what was before

| name   | environment    | meaning |
|--------|----------------|---------|
| debug  | DRESSI_DEBUG   | 0 silent, 1 device, plan summary and the longest submission, 2 rewrites and ms per stage, 3 the plan, 4 GLSL |
| check  | DRESSI_CHECK   | verify the graph after every pass |
| dump   | DRESSI_DUMP    | folder that receives dot, GLSL and SPIR-V; empty: none |
| device | DRESSI_DEVICE  | name (or part of it) or index of the Vulkan device; empty: the best one |
| cache  | DRESSI_CACHE   | folder of the SPIR-V and pipeline caches; `off`: no cache at all |
| data   | DRESSI_DATA    | folder with meshes and photographs for tests and demonstrations |
| max_megapixels | DRESSI_MAX_MEGAPIXELS | largest image that is opened, in millions of pixels; 64 |
| max_faces | DRESSI_MAX_FACES | faces, and vertices, of the largest mesh that is opened; 10 million |
"""

import functools
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from dressi.errors import InputError

_LONGEST = 1 << 20  # bytes of a file of GLSL
_OFF = {"", "0", "off", "no", "false", "none"}


def _text(name: str) -> str | None:
    return os.environ.get(name, "").strip() or None


def _integer(name: str) -> int:
    text = _text(name) or ""
    try:
        return 0 if text.lower() in _OFF else int(text)
    except ValueError:
        raise InputError(f"{name}={text!r} is not a whole number; unset it or set it to 0 to 4") from None


def _cap(name: str, default: int) -> int:
    text = _text(name) or ""
    try:
        value = int(text or default)
    except ValueError:
        value = 0
    if value < 1:
        raise InputError(f"{name}={text!r} is not a whole number above 0; unset it for {default}")
    return value


def _flag(name: str) -> bool:
    return (_text(name) or "").lower() not in _OFF


def _folder(name: str) -> Path | None:
    text = _text(name)
    try:
        return None if text is None else Path(text).expanduser()
    except RuntimeError:
        raise InputError(f"{name}={text!r} names a home folder that is not known; give a full path") from None


def default_cache() -> Path | None:
    """The platform's folder for caches; None, with a warning, where this user has no home."""
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "dressi"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "dressi"
        given = os.environ.get("XDG_CACHE_HOME", "")
        return (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "dressi"
    except RuntimeError:
        _warn_no_home()
        return None


@functools.cache  # once a process
def _warn_no_home() -> None:
    warnings.warn(
        "this user has no home folder, so nothing is cached and every process compiles its shaders anew; set "
        "DRESSI_CACHE to a folder, or to 'off'",
        RuntimeWarning,
        stacklevel=4,
    )


def _cache() -> Path | None:
    text = _text("DRESSI_CACHE")
    if text is None:
        return default_cache()
    return None if text.lower() in _OFF else _folder("DRESSI_CACHE")


class _Override:
    """One `with config(...)` block. Values hold from the call on, so `config(debug=1)` alone also sets."""

    def __init__(self, owner: "Config", values: dict[str, Any]):
        self._owner = owner
        self._before = dict(owner._values)
        owner._values.update(values)

    def __enter__(self) -> "Config":
        return self._owner

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner._values.clear()
        self._owner._values.update(self._before)


class Config:
    """The settings, as attributes. The environment is read at each access, so late changes count."""

    debug: int
    check: bool
    dump: Path | None
    device: str | int | None
    cache: Path | None
    data: Path | None
    max_megapixels: int
    max_faces: int

    _readers: ClassVar[dict[str, Callable[[], Any]]] = {
        "debug": lambda: _integer("DRESSI_DEBUG"),
        "check": lambda: _flag("DRESSI_CHECK"),
        "dump": lambda: _folder("DRESSI_DUMP"),
        "device": lambda: _text("DRESSI_DEVICE"),
        "cache": _cache,
        "data": lambda: _folder("DRESSI_DATA"),
        "max_megapixels": lambda: _cap("DRESSI_MAX_MEGAPIXELS", 64),
        "max_faces": lambda: _cap("DRESSI_MAX_FACES", 10_000_000),
    }

    _values: dict[str, Any]

    def __new__(cls) -> Self:
        self = super().__new__(cls)
        object.__setattr__(self, "_values", {})
        return self

    def __getattr__(self, name: str) -> Any:
        # Only called for names that are not found the usual way, that is, for the settings.
        if name not in self._readers:
            raise AttributeError(f"config has no setting {name!r}; there are {', '.join(self._readers)}")
        return self._values[name] if name in self._values else self._readers[name]()

    def __setattr__(self, name: str, value: Any) -> None:
        self(**{name: value})

    def names(self) -> list[str]:
        """The names of all settings; the environment has them as DRESSI_ and the name in capitals."""
        return list(self._readers)

    def __call__(self, **values: Any) -> _Override:
        """Override settings; a `with` block restores them at its end. Raises InputError on unknown names."""
        for name, value in values.items():
            if name not in self._readers:
                raise InputError(f"config has no setting {name!r}; there are {', '.join(self._readers)}")
            if name in ("dump", "cache", "data") and value is not None:
                values[name] = Path(value)
        return _Override(self, values)


config = Config()


def dressi_version() -> str:
    """The version of the installed package; that of the sources where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # takes as long as all else here

    try:
        return version("dressi")
    except PackageNotFoundError:
        return "(not installed)"


def shader_path(name: str) -> Path:
    """The file `name` of the GLSL that ships with the package, e.g. `shader_path("fullscreen.vert")`.

    An installed wheel has it in `dressi/shaders`, a checkout (and an editable install) in `shaders` beside
    `dressi`. Raises InputError when there is none.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "shaders", package.parent / "shaders"):
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"the shader file {name!r} is not in {package / 'shaders'}; install dressi again")


def shader_text(name: str) -> str:
    """The text of ``shader_path(name)``, or of the file with this full path. Raises InputError."""
    path = Path(name) if os.path.isabs(name) else shader_path(name)
    try:
        if not path.is_file():
            raise InputError(f"the shader file '{path}' is no file; check the path")
        with path.open("rb") as file:
            text = file.read(_LONGEST + 1)
        if len(text) > _LONGEST:
            raise InputError(f"the shader file '{path}' has more than {_LONGEST} bytes; is it GLSL?")
        return text.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise InputError(f"cannot read the shader file '{path}': {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"the shader file '{path}' is not text in UTF-8; is it GLSL?") from None
