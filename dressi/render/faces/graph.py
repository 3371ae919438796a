"""What is seen of a face, its parameters as Variables, its picture, and the residuals of equation 8 of Dressi.

    x = R exp(r) (mean + sum of a_i identity_i + sum of b_e expression_e) + t + s
    c = max(albedo + sum of d_k albedo_k, 0) E(n),      E: irradiance of nine spherical harmonics, at vertices

Each residual is in standard deviations of what it measures, so that the weights of equation 8 are statements
about noise.

One view without depths hardly tells the size s of a head from its distance. The least energy then is of heads
that are too small: the smaller the head, the smaller are the weights that explain the same pixels, which the
priors like. What is likely is measured by the volume of the weights that do so, which grows as s^k with the
number k of modes that the pixels tell. Their squares sum to k in the mean. So the energy has a term -k log s,
with k from the weights of the start.

Pictures do tell the size, but along a narrow valley: the head moves away while identity modes make it larger.
One more unknown goes along it, so that descent need not cross the valley step by step: the head grows about
the eye, by the weights that enlarge it best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.traversal import leaves
from ...ad.graph.types import FLOAT, IVEC3, MAT4, VEC2, VEC3, VType
from ...ad.least_squares import Robust, cauchy, huber, tukey
from ...errors import InputError
from ..cameras import Camera, Cameras
from ..cameras.rigid import axis_angle_to_matrix, rigid, rotation_and_translation
from ..core.lists import list_leaf
from ..drawing.entry import render
from ..drawing.picture import Picture
from ..fit.data.learned import signed_distances
from ..fit.graphs.terms import depth_at
from ..io.images import resize
from ..mesh import Mesh
from ..scene.geometry import weighted_sum
from ..shading.harmonics import COUNT, harmonic_irradiance
from ..surface.screen import vertex_normals
from .model import JAW, POINTS, Face, FaceModel

# What is seen of a face: pictures, landmarks, depths and masks, with the cameras.


@dataclass(frozen=True)
class Noise:
    """Standard deviations: what a residual of 1 means.

    landmarks: pixels at 256 rows, in proportion at others.  jaw: times that for the landmarks of the jaw,
    which detectors put onto the contour.  colour: linear light.  depth: millimetres.  mask: coverage. pixels:
    how many independent pixels those of all views count as.  truncated: differences of depths, in standard
    deviations, from which on they do not count.  light: of what the directional harmonics add, relative to
    the even light.  zoom: of its logarithm. Raises InputError.
    """

    landmarks: float = 1.0
    jaw: float = 1.0
    colour: float = 0.03
    depth: float = 1.5
    mask: float = 0.1
    pixels: float = 4000.0
    truncated: float = 10.0
    light: float = 1.0
    zoom: float = 0.1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (isinstance(value, Real) and 0 < float(value) < np.inf):
                raise InputError(f"the noise {name} of a face is a number above 0, not {value!r}")


ROUNDING = 1e-6
"""Masks are outside of [0, 1] by this at most."""
BLOCKS = 8
"""Along the height of a picture: errors of colours are taken as independent between blocks."""
WHITE = 0.999
"""Channels of pictures from here on are over-exposed: the light was at least this."""


@dataclass(frozen=True, eq=False)
class FaceData:
    """One face in N views. Lengths of cameras and depths are in units of the model.

    cameras: a ``Camera``, ``Cameras`` or a list of them.  pictures: (N, H, W, 3), linear light.  clipped: (N,
    H, W, 3), above 0 where a channel of a picture is over-exposed and says only that the light is at least as
    bright; by default where pictures reach 1.  landmarks: (N, 68, 2) in pixels, NaN for points that are not
    seen (``load_landmarks``).  depths: (N, H, W), along the optical axis, 0 or NaN where unknown.  masks: (N,
    H, W) in [0, 1], 1 where the model covers the picture.  One view may leave out the first axis. Raises
    InputError.

    >>> camera = Camera.perspective(30, (64, 48), (0, 0, 40), (0, 0, 0))
    >>> FaceData(camera, landmarks=np.ones((68, 2))).landmarks.shape
    (1, 68, 2)
    """

    cameras: Any
    pictures: Any = None
    landmarks: Any = None
    depths: Any = None
    masks: Any = None
    clipped: Any = None

    def __post_init__(self) -> None:
        cameras = [self.cameras] if isinstance(self.cameras, Camera) else self.cameras
        if not isinstance(cameras, Cameras):
            some = isinstance(cameras, Sequence) and cameras
            if not (some and all(isinstance(camera, Camera) for camera in cameras)):
                kind = type(cameras).__name__
                raise InputError(f"cameras of a face are a Camera or a list of them, not {kind}")
            cameras = Cameras(cameras)
        object.__setattr__(self, "cameras", cameras)
        plane = cameras.size[::-1]
        shapes = {"pictures": (*plane, 3), "landmarks": (POINTS, 2), "depths": plane, "masks": plane}
        for name, shape in {**shapes, "clipped": (*plane, 3)}.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, self._stack(name, shape))
        if self.pictures is not None and self.clipped is None:
            object.__setattr__(self, "clipped", (self.pictures >= WHITE).astype(np.float64))
        if self.landmarks is None and self.pictures is None and self.depths is None:
            raise InputError("a face is found from pictures, landmarks or depths; give one of them")

    def _stack(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        values = np.asarray(getattr(self, name))
        if values.dtype.kind not in "biuf":
            raise InputError(f"{name} of a face are numbers, not {values.dtype}")
        if name == "pictures" and values.dtype.kind in "iu":
            raise InputError(
                "pictures of a face are linear light; srgb_to_linear(codes / 255) converts 8 bit codes"
            )
        values = values[None] if values.ndim == len(shape) else values
        wanted = (len(self.cameras), *shape)
        if values.shape != wanted:
            raise InputError(
                f"{name} of a face in {len(self.cameras)} views are an array {wanted}, not {values.shape}"
            )
        values = values.astype(np.float64)
        if name in ("pictures", "masks", "clipped") and not np.isfinite(values).all():
            raise InputError(f"{name} of a face have values that are NaN or infinite; repair them")
        if name == "masks":
            if values.min() < -ROUNDING or values.max() > 1 + ROUNDING:
                raise InputError(f"masks of a face are in [0, 1], not {values.min():g} to {values.max():g}")
            if not (values > 0.5).any():
                raise InputError("the masks of a face are empty: it is not visible in any view; check them")
        return np.where(np.isfinite(values), values, 0.0) if name == "depths" else values

    def at_rows(self, rows: int) -> FaceData:
        """The same in pictures of at most so many rows. A pixel knows its depth where more than half of it
        does, and is over-exposed where any part of it is: its mean is too dark."""
        width, height = self.cameras.size
        if rows >= height:
            return self
        size = (max(round(width * rows / height), 1), rows)
        smaller: dict[str, Any] = {}
        if self.depths is not None:
            whole = np.ones((height, width)) > 0
            smaller["depths"] = np.stack([depth_at(depth, whole, size) for depth in self.depths])
        for name in ("pictures", "masks", "clipped"):
            if getattr(self, name) is not None:
                smaller[name] = np.stack([resize(image, size) for image in getattr(self, name)])
        marks = None if self.landmarks is None else self.landmarks * np.divide(size, (width, height))
        return FaceData(self.cameras.resized(size), landmarks=marks, **smaller)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of what is given."""
        return tuple(n for n in ("pictures", "landmarks", "depths", "masks") if getattr(self, n) is not None)

    @property
    def known(self) -> np.ndarray:
        """(N, 68) bool: the landmarks that are seen."""
        assert self.landmarks is not None
        return np.isfinite(self.landmarks).all(-1)


KEPT = {*"base rotation shift zoom light identity expression albedo size growth drift eye".split()}
"""Leaves that make a ``Face``."""
FILLED = 0.3
"""About what part of a picture a face fills."""
POSES = ("shared", "each")
"""A head at one time, or one that turns between the views."""
LEARNED = ("identity", "expression", "pose", "zoom", "albedo", "light")
"""What can be learned of a face."""


class FaceGraph:
    """A face in N views as a differentiable picture, and its residuals.

    data: what is seen.  start: the parameters at first.  poses: "shared", or "each" for a pose in each view.
    With masks the outlines count, by the form "outer". Colours and depths are compared where both the picture
    and the drawn face show the model; without masks where the drawn face does. Raises InputError.

    >>> ball = primitives.icosphere(1)
    >>> model = FaceModel(ball, identity=ball.positions[None] * 0.1).with_albedo(np.ones((42, 3)))
    >>> camera = Camera.perspective(45, (32, 32), (0, 0, 4), (0, 0, 0))
    >>> graph = FaceGraph(FaceData(camera, pictures=np.zeros((32, 32, 3))), Face(model))
    >>> graph.picture.colour.size, [*graph.residuals()]
    ((32, 32), ['colour', 'identity', 'distance', 'light', 'zoom'])
    """

    def __init__(self, data: FaceData, start: Face, noise: Noise = Noise(), poses: str = "shared"):
        if poses not in POSES:
            raise InputError(f"poses are {' or '.join(map(repr, POSES))}, not {poses!r}")
        self.model, self.noise, self.poses = start.model, noise, poses
        self.cameras = data.cameras
        self._leaves: dict[str, Variable] = {}
        self._read: set[Variable] = set()
        for name, (vtype, array) in self._inputs(data, start).items():
            if array.ndim == 1 + len(vtype.shape):
                self._leaves[name] = list_leaf(name, vtype, array)
            else:
                size = (array.shape[2], array.shape[1])
                self._leaves[name] = Variable(vtype, size, len(array), name=name, data=array)
        own, names = self._leaves, ("light", "zoom", "identity", "expression", "albedo", "size")
        self.unknowns = {"pose": [own["rotation"], own["shift"]]}
        """Leaves by name of ``LEARNED``; those of modes that the model lacks are missing."""
        self.unknowns |= {name: [own[name]] for name in names if name in own}

    def _inputs(self, data: FaceData, start: Face) -> dict[str, tuple[VType, np.ndarray]]:
        """Types and arrays of the leaves by name: lists (n, ...), images (N, H, W, ...). Raises
        InputError."""
        model, cameras = start.model, data.cameras
        views = len(cameras)
        base = start.motion
        if base.ndim == 3 and (self.poses == "shared" or len(base) != views):
            raise InputError(
                f"the start has {len(base)} poses; one is needed, or one for each of {views} views and"
                " poses='each'"
            )
        if self.poses == "each" and base.ndim == 2:
            base = np.tile(base, (views, 1, 1))
        base = base.reshape(-1, 1, 1, 4, 4)
        nothing = np.zeros((len(base), 1, 1, 3))

        def number(value: Any) -> tuple[VType, np.ndarray]:
            return FLOAT, np.full((1, 1, 1), value)

        inputs: dict[str, tuple[VType, np.ndarray]] = {
            "cameras": (MAT4, cameras.matrices[:, None, None]),
            "base": (MAT4, base),
            "rotation": (VEC3, nothing),
            "shift": (VEC3, nothing),
            "zoom": number(np.log(start.zoom)),
        }
        for name in ("identity", "expression", "albedo"):
            if len(weights := getattr(start, name)):
                inputs[name] = (FLOAT, weights)
        if model.albedo is not None:
            inputs["light"] = (VEC3, np.asarray(start.light, np.float64).reshape(COUNT, 3))
            brightness = float(np.abs(start.light[0]).mean()) + 1e-6
            inputs["brightness"] = number(1 / (brightness * self.noise.light))
        elif data.pictures is not None:
            raise InputError(
                "this face model has no albedo, which pictures need;"
                " model.with_albedo(*procedural_albedo(model)) adds one"
            )
        if data.pictures is not None:
            inputs["pictures"] = (VEC3, data.pictures)
            inputs["clipped"] = (VEC3, (data.clipped > 0).astype(np.float64))
            inputs["trust"] = number(1.0)
        if views == 1 and data.depths is None:
            eye = np.linalg.inv(cameras[0].view)[:3, 3]
            expression = start.expression / model.expression_deviation
            told = np.square(np.append(start.identity, expression)).sum()
            distance = np.linalg.norm(base[0, 0, 0, :3, 3] - eye)
            growth, drift = growing(start)
            inputs |= {
                "eye": (VEC3, eye.reshape(1, 1, 1, 3)),
                "modes": number(np.sqrt(told)),
                "nearness": number(start.zoom / max(distance, 1e-9)),
                "size": number(0.0),
                "growth": (FLOAT, growth),
                "drift": (VEC3, drift.reshape(1, 1, 1, 3)),
            }
        if data.depths is not None:
            inputs["depths"] = (FLOAT, data.depths)
        if data.masks is not None:
            inputs["outline"] = (FLOAT, signed_distances(data.masks, cameras.size))
            inputs["inside"] = (FLOAT, (data.masks > 0.999).astype(np.float64))
        if data.landmarks is not None and model.landmarks is not None:
            known = data.known & (model.landmarks >= 0)
            width, height = cameras.size
            # In standard deviations: 256 rows times a part of the height.
            unit = np.where(np.arange(POINTS) < JAW, 1 / self.noise.jaw, 1.0) * (256 / self.noise.landmarks)
            scale = (known * unit)[..., None] * np.array([width / height, 1.0])
            places = np.where(known[..., None], data.landmarks / np.array([width, height]), 0.5)
            inputs |= {"landmarks": (VEC2, places[:, None]), "deviation": (VEC2, scale[:, None])}
        return inputs

    def values(
        self, data: FaceData, start: Face, read: Sequence[Variable] | None = None
    ) -> dict[Variable, np.ndarray]:
        """Arrays to send for other data of the same kinds and sizes, and another start.  read: Variables
        whose leaves count; default: the residuals made last. Raises InputError."""
        inputs = self._inputs(data, start)
        if {*inputs} != {*self._leaves} or data.cameras.size != self.cameras.size:
            raise InputError(
                "the data have other kinds or sizes than those that this graph was made for; make another one"
            )
        wanted = self._read if read is None else {*leaves(read)}
        arrays = {self._leaves[name]: array for name, (_, array) in inputs.items()}
        return {leaf: array for leaf, array in arrays.items() if leaf in wanted}

    # ---- the face
    def _moved(self, mean: np.ndarray, pick: np.ndarray | slice) -> Variable:
        total = list_leaf("mean", VEC3, mean)
        total = total + weighted_sum("identity modes", self.model.identity[:, pick], self.identity)
        if "expression" in self._leaves:
            modes = self.model.expression[:, pick]
            total = total + weighted_sum("expression modes", modes, self._leaves["expression"])
        return total

    @cached_property
    def identity(self) -> Variable:
        """FLOAT list: weights of the modes of identity."""
        own = self._leaves
        return own["identity"] + own["growth"] * own["size"] if "size" in own else own["identity"]

    @cached_property
    def positions(self) -> Variable:
        """VEC3 list: the vertices, in coordinates of the model."""
        return self._moved(self.model.mesh.positions, slice(None))

    @cached_property
    def motion(self) -> Variable:
        """MAT4: from the model to the world, a tile for each pose."""
        turn, place = rotation_and_translation(self._leaves["base"])
        own = self._leaves
        turn = turn @ axis_angle_to_matrix(own["rotation"])
        if "size" in own:
            place = place + (place - own["eye"] + turn @ own["drift"]) * own["size"]
        return rigid(turn, place + own["shift"])

    @cached_property
    def matrices(self) -> Variable:
        """MAT4: from the world to clip space, zoomed."""
        wide = F.exp(self._leaves["zoom"])
        one = F.vec4(wide, wide, 1.0, 1.0)
        return F.mat4(*(F.hadamard(F.column(self._leaves["cameras"], k), one) for k in range(4)))

    @cached_property
    def albedo(self) -> Variable:
        """VEC3 list: the albedo of the vertices, linear."""
        model = self.model
        assert model.albedo is not None
        total = list_leaf("mean albedo", VEC3, model.albedo)
        if "albedo" in self._leaves:
            total = total + weighted_sum("albedo modes", model.albedo_modes, self._leaves["albedo"])
        return F.maximum(total, 0.0)

    @cached_property
    def colours(self) -> Variable:
        """VEC3 list: the lit vertices. There are far more pixels than vertices, and light this smooth is
        linear between them."""
        turn, _ = rotation_and_translation(self.motion)
        normals = turn @ vertex_normals(self.positions, list_leaf("corners", IVEC3, self.model.mesh.faces))
        return self.albedo * F.maximum(harmonic_irradiance(self._leaves["light"], normals), 0.0)

    @cached_property
    def picture(self) -> Picture:
        """The face under its light, in all views."""
        soft = "outline" in self._leaves
        return render(
            Mesh(self.model.mesh.positions, self.model.mesh.faces, name="face"),
            self.matrices,
            size=self.cameras.size,
            positions=self.positions,
            to_world=self.motion,
            colours=None if self.model.albedo is None else self.colours,
            light=None,
            form="outer" if soft else "hard",
            radius=self._radius if soft else None,
        )

    # ---- the residuals
    def residuals(self, *, drawn: bool = True) -> dict[str, Variable | Robust]:
        """By name: landmarks, colour, depth, mask, as far as the data have them, and the priors.  drawn:
        whether there are those of pixels."""
        terms = [("landmarks", "landmarks", self._landmarks)]
        if drawn:
            terms += [
                ("colour", "pictures", self._colour),
                ("depth", "depths", self._depth),
                ("mask", "outline", self._mask),
            ]
        residuals = {name: make() for name, leaf, make in terms if leaf in self._leaves}
        residuals |= self._priors(drawn)
        self._read = {*leaves([r.residual if isinstance(r, Robust) else r for r in residuals.values()])}
        return residuals

    def _landmarks(self) -> Robust:
        assert self.model.landmarks is not None
        pick = np.maximum(self.model.landmarks, 0)
        points = self._moved(self.model.mesh.positions[pick], pick)
        clip = F.matmul(self.matrices, F.matmul(self.motion, F.vec4(points, 1.0)))
        away = clip.xy / clip.w * 0.5 + 0.5 - self._leaves["landmarks"]
        return Robust(F.hadamard(away, self._leaves["deviation"]), huber(2.0))

    @cached_property
    def _pixel(self) -> float:
        """Factor of the residual of a pixel: neighbours are not independent."""
        width, height = self.cameras.size
        return float(np.sqrt(min(self.noise.pixels / (FILLED * width * height * len(self.cameras)), 1.0)))

    @property
    def _radius(self) -> float:
        """Of the soft outline, a fraction of the image height: at least three pixels."""
        return max(0.02, 3 / self.cameras.size[1])

    @cached_property
    def _seen(self) -> Variable:
        """FLOAT mask: where both the drawn face and the picture show the model."""
        drawn = F.greater_equal(self.picture.face, 0)
        inside = self._leaves.get("inside")
        return drawn if inside is None else F.logical_and(drawn, F.greater(inside, 0.5))

    @cached_property
    def away(self) -> Variable:
        """VEC3: drawn minus seen colours. Over-exposed light is at least as bright as the picture: only what is
        drawn darker counts there."""
        away = self.picture.colour - self._leaves["pictures"]
        away = away - F.hadamard(F.maximum(away, 0.0), self._leaves["clipped"])
        return F.select(self._seen, away, (0.0, 0.0, 0.0))

    def _colour(self) -> Robust:
        scale = self._leaves["trust"] * (self._pixel / self.noise.colour)
        return Robust(self.away * scale, cauchy(3.0 * self._pixel))

    def trust(self, away: np.ndarray) -> tuple[Variable, np.ndarray]:
        """The leaf that scales residuals of colour, at most 1, and its value for differences (N, H, W, 3) at the
        start of a stage.

        Shadows, shine and freckles that the model lacks are errors of whole regions, and thousands of pixels
        with the same error would pull identity far out of its prior to explain them. Errors of n independent
        pixels have means of squares n times smaller after means over n pixels; what is left in means over
        blocks says how large the deviation of a pixel is when all pixels of a block count as independent.
        """
        side = max(self.cameras.size[1] // BLOCKS, 1)
        seen = np.abs(away).max(-1, keepdims=True) > 0
        cells = [np.add.reduceat(np.add.reduceat(image, np.arange(0, image.shape[1], side), axis=1),
                 np.arange(0, image.shape[2], side), axis=2) for image in (away, seen.astype(float))]  # fmt: skip
        power = np.square(cells[0]).sum() / (3 * max(cells[1].sum(), 1.0))
        deviation = self._pixel * np.sqrt(power)
        value = min(1.0, self.noise.colour / max(float(deviation), 1e-9))
        return self._leaves["trust"], np.full((1, 1, 1), value)

    def _depth(self) -> Robust:
        target = self._leaves["depths"]
        known = F.logical_and(self._seen, F.greater(target, 0.0))
        away = F.select(known, self.picture.depth - target, 0.0)
        scale = self._pixel * self.model.millimetres / self.noise.depth
        return Robust(away * scale, tukey(self.noise.truncated * self._pixel))

    def _mask(self) -> Variable:
        target, radius = self.picture.estimator.target, self.picture.radius
        assert target is not None and radius is not None
        away = self.picture.mask - target(self._leaves["outline"], radius, 1)
        return away * (self._pixel / self.noise.mask)

    def _distance(self) -> Variable:
        """FLOAT: half of its square falls by k for each e-fold of the size, near the start."""
        own = self._leaves
        away = F.length(rotation_and_translation(self.motion)[1] - own["eye"])
        return own["modes"] * (1.0 - F.log(away * own["nearness"]) + own["zoom"])

    def _priors(self, drawn: bool) -> dict[str, Variable | Robust]:
        model, own = self.model, self._leaves
        priors: dict[str, Variable | Robust] = {"identity": self.identity}
        if "expression" in own:
            weights = own["expression"]
            priors["expression"] = weights * (1 / model.expression_deviation)
            if model.expression_bounds is not None:
                low, high = model.expression_bounds
                beyond = F.maximum(weights - high, 0.0) + F.minimum(weights - low, 0.0)
                priors["expression bounds"] = beyond * (10 / model.expression_deviation)
        if "modes" in own:
            priors["distance"] = self._distance()
        if drawn and "albedo" in own:
            priors["albedo"] = own["albedo"]
        if drawn and "pictures" in own:
            first = F.equal(F.linear_index(own["light"].size), 0)
            priors["light"] = F.select(first, (0.0, 0.0, 0.0), own["light"] * own["brightness"])
        return priors | {"zoom": own["zoom"] * (1 / self.noise.zoom)}

    def leaves(self, learned: Sequence[str]) -> list[Variable]:
        """The leaves of some of ``LEARNED``, as far as the model has them."""
        names = [name for name in LEARNED if name in learned]
        grows = ["size"] if {"identity", "pose"} <= {*names} else []
        return [leaf for name in names + grows for leaf in self.unknowns.get(name, [])]

    def found(self, engine: Any, start: Face) -> Face:
        """The face of the present values of an engine that was sent ``start``; what its residuals do not read
        is that of the start."""
        kept = [name for name in self._leaves if name in KEPT and self._leaves[name] in self._read]
        read = {name: np.asarray(engine.recv(self._leaves[name]), np.float64) for name in kept}
        face: dict[str, Any] = {n: read[n].ravel() for n in ("identity", "expression", "albedo") if n in read}
        if "size" in read:
            growth = read["growth"].ravel()[: len(face["identity"])]
            face["identity"] = face["identity"] + read["size"].item() * growth
        if "light" in read:
            face["light"] = read["light"].reshape(COUNT, 3)
        if "base" in read:
            motion = motions_of(read)
            face["motion"] = motion[0] if self.poses == "shared" else motion
        return replace(start, zoom=float(np.exp(read["zoom"].item())), **face)


# Where a fit starts: the mean face in front of a camera, from its landmarks.

FEWEST = 6
"""Landmarks of a view that tell a pose."""
FLATTEST = 0.05
"""Least ratio of the scales at which a camera shows two directions of the landmarks."""
RIDGE = 1e-3
"""Of the weights that enlarge a face, relative to its modes."""


def usable_landmarks(model: FaceModel, data: FaceData) -> np.ndarray:
    """(N, 68) bool: those that are seen and that the model has. Raises InputError when no view has enough."""
    if data.landmarks is None:
        raise InputError(
            "there are no landmarks; give landmarks=load_landmarks(file), or start= a Face near the solution"
        )
    if model.landmarks is None:
        raise InputError(
            "this face model has no landmarks; add the vertices of the 68 points to its file, or give start="
        )
    known = data.known & (model.landmarks >= 0)
    if known.sum(1).max() < FEWEST:
        raise InputError(
            f"no view has {FEWEST} landmarks of the model, at most {known.sum(1).max()}; detect more, or give"
            " start="
        )
    return known


def start_motion(model: FaceModel, data: FaceData) -> np.ndarray:
    """(4, 4): from the model to the world, of the view whose landmarks tell it best. Raises InputError.

    The landmarks of a view give an affine camera by linear least squares; the nearest scaled rotation is the
    pose.
    """
    known = usable_landmarks(model, data)
    assert model.landmarks is not None and data.landmarks is not None
    points, poses = model.mesh.positions[np.maximum(model.landmarks, 0)], []
    for view in np.flatnonzero(known.sum(1) >= FEWEST):
        camera, seen = data.cameras[int(view)], known[view]
        ones, middle = np.ones((seen.sum(), 1)), points[seen].mean(0)
        pixels = np.concatenate([data.landmarks[view, seen], ones], axis=1)
        rays = (pixels @ np.linalg.inv(camera.intrinsics).T)[:, :2]
        rows = np.concatenate([points[seen] - middle, ones], axis=1)
        affine, *_ = np.linalg.lstsq(rows, rays, rcond=None)
        rows, place = affine[:3].T, affine[3]
        scale = np.linalg.norm(rows, axis=1).mean()
        left, (wide, narrow), right = np.linalg.svd(rows, full_matrices=False)
        # A head as small as a pixel, or as flat as a line.
        if narrow * np.ptp(points) < 1 / camera.intrinsics[0, 0] or narrow < FLATTEST * wide:
            continue
        first, second = left @ right
        turn = np.stack([first, second, np.cross(first, second)])
        own = np.eye(4)
        own[:3, :3], own[:3, 3] = turn, np.array([*place, 1.0]) / scale - turn @ middle
        motion = np.linalg.inv(camera.view) @ own
        poses.append((landmark_error(data, known, points, motion), motion))
    if not poses:
        raise InputError(
            "the landmarks of all views lie at one place or on one line, which tells no pose; detect them"
            " again"
        )
    return min(poses, key=lambda pair: pair[0])[1]


def landmark_error(data: FaceData, known: np.ndarray, points: np.ndarray, motion: np.ndarray) -> float:
    """Mean distance in pixels of landmarks at ``points`` (68, 3) in a pose, infinite behind a camera."""
    assert data.landmarks is not None
    world = points @ motion[:3, :3].T + motion[:3, 3]
    away = []
    for camera, seen, marks in zip(data.cameras, known, data.landmarks, strict=True):
        places, depth = camera.project(world[seen])
        if (depth <= 0).any():
            return np.inf
        away.append(np.linalg.norm(places - marks[seen], axis=1))
    return float(np.concatenate(away).mean())


def growing(face: Face) -> tuple[np.ndarray, np.ndarray]:
    """The weights of identity (I,) that enlarge a face best, e-fold about its origin, and its shift (3,).

    >>> ball = primitives.icosphere(1)
    >>> growth, drift = growing(Face(FaceModel(ball, identity=ball.positions[None] * 0.1)))
    >>> growth.round(2).tolist(), np.abs(drift).max().round(6).item()
    ([10.0], 0.0)
    """
    points, modes = face.positions(), face.model.identity.astype(np.float64)
    middle, means = points.mean(0), modes.mean(1)
    rows = (modes - means[:, None]).reshape(len(modes), -1)
    # Small weights, where modes are nearly the same.
    ridge = RIDGE**2 * np.square(rows).sum(1).mean() * np.eye(len(rows))
    weights = np.linalg.solve(rows @ rows.T + ridge, rows @ (points - middle).ravel())
    return weights, middle - weights @ means


def motions_of(read: Mapping[str, np.ndarray]) -> np.ndarray:
    """(N, 4, 4): from the model to the world, of the values of leaves of a ``FaceGraph`` by name."""
    motion = read["base"].reshape(-1, 4, 4).copy()
    turn = motion[:, :3, :3] @ np.asarray(axis_angle_to_matrix(read["rotation"].reshape(-1, 3)))
    place = motion[:, :3, 3] + read["shift"].reshape(-1, 3)
    if "size" in read:
        drift = motion[:, :3, 3] - read["eye"].ravel() + turn @ read["drift"].ravel()
        place = place + read["size"].item() * drift
    motion[:, :3, :3], motion[:, :3, 3] = turn, place
    return motion
