"""The maps that a material fit optimises: their parameters, their ranges, and what they become at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ....ad.graph import Variable
from ...io.images import resize
from ...materials import GLTF, Parameter
from ...materials.learned import Learned
from ...mesh import Mesh
from ...mesh.material import Material
from ...surface.color import linear_to_srgb, srgb_to_linear
from ...surface.transfer import decoded
from ..textures.charts import charted, dilated
from ..textures.pyramid import Pyramid


def learned(part: str) -> Learned:
    """How a part is found."""
    found = GLTF.learned[part].learned
    assert found is not None
    return found


class Maps:
    """The optimised maps of a mesh. parts: names of them.  size: (W, H).

    ``given`` are Variables by the names of ``render``'s material, and "texture"; ``pyramids`` hold the parameters, by part.
    Each is what its ``Learned`` makes of its parameters; of the base colour, whose name is albedo, these are sRGB codes.
    Normals are those of the mesh, tilted.
    """

    def __init__(self, mesh: Mesh, parts: tuple[str, ...], size: tuple[int, int]):
        self.mesh, self.size = mesh, size
        self.pyramids: dict[str, Pyramid] = {}
        self.given: dict[str, Variable] = {}
        self.values: dict[str, Variable] = {}
        """What is read at the end, by part: codes of albedo, normals and factors as they are."""
        for part, row in GLTF.learned.items():
            if part in parts:
                start = learned(part).start(_values(mesh, row, size) if row.fields else self._codes())
                self.pyramids[part] = Pyramid(size, start, part)
                self.values[part] = learned(part).value(self.pyramids[part].texture)
                name = row.name if row.fields else row.image.field
                self.given[name] = self.values[part] if row.fields else decoded(self.values[part])

    def _codes(self) -> np.ndarray:
        """(H, W, 3) sRGB codes of the base colour, factor included."""
        start = _image(self.mesh.texture, (1.0, 1.0, 1.0), self.size)
        return linear_to_srgb(start * np.asarray(self.mesh.color))


def with_maps(base: Mesh, values: Mapping[str, np.ndarray], size: tuple[int, int]) -> Mesh:
    """The mesh with maps of ``size`` (W, H), ``values`` by part as (1, H, W, ...); texels outside of all charts are filled.
    Values of other names are left out."""
    mesh = replace(base, material=replace(base.material or Material()))
    inside = charted(mesh, size)
    found = {
        part: dilated(np.asarray(values[part], np.float64)[0], inside)
        for part in GLTF.learned
        if part in values
    }
    material = mesh.material
    assert material is not None
    for part, image in found.items():
        row = GLTF.learned[part]
        if not row.fields:
            mesh.texture, mesh.color = srgb_to_linear(np.clip(image, 0, 1)), (1.0, 1.0, 1.0)
        elif row.column is None:
            setattr(material, row.image.field, image if row.image.width else image.reshape(image.shape[:2]))
            setattr(material, row.field, (1.0,) * 3 if np.ndim(row.default) else 1.0)
    for shared in {row.image for part in found if (row := GLTF.learned[part]).column is not None}:
        rows = [row for row in GLTF.parameters if row.map is shared]
        given = {row.name: found[part] for part, row in GLTF.learned.items() if part in found}
        columns = [np.clip(given.get(row.name, _values(base, row, size)), 0, 1) for row in rows]
        setattr(material, shared.field, np.concatenate([c.reshape(size[1], size[0], 1) for c in columns], -1))
        for row in rows:
            setattr(material, row.field, 1.0)
    return mesh


def _values(mesh: Mesh, row: Parameter, size: tuple[int, int]) -> np.ndarray:
    """(H, W, C) of a parameter: its map, resampled, times its factor where that multiplies."""
    material = mesh.material or Material()
    image, width = getattr(material, row.image.field), max(row.image.width, 1)
    default = (1.0,) * width if row.multiplies else (0.0, 0.0, 1.0)
    values = _image(None if image is None else image.reshape(*image.shape[:2], width), default, size)
    values = values if row.column is None else values[..., row.column : row.column + 1]
    return values * getattr(material, row.field) if row.multiplies else values


def _image(values: np.ndarray | None, default: tuple[float, ...], size: tuple[int, int]) -> np.ndarray:
    """(H, W, C) of a map, resampled, or of its default."""
    if values is None:
        return np.broadcast_to(np.asarray(default), (size[1], size[0], len(default))).copy()
    return resize(np.asarray(values, np.float64), size)
