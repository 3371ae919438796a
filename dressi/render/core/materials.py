"""What a material is made of, as tables: each property of a surface is one row, and all else derives from it.

``parameter`` the rows and a table of them; ``gltf`` the table of glTF 2.0; ``placement`` where maps lie;
``learned`` how fits find parameters. From a table come the fields and checks of ``Material``, the parts that
``render`` accepts, files in and out, the maps that a fit learns and the tables of the guides. A new property
is a row, and the lines of a BSDF (``shading.bsdf``) that use it.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from math import inf
from typing import Any, Protocol

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import FLOAT, VEC3, VType, vector_type

__all__ = ["GLTF", "BaseColour", "Map", "MaterialKind", "Modulated", "Parameter", "Placement"]


# How a fit finds a parameter: what it optimises in its place, and how fast.

LEAST = 0.02
"""Distance from the ends of [0, 1] at which maps start: at the ends a sigmoid has no derivative."""


@dataclass(frozen=True)
class Learned(ABC):
    """rate: of Adam at the first step.  smoothness: weight of the sum of squared differences of neighbouring
    texels.  name: in ``--optimize``, by default the parameter's."""

    rate: float
    smoothness: float
    name: str = ""

    @abstractmethod
    def start(self, values: np.ndarray) -> np.ndarray:
        """What is optimised, for values (H, W, C) of the parameter to start from."""

    @abstractmethod
    def value(self, unknown: Variable) -> Variable:
        """The parameter."""


class Share(Learned):
    """A number in [0, 1]: the sigmoid of what is optimised.

    >>> Share(0.1, 0.0).start(np.array([[[0.5]]])).item()
    0.0
    """

    def start(self, values: np.ndarray) -> np.ndarray:
        inside = np.clip(values, LEAST, 1 - LEAST)
        return np.log(inside / (1 - inside))

    def value(self, unknown: Variable) -> Variable:
        return F.sigmoid(unknown)


class Radiance(Learned):
    """A number from 0 on: the square of what is optimised."""

    def start(self, values: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(values, 1e-3))

    def value(self, unknown: Variable) -> Variable:
        return unknown * unknown


class Tilt(Learned):
    """Normals in tangent space, tilted by two numbers and normalised."""

    def start(self, values: np.ndarray) -> np.ndarray:
        return values[..., :2] / np.maximum(values[..., 2:], 0.1)

    def value(self, unknown: Variable) -> Variable:
        return F.normalize(F.vec3(unknown, 1.0))


# Rows of a table of material properties, and the table.


class At(Protocol):
    """What a row asks of a surface point (``SurfacePoint``)."""

    albedo: Any

    def has(self, name: str) -> bool: ...
    def map(self, name: str) -> Variable: ...
    def mapped(self, name: str, scale: str) -> Variable: ...


@dataclass(frozen=True)
class Map:
    """An image of a material, which is looked up at the texture coordinates.

    field: of ``Material``.  slot: of a reference to a texture in a glTF material, keys joined by "/".
    channels: letters of the image that the columns are; "g" of a grey image is its only channel.  light:
    linear light in [0, most], stored by the sRGB curve, not numbers.  signed: numbers in [-1, 1].

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
        """Its columns in an image of red, green, blue and alpha."""
        return ["rgba".index(letter) for letter in self.channels]

    @property
    def width(self) -> int:
        """Columns of the array (H, W, columns) of ``Material``; 0 for a plane (H, W)."""
        return len(self.channels) if len(self.channels) > 1 else 0


@dataclass(frozen=True)
class Parameter:
    """A property of a surface: one value, or an image times a factor.

    name: of the part that ``render(material=)`` takes, and of the field of the BSDF.  default: of the factor.
    text: what it is, for documents.  least, most: the range of the factor.  optional: whether it has no
    effect at its default, so that graphs leave it out there.  factor: the field of ``Material``, by default
    the name.  key: of the factor in a glTF material, keys joined by "/".  strength: a key for what exceeds 1.
    file_default: of files, where it is another one. map: the image, if it may have one; with ``column`` it is
    one of the columns.  needs: the parameter that has to be there for this one to have an effect.  mtl,
    mtl_map: the keys of the factor and of the image in an MTL file. learned: how a fit finds its map; None:
    it does not.

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
        """The field of ``Material`` that holds the factor."""
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
        """The texel of an image that has no effect, beside a factor of ``default``; None where there is
        none."""
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
        given = [point.map(name) for name in (self.name, self.beside) if point.has(name)]
        if not given and self.optional:
            return None
        value = reduce(operator.mul, given) if given else F.constant(self.default)
        if self.map is not None and self.column is not None and point.has(self.map.field):
            value = value * F.component(point.map(self.map.field), self.column)
        return value


@dataclass(frozen=True)
class BaseColour(Parameter):
    """The colour of a surface, which lies on the mesh: texture times colours of vertices times one colour."""

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
    """Normals in tangent space, whose x and y the factor scales. At a point: the unit normal in the world."""

    @property
    def neutral(self) -> tuple[float, ...]:
        return 0.0, 0.0, 1.0

    def at(self, point: At) -> Variable | None:
        return point.mapped(self.name, self.field) if point.has(self.name) else None


@dataclass(frozen=True)
class MaterialKind:
    """A table of properties.

    >>> kind = MaterialKind("velvet", (Parameter("fuzz", default=0.5, text="share of scattered light"),))
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
        maps = [p.map for p in self.parameters if p.map is not None]
        return {row.field: row for row in maps if row.field in self.fields}

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


# The properties of glTF 2.0 materials.

PBR = "pbrMetallicRoughness"
COAT = "extensions/KHR_materials_clearcoat"
SPECULAR = "extensions/KHR_materials_specular"
THROUGH = "extensions/KHR_materials_transmission"
SHEEN = "extensions/KHR_materials_sheen"
GLOW = "extensions/KHR_materials_emissive_strength/emissiveStrength"
BLACK, WHITE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
BOTH = Map("metallic_roughness", f"{PBR}/metallicRoughnessTexture", "bg")

GLTF = MaterialKind(
    "glTF 2.0",
    (
        BaseColour(
            "base", VEC3, WHITE, "colour, linear",
            key=f"{PBR}/baseColorFactor", map=Map("texture", f"{PBR}/baseColorTexture", "rgb", light=True),
            learned=Share(0.15, 1e-6, "albedo"),
        ),
        Parameter(
            "metallic", default=0.0, text="0 for a dielectric, 1 for a metal", optional=False,
            key=f"{PBR}/metallicFactor", file_default=1.0, map=BOTH, column=0, mtl="Pm", mtl_map="map_Pm",
            learned=Share(0.1, 4e-6),
        ),
        Parameter(
            "roughness", default=1.0, text="perceptual: GGX has alpha = roughness**2", optional=False,
            key=f"{PBR}/roughnessFactor", file_default=1.0, map=BOTH, column=1, mtl="Pr", mtl_map="map_Pr",
            learned=Share(0.1, 4e-6),
        ),
        Normals(
            "normal", VEC3, 1.0, "normals in tangent space, x along the tangent (u grows), y along the bitangent"
            " (+Y up as in OpenGL and glTF), z along the normal; the scale multiplies x and y",
            least=-inf, most=inf, factor="normal_scale", key="normalTexture/scale",
            map=Map("normal", "normalTexture", "rgb", signed=True), mtl_map="norm",
            learned=Tilt(0.002, 2e-4),
        ),
        Occlusion(
            "occlusion", default=1.0,
            text="share of the ambient light that arrives: 1 + strength * (occlusion - 1)",
            factor="occlusion_strength", key="occlusionTexture/strength",
            map=Map("occlusion", "occlusionTexture", "r"),
        ),
        Parameter(
            "emission", VEC3, BLACK, "linear radiance that the surface gives off", most=inf,
            key="emissiveFactor", strength=GLOW, mtl="Ke", mtl_map="map_Ke",
            map=Map("emission_map", "emissiveTexture", "rgb", light=True, most=inf),
            learned=Radiance(0.1, 4e-6),
        ),
        Modulated(
            "alpha", default=0.5, most=inf, factor="alpha_cutoff", key="alphaCutoff",
            text="that of the base colour, factor included; \"mask\" cuts out where it is below the cutoff",
            map=Map("alpha", f"{PBR}/baseColorTexture", "a"),
        ),
        Parameter(
            "ior", default=1.5, most=inf, text="index of refraction of dielectrics; 0 reflects all",
            key="extensions/KHR_materials_ior/ior",
        ),
        Parameter(
            "specular", default=1.0, text="strength of the reflection of dielectrics",
            key=f"{SPECULAR}/specularFactor", map=Map("specular_map", f"{SPECULAR}/specularTexture", "a"),
        ),
        Parameter(
            "specular_color", VEC3, WHITE, "colour of the reflection of dielectrics at normal incidence, linear",
            most=inf, key=f"{SPECULAR}/specularColorFactor",
            map=Map("specular_color_map", f"{SPECULAR}/specularColorTexture", "rgb", light=True),
        ),
        Parameter(
            "transmission", key=f"{THROUGH}/transmissionFactor",
            text="share of the light that enters and goes straight through, tinted by the base colour",
            map=Map("transmission_map", f"{THROUGH}/transmissionTexture", "r"),
        ),
        Parameter(
            "clearcoat", text="strength of a clear layer of index 1.5 on top",
            key=f"{COAT}/clearcoatFactor", map=Map("clearcoat_map", f"{COAT}/clearcoatTexture", "r"), mtl="Pc",
            learned=Share(0.1, 4e-6),
        ),
        Parameter(
            "clearcoat_roughness", text="of the clear layer", needs="clearcoat", mtl="Pcr",
            key=f"{COAT}/clearcoatRoughnessFactor",
            map=Map("clearcoat_roughness_map", f"{COAT}/clearcoatRoughnessTexture", "g"),
            learned=Share(0.1, 4e-6),
        ),
        Normals(
            "clearcoat_normal", VEC3, 1.0,
            "normals of the clear layer, as the normal map; without it, those of the geometry",
            least=-inf, most=inf, factor="clearcoat_normal_scale", key=f"{COAT}/clearcoatNormalTexture/scale",
            map=Map("clearcoat_normal", f"{COAT}/clearcoatNormalTexture", "rgb", signed=True), needs="clearcoat",
        ),
        Parameter(
            "sheen", VEC3, BLACK, "colour of the retro-reflection of cloth, linear", factor="sheen_color",
            key=f"{SHEEN}/sheenColorFactor",
            map=Map("sheen_color_map", f"{SHEEN}/sheenColorTexture", "rgb", light=True),
            learned=Share(0.1, 4e-6),
        ),
        Parameter(
            "sheen_roughness", text="of the sheen", needs="sheen", key=f"{SHEEN}/sheenRoughnessFactor",
            map=Map("sheen_roughness_map", f"{SHEEN}/sheenRoughnessTexture", "a"),
            learned=Share(0.1, 4e-6),
        ),
    ),
)  # fmt: skip


# Where a map lies on a surface.

WRAPS = ("repeat", "clamp", "mirror")
"""What maps do outside [0, 1], along u and v."""


@dataclass(frozen=True)
class Placement:
    """How a map is looked up: at ``matrix @ uv + offset``.

    uv_set: 0 for `Mesh.uvs`, 1 for `Mesh.second_uvs`.  matrix: (2, 2), rows.  offset: (2,).  wrap: along u
    and v; None: as the material says.

    >>> Placement(offset=(0.5, 0.0)).moves
    True
    """

    uv_set: int = 0
    matrix: tuple[tuple[float, float], tuple[float, float]] = ((1.0, 0.0), (0.0, 1.0))
    offset: tuple[float, float] = (0.0, 0.0)
    wrap: tuple[str, str] | None = None

    @property
    def moves(self) -> bool:
        """Whether the map lies elsewhere than the UVs say."""
        return self.matrix != ((1.0, 0.0), (0.0, 1.0)) or self.offset != (0.0, 0.0)

    def problem(self) -> str | None:
        """What is wrong with it, as a sentence."""
        if self.uv_set not in (0, 1):
            return f"uv_set is {self.uv_set}; give 0 or 1"
        if np.shape(self.matrix) != (2, 2) or np.shape(self.offset) != (2,):
            return "matrix is (2, 2) and offset (2,)"
        if not (np.isfinite(self.matrix).all() and np.isfinite(self.offset).all()):
            return "matrix or offset is NaN or infinite; give finite numbers"
        if self.wrap is not None and (len(self.wrap) != 2 or not set(self.wrap) <= set(WRAPS)):
            return f"wrap is {self.wrap}; give two of {', '.join(WRAPS)}, for u and v"
        return None
