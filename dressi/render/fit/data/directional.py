"""Colours that change with the direction from which they are seen: gloss, shading by lamps at the camera, and
rims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import KDTree

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.graph.evaluation import evaluate
from ....ad.graph.types import FLOAT, VEC3, list_values
from ....ad.transform.gradient import total
from ....errors import InputError
from ...core.lists import list_leaf
from ...drawing.point import Shader, SurfacePoint
from ...mesh import Mesh
from ...mesh.rows import unit
from ...scene.scene import Scene
from ...shading.environment import equirectangular
from ...surface.screen import Surface
from ...surface.texturing import texture_colour

DIRECTIONAL = "directional.npz"
"""The file of a ``DirectionalColour`` beside the result of a fit."""
REACH = 2.25
"""Standard deviations of the directions of the pictures of a vertex, up to which a direction is like one of them."""
GRAZING = 12.0
"""How much more a point reflects at grazing angles than from above: about half of what smooth plastic does (Schlick
1994), as rough plastic."""
SAME = 1e-3
"""How near to a vertex of the file each vertex of its mesh lies, in radii: other programs round what they write."""


@dataclass(frozen=True, eq=False)
class DirectionalColour:
    """Linear light that points add to their texture towards an eye: ``bands(direction - mean) . slopes``, grey
    light, ``(direction - mean) . detail``, and what they mirror, ``shine`` times the ``reflection`` in ``mirror``.

    The first are the harmonics up to degree two of each vertex (Ramamoorthi and Hanrahan 2001, equation 3), about
    the mean direction of its pictures, interpolated over faces. The second is that of degree one of each texel:
    parts that are smaller than faces shine, and hide each other, in their own ways, and lamps are white. The third is
    sharper than both: all points show the same light around them, by the direction that they reflect, with the
    normals of their mesh. In the mean over the pictures all add nothing: the texture by itself is what is seen on
    average. Sums below 0 are black. Far from all pictures of a vertex (``reach``) the first two fade out.

    positions: (V, 3) of the vertices.  mean: (V, 3), the mean of the unit directions to the eyes that see
    them.  slopes: (9, V, 3), the factor of each of the ``bands``, linear light.  detail: (H, W, 3), by texture
    coordinates, the factor of each component of a direction; meshes without such coordinates have none.  mirror:
    (H, W, 3), equirectangular, linear light.  shine: (V,), the share of it.  glow: (V, 3), what is taken off it.
    turn: (3, 3), from the directions of the map to those of the mesh.

    >>> ball = primitives.icosphere(1)
    >>> none = DirectionalColour(ball.positions, ball.positions, np.zeros((9, 42, 3)))
    >>> picture = render(ball, size=(32, 32), shader=none.shader(ball))
    """

    positions: np.ndarray
    mean: np.ndarray
    slopes: np.ndarray
    detail: np.ndarray = field(default_factory=lambda: np.zeros((1, 1, 3)))
    mirror: np.ndarray = field(default_factory=lambda: np.zeros((1, 1, 3)))
    shine: np.ndarray = field(default_factory=lambda: np.zeros(1))
    glow: np.ndarray = field(default_factory=lambda: np.zeros((1, 3)))
    turn: np.ndarray = field(default_factory=lambda: np.eye(3))

    def shader(self, mesh: Mesh, share: Variable | None = None) -> Shader:
        """For ``render`` of a mesh of that surface: each vertex has the slopes of the nearest one here.

        share: FLOAT 1x1, how much of it is added, 0 for the texture alone; by default all.
        """
        near = KDTree(self.positions).query(mesh.positions)[1]
        mean = list_leaf("mean direction", VEC3, self.mean[near])
        slopes = [list_leaf(f"slope {k}", VEC3, part[near]) for k, part in enumerate(self.slopes)]
        reach = list_leaf("reach", FLOAT, self.reach[near])
        detail = Variable(VEC3, self.detail.shape[1::-1], name="detail", data=self.detail[None])
        fine = self.detail.any()
        gloss = self._gloss(mesh, near)

        def shade(point: SurfacePoint) -> Variable:
            texels = (detail, point.uv) if fine else None
            more = added(point.surface, point.to_eye, mean, slopes, texels, reach, gloss)
            return F.maximum(point.albedo + (more if share is None else more * share), 0.0)

        return shade

    def _gloss(self, mesh: Mesh, near: np.ndarray) -> Gloss | None:
        """Of a mesh of that surface, (V,) the nearest vertex here to each of its own; None where nothing is mirrored."""
        if not self.mirror.any():
            return None
        mirror = Variable(VEC3, self.mirror.shape[1::-1], name="mirror", data=self.mirror[None])
        normals = list_leaf("mirror normal", VEC3, mesh.vertex_normals())
        shine = list_leaf("shine", FLOAT, self.shine[near])
        glow = list_leaf("glow", VEC3, self.glow[near])
        return Gloss(mirror, shine, normals, glow, self.turn)

    @property
    def reach(self) -> np.ndarray:
        """(V,): the distance of a direction from the mean beyond which what it adds fades out. The variance of unit
        directions is 1 - |mean|^2."""
        return REACH * np.sqrt(np.maximum(1 - (self.mean**2).sum(1), 0.0))

    def settled(
        self, mesh: Mesh, eyes: np.ndarray, weights: np.ndarray
    ) -> tuple[DirectionalColour, np.ndarray, np.ndarray]:
        """For a mesh of that surface, about the mean direction to the eyes (N, 3) that see its vertices, by weights
        (N, V), without what it adds in the mean over them. That mean belongs into its texture: (V, 3), and
        ``detail`` times how far the mean directions have moved, (V, 3). Where no eye sees one nothing changes.
        """
        near = KDTree(self.positions).query(mesh.positions)[1]
        towards = np.stack([unit(eye - mesh.positions) for eye in eyes])
        total = np.maximum(weights.sum(0), 1e-12)
        share = weights / total
        moved = np.einsum("nv,nvc->vc", share, towards - self.mean[near])
        mean = self.mean[near] + moved
        slopes = moved_bands(self.slopes[:, near], moved)
        shares = [(share * band).sum(0) for band in bands(*np.moveaxis(towards - mean, -1, 0))]
        usual = np.einsum("kv,kvc->vc", np.stack(shares), slopes)
        slopes[0] -= usual
        found = replace(self, positions=mesh.positions, mean=mean, slopes=slopes)
        if (gloss := self._gloss(mesh, near)) is not None:
            shine, glow, more = self.shine[near], self.glow[near], np.zeros_like(usual)
            for part, some in zip(share, towards, strict=True):
                light = reflection(gloss.normals, list_leaf("to eye", VEC3, some), gloss, F.constant(0))
                light = list_values(evaluate([light])[0], len(mesh.positions))[0]
                more += part[:, None] * (light * shine[:, None] - glow)
            usual, found = usual + more, replace(found, shine=shine, glow=glow + more)
        return found, usual, moved

    def turned(self, positions: np.ndarray, rotation: np.ndarray) -> DirectionalColour:
        """After a motion that brings the vertices to ``positions`` and turns directions by a (3, 3)."""
        # Bands of turned directions are sums of the others: what some directions say.
        some = np.random.default_rng(0).standard_normal((3, 32))
        those, these = (np.stack(bands(*directions)[1:], 1) for directions in (rotation @ some, some))
        mixed = np.linalg.lstsq(those, these, rcond=None)[0]
        slopes = np.concatenate([self.slopes[:1], np.einsum("jk,kvc->jvc", mixed, self.slopes[1:])])
        detail = self.detail @ rotation.T
        mean, turn = self.mean @ rotation.T, rotation @ self.turn
        return replace(self, positions=positions, mean=mean, slopes=slopes, detail=detail, turn=turn)

    def save(self, path: Path) -> None:
        """A ``.npz`` file of the arrays: places and directions in single precision, factors in half."""
        single = {name: part.astype(np.float32) for name, part in vars(self).items()}
        np.savez_compressed(path, **{**single, "detail": self.detail.astype(np.float16)})

    @classmethod
    def load(cls, path: Path) -> DirectionalColour:
        """From a file of ``save``. Raises InputError."""
        try:
            with np.load(path) as file:
                return cls(**{name: part.astype(np.float64) for name, part in file.items()})
        except (OSError, TypeError, ValueError) as error:
            raise InputError(
                f"'{path}' holds no colours by direction ({error}); give the file that a fit wrote"
            ) from None

    @classmethod
    def beside(cls, path: Path, shown: Scene) -> DirectionalColour | None:
        """That of a result which was read from ``path``: of ``DIRECTIONAL`` in its folder. None where there is no such file,
        where it is of another mesh, and for meshes without a texture, such as ``confidence.glb``. Raises
        InputError for a damaged file."""
        file = path.with_name(DIRECTIONAL)
        mesh = getattr(shown.nodes[0].geometry, "mesh", None)
        if len(shown) > 1 or mesh is None or mesh.texture is None or not file.is_file():
            return None
        colour, radius = cls.load(file), mesh.bounding_sphere()[1]
        far = KDTree(colour.positions).query(mesh.positions)[0].max()
        return colour if far <= SAME * radius else None


class Gloss(NamedTuple):
    """What points of a mesh mirror."""

    mirror: Variable
    """VEC3 image, equirectangular: linear light by the direction that is reflected."""
    shine: Variable
    """FLOAT list: the share of it."""
    normals: Variable
    """VEC3 list."""
    glow: Variable | None = None
    """VEC3 list: what is taken off, so that nothing is added in the mean over the pictures."""
    turn: np.ndarray = np.eye(3)
    """(3, 3): from the directions of the map to those of the mesh."""


def reflection(normal: Variable, to_eye: Variable, gloss: Gloss, face: Variable) -> Variable:
    """VEC3: the light that reaches an eye from a mirror, more of it at grazing angles. normal, to_eye: VEC3, unit;
    face: INT, -1 where there is none. Differentiable in the map, the normals and the directions."""
    cosine = F.dot(normal, to_eye)
    there = normal * (2.0 * cosine) - to_eye
    there = F.vec3(*(F.dot(there, F.constant(tuple(axis))) for axis in gloss.turn.T.tolist()))
    uv = equirectangular(there)
    light = texture_colour(gloss.mirror, uv, face, wrap=("repeat", "clamp"))
    return light * grazing(F.clamp(cosine, 0.0, 1.0))


def grazing(cosine: Any) -> Any:
    """How much more than from above a point reflects at the cosine, in [0, 1], of an angle to its normal.

    >>> grazing(1.0), grazing(0.0)
    (1.0, 13.0)
    """
    across = 1.0 - cosine
    square = across * across
    return 1.0 + GRAZING * square * square * across


def added(
    surface: Surface,
    to_eye: Variable,
    mean: Variable,
    slopes: Sequence[Variable],
    texels: tuple[Variable, Variable] | None = None,
    reach: Variable | None = None,
    gloss: Gloss | None = None,
) -> Variable:
    """VEC3: what ``DirectionalColour`` adds at each pixel of a surface. to_eye: VEC3, unit; mean, slopes:
    VEC3 lists; texels: the detail, a VEC3 image, and where it is read, VEC2; reach: FLOAT list, as
    ``DirectionalColour.reach``; None: nothing fades; gloss: what is mirrored. Differentiable in all of them and the
    positions."""
    away = to_eye - surface.interpolate(mean)
    if reach is not None:
        near = F.minimum(1.0, surface.interpolate(reach) / F.maximum(F.length(away), 1e-6))
        away = away * near
    shares = bands(*(F.component(away, k) for k in range(3)))
    terms = [surface.interpolate(slope) * share for slope, share in zip(slopes, shares, strict=True)]
    if texels is not None:
        detail, uv = texels
        terms.append(F.vec3(F.dot(texture_colour(detail, uv, surface.face), away)))
    # Farther away polynomials grow without end: the texture, the mean of the pictures, is the better guess.
    more = total(terms) if reach is None else total(terms) * F.square(F.square(near))
    if gloss is None:
        return more
    normal = F.normalize(surface.interpolate(gloss.normals))
    more = more + reflection(normal, to_eye, gloss, surface.face) * surface.interpolate(gloss.shine)
    return more if gloss.glow is None else more - surface.interpolate(gloss.glow)


def bands(x: Any, y: Any, z: Any) -> tuple[Any, ...]:
    """The nine harmonics up to degree two of vectors, as polynomials. Differentiable.

    >>> bands(1.0, 0.0, 0.0)
    (1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, -1.0)
    """
    return 1.0, x, y, z, x * y, y * z, z * x, x * x - y * y, 2 * z * z - x * x - y * y


def moved_bands(slopes: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """(9, V, 3) factors of the ``bands`` of vectors less ``moved`` (V, 3), from those (9, V, 3) of the vectors: the same
    polynomials about another middle.

    >>> slopes = np.eye(9)[:, :, None].repeat(3, 2)
    >>> float(np.einsum("k,kvc->vc", bands(0.0, 0.0, 0.0), moved_bands(slopes, np.full((9, 3), 0.5))).sum())
    9.75
    """
    a, b, c = moved.T[..., None]
    _, x, y, z, xy, yz, zx, square, polar = slopes
    still = np.einsum("kv,kvc->vc", np.stack(np.broadcast_arrays(*bands(*moved.T))), slopes)
    x = x + b * xy + c * zx + 2 * a * (square - polar)
    y = y + a * xy + c * yz - 2 * b * (square + polar)
    z = z + b * yz + a * zx + 4 * c * polar
    return np.concatenate([np.stack([still, x, y, z]), slopes[4:]])


def mean_directions(mesh: Mesh, eyes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the vertices, (V, 3), the mean of the unit directions to those eyes (N, 3) that they face, each by the
    cosine at which it sees them, the normal where none does; and (9, V) that of the ``bands`` about it."""
    normals = mesh.vertex_normals()
    directions = np.stack([normals, *(unit(eye - mesh.positions) for eye in eyes)])
    cosines = np.maximum((directions * normals).sum(-1), 0.0)
    cosines[0] = 1e-3
    cosines /= cosines.sum(0)
    mean = np.einsum("nv,nvc->vc", cosines, directions)
    away = np.moveaxis(directions - mean, -1, 0)
    return mean, np.stack([(cosines * band).sum(0) for band in bands(*away)])
