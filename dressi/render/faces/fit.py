"""``fit_face``: from what is seen of a face to its parameters, by Levenberg-Marquardt or Adam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ...ad import optim
from ...ad.least_squares import Energy, Jacobi, LevenbergMarquardt
from ...engines import default_engine
from ...errors import InputError
from ..cameras import Camera, Cameras
from ..core.engine import MakeEngine
from ..shading.harmonics import even_light
from .graph import LEARNED, POSES, FaceData, FaceGraph, Noise, start_motion
from .model import Face, FaceModel

METHODS = ("levenberg_marquardt", "adam")
RATES = {"identity": 0.1, "expression": 0.03, "zoom": 0.005, "albedo": 0.05, "light": 0.05}
TURN, SHIFT, GROWTH = 0.01, 0.8, 0.004
"""Learning rates of Adam at first: of weights, and of the light relative to its brightness; of poses in
radians and millimetres; of the size."""
FORCING, GAIN = 0.2, 1e-3
"""In stages over pixels the linear system is solved roughly far from the solution, in a third of the
iterations, and a stage ends when a step gains less than this share."""
GEOMETRY = ("identity", "expression", "pose", "zoom")


class Stage(NamedTuple):
    """learned: what is learned if the options say so.  rows, share: rows of the pictures (0: landmarks alone)
    and steps, relative to those of the options."""

    learned: tuple[str, ...]
    rows: float
    share: float


STAGES = (
    Stage(GEOMETRY, 0, 1.0),
    Stage(GEOMETRY, 0, 1.0),  # again: how many modes landmarks tell is known only now
    Stage(LEARNED, 0.5, 0.5),
    Stage(LEARNED, 0.5, 0.5),  # again, as the next: how far colours are to be trusted is known only now
    Stage(LEARNED, 1.0, 0.25),
    Stage(LEARNED, 1.0, 0.25),
)


@dataclass(frozen=True)
class FaceOptions:
    """How a face is found. Raises InputError.

    method: "levenberg_marquardt" or "adam".  learned: of "identity", "expression", "pose", "zoom" (of the
    focal lengths), "albedo" and "light".  poses: "shared" for views at one time, "each" for a head that turns
    between them.  steps: of a stage; default 12 of Levenberg-Marquardt, 300 of Adam.  iterations: of
    conjugate gradients in a step.  noise: standard deviations of what is measured.  rows: of the pictures in
    the last stage; the one before has half of them.

    >>> FaceOptions(learned=("identity", "pose")).steps_of_a_stage
    12
    """

    method: str = METHODS[0]
    learned: Sequence[str] = ("identity", "expression", "pose", "albedo", "light")
    poses: str = "shared"
    steps: int | None = None
    iterations: int = 60
    noise: Noise = Noise()  # noqa: RUF009 - a frozen record
    rows: int = 256

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"the method of a face is {' or '.join(METHODS)}, not {self.method!r}")
        wrong = [name for name in self.learned if name not in LEARNED]
        if isinstance(self.learned, str) or wrong or not self.learned:
            raise InputError(f"learned are some of {', '.join(LEARNED)}, not {self.learned!r}")
        if self.poses not in POSES:
            raise InputError(f"poses are {' or '.join(map(repr, POSES))}, not {self.poses!r}")
        if not isinstance(self.noise, Noise):
            raise InputError(f"the noise of a face is Noise(...), not {self.noise!r}")
        for name in ("steps", "iterations", "rows"):
            count = getattr(self, name)
            whole = isinstance(count, int | np.integer) and count >= 1
            if not (whole or (name == "steps" and count is None)):
                raise InputError(f"{name} of FaceOptions is a whole number, at least 1, not {count!r}")

    @property
    def steps_of_a_stage(self) -> int:
        """As given, or the default of the method."""
        return self.steps or (12 if self.method == METHODS[0] else 300)


@dataclass(frozen=True, eq=False)
class FoundFace:
    """The result of ``fit_face``. face: its parameters.  costs: of each step, a list for each stage."""

    face: Face
    costs: list[list[float]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.face, name)


class FaceFitter:
    """Finds faces of one model in views of one kind: its engines are made for the first face and used again.

    model: the model.  options: how.

        with FaceFitter(model) as fitter:
            faces = [fitter.fit(data) for data in many]
    """

    def __init__(
        self, model: FaceModel, options: FaceOptions = FaceOptions(), make_engine: MakeEngine = default_engine
    ):
        if not isinstance(model, FaceModel):
            kind = type(model).__name__
            raise InputError(f"faces are found of a FaceModel, such as load_face_model gives, not {kind}")
        self.model, self.options, self._make = model, options, make_engine
        self._made: dict[Any, tuple[Any, FaceGraph, dict[str, np.ndarray]]] = {}

    def __enter__(self) -> FaceFitter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the engines."""
        for engine, _, _ in self._made.values():
            engine.close()
        self._made.clear()

    def fit(self, data: FaceData, start: Face | None = None) -> FoundFace:
        """The face in the data (``fit_face``). Raises InputError."""
        model, options = self.model, self.options
        if start is not None and start.model is not model:
            raise InputError("the start is a face of another model; make it by Face(model, ...)")
        face = start or Face(model, motion=start_motion(model, data))
        if options.poses == "each" and face.motion.ndim == 2:
            face = replace(face, motion=np.tile(face.motion, (len(data.cameras), 1, 1)))
        if start is None and data.pictures is not None and model.albedo is not None:
            face = replace(face, light=_even(data, model))
        costs, pixels = [], bool({*data.kinds} - {"landmarks"})
        for stage in STAGES:
            learned = tuple(name for name in stage.learned if name in options.learned)
            needed = pixels if stage.rows else data.landmarks is not None
            if not learned or not needed:
                continue
            if stage.rows:
                _check_visible(face, data)
            face, cost = self._run(stage, learned, data, face)
            costs.append(cost)
        _check_visible(face, data)
        return FoundFace(face, costs)

    def _run(
        self, stage: Stage, learned: Sequence[str], data: FaceData, face: Face
    ) -> tuple[Face, list[float]]:
        data = data.at_rows(max(round(self.options.rows * stage.rows), 16)) if stage.rows else data
        key = (stage, data.kinds, data.cameras.size, len(data.cameras))
        if key not in self._made:
            self._made[key] = self._engine(stage, learned, data, face)
        engine, graph, fresh = self._made[key]
        engine.restore(fresh)
        for leaf, array in graph.values(data, face).items():
            engine.send(leaf, array)
        if stage.rows and data.pictures is not None:
            engine.send(*graph.trust(np.asarray(engine.recv("away"), np.float64)))
        before = len(engine.losses())
        engine.step(self._steps(stage))
        return graph.found(engine, face), [float(cost) for cost in engine.losses()[before:]]

    def _steps(self, stage: Stage) -> int:
        steps = self.options.steps_of_a_stage if stage.rows else FaceOptions().steps_of_a_stage
        return max(round(steps * stage.share), 1)

    def _engine(
        self, stage: Stage, learned: Sequence[str], data: FaceData, face: Face
    ) -> tuple[Any, FaceGraph, dict[str, np.ndarray]]:
        """An engine of a stage, its graph, and its state before the first step. Landmarks alone go by
        Levenberg-Marquardt always: Adam ends in other valleys of depth and size."""
        options = self.options
        graph = FaceGraph(data, face, options.noise, options.poses)
        residuals, unknowns = list(graph.residuals(drawn=stage.rows > 0).values()), graph.leaves(learned)
        engine = self._make()
        if stage.rows and data.pictures is not None:
            engine.set_output("away", graph.away)
        if options.method == METHODS[0] or not stage.rows:
            solver = LevenbergMarquardt(iterations=options.iterations, preconditioner=Jacobi(), radius=100.0)
            if stage.rows:
                solver = replace(solver, forcing=FORCING, function_tolerance=GAIN)
            engine.set_loss(residuals)  # type: ignore[arg-type]
            engine.set_optimizer(solver, unknowns)  # type: ignore[arg-type]
        else:
            engine.set_loss(Energy(residuals).cost())
            steps = self._steps(stage)
            rates = {name: RATES.get(name, TURN) for name in learned}
            if "light" in rates:
                rates["light"] *= float(np.abs(face.light[0]).mean())
            of = {leaf: rate for name, rate in rates.items() for leaf in graph.unknowns.get(name, [])}
            if "pose" in rates:
                of[graph.unknowns["pose"][1]] = SHIFT / self.model.millimetres
            of |= dict.fromkeys(set(graph.unknowns.get("size", [])) & set(unknowns), GROWTH)
            falling = {x: optim.adam(optim.cosine(r, r / 20, steps), (0.9, 0.99)) for x, r in of.items()}
            engine.set_optimizer(optim.per_parameter(falling), unknowns)
        return engine, graph, engine.state()


def fit_face(
    model: FaceModel,
    cameras: Camera | Cameras | Sequence[Camera],
    *,
    pictures: Any = None,
    landmarks: Any = None,
    depths: Any = None,
    masks: Any = None,
    start: Face | None = None,
    options: FaceOptions = FaceOptions(),
    make_engine: MakeEngine = default_engine,
) -> FoundFace:
    """The parameters of a face that is seen in one or more views.

    cameras, pictures, landmarks, depths, masks: as in ``FaceData``.  start: parameters near the solution;
    without it landmarks tell where the face is. Minimises equation 8 of Dressi (appendix B.3), landmarks,
    colours, truncated depths, and the priors of the weights, in four stages: landmarks alone, twice;
    everything in pictures of half the rows; everything. Raises InputError: no landmarks, a face that is not
    visible, arrays that do not fit.

    >>> ball = primitives.icosphere(1)
    >>> model = FaceModel(ball, identity=ball.positions[None] * 0.1, landmarks=np.arange(68) % 42)
    >>> camera = Camera.perspective(45, (64, 64), (0, 0, 4), (0, 0, 0))
    >>> seen = camera.project(model.positions([1.0])[model.landmarks])[0]
    >>> options = FaceOptions(learned=["identity"])
    >>> found = fit_face(model, camera, landmarks=seen, options=options, start=Face(model))
    >>> bool(abs(found.identity[0] - 1) < 0.1)
    True
    """
    data = FaceData(cameras, pictures, landmarks, depths, masks)
    with FaceFitter(model, options, make_engine) as fitter:
        return fitter.fit(data, start)


def _even(data: FaceData, model: FaceModel) -> np.ndarray:
    """Light from all around that makes the mean albedo as bright as the middle of the pictures."""
    assert data.pictures is not None and model.albedo is not None
    inside = data.pictures.max(-1) > 0.02 if data.masks is None else data.masks > 0.5
    if not inside.any():
        raise InputError("the pictures of the face are black; check them and the masks")
    colour = np.median(data.pictures[inside], axis=0)
    return even_light(1.0) * np.maximum(colour, 1e-3) / np.maximum(model.albedo.mean(0), 1e-3)


def _check_visible(face: Face, data: FaceData) -> None:
    """Raises InputError where the face is in no view."""
    for view, camera in enumerate(data.cameras):
        places, depth = camera.project(face.world(view))
        inside = (depth > camera.near) & (places >= 0).all(1) & (places <= camera.size).all(1)
        if inside.any():
            return
    raise InputError("the face is not visible in any view; check landmarks, cameras and start")
