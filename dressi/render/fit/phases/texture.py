"""The texture phase: the albedo texture of a fixed shape."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_edt, gaussian_filter

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.optim import optimizers as optim
from ....ad.types import FLOAT, IVEC3, VEC3
from ...cameras.units import matrices_leaf
from ...drawing.draw import surface_uv
from ...engine import Engine
from ...lists import list_leaf
from ...mesh import Mesh
from ...objectives.losses import l2
from ...surface.color import linear_to_srgb, srgb_to_linear
from ...surface.projection import to_clip
from ...surface.screen import covered, rasterize_hard
from ...surface.texturing import texture_colour
from ..options import BETAS
from .batches import ViewBatches

SMOOTHNESS = 8e-7
"""Weight of the roughness of the texture. Without it, where views disagree because of errors of the shape, texels would
take arbitrary values whose bilinear mixture fits."""

LIKENESS = 1e-4
"""Weight of the mean squared logarithm of the exposures, which fixes the scale between texture and exposures."""


class TextureRound:
    """L2 of colours over the pixels of the masks, by Adam.

    mesh: with UVs, in units of the scene.  colors: (N, H, W, 3) linear.  The texture is optimised as sRGB codes and
    returned in linear light. The texture coordinates of the pixels do not change, so they are computed once.  batch:
    number of random views in each step, 0 for all.  exposure: each view has its own factor on the codes, kept near 1;
    ``gains`` reads them.
    """

    name = "texture"

    def __init__(
        self,
        mesh: Mesh,
        matrices: np.ndarray,
        masks: np.ndarray,
        colors: np.ndarray,
        *,
        steps: int,
        texture_size: int,
        gradient: str,
        seed: int,
        smoothness: float = SMOOTHNESS,
        batch: int = 0,
        exposure: bool = False,
    ):
        height, width = masks.shape[1:]
        self.mesh, self.steps, self.size = mesh, steps, texture_size
        codes = linear_to_srgb(colors)
        inside = masks >= 0.5
        mean = codes[inside].mean(0) if inside.any() else np.full(3, 0.5)
        self.texture = Variable(
            VEC3,
            (texture_size, texture_size),
            name="texture",
            data=np.broadcast_to(mean, (1, texture_size, texture_size, 3)),
        )
        target = Variable(VEC3, (width, height), len(masks), name="target", data=codes)
        weight = Variable(FLOAT, (width, height), len(masks), name="mask", data=masks)
        faces = list_leaf("faces", IVEC3, mesh.faces)
        clip = to_clip(list_leaf("position", VEC3, mesh.positions), matrices_leaf(matrices))
        face = rasterize_hard(clip, faces, size=(width, height), face_count=len(mesh.faces))
        self.uv = surface_uv(mesh, clip, faces, face, (width, height))
        self.shown = weight * covered(face)
        counter = optim.clock()
        views = len(masks)
        uv, shown, gain = self.uv, self.shown, Variable(FLOAT, (1, 1), views, name="exposure")
        gain.data = np.zeros(gain.shape)
        self.parameters = [self.texture, gain] if exposure else [self.texture]
        if 0 < batch < views:
            pick = ViewBatches(views, batch, counter, seed)
            uv, face, target, shown, gain = (pick(x) for x in (uv, face, target, shown, gain))
        color = texture_colour(self.texture, uv, face, gradient=gradient, step=counter + seed)
        if exposure:
            color = color * F.exp(gain)
        scale = masks.size / max(float(masks.sum()), 1.0)
        self.loss = l2(color, target, shown) * scale + roughness(self.texture) * smoothness
        if exposure:
            self.loss = self.loss + F.mean(F.square(gain)) * LIKENESS
        # From the mean colour a texel needs at most a few dozen steps of 0.03.
        rate = optim.cosine(0.05, 0.002, steps)
        slow = (
            {self.parameters[-1]: optim.adam(optim.cosine(0.005, 0.0005, steps), BETAS)} if exposure else {}
        )
        adam = optim.adam(rate, BETAS)
        self.optimizer = optim.Clocked(optim.per_parameter(slow, adam) if slow else adam, counter)
        self.outputs = {"uv": self.uv, "shown": self.shown}

    def before(self, engine: Engine, step: int) -> None:
        """Nothing changes with the step."""

    @staticmethod
    def gains(state: dict[str, np.ndarray]) -> np.ndarray:
        """(N,) exposure factors of the views; ones without ``exposure``."""
        return np.exp(state["exposure"].reshape(-1)) if "exposure" in state else np.ones(1)

    def result(self, state: dict[str, np.ndarray], uv: np.ndarray, shown: np.ndarray) -> Mesh:
        """The mesh with the texture of a state; texels that no pixel shows are filled from their surroundings."""
        mesh = Mesh(**{**self.mesh.__dict__})
        seen = touched(uv[shown > 0], (self.size, self.size))
        mesh.texture = srgb_to_linear(np.clip(filled(state["texture"][0], seen), 0, 1))
        mesh.color = (1.0, 1.0, 1.0)
        return mesh


def roughness(texture: Variable) -> Variable:
    """FLOAT 1x1: the sum of squared differences of neighbouring texels. Differentiable.

    The sum does not depend on the resolution: at twice the resolution, four times as many texels differ by half.
    """
    steps = [texture - F.shift(texture, 1, 0), texture - F.shift(texture, 0, 1)]
    return F.sum(F.dot(steps[0], steps[0]) + F.dot(steps[1], steps[1]))


def touched(uv: np.ndarray, size: tuple[int, int], least: float = 0.02) -> np.ndarray:
    """(H, W) bool: texels with a weight of at least ``least`` in the bilinear sample of some uv (P, 2); repeats."""
    width, height = size
    place = uv * size - 0.5
    corner = np.floor(place).astype(np.int64)
    fraction = place - corner
    best = np.zeros((height, width))
    for dx in (0, 1):
        for dy in (0, 1):
            weight = np.abs(1 - dx - fraction[:, 0]) * np.abs(1 - dy - fraction[:, 1])
            where = (corner[:, 1] + dy) % height, (corner[:, 0] + dx) % width
            np.maximum.at(best, where, weight)
    return best >= least


def filled(texture: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The texture (H, W, C) with unseen texels filled from the nearest seen ones, blurred where they are far."""
    if seen.all() or not seen.any():
        return texture
    found = distance_transform_edt(~seen, return_indices=True)
    assert isinstance(found, tuple)
    distance, (row, column) = found
    full = texture[row, column]
    # In wide gaps copies of single texels make streaks: use a blurred copy there.
    blurred = gaussian_filter(full, (4, 4, 0), mode="nearest")
    return np.where(seen[..., None], texture, np.where(distance[..., None] > 4, blurred, full))
