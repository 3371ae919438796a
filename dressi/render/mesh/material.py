"""Physically based materials on the host, in NumPy: the metallic-roughness model of glTF 2.0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass, replace
from typing import Any

import numpy as np

from dressi.errors import InputError, KnownAttributes

from ..core.materials import GLTF, WRAPS, Map, Placement, range_text

ALPHA_MODES = ("opaque", "mask", "blend")

_Rows: Any = make_dataclass(
    "_Rows", [(name, Any, default) for name, default in GLTF.fields.items()], eq=False, repr=False
)
"""The fields of the table: a factor for each parameter, and None or an array for each map."""


@dataclass(eq=False, repr=False)
class Material(KnownAttributes, _Rows):
    """How a surface reflects and emits light, beside its base colour, which `Mesh.texture`, `Mesh.color` and
    `Mesh.colors` hold: a factor for each parameter of glTF 2.0, and the maps that multiply factors.

    Each map is a float array with row 0 on top, of its own size (1x1 and sizes that are no powers of two
    included), and is looked up at the UVs of the mesh: (H, W), or (H, W, columns) where the list below says
    so. Colours are linear. Factors and maps without an own range are in [0, 1].

    alpha_mode: "opaque" (alpha is ignored), "mask": the surface is cut out where alpha is below alpha_cutoff,
    or "blend": alpha is the opacity.
    unlit: whether the base colour is shown as it is, under any light.
    double_sided: whether back faces are seen, with their normals turned to the viewer. Pictures show them
    always.
    placements: where maps lie that are not looked up at `Mesh.uvs` as they are, by field; "texture" is that
    of the mesh.
    wrap: what maps and the mesh's texture do outside [0, 1] along u and v: "repeat", "clamp" or "mirror".
    name: that of the file.

    Attributes can be set later, too. Raises InputError when a map has another shape or type, and when an
    attribute is set that there is not; `validate` checks the values.

    >>> import numpy as np
    >>> gold = Material(metallic=1.0, roughness=0.3)
    >>> gold.validate().metallic
    1.0
    >>> Material(normal=np.tile([0.0, 0.0, 1.0], (2, 2, 1))).validate().maps()
    ('normal',)
    """

    alpha_mode: str = "opaque"
    double_sided: bool = False
    unlit: bool = False
    placements: Mapping[str, Placement] = field(default_factory=dict)
    wrap: tuple[str, str] = ("repeat", "repeat")
    name: str = "material"

    def __post_init__(self) -> None:
        for what in (*GLTF.maps, *GLTF.factors, "wrap"):
            setattr(self, what, getattr(self, what))

    def __setattr__(self, name: str, value: Any) -> None:
        if "name" in self.__dict__:  # the last field: before, messages do not know it
            if name in GLTF.maps and value is not None:
                value = self._map(GLTF.maps[name], value)
            elif name in GLTF.factors and np.ndim(GLTF.factors[name].default):
                value = tuple(self._numbers(name, value, np.size(GLTF.factors[name].default)).tolist())
            elif name == "wrap" and isinstance(value, str):
                value = (value, value)
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        changed = [
            f"{one.name}={getattr(self, one.name)!r}"
            for one in fields(self)
            if one.name not in (*GLTF.maps, "placements") and getattr(self, one.name) != one.default
        ]
        changed += ["{0}={2}x{1}".format(what, *np.shape(getattr(self, what))[:2]) for what in self.maps()]
        return f"Material({', '.join(changed)})"

    def maps(self) -> tuple[str, ...]:
        """Names of the maps that are there.

        >>> Material(occlusion=np.ones((1, 1))).maps()
        ('occlusion',)
        """
        return tuple(what for what in GLTF.maps if getattr(self, what) is not None)

    @property
    def is_bumpy(self) -> bool:
        """Whether a map holds normals, along tangents of the mesh."""
        return any(GLTF.maps[what].signed for what in self.maps())

    def place(self, what: str) -> Placement:
        """Where a map lies. what: its field, or "texture".

        >>> Material(placements={"normal": Placement(uv_set=1)}).place("normal").uv_set
        1
        """
        return self.placements.get(what, Placement())

    def wrap_of(self, what: str) -> tuple[str, str]:
        """What a map does outside [0, 1] along u and v. what: its field, or "texture"."""
        return self.place(what).wrap or self.wrap

    def without_maps(self) -> Material:
        """The material without maps, such as for new UVs: factors are multiplied by the mean of their maps.
        Normals, occlusion and cut-outs are gone; of opacity the mean stays.

        >>> Material(roughness=0.5, metallic_roughness=np.full((2, 2, 2), 0.5)).without_maps().roughness
        0.25
        """
        changes = dict.fromkeys(GLTF.maps)
        for row in GLTF.parameters:
            values = None if row.map is None else getattr(self, row.map.field, None)
            if values is not None and row.multiplies:
                mean = values.astype(np.float64).mean((0, 1))
                mean = mean if row.column is None else mean[row.column]
                changes[row.field] = (np.asarray(getattr(self, row.field)) * mean).tolist()
        mode = "opaque"
        if self.alpha_mode == "blend" and self.alpha is not None:
            mode, changes["alpha"] = "blend", np.full((1, 1), self.alpha.astype(np.float64).mean())
        return replace(self, **changes, alpha_mode=mode, placements={})

    # ------------------------------------------------------------------ checks

    def validate(self) -> Material:
        """Return self; raise InputError with one sentence when values cannot be a material.

        Refused: NaN, factors and maps outside their range, an alpha mode or wrap mode that there is not, and
        normal maps that are no normals: grey, the colours of a picture, or code values in [0, 1] that were
        not mapped to [-1, 1].
        """
        for what, row in GLTF.factors.items():
            values = self._numbers(what, getattr(self, what), np.size(row.default) * np.ndim(row.default))
            self._range(what, values, row.least, row.most)
        if self.alpha_mode not in ALPHA_MODES:
            raise self._error(f"alpha_mode is '{self.alpha_mode}'; give one of {', '.join(ALPHA_MODES)}")
        if len(self.wrap) != 2 or not set(self.wrap) <= set(WRAPS):
            raise self._error(f"wrap is {self.wrap}; give two of {', '.join(WRAPS)}, for u and v")
        for what, place in self.placements.items():
            if what not in (*GLTF.maps, "texture"):
                raise self._error(f"placements name '{what}'; give some of texture, {', '.join(GLTF.maps)}")
            problem = place.problem()
            if problem:
                raise self._error(f"the placement of {what}: {problem}")
        for what in self.maps():
            if GLTF.maps[what].signed:
                self._check_normals(getattr(self, what))
            else:
                self._range(what, getattr(self, what), 0.0, GLTF.maps[what].most)
        return self

    def check_uvs(self, mesh: str, has_uvs: bool, has_second: bool) -> None:
        """Raise InputError where maps need UVs that a mesh lacks; one texel needs none, but for normals."""
        maps = [x for x in self.maps() if GLTF.maps[x].signed or np.shape(getattr(self, x))[:2] != (1, 1)]
        if maps and not has_uvs:
            raise InputError(
                f"mesh '{mesh}': the material has maps ({', '.join(maps)}) and the mesh has no UVs;"
                " unwrap it before maps are made, or give material.without_maps()"
            )
        second = [what for what, place in self.placements.items() if place.uv_set]
        if second and not has_second:
            raise InputError(
                f"mesh '{mesh}': the material places {', '.join(second)} by second UVs, which the mesh lacks;"
                " give second_uvs and second_uv_faces, or other placements"
            )

    def _check_normals(self, normal: np.ndarray) -> None:
        bad = int((~np.isfinite(normal)).any(-1).sum())
        if bad:
            raise self._error(f"the normal map has {bad} texels that are NaN or infinite; repair it")
        if normal.min() < -1.01 or normal.max() > 1.01:
            raise self._error(
                f"the normal map has values in [{normal.min():.4g}, {normal.max():.4g}], not in [-1, 1];"
                " decode it: 2 * codes - 1"
            )
        # Atlases are padded with black, grey or white, which says nothing about the rest.
        rest = normal[np.ptp(normal, axis=-1) > 0.02]
        if not len(rest):
            raise self._error(
                "the normal map is all grey, which is no direction; leave it out, or give [0, 0, 1]"
            )
        share = _normal_share(rest)
        if share < 0.5:  # photographs reach 0.15, filtered maps of normals stay above 0.98
            if normal.min() >= 0 and _normal_share(2 * rest - 1) > 0.5:
                raise self._error("the normal map has code values in [0, 1]; decode it: 2 * codes - 1")
            length = float(np.linalg.norm(rest, axis=-1).mean())
            raise self._error(
                f"the normal map is no map of normals in tangent space ({share:.0%} of its texels are unit"
                f" vectors that point outward, mean length {length:.2f}); is it a colour picture? give the"
                " normal map, or None"
            )

    def _map(self, image: Map, values: Any) -> np.ndarray:
        array, what, channels = np.asarray(values), image.field, image.width
        if channels == 0 and array.ndim == 3 and array.shape[-1] == 1:
            array = array[..., 0]
        fits = array.ndim == 3 and array.shape[-1] == channels if channels else array.ndim == 2
        if not fits or 0 in array.shape:
            shape = f"(H, W, {channels})" if channels else "(H, W)"
            raise self._error(f"{what} must be {shape}, not {array.shape}")
        if array.dtype.kind != "f":
            cure = "divide code values by their largest, such as 255"
            raise self._error(f"{what} must hold floats, not {array.dtype}; {cure}")
        return array

    def _numbers(self, what: str, given: Any, count: int) -> np.ndarray:
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.zeros((0, 0))
        if values.shape != ((count,) if count else ()):
            expected = f"{count} numbers" if count else "one number"
            raise self._error(f"{what} must be {expected}, not {given!r}")
        return values

    def _range(self, what: str, values: np.ndarray, least: float, most: float) -> None:
        inside = (values >= least) & (values <= most) & np.isfinite(values)  # NaN is not
        if inside.all():
            return
        wrong = values[~inside].reshape(-1)
        many = f" ({wrong.size} such values)" if values.ndim > 1 else ""
        raise self._error(
            f"{what} is {wrong[0]:.4g}{many}, which is not in {range_text(least, most)}; correct it"
        )

    def _error(self, text: str) -> InputError:
        return InputError(f"material '{self.name}': {text}")


Material.__doc__ = f"{Material.__doc__}\n{GLTF.listed()}\n"


def wrapped(index: np.ndarray, size: int, wrap: str) -> np.ndarray:
    """Texels in [0, size) that stand for any integers, by a wrap mode of `Material`.

    >>> [wrapped(np.arange(-2, 5), 3, wrap).tolist() for wrap in WRAPS]
    [[1, 2, 0, 1, 2, 0, 1], [0, 0, 0, 1, 2, 2, 2], [1, 0, 0, 1, 2, 2, 1]]
    """
    if wrap == "repeat":
        return index % size
    if wrap == "clamp":
        return np.clip(index, 0, size - 1)
    turned = index % (2 * size)
    return np.minimum(turned, 2 * size - 1 - turned)


def bilinear(image: np.ndarray, uv: np.ndarray, wrap: tuple[str, str]) -> np.ndarray:
    """(..., C) of an image (H, W, C) at UVs (..., 2); outside [0, 1] as ``wrap`` says along u and v.

    >>> bilinear(np.array([[[0.0], [1.0]]]), np.array([0.5, 0.5]), ("clamp", "clamp")).tolist()
    [0.5]
    """
    height, width = image.shape[:2]
    place = uv * (width, height) - 0.5
    low = np.floor(place)
    fraction = place - low
    x0, y0 = low[..., 0].astype(np.int64), low[..., 1].astype(np.int64)
    total = np.zeros(uv.shape[:-1] + image.shape[2:])
    for dy in (0, 1):
        for dx in (0, 1):
            weight = np.abs(1 - dx - fraction[..., 0]) * np.abs(1 - dy - fraction[..., 1])
            x, y = wrapped(x0 + dx, width, wrap[0]), wrapped(y0 + dy, height, wrap[1])
            total += weight[..., None] * image[y, x]
    return total


def _normal_share(normal: np.ndarray) -> float:
    """Share of (..., 3) that are about unit vectors with z from 0 on."""
    length = np.linalg.norm(normal, axis=-1)
    return float(((np.abs(length - 1) < 0.15) & (normal[..., 2] > -0.05)).mean())
