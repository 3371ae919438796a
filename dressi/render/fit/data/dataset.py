"""The data of a fit: views with masks and colours, split into training views and held-out views."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ....errors import InputError
from ....figures import Figures
from ...cameras import Cameras
from ...cameras.pose import unit_matrices
from ...cameras.views import DISTANCE, FOV_Y, held_out_ring, ring
from ...cameras.views import upward as guess_upward
from ...core.engine import MakeEngine
from ...drawing.draw import draw
from ...io import Photos
from ...mesh import Mesh
from ...mesh.primitives import octasphere
from ...objectives.hull import estimate_bounds, labelled, sphere_of
from ...scene.scene import Scene
from ...shading.lights import LightSource
from .directional import DirectionalColour
from .textures import fringe

SMALLEST, LARGEST = 1e-6, 1e12
"""Range of the radius of a mesh, in its own units, that can be rendered in single precision."""
MOST_PIXELS = 1 << 28
"""Limit for all pictures together: masks and colours take about 20 bytes a pixel, in several copies."""
TARGET_SAMPLES = 16
"""Samples of a pixel of a picture that is drawn of a mesh, by default."""
PHOTO_SAMPLES = 4
"""Samples a pixel of results that are compared with photographs, whose pixels are means over their area."""
LARGEST_SIZE = 4096
"""Largest number of rows that a message proposes."""


@dataclass(frozen=True, eq=False)
class Observations:
    """N pictures. masks: (N, H, W) coverage in [0, 1], covered from 1/2 on.  colors: (N, H, W, 3) linear, on
    black.

    known: (N, H, W) bool, the valid pixels; None if all are. Masks are 0 elsewhere.  samples: with how many
    samples a pixel they were drawn (``draw``), and results are drawn to be compared with them.  photographed:
    results are compared with them where at least half of a pixel is covered, by the mean colour of that
    part of it.  depths: (N, H, W) distances along the optical axis in units of the world, 0 where unknown;
    None if there are none.  fringe: pixels by which the masks are wider than the object
    (``textures.rims.fringe``).
    """

    cameras: Cameras
    masks: np.ndarray
    colors: np.ndarray
    known: np.ndarray | None = None
    samples: int = 1
    depths: np.ndarray | None = None
    photographed: bool = False
    fringe: float = 0.0


@dataclass(frozen=True, eq=False)
class Dataset:
    """center, radius: bounding sphere of the object; units of the scene are relative to it.  bounds: (2, 3)
    box of the object.  reference: the true mesh in the world, where there is one."""

    train: Observations
    held_out: Observations | None
    center: np.ndarray
    radius: float
    bounds: np.ndarray
    up: np.ndarray
    reference: Mesh | None = None

    @property
    def exact(self) -> bool:
        """Whether the masks are exact: rendered from a mesh, not photographed."""
        return self.reference is not None

    @property
    def matrices(self) -> np.ndarray:
        """(N, 4, 4) from units of the scene to clip space."""
        return unit_matrices(self.train.cameras, self.center, self.radius)

    def to_world(self, mesh: Mesh) -> Mesh:
        return mesh.moved(mesh.positions * self.radius + self.center)

    def to_unit(self, mesh: Mesh) -> Mesh:
        return mesh.moved((mesh.positions - self.center) / self.radius)

    def placed(self, mesh: Mesh) -> Mesh:
        """A mesh to start from, in units of the scene.

        A mesh that lies in the scene keeps its place in the world; another one is moved and scaled to where
        the masks are, with a warning.
        """
        center, radius = mesh.bounding_sphere()
        away = float(np.linalg.norm(center - self.center))
        if 0.2 * self.radius < radius < 1.5 * self.radius and away < 0.5 * self.radius:
            return self.to_unit(mesh)
        warnings.warn(
            f"mesh '{mesh.name}' is not where the pictures show the object; it was moved and scaled",
            stacklevel=2,
        )
        middle, size = self._extent()
        return mesh.moved((mesh.positions - center) * (size / max(radius, 1e-30)) + middle)

    def start(self, subdivisions: int) -> Mesh:
        """A sphere in units of the scene, with place and size estimated from the masks."""
        middle, size = self._extent()
        x, y, z = middle.tolist()
        return octasphere(subdivisions, size, (x, y, z))

    def _extent(self) -> tuple[np.ndarray, float]:
        """Middle (3,) and radius of a sphere to start from, in units of the scene."""
        try:
            bounds = estimate_bounds(self.train.masks, self.train.cameras, known=self.train.known)
        except InputError:  # a single view does not determine the distance of the object
            bounds = self.bounds
        middle = (bounds.mean(0) - self.center) / self.radius
        extent = (bounds[1] - bounds[0]) / (2 * self.radius)
        return middle, float(np.clip(0.7 * np.cbrt(extent.prod()), 0.1, 0.7))


def mesh_dataset(
    mesh: Mesh,
    views: int,
    size: tuple[int, int],
    make_engine: MakeEngine,
    samples: int = TARGET_SAMPLES,
    light: LightSource | None = None,
    scene: Scene | None = None,
) -> Dataset:
    """Views of a mesh on black: a ring of training views and twelve held-out views.

    samples: per pixel; pictures are area-filtered as those of a camera, with 1 sampled at the centres of
    pixels.  light: on the material of the mesh; None: unlit.  scene: what is drawn in place of the mesh,
    which then is its shape alone: several nodes, each with its material. Raises InputError.
    """
    center, radius = _sphere(mesh)
    if not SMALLEST <= radius <= LARGEST:
        raise InputError(
            f"mesh '{mesh.name}' has a radius of {radius:.3g} units, past what pictures in float32 can be of;"
            f" scale it to between {SMALLEST:g} and {LARGEST:g}"
        )
    if views * size[0] * size[1] > MOST_PIXELS:
        raise InputError(
            f"{views} views of {size[0]}x{size[1]} pixels do not fit into memory; give fewer --views or a"
            f" smaller --size, {MOST_PIXELS} pixels in all at most"
        )

    cameras = Cameras([*ring(center, radius, views, size), *held_out_ring(center, radius, size)])
    masks, colors = draw(scene or mesh, cameras, make_engine, samples, light)
    seen = np.asarray((masks >= 0.5).any((1, 2)))

    def pictures(among: np.ndarray) -> Observations | None:
        """The views in which the mesh is visible; None if there is none."""
        shown = np.flatnonzero(seen & among)
        return (
            Observations(cameras[shown], masks[shown], colors[shown], samples=samples) if len(shown) else None
        )

    learned = np.arange(len(cameras)) < views
    train = pictures(learned)
    if train is None:
        raise InputError(f"mesh '{mesh.name}' covers no pixel of any view; {_remedy(mesh, radius, size[1])}")
    if len(train.cameras) < views:
        warnings.warn(
            f"mesh '{mesh.name}' covers no pixel of {views - len(train.cameras)} of {views} views, which see"
            " it edge-on; they are left out",
            stacklevel=2,
        )
    held_out = pictures(~learned)
    return Dataset(train, held_out, center, radius, mesh.bounds(), np.array([0.0, 1.0, 0.0]), mesh)


def _sphere(mesh: Mesh) -> tuple[np.ndarray, float]:
    center, radius = mesh.bounding_sphere()
    if not radius > 0:
        raise InputError(f"mesh '{mesh.name}' has no extent; give a mesh with some area")
    return center, radius


def planned_dataset(mesh: Mesh, views: int, size: tuple[int, int]) -> Dataset:
    """The dataset of ``mesh_dataset`` with a grey disc in every picture: for plans, which depend on sizes and
    types alone. Raises InputError where the mesh has no extent."""
    center, radius = _sphere(mesh)
    width, height = size
    y, x = np.mgrid[:height, :width]
    disc = np.hypot(x - 0.5 * (width - 1), y - 0.5 * (height - 1)) < max(0.3 * min(size), 1.0)
    masks = np.repeat(disc[None].astype(np.float32), views, axis=0)
    colors = 0.5 * np.repeat(masks[..., None], 3, axis=-1)
    pictures = Observations(ring(center, radius, views, size), masks, colors)
    return Dataset(pictures, None, center, radius, mesh.bounds(), np.array([0.0, 1.0, 0.0]), mesh)


def _remedy(mesh: Mesh, radius: float, rows: int) -> str:
    """The cure for a mesh that covers no pixel: other views of a flat mesh, more pixels for a thin one."""
    axes = np.linalg.svd(mesh.positions - mesh.positions.mean(0), full_matrices=False)[2]
    extent = float(np.sort(np.ptp(mesh.positions @ axes.T, axis=0))[-2])
    pixel = 2 * DISTANCE * radius * float(np.tan(np.radians(FOV_Y / 2))) / rows
    if extent > 2 * pixel:
        flat = "it is flat and all views see it edge-on"
        return f"{flat}: give --views 6 or more, or a mesh that has some thickness"
    thin = f"it is {extent:.2g} units thin where a pixel is {pixel:.2g} wide"
    wanted = np.ceil(2 * pixel / max(extent, 1e-300) * rows)
    if wanted <= LARGEST_SIZE:
        return f"{thin}: use --size {int(wanted)}"
    return f"{thin}: make it at least {2 * pixel:.2g} thick"


def photo_dataset(photos: Photos, hold_out: bool = True) -> Dataset:
    """Photographs, every fourth held out unless none is to be. Raises InputError if no training view is
    left."""
    center, radius = sphere_of(photos.bounds)

    def part(index: np.ndarray) -> Observations:
        cameras, masks = Cameras([photos.cameras.cameras[i] for i in index]), photos.masks[index]
        known = None if photos.known is None else photos.known[index]
        depths = None if photos.depths is None else photos.depths[index]
        colors = photos.images[index] * masks[..., None]
        return Observations(cameras, masks, colors, known, PHOTO_SAMPLES, depths, True)

    learned = photos.train if hold_out else np.arange(len(photos.names))
    if len(learned) == 0:
        raise InputError("there are no photographs to learn from; give at least one")
    held_out = part(photos.held_out) if hold_out and len(photos.held_out) else None
    train = part(learned)
    train = replace(train, fringe=fringe(photos.images[learned], train.masks, train.known))
    return Dataset(train, held_out, center, radius, photos.bounds, guess_upward(photos.cameras))


# The progress and the result of a fit.


@dataclass(frozen=True)
class Progress:
    """done, total: steps of all phases.  iou, psnr: of the training views at the last look (``Quality``),
    None before.  doing: what happens now, for people."""

    phase: str
    done: int
    total: int
    loss: float
    iou: float | None = None
    psnr: float | None = None
    doing: str = ""


@dataclass(frozen=True)
class Quality:
    """A look at the training views after ``step`` steps, at the size of the round.  psnr: in dB; None without
    colours."""

    step: int
    phase: str
    iou: float
    psnr: float | None


@dataclass
class Timing:
    first_build_ms: float | None = None
    steps: int = 0
    seconds: float = 0.0

    @property
    def step_ms(self) -> float | None:
        return 1e3 * self.seconds / self.steps if self.steps else None


@dataclass
class FitResult(Figures):
    """mesh: in the world, with a texture once the second phase has begun."""

    mesh: Mesh
    losses: list[tuple[str, float]]
    plans: dict[str, dict[str, int]]
    timing: Timing
    finished: bool
    texts: dict[str, str] = field(default_factory=dict)
    cameras: Cameras | None = None
    """The refined training cameras in the world, aligned to the given ones; None without ``refine_poses``."""
    earlier_s: float = 0.0
    """Seconds spent in the runs that this one resumed."""
    quality: list[Quality] = field(default_factory=list)
    """IoU and PSNR of the training views from time to time, of earlier runs too; empty where nobody
    watched."""
    light: LightSource | None = None
    """What the result is lit by, where its material was recovered; None: colours are as they are, unlit."""
    exposures: np.ndarray | None = None
    """(N,) factors of the linear light of the training views, if exposures were recovered with the
    material."""
    gains: np.ndarray | None = None
    """(N, 3) factors of the sRGB codes of the training views, with the texture; None without exposures."""
    directional: DirectionalColour | None = None
    """What is added to the texture by the direction of the view; None where that was not asked for."""
    steered: list[tuple[int, str, float]] = field(default_factory=list)
    """Steps of the fit so far, name and value of every factor that a person changed meanwhile (``Controls``).
    Such a fit is not found again from its options alone."""
    unsaved: str | None = None
    """Why the last checkpoint could not be written; None if it was written, or none was asked for."""


# Targets of several objects, which a fit that starts from one sphere cannot reach.

LEAST = 0.01
"""Least area of a region, as a share of its mask; smaller regions are probably errors of the mask."""


@dataclass(frozen=True)
class Parts:
    """components: connected components of the target mesh; None for photographs.
    views, apart: the number of training views, and of those whose mask has several regions.
    """

    components: int | None
    views: int
    apart: int

    @classmethod
    def of(cls, dataset: Dataset) -> Parts:
        masks, known = dataset.train.masks, dataset.train.known
        apart = sum(regions(mask, None if known is None else known[i]) > 1 for i, mask in enumerate(masks))
        count = None if dataset.reference is None else dataset.reference.component_count()
        return cls(count, len(masks), apart)

    def note(self, start: int = 1) -> str | None:
        """A sentence that says what a mesh with this many connected components cannot reach, with the cure;
        None if nothing."""
        each = "fit each object by itself"
        cure = f"{each}, or give --init a mesh of as many parts, such as a sphere about where each is"
        here = f"apart in {self.apart} of {self.views} views"
        surface = "one closed surface" if start == 1 else f"a surface of {start} parts"
        bridged = f"the fit makes {surface}, which leaves out some of them or joins them by bridges"
        if self.components is None:
            # A single mask among several may be wrong.
            if self.apart < min(2, self.views) or start > 1:
                return None
            several = f"the masks show several objects, {here}: {bridged}"
            return f"{several}; remove what is not the object from the masks, {cure}"
        if self.components <= start:
            return None
        what = f"the target has {self.components} connected components"
        if self.apart == 0:
            hidden = f"{what} that touch or hide each other in all views"
            return f"{hidden}: the fit makes {surface} around all of them"
        return f"{what}, {here}: {bridged}; {cure}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def regions(mask: np.ndarray, known: np.ndarray | None = None) -> int:
    """How many regions of a mask (H, W), connected by sides or corners, are large enough to count.

    Regions that touch the border of the picture, or pixels that are not ``known`` (H, W), count as one: they
    may be connected there.
    """
    mask = np.asarray(mask) >= 0.5
    number, areas = labelled(mask, np.ones((3, 3)))
    large = areas >= max(LEAST * mask.sum(), 1)
    large[0] = False
    told = np.ones(mask.shape, dtype=bool) if known is None else np.asarray(known) > 0
    edge = ~np.pad(told, 1)
    beside = edge[:-2, 1:-1] | edge[2:, 1:-1] | edge[1:-1, :-2] | edge[1:-1, 2:]
    cut = np.zeros(len(areas), dtype=bool)
    cut[np.unique(number[beside & mask])] = True
    return int((large & ~cut).sum()) + int((large & cut).any())
