"""Poses of objects and cameras that nothing is known of, by rendering."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from ...ad import functional as F
from ...ad import optim
from ...ad.graph import Variable
from ...ad.graph.types import FLOAT, INT, MAT4, VEC3
from ...engines import default_engine
from ...errors import InputError
from ..cameras import Camera, Cameras
from ..cameras.rigid import exp_se3
from ..core.engine import MakeEngine
from ..core.lists import list_leaf
from ..drawing.entry import render
from ..forms.hard_soft_ras import FORMS
from ..io.images import resize
from ..mesh import Mesh
from ..objectives.hull import mask_rays, nearest_point
from ..objectives.metrics import iou
from .data.learned import signed_distances
from .graphs.term import BETAS

# Cameras of photographs that a calibration leaves out, by the shape and colours that the others show.
#
# Features of a thing without texture place few cameras. Its outlines and its shading, drawn from everywhere,
# place the others: the search begins between the cameras that are known, and beyond them.

NEIGHBOURS = 2
"""The nearest others of each known camera, towards which the search begins."""
STEP = 8.0
"""Most degrees between two poses, half of the way to a neighbour and as far away from it: for dino, poses
were found from 4 degrees away within 2.4 degrees, from 9 within 6."""
LEAST = 0.85
"""IoU of a mask with the outline of the shape, with which a camera counts as found."""


def placed(
    mesh: Mesh,
    known: Cameras,
    cameras: Cameras,
    masks: np.ndarray,
    colors: np.ndarray,
    make_engine: MakeEngine,
) -> list[Camera | None]:
    """M cameras with the poses from which a textured mesh looks as in their pictures; None where it does not.

    known: of the photographs that the mesh was made of, in its world.  cameras: M, whose poses do not count.
    masks: (M, H, W), covered from 1/2 on.  colors: (M, H, W, 3) linear, on black. Intrinsics stay.
    """
    views, result = between(known, mesh.bounding_sphere()[0]), []
    for camera, mask, color in zip(cameras, masks, colors, strict=True):
        # The camera stays, and the mesh moves.
        starts = np.linalg.inv(camera.view) @ views
        pose = find_pose(mesh, camera, mask, color, starts=starts, make_engine=make_engine)
        result.append(camera.with_view(camera.view @ pose.to_world) if pose.iou >= LEAST else None)
    return result


def between(cameras: Cameras, center: np.ndarray) -> np.ndarray:
    """(S, 4, 4) world to camera: the cameras, and poses on the ways from each to its neighbours. On a way the
    axes turn evenly, and the point ``center`` (3,) moves evenly as the camera sees it.

    >>> from dressi.render.cameras.views import ring
    >>> cameras = ring(np.zeros(3), 1.0, 8, (8, 8))
    >>> between(cameras, np.zeros(3)).shape
    (168, 4, 4)
    """
    turns = Rotation.from_matrix(np.array([camera.rotation for camera in cameras]))
    places = np.array([camera.rotation @ center + camera.translation for camera in cameras])
    views = [camera.view for camera in cameras]
    for a in range(len(places)):
        ways = turns * turns[a].inv()
        nearest = np.argsort(ways.magnitude(), kind="stable")
        for b in [b for b in nearest if b != a][:NEIGHBOURS]:
            count = max(int(np.ceil(np.degrees(ways[b].magnitude()) / 2 / STEP)), 1)
            shares = np.arange(1, count + 1) / (2 * count)
            for share in [*shares, *-shares]:
                view = np.eye(4)
                view[:3, :3] = (Rotation.from_rotvec(share * ways[b].as_rotvec()) * turns[a]).as_matrix()
                view[:3, 3] = places[a] + share * (places[b] - places[a]) - view[:3, :3] @ center
                views.append(view)
    return np.stack(views)


# The pose of a known object from pictures by calibrated cameras, from any start.
#
# A descent finds the pose from starts up to about 60 degrees away. So the search scores the 60 rotations of
# an icosahedron, which leave no rotation farther than 44.5 degrees, on coarse pictures in one batch. It
# descends from the best of them for a few steps, from the best of those for more, each in one batch, and
# refines the best one at the full size. Half turns of an object that is nearly symmetrical score alike at
# first; their colours decide once the outlines lie on each other.
#
#     x -> m + exp(rotation, radius * translation) R (x - c)
#
# c: the middle of the mesh; m: where the pictures show it; R: the rotation of the start; rotation and
# translation: the parameters, zero at the start. The loss of a start is that of its silhouettes, and of its
# colours where pictures are given, over all views.

FORM = "outer"
COARSE = 48
"""Rows of the pictures that score the starts."""
TILES = 64
"""Most views of all starts that are drawn at once."""


@dataclass(frozen=True)
class Descent:
    """Steps of Adam on pictures of about ``rows`` rows. Pairs are the values at the first and last step."""

    rows: int
    steps: int
    radius: tuple[float, float]
    turn: tuple[float, float]
    """Learning rate of rotations, in radians."""
    shift: tuple[float, float]
    """Learning rate of translations, in radii of the mesh."""


DESCENTS = (
    Descent(40, 40, (0.1, 0.07), (0.08, 0.03), (0.03, 0.02)),
    Descent(64, 60, (0.07, 0.05), (0.04, 0.01), (0.02, 0.005)),
)
NEARBY = (Descent(64, 40, (0.07, 0.05), (0.02, 0.005), (0.02, 0.005)),)
"""From motions that are given, which are near."""
REFINEMENT = (
    Descent(128, 60, (0.05, 0.025), (0.02, 0.004), (0.01, 0.002)),
    Descent(256, 60, (0.025, 0.012), (0.004, 0.0002), (0.002, 0.0001)),
)


@dataclass(frozen=True, eq=False)
class FoundPose:
    """The result of ``find_pose``."""

    to_world: np.ndarray
    """(4, 4): the rigid motion of the mesh."""
    iou: float
    """Mean over the views, between the masks and the mesh in the pose that was found."""
    starts: np.ndarray
    """(S, 4, 4): the motions that were scored."""
    scores: np.ndarray
    """(S,): the loss of each start."""
    descents: np.ndarray
    """(D,): the losses of the last descents. A second one near the smallest may mean an ambiguous pose."""


@dataclass(frozen=True, eq=False)
class _Views:
    """The pictures of all views at one size, for ``starts`` starts. Tile t is view t % V of start t // V."""

    mesh: Mesh
    cameras: Cameras
    masks: np.ndarray
    colours: np.ndarray | None
    look: dict[str, Any]
    middle: np.ndarray
    center: np.ndarray
    scale: float

    def losses(
        self, starts: int, rows: int, radius: Variable
    ) -> tuple[Variable, Variable, Variable, Variable]:
        """The loss of each start (FLOAT 1x1, a tile for each of its views), and the leaves of the motion:
        base, rotation, translation."""
        (width, height), tiles = self.cameras.size, starts * len(self.cameras)
        part = min(1.0, rows / height)
        size = max(round(width * part), 8), max(round(height * part), 8)
        base = Variable(MAT4, (1, 1), tiles, name="base")
        nothing = np.zeros((starts, 3))
        rotation, translation = (list_leaf(name, VEC3, nothing) for name in ("rotation", "translation"))
        numbers = np.repeat(np.arange(starts), len(self.cameras))[:, None, None]
        start = Variable(INT, (1, 1), tiles, name="start", data=numbers)
        step = exp_se3(F.lookup(rotation, start), F.lookup(translation, start) * self.scale)
        there = np.eye(4)
        there[:3, 3] = self.middle
        picture = render(
            self.mesh,
            np.tile(self.cameras.matrices, (starts, 1, 1)),
            size=size,
            to_world=Variable.of(there, vtype=MAT4) @ step @ base,
            radius=radius,
            form=FORM,
            **self.look,
        )
        far = np.tile(signed_distances(self.masks, size), (starts, 1, 1))
        outline = Variable(FLOAT, size, tiles, name="outline", data=far)
        target = picture.estimator.target
        assert target is not None
        loss = F.mean(F.square(picture.mask - target(outline, radius, 1)), "xy")
        if self.colours is not None:
            seen = np.tile(np.stack([resize(colour, size) for colour in self.colours]), (starts, 1, 1, 1))
            away = picture.colour - Variable(VEC3, size, tiles, name="pictures", data=seen)
            # Outside of the masks a soft margin has colours that no picture shows.
            inside = np.tile(np.stack([resize(mask, size) for mask in self.masks]) > 0.999, (starts, 1, 1))
            inside = Variable(FLOAT, size, tiles, name="inside", data=inside)
            loss = loss + F.mean(inside * F.dot(away, away), "xy")
        return loss, base, rotation, translation

    def score(self, bases: np.ndarray, make_engine: MakeEngine) -> np.ndarray:
        """(S,): the losses of starts (S, 4, 4), batch after batch by one graph."""
        views = len(self.cameras)
        count = min(max(TILES // views, 1), len(bases))
        radius = Variable(FLOAT, name="radius", data=np.full((1, 1, 1), DESCENTS[0].radius[0]))
        loss, base, _, _ = self.losses(count, COARSE, radius)
        scores = np.zeros(len(bases))
        with closing(make_engine()) as engine:
            engine.set_output("losses", loss)
            for first in range(0, len(bases), count):
                # The last batch is filled with starts of the one before.
                chosen = np.arange(count) + min(first, len(bases) - count)
                engine.send(base, np.repeat(bases[chosen], views, axis=0)[:, None, None])
                engine.step()
                scores[chosen] = engine.recv("losses").reshape(count, views).mean(1)
        return scores

    def descend(
        self, bases: np.ndarray, plan: Descent, make_engine: MakeEngine
    ) -> tuple[np.ndarray, np.ndarray]:
        """Motions (S, 4, 4) after the steps, without the shift to the middle, and their losses (S,) at the
        end."""
        views = len(self.cameras)
        radius = Variable(FLOAT, name="radius")
        loss, base, rotation, translation = self.losses(len(bases), plan.rows, radius)
        with closing(make_engine()) as engine:
            engine.set_loss(F.sum(loss))
            engine.set_output("losses", loss)
            rates = {rotation: plan.turn, translation: plan.shift}
            paces = {leaf: optim.adam(optim.cosine(*r, plan.steps), BETAS) for leaf, r in rates.items()}
            engine.set_optimizer(optim.per_parameter(paces), [rotation, translation])
            engine.send(base, np.repeat(bases, views, axis=0)[:, None, None])
            rows = min(plan.rows, self.cameras.size[1])
            first, last = (FORMS[FORM].usable_radius(r, rows) for r in plan.radius)
            for step in range(plan.steps):
                engine.send(radius, np.full((1, 1, 1), first * (last / first) ** (step / plan.steps)))
                engine.step()
            losses = engine.recv("losses").reshape(len(bases), views).mean(1)
            values = (np.asarray(engine.recv(leaf), np.float64) for leaf in (rotation, translation))
            turns, shifts = (value.reshape(-1, 3)[: len(bases)] for value in values)
        moves = np.asarray(exp_se3(turns, shifts * self.scale), np.float64)
        return moves @ bases, losses


def find_pose(
    mesh: Mesh,
    cameras: Any,
    masks: np.ndarray,
    colours: np.ndarray | None = None,
    *,
    light: Any = None,
    vertex_colours: np.ndarray | None = None,
    rotations: np.ndarray | None = None,
    starts: np.ndarray | None = None,
    descents: Sequence[int] | None = None,
    make_engine: MakeEngine = default_engine,
) -> FoundPose:
    """The rigid motion that brings a mesh to where pictures show it.

    cameras: V calibrated cameras, as ``render`` takes them; one suffices, several tell the distance.  masks:
    (V, H, W), covered where at least 0.5.  colours: (V, H, W, 3) linear, black outside of the masks; without
    them a pose is as ambiguous as the outlines of the mesh are.  light, vertex_colours: ``light`` and
    ``colours`` of ``render``; without a light the albedo is compared.
    rotations: (S, 3, 3) the starts; by default the 60 rotations of an icosahedron.  starts: (S, 4, 4)
    motions, one of which is near, in their place: up to some 10 degrees away.  descents: how many of the best
    starts are descended for a few steps, and how many of those for more, (12, 3); only the first, (6,), with
    starts.  Raises InputError: shapes that do not fit, a mask without a covered pixel.

    >>> from dressi.render import Cameras, primitives, render, ring
    >>> cube, views = primitives.cube(), ring(np.zeros(3), 1.7, 2, (32, 32))
    >>> seen = render(cube, views).mask  # doctest: +SKIP
    >>> find_pose(cube, views, seen).iou > 0.9  # doctest: +SKIP
    True
    """
    views = _views_given(mesh, cameras, masks, colours, {"light": light, "colours": vertex_colours})
    there = np.eye(4)
    there[:3, 3] = views.middle
    if starts is None:
        given = Rotation.create_group("I").as_matrix() if rotations is None else rotations
        turns = _stacked(given, 3, "rotations")
        bases = np.tile(np.eye(4), (len(turns), 1, 1))
        bases[:, :3, :3], bases[:, :3, 3] = turns, -turns @ views.center
        plans, descents, wanted = DESCENTS, descents or (12, 3), "two numbers of at least 1, such as (12, 3)"
    else:
        bases = np.linalg.inv(there) @ _stacked(starts, 4, "motions")
        plans, descents, wanted = NEARBY, descents or (6,), "one number, such as (6,)"
    if len(descents) != len(plans) or min(descents) < 1:
        raise InputError(f"descents are {wanted}, not {descents}")
    scores = views.score(bases, make_engine)
    motions, losses = bases, scores
    for count, plan in zip(descents, plans, strict=True):
        best = motions[np.argsort(losses, kind="stable")[:count]]
        motions, losses = views.descend(best, plan, make_engine)
    motions = motions[[int(losses.argmin())]]
    for plan in REFINEMENT:
        motions, _ = views.descend(motions, plan, make_engine)
    to_world = there @ motions[0]
    seen = render(mesh, cameras, to_world=to_world, light=None, outputs=("mask",)).mask
    overlap = iou(np.reshape(seen, views.masks.shape), views.masks)
    return FoundPose(to_world, overlap, there @ bases, scores, losses)


def _stacked(given: np.ndarray, rows: int, what: str) -> np.ndarray:
    stack = np.asarray(given, np.float64)
    if stack.ndim != 3 or stack.shape[1:] != (rows, rows) or len(stack) == 0:
        raise InputError(f"{what} to start from are an array (S, {rows}, {rows}), not {stack.shape}")
    return stack


def _views_given(mesh: Mesh, cameras: Any, masks: Any, colours: Any, look: dict[str, Any]) -> _Views:
    if not isinstance(cameras, Cameras):
        cameras = Cameras(np.atleast_1d(np.asarray(cameras, object)).tolist())
    width, height = cameras.size
    shape = (len(cameras), height, width)
    masks = np.asarray(masks, np.float64)
    masks = masks[None] if masks.ndim == 2 else masks
    if masks.shape != shape:
        raise InputError(
            f"{len(cameras)} cameras of {width}x{height} need masks of shape {shape}, not {masks.shape}"
        )
    empty = [k for k, mask in enumerate(masks) if not (mask >= 0.5).any()]
    if empty:
        raise InputError(f"the masks of views {empty} cover no pixel; leave these views out")
    if colours is not None:
        colours = np.asarray(colours, np.float64)
        colours = colours[None] if colours.ndim == 3 else colours
        if colours.shape != (*shape, 3):
            raise InputError(
                f"colours beside masks of shape {shape} have the shape {(*shape, 3)}, not {colours.shape}"
            )
    areas, middles = mesh.face_areas(), mesh.positions[mesh.faces].mean(1)
    center = (middles * areas[:, None]).sum(0) / max(areas.sum(), 1e-300)
    area = float(ConvexHull(mesh.positions, qhull_options="QJ").area)
    radius = float(np.linalg.norm(mesh.positions - center, axis=1).max())
    return _Views(mesh, cameras, masks, colours, look, _middle(cameras, masks, area), center, radius)


def _middle(cameras: Cameras, masks: np.ndarray, area: float) -> np.ndarray:
    """(3,): the point nearest to the rays through the middles of the masks.

    With one view, or views along one line, the distance follows from Cauchy's formula: the mean projected
    area of a convex body, whose hull has this area, is a quarter of its surface.
    """
    origins, directions = mask_rays(masks >= 0.5, cameras)
    far = []
    for camera, mask, direction in zip(cameras, masks, directions, strict=True):
        focal = np.sqrt(abs(np.linalg.det(camera.intrinsics[:2, :2])))
        along = camera.rotation[2] @ direction
        far.append(focal * np.sqrt(area / 4 / (mask >= 0.5).sum()) / along)
    guess = (origins + directions * np.array(far)[:, None]).mean(0)
    return nearest_point(origins, directions, guess)
