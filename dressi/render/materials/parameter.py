"""Rows of a table of material properties, and the table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import FLOAT, VType, vector_type
from .learned import Learned

CHANNELS = "rgba"
"""Of an image, by letter."""


class At(Protocol):
    """What a row asks of a surface point (``SurfacePoint``)."""

    albedo: Any

    def has(self, name: str) -> bool: ...
    def map(self, name: str) -> Variable: ...
    def mapped(self, name: str, scale: str) -> Variable: ...


@dataclass(frozen=True)
class Map:
    """An image of a material, which is looked up at the texture coordinates.

    field: of ``Material``.  slot: of a reference to a texture in a glTF material, keys joined by "/".  channels: letters of
    the image that the columns are; "g" of a grey image is its only channel.  light: linear light in [0, most], stored by the
    sRGB curve, not numbers.  signed: numbers in [-1, 1].

    >>> Map("metallic_roughness", "pbrMetallicRoughness/metallicRoughnessTexture", "bg").vtype
    VEC2
    """

    field: str
    slot: str
    channels: str
    light: bool = False
    signed: bool = False
    most: float = 1.0

    @property
    def vtype(self) -> VType:
        return vector_type(len(self.channels))

    @property
    def columns(self) -> list[int]:
        """Of an image of red, green, blue and alpha."""
        return [CHANNELS.index(letter) for letter in self.channels]

    @property
    def width(self) -> int:
        """Columns of the array (H, W, columns) of ``Material``; 0 for a plane (H, W)."""
        return len(self.channels) if len(self.channels) > 1 else 0


@dataclass(frozen=True)
class Parameter:
    """A property of a surface: one value, or an image times a factor.

    name: of the part that ``render(material=)`` takes, and of the field of the BSDF.  default: of the factor.  text: what it
    is, for documents.  least, most: the range of the factor.  optional: whether it has no effect at its default, so that
    graphs leave it out there.  factor: the field of ``Material``, by default the name.  key: of the factor in a glTF
    material, keys joined by "/".  strength: a key for what exceeds 1.  file_default: of files, where it is another one.
    map: the image, if it may have one; with ``column`` it is one of the columns.  needs: the parameter that has to be there
    for this one to have an effect.  mtl, mtl_map: the keys of the factor and of the image in an MTL file.
    learned: how a fit finds its map; None: it does not.

    >>> Parameter("ior", default=1.5, most=9.0).parts(1.5, None)
    {}
    """

    name: str
    vtype: VType = FLOAT
    default: float | tuple[float, ...] = 0.0
    text: str = ""
    least: float = 0.0
    most: float = 1.0
    optional: bool = True
    factor: str = ""
    key: str = ""
    strength: str = ""
    file_default: float | None = None
    map: Map | None = None
    column: int | None = None
    needs: str = ""
    mtl: str = ""
    mtl_map: str = ""
    learned: Learned | None = None

    @property
    def field(self) -> str:
        """Of ``Material``: the factor."""
        return self.factor or self.name

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of ``Material`` and their defaults."""
        return {self.field: self.default} | ({} if self.map is None else {self.map.field: None})

    @property
    def image(self) -> Map:
        """The map of a parameter that has one."""
        assert self.map is not None
        return self.map

    @property
    def multiplies(self) -> bool:
        """Whether the factor multiplies the image."""
        return True

    @property
    def neutral(self) -> float | tuple[float, ...] | None:
        """The texel of an image that has no effect, beside a factor of ``default``; None where there is none."""
        return 1.0

    @property
    def given(self) -> dict[str, VType]:
        """The parts that ``render(material=)`` takes, and their types."""
        shared = {} if self.map is None or self.column is None else {self.map.field: self.map.vtype}
        return {self.name: self.vtype} | shared

    @property
    def beside(self) -> str:
        """The name of the part that holds the factor beside an image."""
        return f"{self.name}_factor"

    def parts(self, factor: Any, image: np.ndarray | None) -> dict[str, Any]:
        """The parts of a graph, by name, for fields of a ``Material``: what has no effect is left out."""
        if self.map is not None and self.column is not None:
            return {self.name: factor} | ({} if image is None else {self.map.field: image})
        if image is None or not np.any(factor):
            alone = self.optional and np.all(np.equal(factor, self.default))
            return {} if alone else {self.name: factor}
        return {self.name: image} | ({} if np.all(np.equal(factor, 1)) else {self.beside: factor})

    def at(self, point: At) -> Variable | None:
        """The value at every pixel; None where it has no effect."""
        found = [point.map(name) for name in (self.name, self.beside) if point.has(name)]
        value = found[0] if len(found) == 1 else found[0] * found[1] if found else None
        if value is None and not self.optional:
            value = F.constant(self.default)
        if (
            value is not None
            and self.map is not None
            and self.column is not None
            and point.has(self.map.field)
        ):
            value = value * F.component(point.map(self.map.field), self.column)
        return value


@dataclass(frozen=True)
class BaseColour(Parameter):
    """The colour of a surface, which lies on the mesh: texture times colours of the vertices times one colour."""

    @property
    def neutral(self) -> None:
        return None

    @property
    def fields(self) -> dict[str, Any]:
        return {}

    @property
    def given(self) -> dict[str, VType]:
        return {"texture": self.vtype, "colour": self.vtype}

    def at(self, point: At) -> Variable | None:
        return point.albedo


@dataclass(frozen=True)
class Modulated(Parameter):
    """A property that is an image alone. The factor says how the image is meant."""

    @property
    def multiplies(self) -> bool:
        return False

    @property
    def given(self) -> dict[str, VType]:
        return {self.name: self.vtype, self.field: FLOAT}

    @property
    def beside(self) -> str:
        return self.field

    def parts(self, factor: Any, image: np.ndarray | None) -> dict[str, Any]:
        if image is None:
            return {}
        return {self.name: image} | ({} if factor == self.default else {self.field: factor})


@dataclass(frozen=True)
class Occlusion(Modulated):
    """A share of light, of which the factor takes a part: ``1 + factor * (image - 1)``."""

    def at(self, point: At) -> Variable | None:
        if not point.has(self.name):
            return None
        value = point.map(self.name)
        return 1.0 + point.map(self.field) * (value - 1.0) if point.has(self.field) else value


@dataclass(frozen=True)
class Normals(Modulated):
    """Normals in tangent space, of which the factor scales x and y. At a point: the unit normal in the world."""

    @property
    def neutral(self) -> tuple[float, ...]:
        return 0.0, 0.0, 1.0

    def at(self, point: At) -> Variable | None:
        return point.mapped(self.name, self.field) if point.has(self.name) else None


@dataclass(frozen=True)
class MaterialKind:
    """A table of properties.

    >>> kind = MaterialKind("velvet", (Parameter("fuzz", default=0.5, text="share of light that fibres scatter"),))
    >>> kind["fuzz"].default, list(kind.parts)
    (0.5, ['fuzz'])
    """

    name: str
    parameters: tuple[Parameter, ...]
    flags: Mapping[str, str] = field(default_factory=dict)
    """Extensions that are no parameters, by what they mean."""

    def __getitem__(self, name: str) -> Parameter:
        return next(p for p in self.parameters if p.name == name)

    @cached_property
    def maps(self) -> dict[str, Map]:
        """The images by their fields of ``Material``."""
        return {
            p.map.field: p.map for p in self.parameters if p.map is not None and p.map.field in self.fields
        }

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Fields of ``Material`` and their defaults, in order."""
        return {name: default for p in self.parameters for name, default in p.fields.items()}

    @cached_property
    def factors(self) -> dict[str, Parameter]:
        """The parameters by the fields of their factors."""
        return {p.field: p for p in self.parameters if p.field in p.fields}

    @cached_property
    def parts(self) -> dict[str, VType]:
        """The parts that ``render(material=)`` takes, and their types."""
        return {name: vtype for p in self.parameters for name, vtype in p.given.items()}

    @cached_property
    def learned(self) -> dict[str, Parameter]:
        """The parameters whose maps a fit can find, by the names of ``--optimize``."""
        return {p.learned.name or p.name: p for p in self.parameters if p.learned is not None}

    @cached_property
    def extensions(self) -> frozenset[str]:
        """Of glTF, that the rows are read from and written to."""
        keys = [key for p in self.parameters for key in (p.key, p.strength, p.map.slot if p.map else "")]
        return frozenset(key.split("/")[1] for key in keys if key.startswith(EXTENSIONS))

    def listed(self) -> str:
        """The fields of ``Material``, a line for each parameter."""
        lines = []
        for p in self.parameters:
            shape = f"(H, W, {p.map.width})" if p.map and p.map.width else "(H, W)"
            fields = [f"{name}: {shape}" if default is None else name for name, default in p.fields.items()]
            if fields:
                span = "" if (p.least, p.most) == (0, 1) else f", in {range_text(p.least, p.most)}"
                lines.append(f"    {', '.join(fields)}{span}: {p.text}.")
        return "\n".join(lines)

    def table(self) -> str:
        """A table in Markdown: parts, fields, ranges, defaults and places in a glTF file."""
        lines = ["| `material=` | `Material` | default | range | glTF |", "|---|---|---|---|---|"]
        for p in self.parameters:
            names = " ".join(f"`{name}`" for name in p.given)
            fields = ", ".join(f"`{name}`" for name in p.fields)
            slot = p.map.slot.rpartition("/")[2] + f" ({p.map.channels})" if p.map else ""
            places = ", ".join(x for x in (p.key.rpartition("/")[2], slot) if x)
            owner = p.key if p.key.startswith(EXTENSIONS) else ""
            places += f" of {owner.split('/')[1]}" if owner else ""
            lines.append(
                f"| {names} | {fields} | {_shown(p.default)} | {range_text(p.least, p.most)} | {places} |"
            )
        return "\n".join(lines)


EXTENSIONS = "extensions/"
"""What keys of extensions begin with."""


def range_text(least: float, most: float) -> str:
    """A range of numbers.

    >>> range_text(0, 1), range_text(0, math.inf)
    ('[0, 1]', '[0, infinity)')
    """
    low = "(-infinity" if math.isinf(least) else f"[{least:g}"
    return f"{low}, infinity)" if math.isinf(most) else f"{low}, {most:g}]"


def _shown(default: float | tuple[float, ...]) -> str:
    return f"{default:g}" if not isinstance(default, tuple) else ", ".join(f"{x:g}" for x in default)
