"""The texture phase: the albedo texture, of a fixed shape or together with the shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ....ad import functional as F
from ....ad import optim
from ....ad.graph import Variable
from ....ad.graph.evaluation import evaluate
from ....ad.graph.types import FLOAT, IVEC3, VEC3, list_image, list_values
from ....ad.transform.gradient import total
from ...cameras.pose import matrices_leaf
from ...core.engine import Engine
from ...core.lists import list_leaf
from ...drawing.draw import surface_level, surface_uv
from ...forms.form import HARD
from ...forms.hard_soft_ras import draw_form
from ...forms.pairs import FOLDING
from ...mesh import Mesh
from ...objectives.losses import l2
from ...objectives.regularizers import Adjacency, adjacency, laplacian, laplacian_loss
from ...surface.color import decoded, encoded, linear_to_srgb, srgb_to_linear
from ...surface.projection import eye_of, to_clip
from ...surface.screen import DrawnMesh, Surface, barycentric, corners, vertex_normals
from ...surface.texturing import texture_colour
from ..data.directional import Gloss, added, mean_directions
from ..data.learned import Pictures, ViewBatches
from ..data.textures import LOSSES, Pyramid, charted, dilated, rim_weights
from ..graphs.round import CHUNK, Comparison, Found, Round, Subject
from ..graphs.term import BETAS, UNCHANGED, Factors, Term
from .remeshed import unfolded_from
from .shape import smoothed

SMOOTHNESS, OF_PHOTOGRAPHS = 8e-7, 1e-7
"""Weight of the roughness of the texture, and for photographs. Without it, where views disagree because of
errors of the shape, texels would take arbitrary values whose mixture fits. Photographs are many, and have
details of a pixel: the larger weight left a third of the variance of the finest, the smaller one a half. For
six drawn views the smaller one costs half a decibel in others."""

PARTS = 2.0
"""Of a pixel, over one of which the texture of photographs is filtered. Results are drawn with several
samples a pixel, each filtered for its part: a texture that was learned over whole pixels is blurred by the
filter, and makes up for it by contrasts that it should not have."""

VIEWS = 4
"""Random views in each step while shape and texture are optimised together, whose pictures cost several times
as much."""
BEND = 1e-6
"""Weight of the Laplacian while shape and texture are optimised together."""
STIFF, SMOOTH = 6e-4, 20.0
"""For a shape from photographs that weight is ``STIFF`` over the squared median of the Laplacian of the shape that the
round begins with, times the number of vertices: bricks are rough, 34, and a fish is smooth, 7, on which a weight for bricks
would leave the noise of stereo and of the round itself. What is smoother, by a square of ``SMOOTH``, counts as this."""
PACE = (2e-3, 1e-4)
"""Learning rate of vertices in that phase, at its first and last step, in radii of the scene."""

UNFOLD = 40
"""Steps of that phase after which folds of the shape are undone again: what has folded since then has not
moved far, and the texture follows the shape without them. All folds of a round, undone at its end, cost .3 dB
where parts are thin."""
EXPOSING = (0.03, 0.003)
"""Learning rate of the exposures at their first and last step: photographs differ by a half, and each is in a
part of the steps."""
SLOPE_PACE = (0.005, 0.00025)
"""Learning rate of slopes at their first and last step. Faster ones take up what the shape should, .2 to .4 dB in
pictures that were held out; slower ones leave it colours that cost overlap."""
EVEN, SMALL = 0.2, 6e-4
"""Weights of the squared Laplacian of slopes and of their squares, in the mean over the vertices. Pictures show
most points from few directions, and each exposure is a constant of all slopes."""
DETAIL_PACE = (0.005, 0.00025)
"""Learning rate of the slopes of texels at the first and last step, from nothing over the first half of them: what
they take up before the shape is found costs .0005 of overlap. Twice as much, from the first step on, costs half a
decibel; slopes of each channel gain .1 dB and cost a third of the time of a step."""
DETAIL = 1.5e-7
"""Weight of the squares of these slopes, and of those of differences between neighbours, summed over the texels."""
MIRROR, FAINT = 16, 0.01
"""Rows of the map of the light that points mirror, and that light at the start. Normals of a fit are wrong by degrees, which
blurs it to about those 11 a row. A tenth of that light at the start is too slow, and costs a matt thing nothing: rims mirror
most, and this moves outlines."""
MIRROR_PACE, SHINE_PACE = (0.05, 0.0025), (0.01, 0.0005)
"""Learning rates of the logarithms of that map, whose lamps are a hundred times as bright as its walls, and of the shares
that vertices mirror, at the first and last step."""
MIRROR_EVEN, SHINE_EVEN, SHINE_ONE = 1e-6, 1e-2, 1e-4
"""Weights of squared differences in the map, summed, of the squared Laplacian of the shares, and of their squared
differences from 1, which fixes the scale between map and shares, in the mean over the vertices."""
LIKENESS = 1e-4
"""Weight of the mean squared logarithm of the exposures, which fixes the scale between texture and
exposures."""


class TextureRound(Round):
    """L2 of colours, by Adam: the texture of a shape, or shape and texture together.

    The texture is a ``Pyramid`` of sRGB codes, filtered in linear light over the footprint of each pixel and
    compared as codes. While vertices move, whole pictures are compared, masks and colours on black, blended
    at outlines and inner contours by the share of the pixel that each side covers (the edges form). The
    mip level is a constant there: a vertex moves for what its texels show, not to blur them. Otherwise the
    colours are those at the centres of pixels, compared over the pixels of the masks that the mesh covers.

    mesh: with UVs, in units of the scene.  colors: (N, H, W, 3) linear, on black.  batch: number of random
    views in each step; 0 for all, or ``VIEWS`` if vertices move.  exposure: each channel of a view has its
    own factor on the codes, kept near 1, and 1 in the geometric mean over the views; ``gains`` reads them.
    loss: one of ``LOSSES``, by which colours are compared.  shape: whether vertices move too.  fringe: pixels
    by which masks of photographs are wider than the object: colours of their rims (``rim_weights``) move
    outlines, but change neither texture nor exposures; None where masks are exact.  known: (N, H, W), valid
    pixels of the masks. rest: (V, 3), the shape whose details the Laplacian preserves; without it the
    Laplacian smooths.  factors: what a person may change meanwhile.  parts: of the area of a pixel, over one
    of which the texture is filtered.  directional: whether colours change with the direction of the view: the texels
    along each side of ``DirectionalColour.detail``, 0 for none.  gloss: whether it mirrors, too.
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
        shape: bool = False,
        rest: np.ndarray | None = None,
        factors: Factors = UNCHANGED,
        loss: str = "l2",
        fringe: float | None = None,
        known: np.ndarray | None = None,
        parts: float = 1.0,
        directional: int = 0,
        gloss: bool = False,
    ):
        height, width = masks.shape[1:]
        size, views = (width, height), len(masks)
        self.size, self.moves = texture_size, shape
        inside = masks >= 0.5
        mean = linear_to_srgb(colors[inside]).mean(0) if inside.any() else np.full(3, 0.5)
        self.pyramid = Pyramid((texture_size, texture_size), mean)
        self.position = list_leaf("position", VEC3, mesh.positions)
        counter = optim.clock()
        batch = batch or (VIEWS if shape else views)
        pick = ViewBatches(views, batch, counter, seed) if batch < views else lambda x: x
        types = {"target": VEC3, "mask": FLOAT}
        if shape and fringe is not None:
            types |= {"inside": FLOAT, "sure": FLOAT}

        def images(of: np.ndarray) -> dict[str, np.ndarray]:
            made = {"target": linear_to_srgb(colors[of]), "mask": masks[of]}
            if shape and fringe is not None:
                rims = rim_weights(masks[of], None if known is None else known[of], fringe)
                made |= zip(("inside", "sure"), rims, strict=True)
            return made

        self.pictures = Pictures(images, types, size, views, pick, CHUNK * batch)
        target, mask = (self.pictures.picked[name] for name in ("target", "mask"))
        gain = Variable(VEC3, (1, 1), views, name="exposure", data=np.zeros((views, 1, 1, 3)))
        faces = list_leaf("faces", IVEC3, mesh.faces)
        projections = matrices_leaf(matrices)
        clip = to_clip(self.position, pick(projections))
        drawn = draw_form(FOLDING if shape else HARD, clip, faces, size, len(mesh.faces))
        surface = drawn.surfaces[0]
        uv = surface_uv(mesh, clip, faces, surface.face, size)
        how: dict[str, Any] = {"gradient": gradient, "step": counter + seed}
        if gradient == "exact":
            side = texture_size, texture_size
            how["level"] = F.stop_gradient(surface_level(mesh, clip, faces, surface.face, size, side, parts))
        color = texture_colour(decoded(self.pyramid.texture), uv, surface.face, **how)
        neighbours, self.slopes = adjacency(mesh.faces, len(mesh.positions)), None
        if directional:
            eyes = eye_of(projections)
            self.slopes = Slopes(mesh, neighbours, eyes, directional, steps, gloss)
            color = color + self.slopes.added(surface, self.position, pick(eyes), uv)
        scale = masks.size / max(float(masks.sum()), 1.0)
        weight, sure, told = None if shape else mask * drawn.hard, None, None
        if shape and fringe is not None:
            told, sure = (self.pictures.picked[name] for name in ("inside", "sure"))
            # Colours of rims may be those of the background, where masks are wider than the object. They are
            # no texture, but they move outlines: the black beyond an outline that has moved inwards is nearer
            # to a dark background than the surface is.
            weight, color = mask, weakened(color, told)
        color = drawn.blend_codes([color], encoded)
        if exposure:
            gains = F.exp(pick(gain - F.mean(gain)))
            color = F.hadamard(color, gains if told is None else weakened(gains, told))
        # From the mean colour a texel needs at most a few dozen steps of 0.03.
        rate = optim.cosine(0.05 * factors.rate, 0.002 * factors.rate, steps)
        paces = {leaf: optim.adam(rate, BETAS) for leaf in self.pyramid.levels}
        terms = [
            Term(LOSSES[loss](color, target, weight) * scale),
            Term(roughness(self.pyramid.texture) * smoothness, optimizers=paces),
        ]
        if exposure:
            pace = optim.adam(optim.cosine(*EXPOSING, steps), BETAS)
            terms.append(Term(F.mean(F.dot(gain, gain)) * (LIKENESS / 3), optimizers={gain: pace}))
        if self.slopes is not None:
            terms.append(self.slopes.term)
        self._unfolds = shape and rest is None
        if shape:
            weight = BEND if fringe is None or rest is not None else stiffness(self.position, neighbours)
            bend = bending(neighbours, self.position, steps, factors, rest, weight)
            terms += [Term(l2(drawn.silhouette, mask, sure) * scale), bend]
        super().__init__(mesh, steps, terms, {}, counter, {"texture": self.pyramid.texture})
        self._shown = drawn.silhouette, mask, color, target
        self.doing = f"{'shape and texture' if shape else 'texture'}, {width}x{height}, {texture_size} texels"
        self.subject = Subject(self.position, faces, len(mesh.faces), self._codes)

    def before(self, engine: Engine, step: int) -> None:
        """Send the pictures of the next steps, and undo the folds that the shape has got, where it is time for that."""
        self.pictures.before(engine, step, CHUNK - step % CHUNK)
        if self._unfolds and step > 0 and step % UNFOLD == 0:
            self.mesh = unfolded_from(self.moved(engine.state()), self.mesh)
            engine.send(self.position, list_image(self.mesh.positions))

    def look(self, engine: Engine) -> Comparison:
        """The training views of the next step as they are now."""
        self.pictures.next(engine)
        return Comparison(*engine.evaluate(self._shown))

    def _codes(self, drawn: DrawnMesh, matrices: Variable) -> Variable:
        """VEC3: the sRGB codes at each pixel of the mesh as it is drawn, by matrices in its units."""
        mesh, clip, faces, face, size = self.mesh, drawn.position, drawn.faces, drawn.face, drawn.size
        uv = surface_uv(mesh, clip, faces, face, size)
        level = surface_level(mesh, clip, faces, face, size, (self.size, self.size))
        color = texture_colour(decoded(self.pyramid.texture), uv, face, level=level)
        if self.slopes is not None:
            surface = Surface(faces, face, barycentric(clip, corners(face, faces), size))
            color = F.maximum(color + self.slopes.added(surface, self.position, eye_of(matrices), uv), 0.0)
        return encoded(color)

    @staticmethod
    def gains(state: dict[str, np.ndarray]) -> np.ndarray:
        """(N, 3) exposure factors of the codes of the views; ones without ``exposure``."""
        if "exposure" not in state:
            return np.ones((1, 3))
        gains = state["exposure"].reshape(-1, 3)
        return np.exp(gains - gains.mean(0))

    def found(self, engine: Engine) -> Found:
        """The mesh with its texture and, with ``exposure``, the ``gains``."""
        state = engine.state()
        values = {"gains": self.gains(state)} if "exposure" in state else {}
        if self.slopes is not None:
            values |= self.slopes.found(state)
        return Found(self.result(state, engine.recv("texture")), values=values)

    def result(self, state: dict[str, np.ndarray], texture: np.ndarray) -> Mesh:
        """The mesh with the texture, codes (1, H, W, 3); texels outside of all charts are filled from the
        nearest ones."""
        mesh = self.moved(state) if self.moves else Mesh(**{**self.mesh.__dict__})
        codes = dilated(texture[0], charted(mesh, (self.size, self.size)))
        # Less than no light of a texel makes up for what it mirrors in the mean, which results add to their textures.
        mirrors = self.slopes is not None and self.slopes.mirror is not None
        mesh.texture = srgb_to_linear(np.clip(codes, -1 if mirrors else 0, 1))
        mesh.color = (1.0, 1.0, 1.0)
        return mesh


class Slopes:
    """The slopes of the vertices of a mesh as parameters of a round of ``steps`` steps.

    eyes: VEC3 1x1, N tiles: the places of the cameras, in units of the mesh.
    """

    def __init__(
        self, mesh: Mesh, neighbours: Adjacency, eyes: Variable, texels: int, steps: int, gloss: bool = False
    ):
        self.towards, self.usual = mean_directions(mesh, evaluate([eyes])[0].reshape(-1, 3))
        self._mean = list_leaf("mean direction", VEC3, self.towards)
        self.leaves = [list_leaf(f"slope {k}", VEC3, np.zeros((len(self.towards), 3))) for k in range(1, 9)]
        usual = (list_leaf(f"usual {k}", FLOAT, band) for k, band in enumerate(self.usual[1:]))
        self._still = -total([leaf * band for leaf, band in zip(self.leaves, usual, strict=True)])
        pace = optim.chain(smoothed(neighbours), optim.adam(optim.cosine(*SLOPE_PACE, steps), BETAS))
        parts = [
            laplacian_loss(leaf, neighbours) * EVEN + F.mean(F.dot(leaf, leaf)) * SMALL
            for leaf in self.leaves
        ]
        flat = np.zeros((1, texels, texels, 3))
        self.detail = Variable(VEC3, (texels, texels), name="detail", data=flat)
        fine = optim.adam(optim.warm_up(optim.cosine(*DETAIL_PACE, steps), steps // 2), BETAS)
        parts.append((F.sum(F.dot(self.detail, self.detail)) + roughness(self.detail)) * DETAIL)
        paces = {**dict.fromkeys(self.leaves, pace), self.detail: fine}
        self.mirror: Variable | None = None
        self.shine = list_leaf("shine", FLOAT, np.ones(len(self.towards)))
        if gloss:
            faint = np.full((1, MIRROR, 2 * MIRROR, 3), np.log(FAINT))
            self.mirror = Variable(VEC3, (2 * MIRROR, MIRROR), name="mirror", data=faint)
            parts.append(roughness(self.mirror) * MIRROR_EVEN)
            parts.append(laplacian_loss(self.shine, neighbours) * SHINE_EVEN)
            parts.append(F.mean(F.square(self.shine - 1.0)) * SHINE_ONE)
            light, share = (optim.adam(optim.cosine(*of, steps), BETAS) for of in (MIRROR_PACE, SHINE_PACE))
            paces |= {self.mirror: light, self.shine: optim.chain(smoothed(neighbours), share)}
        self.term = Term(total(parts), optimizers=paces)

    def added(self, surface: Surface, position: Variable, eyes: Variable, uv: Variable) -> Variable:
        """VEC3: what is added at each pixel of a surface. position: VEC3 list; eyes: VEC3 1x1, one a view. Vertices move
        for what their normals mirror alone."""
        to_eye = F.stop_gradient(F.normalize(eyes - surface.interpolate(position)))
        surface = replace(surface, weights=F.stop_gradient(surface.weights))
        gloss = None
        if self.mirror is not None:
            gloss = Gloss(F.exp(self.mirror), self.shine, vertex_normals(position, surface.faces))
        slopes = [self._still, *self.leaves]
        return added(surface, to_eye, self._mean, slopes, (self.detail, uv), gloss=gloss)

    def found(self, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Of a state of the engine, mean and slopes, (10, V, 3), and the others as ``DirectionalColour``
        has them."""
        count = len(self.towards)
        slopes = [list_values(state[f"slope {k}"], count)[0] for k in range(1, 9)]
        slopes = np.stack([self.towards, -np.einsum("kv,kvc->vc", self.usual[1:], slopes), *slopes])
        found = {"slopes": slopes, "detail": state["detail"][0]}
        if self.mirror is not None:
            shine = list_values(state["shine"], count)[0].reshape(-1)
            found |= {"mirror": np.exp(state["mirror"][0]), "shine": shine, "glow": np.zeros((count, 3))}
        return found


def stiffness(position: Variable, neighbours: Adjacency) -> float:
    """The weight of ``bending`` for vertices as they are now, a leaf."""
    away = list_values(evaluate([laplacian(position, neighbours)])[0], neighbours.count)[0]
    return STIFF / max((neighbours.count * float(np.median(np.linalg.norm(away, axis=1)))) ** 2, SMOOTH)


def bending(
    neighbours: Adjacency,
    position: Variable,
    steps: int,
    factors: Factors,
    rest: np.ndarray | None = None,
    weight: float = BEND,
) -> Term:
    """The Laplacian of vertices that move while a texture or maps are optimised, and their optimizer."""
    still = position if rest is None else position - list_leaf("rest", VEC3, rest)
    bend = laplacian_loss(still, neighbours) * (weight * neighbours.count**2)
    pace = optim.adam(optim.cosine(PACE[0] * factors.rate, PACE[1] * factors.rate, steps), BETAS)
    return Term(bend, optimizers={position: optim.chain(smoothed(neighbours), pace)})


def weakened(x: Variable, share: Variable) -> Variable:
    """x, with a share (FLOAT, in [0, 1]) of its derivative."""
    still = F.stop_gradient(x)
    return still + (x - still) * share


def roughness(texture: Variable) -> Variable:
    """FLOAT 1x1: the sum of squared differences of neighbouring texels. Differentiable.

    The sum does not depend on the resolution: at twice the resolution, four times as many texels differ by
    half.
    """
    steps = [texture - F.shift(texture, 1, 0), texture - F.shift(texture, 0, 1)]
    return F.sum(F.dot(steps[0], steps[0]) + F.dot(steps[1], steps[1]))
