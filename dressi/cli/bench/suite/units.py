"""What `dressi bench all` is made of: units that are measured, written and resumed one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dressi.cli.bench.names import CASES, RIVALS
from dressi.cli.bench.request import DEFAULTS, Request

BATCHES = 31
"""Most timed batches of a case, where the user asks for no other number."""


@dataclass(frozen=True)
class Unit:
    """A part of a case: one mesh, size and texture.  options: those of `dressi bench`, as texts or numbers, None for what
    the case decides."""

    case: str
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        parts = [self.options[key] for key in ("mesh", "size", "texture_size")]
        return "-".join([self.case, *(str(part).replace("/", "_") for part in parts if part is not None)])

    def request(self) -> Request:
        """Raises InputError."""
        return Request.parse(self.case, cold=False, json_file=None, **self.options)

    @property
    def command(self) -> str:
        """The command that measures it alone."""
        words = [
            f"--{key.replace('_', '-')} {value}"
            for key, value in self.options.items()
            if value is not None and key != "peels"
        ]
        return " ".join(["dressi", "bench", self.case, *words])


def units(given: dict[str, Any]) -> list[Unit]:
    """All units in their order. given: the options of the command line, None where the cases decide."""
    return [unit for case in CASES for unit in _units_of(case, given)]


def _units_of(case: str, given: dict[str, Any]) -> Iterator[Unit]:
    usual = DEFAULTS[case]
    options = dict(given)
    options["device"] = given["device"] or "all"
    options["batches"] = given["batches"] or min(usual.batches, BATCHES)
    # Rivals that are not installed are a remark in the results.
    options["peer"] = next(iter(RIVALS.get(case, ())), None)
    sizes = _parts(given["size"], usual.sizes)
    textures = _parts(given["texture_size"], usual.textures)
    meshes = _parts(given["mesh"], usual.meshes)
    for mesh in meshes if len(meshes) > 1 else [given["mesh"]]:
        for size in sizes if len(sizes) > 1 else [given["size"]]:
            for texels in textures if len(textures) > 1 else [given["texture_size"]]:
                yield Unit(case, {**options, "mesh": mesh, "size": size, "texture_size": texels})


def _parts(text: str | None, usual: tuple[Any, ...]) -> list[str]:
    return [part.strip() for part in text.split(",")] if text is not None else [str(part) for part in usual]
