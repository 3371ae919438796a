"""Pictures as arrays: what ``render`` gives when there is no Variable among its arguments.

Graphs are kept: a second picture with the same shapes sends its arrays to the first engine and builds
nothing.
"""

from __future__ import annotations

import atexit
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from ...ad.graph import Variable, traversal
from ...engines import default_engine
from ...errors import InputError
from ...figures import Figures
from ..layers.stacks import MOST
from ..shading.tone import FLOATS, check_tone, displayed_array
from ..surface.color import linear_to_srgb
from .picture import Picture, attribute_leaf
from .scenes.images import Values

KEPT = 8
"""How many engines are kept for the next picture of the same shapes."""
NAMES = ("colour", "mask", "missed", "depth", "normal", "point", "face", "node", "material", "uv")

_engines: OrderedDict[Hashable, _Kept] = OrderedDict()


@dataclass(frozen=True, eq=False)
class _Kept:
    """An engine with the leaves that its images read, by name, and a hash of what each holds."""

    engine: Any
    leaves: dict[str, Variable]
    hashes: dict[str, bytes]

    def send(self, values: Mapping[str, Values]) -> None:
        """Send the arrays that changed: what others determine, such as a filtered environment, is kept."""
        for name, leaf in self.leaves.items():
            now = blake2b(np.ascontiguousarray(values[name].array).data, digest_size=16).digest()
            if self.hashes.get(name) != now:
                self.engine.send(leaf, values[name].array)
                self.hashes[name] = now


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a picture is drawn: arrays by name, and the function that makes a ``Picture`` from their leaves."""

    key: Hashable
    """Equal for pictures that the same engine can draw."""
    values: Mapping[str, Values]
    picture: Callable[[Mapping[str, Variable]], Picture]


def close_engines() -> None:
    """Close the cached engines; the next picture makes new ones."""
    while _engines:
        _engines.popitem()[1].engine.close()


def compute(recipe: Recipe, names: Sequence[str], table: Values | None = None) -> dict[str, np.ndarray]:
    """The images of those names, (N, H, W, ...) float32 or int32; "attribute" is that of the table."""
    values = dict(recipe.values) | ({} if table is None else {"table": table})
    shapes = tuple((name, v.vtype, v.array.shape) for name, v in values.items())
    key = (recipe.key, shapes, tuple(names))
    if key not in _engines:
        leaves = {name: v.leaf(name) for name, v in values.items()}
        picture = recipe.picture(leaves)
        images = {name: getattr(picture, name) for name in names if name != "attribute"}
        if table is not None:
            images["attribute"] = picture.attribute(leaves["table"])
        engine = default_engine()
        if not _engines:
            # Registered after the exit handler of the device, so that it runs before it.
            atexit.unregister(close_engines)
            atexit.register(close_engines)
        for name, image in images.items():
            engine.set_output(name, image)
        read = set(traversal.leaves(images.values()))
        _engines[key] = _Kept(engine, {name: leaf for name, leaf in leaves.items() if leaf in read}, {})
        while len(_engines) > KEPT:
            _engines.popitem(last=False)[1].engine.close()
    _engines.move_to_end(key)
    kept = _engines[key]
    kept.send(values)
    kept.engine.step()
    return {name: np.array(kept.engine.recv(name)) for name in names}


class _Image(property):
    """An image of ``Pixels`` that is computed when it is read. Its text is its docstring."""

    def __init__(self, text: str):
        super().__init__(lambda pixels: pixels._get(self.name), doc=text)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


@dataclass(frozen=True, eq=False, repr=False)
class Pixels(Figures):
    """A picture as arrays: (H, W, ...) of one camera, (N, H, W, ...) of several (``render``).

    Colours are linear; ``srgb`` and ``save`` convert to sRGB. Images are computed on first use, those named
    in ``outputs`` together. ``np.asarray(picture)`` is ``image``.

    >>> from dressi.render import primitives, render
    >>> picture = render(primitives.cube(), size=(32, 24))  # doctest: +SKIP
    >>> picture.colour.shape, picture.face.dtype  # doctest: +SKIP
    ((24, 32, 3), dtype('int32'))
    """

    recipe: Recipe
    single: bool
    outputs: tuple[str, ...]
    layers: int = 0
    """How many transparent surfaces a pixel shows at most; 0 where the scene has none."""
    _known: dict[str, np.ndarray] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Pixels({', '.join(self.outputs)})"

    def _get(self, name: str) -> np.ndarray:
        if name not in self._known:
            names = self.outputs if name in self.outputs else (name,)
            if self.layers and "colour" in names and "missed" not in names:
                names = (*names, "missed")
            images = compute(self.recipe, names)
            if np.any(images.get("missed", 0)):
                warnings.warn(
                    f"{int(np.sum(images['missed']))} pixels show more than {self.layers} transparent surfaces, and those behind"
                    f" are left out; give transparency={min(2 * self.layers, MOST)}",
                    stacklevel=3,
                )
            self._known.update({n: a[0] if self.single else a for n, a in images.items()})
        return self._known[name]

    colour = _Image("(..., H, W, 3) float32: the shaded mesh over the background (black by default), linear.")
    mask = _Image("(..., H, W) float32 in [0, 1]: how much the mesh covers the pixel.")
    missed = _Image(
        "(..., H, W) float32: 1 where the centre of the pixel shows more transparent surfaces than ``transparency`` layers."
    )
    depth = _Image(
        "(..., H, W) float32: the distance from the camera along its axis, 0 where there is nothing; blended at edges by the"
        " edges form (``Picture.depth``). Of a matrix of a parallel projection, which has no place of a camera,"
        " z / w: 0 at the near plane, 1 at the far one."
    )
    normal = _Image(
        "(..., H, W, 3) float32: the unit normal in the world, 0 where there is nothing; blended like ``depth``."
    )
    point = _Image(
        "(..., H, W, 3) float32: the place in the world, 0 where there is nothing; blended like ``depth``."
    )
    face = _Image(
        "(..., H, W) int32: the number of the face at the centre of the pixel in the geometry of its node, -1 for none."
    )
    node = _Image(
        "(..., H, W) int32: the number of the scene's node at the centre of the pixel, -1 for none."
    )
    material = _Image(
        "(..., H, W) int32: the number of its material, -1 for none. Nodes with one material object share a number."
    )
    uv = _Image("(..., H, W, 2) float32: the texture coordinates. Raises InputError when the mesh has none.")

    @property
    def color(self) -> np.ndarray:
        """``colour``."""
        return self.colour

    def attribute(self, table: np.ndarray) -> np.ndarray:
        """An attribute of the vertices, (V,) or (V, 2 to 4), of all nodes one after the other, interpolated:
        (..., H, W) or (..., H, W, 2 to 4) float32."""
        leaf = attribute_leaf(table)
        assert leaf.data is not None
        images = compute(self.recipe, ("attribute",), Values(leaf.vtype, leaf.data))["attribute"]
        return images[0] if self.single else images

    @property
    def image(self) -> np.ndarray:
        """(..., H, W, 4) float32: ``colour`` and, as alpha, ``mask``; linear, premultiplied."""
        return np.concatenate([self.colour, self.mask[..., None]], axis=-1)

    @property
    def srgb(self) -> np.ndarray:
        """(..., H, W, 3) float32: ``colour`` as sRGB code values in [0, 1], for ``plt.imshow``."""
        return linear_to_srgb(self.colour).astype(np.float32)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.image.astype(dtype or np.float32, copy=bool(copy))

    def save(
        self, path: str | Path, tone: str = "srgb", *, stops: float = 0.0, bits: int | None = None
    ) -> None:
        """Write ``colour`` as a PNG, TIFF, JPEG, OpenEXR or other image, by the name's ending; several views
        side by side.

        tone: what is stored (``shading.tone.displayed``): "srgb", "aces" or "reinhard" for displays, "linear"
        (Rec. 709), "acescg" or "aces2065-1" in .exr and .hdr, "raw".  Left out it is "srgb", in .exr and .hdr
        "linear".  stops: of exposure.  bits: a channel; 8 or 16, and 16 or 32 in .exr.  Raises InputError:
        another name, light without an end in a file that ends at 1, and what ``save_image`` refuses.
        """
        from ..io.images import image_format, save_image  # imports PIL

        floats = image_format(path).linear is not None
        tone = "linear" if tone == "srgb" and floats else tone
        check_tone(tone)
        if tone in FLOATS and not floats:
            raise InputError(
                f"'{path}' ends at 1 and {tone!r} does not; name a file that ends in .exr, or take tone='srgb'"
            )
        colour = self.colour if self.single else np.concatenate(list(self.colour), axis=1)
        # Files of floats keep what they are given if it is called linear, the others if it is not.
        save_image(path, displayed_array(colour, tone, stops), linear=floats, bits=bits or 8)
