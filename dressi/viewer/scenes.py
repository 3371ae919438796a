"""Meshes and scenes in the viewer, with their materials, lights and animations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ..ad import functional as F
from ..ad.graph import Variable
from ..ad.graph.types import FLOAT, IVEC3, MAT4, VEC3, VEC4, Size
from ..errors import InputError
from ..render.core.lists import as_list
from ..render.drawing.entry import Maker, leaves
from ..render.drawing.fibres import Fibres, places_of, split_nodes
from ..render.drawing.scenes import images
from ..render.drawing.scenes.images import Given, Values
from ..render.drawing.scenes.joined import scene_given
from ..render.fit import FitJob, FitResult, Progress
from ..render.fit.data.directional import DirectionalColour
from ..render.fit.graphs.round import CHUNK, Subject
from ..render.fit.graphs.term import RANGES, Controls
from ..render.fit.job import FitRun, Moment
from ..render.formats import save_mesh
from ..render.forms.form import HARD
from ..render.io import save_png
from ..render.mesh import Material, Mesh
from ..render.scene.scene import Node
from ..render.scene.scene import Scene as Nodes
from ..render.shading.environment import Environment, studio
from ..render.strands.geometry import PointGeometry, StrandGeometry
from ..render.surface.color import encoded, linear_to_srgb, srgb_to_linear
from ..vk.run.engine import DressiAD
from .handles import Handle
from .pictures import BACKGROUND
from .session import Scene, Slider, Status, Views, stamped

FIBRES = (StrandGeometry, PointGeometry)
FRAME = 1 / 30
"""Seconds of a single step of an animation."""
POSES = 5
"""Times of a clip at which the whole scene is in the first view."""


class SceneGraph:
    """A scene as ``render`` draws it, as a graph of an engine, scaled into a sphere of radius 1 at the origin.

    Materials are lit by the lights of the scene, or by ``studio`` where it has none; without a material colours
    are shown as they are. unit: (4, 4) from the world to the sphere, by default around the scene (``unit_of``).
    handles: leaves of ``Handle``s; by default the places of nodes and lights that are leaves. directional: how the colours
    of a single mesh change with the direction of the view, by the ``share`` that is sent. Raises InputError.
    """

    def __init__(
        self,
        engine: DressiAD,
        nodes: Nodes,
        unit: np.ndarray | None = None,
        handles: Sequence[Variable] | None = None,
        directional: DirectionalColour | None = None,
    ):
        self._engine = engine
        self.share, self._shader = Variable.of(1.0, name="share"), None
        if directional is not None:
            mesh = getattr(nodes.nodes[0].geometry, "mesh", None)
            if len(nodes) > 1 or mesh is None:
                raise InputError(
                    f"colours by direction are those of a single mesh, not of {len(nodes)} nodes"
                )
            self._shader = directional.shader(mesh, self.share)
        self.lit = self._shader is None and (bool(nodes.lights) or any(map(_is_lit, nodes)))
        lights = (nodes.lights or Environment(studio())) if self.lit else None
        emitted, self._lights = images.light_given(lights)
        behind = images.picture_of("background", srgb_to_linear(np.array(BACKGROUND)))
        self._fixed = emitted | {"cameras": images.per_view("cameras", MAT4, np.eye(4)), "background": behind}
        self.unit = unit_of([nodes]) if unit is None else unit
        # Scenes without lights of their own move as a whole: single precision counts from the origin.
        self._whole, self._rest = (None, self.unit) if nodes.lights else (self.unit, np.eye(4))
        self.exposure = Variable.of(1.0, name="exposure")
        moved = _places_of(nodes) if handles is None else handles
        self.handles = tuple(Handle(leaf, engine, self.unit) for leaf in moved)
        self._places: dict[str, Variable] = {}
        self._fibres: tuple[Fibres, ...] = ()
        self._maker: Maker | None = None
        self._values: dict[str, Values] = {}
        self._parts: dict[str, Variable] = {}
        self.show(nodes)

    def show(self, nodes: Nodes) -> None:
        """Other places and shapes of the same nodes. What has changed is sent; ``subject`` is another object
        where that takes another graph."""
        maker, given = self._made(nodes)
        values = {name: one for name, one in given.items() if isinstance(one, Values)}
        shapes = {name: one.array.shape for name, one in values.items()}
        if maker == self._maker and shapes == {name: one.array.shape for name, one in self._values.items()}:
            known = {name: one.array for name, one in self._values.items()}
            self._engine.send_many(
                {self._parts[k]: x.array for k, x in values.items() if not np.array_equal(x.array, known[k])}
            )
        else:
            self._maker, self._parts = maker, leaves(given) | self._places
            position = maker.scene.position(self._parts) * float(self._rest[0, 0])
            position = position + tuple(self._rest[:3, 3].tolist())
            # Fibres alone are drawn beside a triangle that bounds them.
            bare = all(isinstance(node.geometry, FIBRES) for node in nodes)
            count = 0 if bare else maker.scene.face_count
            self.subject = Subject(position, self._parts["faces"], count, picture=self._picture)
        self._values = values

    def _made(self, nodes: Nodes) -> tuple[Maker, dict[str, Given]]:
        places = {}
        if nodes.motion is not None:
            # Points of strands are part of the graph: clips move them by leaves.
            each = list(nodes)
            for k, node in enumerate(each):
                if isinstance(node.geometry, FIBRES) and not isinstance(node.to_world, Variable):
                    name, place = f"place {k}", np.eye(4) if node.to_world is None else node.to_world
                    places[name] = images.per_view("to_world", MAT4, place)
                    if name not in self._places:
                        self._places[name] = places[name].leaf(name)
                    each[k] = Node(node.geometry, node.material, self._places[name], node.name)
            nodes = Nodes(each, lights=nodes.lights)
        surfaces, fibres, numbers = split_nodes(nodes, self._whole)
        self._fibres = self._fibres or tuple(fibres)
        drawn = scene_given(surfaces, self._whole)
        own = tuple(numbers.tolist()) if fibres else ()
        maker = Maker(
            drawn.recipe, (1, 1), 1, HARD, "none", True, self._shader, (), self._lights, "trilinear",
            fibres=self._fibres, numbers=own,
        )  # fmt: skip
        return maker, self._fixed | drawn.given | places

    @property
    def directed(self) -> bool:
        """Whether colours change with the direction of the view."""
        return self._shader is not None

    def _picture(self, matrices: Variable, size: Size) -> Variable:
        """VEC3: sRGB codes of all nodes."""
        assert self._maker is not None
        parts = self._parts | {"cameras": F.matmul(matrices, F.mat4(*self._rest.T))}
        colour = replace(self._maker, size=size)(parts).colour
        return encoded(F.maximum(colour, 0.0) * self.exposure)


def unit_of(scenes: Sequence[Nodes]) -> np.ndarray:
    """(4, 4) from the world to a sphere of radius 1 at the origin around the nodes of all scenes. Raises
    InputError where it is not known where they lie."""
    each, wide = [], []
    for nodes in scenes:
        surfaces, fibres, _ = split_nodes(nodes, None)
        found = places_of(scene_given(surfaces).framed, fibres)
        if found is None:
            raise InputError(
                "where the scene lies is not known; make Variables with data to see them in the viewer"
            )
        each.append(found.reshape(-1, 3))
        own = [one.shape for one in fibres if one.shape.unit == "world"]
        wide += [float(np.max(shape.radius)) for shape in own if not isinstance(shape.radius, Variable)]
    points = np.concatenate(each)
    middle = (points.min(0) + points.max(0)) / 2
    # A point by itself has no extent but its own.
    radius = float(np.linalg.norm(points - middle, axis=1).max()) or max(wide, default=0.0) or 1.0
    unit = np.diag([1 / radius] * 3 + [1.0])
    unit[:3, 3] = -middle / radius
    return unit


def _places_of(nodes: Nodes) -> list[Variable]:
    """Places of nodes and lights that are leaves of one texel and one tile."""
    given = [node.to_world for node in nodes] + [getattr(light, "position", None) for light in nodes.lights]
    leaves = [v for v in given if isinstance(v, Variable) and v.is_leaf and (v.size, v.batch) == ((1, 1), 1)]
    return list(dict.fromkeys(leaves))


def _is_lit(node: Node) -> bool:
    """Whether a node has a material that lights shade."""
    given = node.material
    if given is None:
        mesh = getattr(node.geometry, "mesh", None)
        given = None if mesh is None else mesh.material
    return given is not None and not (isinstance(given, Material) and given.unlit)


def _poses(nodes: Nodes) -> list[Nodes]:
    """The scene at times of its first clip."""
    if not nodes.clips:
        return [nodes]
    return [nodes.at(t) for t in np.linspace(nodes.clips[0].start, nodes.clips[0].end, POSES)]


def _counted(nodes: Nodes, subject: Subject) -> str:
    fibres = [node.geometry for node in nodes if isinstance(node.geometry, FIBRES)]
    counts = [f"{subject.face_count:,} faces"] if subject.face_count else []
    counts += [f"{sum(shape.count for shape in fibres):,} points"] if fibres else []
    return ", ".join(counts)


class MeshSession:
    """Shows a mesh or a scene (``SceneGraph``), and plays the clips of a scene over and over.

    against: another one, in the same coordinates, which the viewer shows beyond a line that is moved, from the same
    camera; clips of the same number play together. directional: how the colours of the mesh, or of each of both, change with
    the direction of the view; a slider fades that out. The engine has no other task, and stays open. Raises InputError.

    >>> from dressi.render import primitives
    >>> from dressi.viewer import MeshSession
    >>> with DressiAD() as ad:
    ...     session = MeshSession(primitives.cube(), ad)
    ...     session.status.title, session.status.phase
    ('cube', '12 faces')
    """

    views = None
    actions: Mapping[str, Callable[[], None]] = {}

    def __init__(
        self, given: Mesh | Nodes, engine: DressiAD, title: str | None = None, *, against: Mesh | Nodes | None = None,
        directional: DirectionalColour | Sequence[DirectionalColour | None] | None = None,
    ):  # fmt: skip
        each = [one for one in (given, against) if one is not None]
        self._each = [one if isinstance(one, Nodes) else Nodes([Node(one)]) for one in each]
        self._nodes = self._each[0]
        poses = [_poses(nodes) for nodes in self._each]
        unit = unit_of([nodes for own in poses for nodes in own])
        colours = [directional] if isinstance(directional, DirectionalColour) else list(directional or ())
        colours += [None] * (len(poses) - len(colours))
        self.graphs = [
            SceneGraph(engine, own[0], unit, directional=colour)
            for own, colour in zip(poses, colours, strict=True)
        ]
        self._directed, self._share = [graph for graph in self.graphs if graph.directed], 1.0
        self._engine, self._scene, self._exposure = engine, Scene(engine), 1.0
        clips, self._clip, self._played = self._nodes.clips, 0, 0.0
        self._time = clips[0].start if clips else 0.0
        self.up = np.array([0.0, 1.0, 0.0])
        counts = [
            _counted(nodes, graph.subject) for nodes, graph in zip(self._each, self.graphs, strict=True)
        ]
        self.status = Status(
            title or self._nodes.nodes[0].name, " | ".join(counts), finished=not clips, plays=True
        )

    @property
    def scene(self) -> Scene:
        one, other = self.graphs[0].subject, self.graphs[-1].subject if len(self.graphs) > 1 else None
        if self._scene.subject is not one or self._scene.against is not other:
            self._scene = Scene(self._engine, one, other, handles=self.graphs[0].handles)
        return self._scene

    @property
    def sliders(self) -> Sequence[Slider]:
        sliders, clips = [], self._nodes.clips
        if clips:
            ends = clips[self._clip].start, clips[self._clip].end
            sliders.append(Slider("time", *ends, lambda: self._time, self.show, linear=True))
        if len(clips) > 1:
            names, choose = [clip.name for clip in clips], lambda number: self.show(clip=round(number))
            ends = 0, len(clips) - 1
            sliders.append(Slider("clip", *ends, lambda: self._clip, choose, linear=True, names=names))
        if any(graph.lit for graph in self.graphs):
            sliders.append(Slider("exposure", 1 / 64, 64, lambda: self._exposure, self._expose))
        if self._directed:
            sliders.append(Slider("colours by direction", 0, 1, lambda: self._share, self._fade, linear=True))
        return sliders

    def show(self, seconds: float | None = None, clip: int | str | None = None) -> None:
        """Show a time of a clip; by default the start of the clip that is chosen. Raises InputError.

        >>> from dressi.render import primitives
        >>> from dressi.viewer import MeshSession
        >>> with DressiAD() as ad:
        ...     MeshSession(primitives.cube(), ad).show(0.5)
        Traceback (most recent call last):
        dressi.errors.InputError: the scene has no clips; load_scene reads those of glTF files
        """
        if self._nodes.motion is None:
            self._nodes.at(0.0)  # says so
        assert self._nodes.motion is not None
        chosen = self._nodes.motion.clip(self._clip if clip is None else clip)
        self._clip = self._nodes.clips.index(chosen)
        self._time = chosen.start if seconds is None else seconds
        for graph, nodes in zip(self.graphs, self._each, strict=True):
            if self._clip < len(nodes.clips):
                graph.show(nodes.at(self._time, self._clip))

    def _expose(self, factor: float) -> None:
        self._exposure = factor
        for graph in self.graphs:
            self._engine.send(graph.exposure, factor)

    def _fade(self, share: float) -> None:
        self._share = share
        for graph in self._directed:
            self._engine.send(graph.share, share)

    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        if not self._nodes.clips:
            return
        clip, running = self._nodes.clips[self._clip], self.status.running
        passed = running - self._played if steps is None else steps * FRAME
        self._played, length = running, max(clip.end - clip.start, FRAME)
        self.show(clip.start + (self._time - clip.start + passed) % length)

    def stop(self) -> None:
        self.status.finished = True


# What the viewer shows: an optimisation of one's own, or a fit.

# An optimisation of one's own in the viewer: any ``DressiAD``.


class EngineSession:
    """Steps of an engine, with a picture or a mesh of it.

    image: a FLOAT, VEC3 or VEC4 image of the engine, linear unless ``codes``, whose tile ``tile`` is shown.
    Or positions and faces: a VEC3 and an IVEC3 list (or arrays), drawn from any camera; they should lie about
    the origin, within a distance of 1. Or a scene with Variables of the engine, drawn with its materials and lights.
    sliders: leaves (FLOAT, one texel) with their range. handles: leaves (VEC3 or MAT4, one texel) that axes in the
    picture move (``Handle``); by default the places of nodes and lights of a scene that are leaves. steps: how many there
    will be; None: until the window is closed. Raises InputError.

    >>> from dressi.viewer.scenes import EngineSession
    >>> image = Variable.of(np.zeros((4, 6, 3)), name="image")
    >>> with DressiAD() as ad:
    ...     ad.set_loss(F.mean(F.square(F.length(image - 0.5))))
    ...     ad.set_optimizer(adam(0.05), [image])
    ...     session = EngineSession(ad, image=image, steps=3)
    ...     session.advance(0.0, steps=3)
    ...     session.status.done, session.status.finished
    (3, True)
    """

    views = None

    def __init__(
        self,
        engine: DressiAD,
        *,
        image: Variable | None = None,
        positions: Variable | None = None,
        faces: Variable | np.ndarray | None = None,
        scene: Nodes | None = None,
        codes: bool = False,
        tile: int = 0,
        sliders: Mapping[Variable, tuple[float, float]] | None = None,
        handles: Sequence[Variable] | None = None,
        steps: int | None = None,
        folder: Path | None = None,
        title: str = "dressi",
        up: Sequence[float] = (0.0, 1.0, 0.0),
    ):
        given = sum(one is not None for one in (image, positions, scene))
        if given != 1 or (positions is None) != (faces is None):
            raise InputError("show either an image, positions and faces, or a scene")
        if image is not None and handles:
            raise InputError(
                "an image has no camera that handles could be seen from; show positions or a scene"
            )
        self._engine, self._folder = engine, folder
        self.status = Status(title, total=steps or 0)
        self.up = np.asarray(up, np.float64)
        shown = None if image is None else _one_tile(image, tile, codes)
        subject = None
        if positions is not None:
            table = as_list("faces", IVEC3, faces)
            count = len(faces) if isinstance(faces, np.ndarray) else table.size[0] * table.size[1]
            subject = Subject(as_list("positions", VEC3, positions), table, count)
        leaves = tuple(Handle(leaf, engine) for leaf in handles or ())
        self.scene = Scene(engine, subject, image=shown, handles=leaves)
        if scene is not None:
            graph = SceneGraph(engine, scene, handles=handles)
            self.scene = Scene(engine, graph.subject, handles=graph.handles)
        self._image = shown
        self._values: dict[Variable, float] = {}
        self.sliders = [self._slider(leaf, *ends) for leaf, ends in (sliders or {}).items()]

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {} if self._folder is None or self._image is None else {"save": self._save}

    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        status, begin = self.status, time.perf_counter()
        before, count = status.done, 1
        while not status.finished:
            if status.total:
                count = min(count, status.total - status.done)
            self._engine.step(count)
            self._engine.wait()
            status.done += count
            status.finished = bool(status.total) and status.done >= status.total
            now = time.perf_counter() - begin
            if (status.done - before >= steps) if steps is not None else now >= seconds:
                break
            status.step_ms = 1e3 * now / (status.done - before)
            left = seconds - now
            count = 1 if steps is not None else int(np.clip(1e3 * left / max(status.step_ms, 1e-3), 1, 64))
        losses = self._engine.losses()
        if losses:
            status.curves["loss"] = [*status.curves.get("loss", []), (len(losses), losses[-1])]

    def stop(self) -> None:
        self.status.finished = True

    def _slider(self, leaf: Variable, least: float, most: float) -> Slider:
        if leaf.vtype is not FLOAT or leaf.size != (1, 1) or not 0 < least < most:
            raise InputError(f"a slider moves a FLOAT leaf of one texel between positive numbers, not {leaf}")
        data = leaf.data
        self._values[leaf] = float(np.clip(1.0 if data is None else np.asarray(data).flat[0], least, most))

        def move(value: float) -> None:
            self._engine.send(leaf, np.full((1, 1, 1), value))
            self._values[leaf] = value

        return Slider(leaf.name or "value", least, most, lambda: self._values[leaf], move)

    def _save(self) -> None:
        assert self._folder is not None and self._image is not None
        path = stamped(self._folder, self.status.done, ".png")
        save_png(path, srgb_to_linear(np.clip(self._engine.recv(self._image)[0], 0, 1)))
        self.status.note = f"saved {path.name}"


def _one_tile(image: Variable, tile: int, codes: bool) -> Variable:
    """VEC3 sRGB codes of one tile. Raises InputError."""
    if image.vtype not in (FLOAT, VEC3, VEC4):
        raise InputError(f"an image of FLOAT, VEC3 or VEC4 can be shown, not {image}")
    if not 0 <= tile < image.batch:
        raise InputError(f"{image} has tiles 0 to {image.batch - 1}, not {tile}")
    if image.batch > 1:
        image = F.take(image, F.constant(tile))
    colour = F.vec3(image) if image.vtype is FLOAT else F.swizzle(image, "xyz")
    return F.clamp(colour if codes else encoded(F.maximum(colour, 0.0)), 0.0, 1.0)


# A running fit in the viewer.

KEPT = 12
"""Checkpoints in memory."""


class FitSession:
    """Drives a FitJob: pause, single steps, factors of rates and weights, rewind, save.

    The arguments are those of ``FitJob.started``; folder: for what is saved, None for none. The caller holds
    the lock of the job's folder. Raises InputError as ``FitJob.run``.
    """

    def __init__(
        self,
        job: FitJob,
        *,
        resume: bool = False,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
        preview: Path | None = None,
        folder: Path | None = None,
    ):
        self.job, self._folder, self._told, self._asked = job, folder, progress, stop
        self.controls = job.controls = Controls()
        self._stopped = False
        self.run: FitRun = job.started(
            resume=resume,
            progress=self._progress,
            stop=lambda: self._stopped or self._asked(),
            preview=preview,
        )
        self.run.keeping, self.run.most = KEPT, 1
        self._moments: Iterator[Moment] = iter(self.run)
        self.scene: Scene | None = None
        self._moment: Moment | None = None
        self.status = Status("dressi fit", total=sum(job.steps))
        dataset = job.dataset
        away = dataset.train.cameras.centers - dataset.center
        self.views = Views(
            linear_to_srgb(dataset.train.colors),
            dataset.train.masks,
            dataset.matrices,
            away / np.linalg.norm(away, axis=1, keepdims=True),
        )
        self.up = dataset.up

    @property
    def sliders(self) -> Sequence[Slider]:
        values = self.controls.values
        return [
            Slider(name, *ends, partial(values.__getitem__, name), partial(self._steer, name))
            for name, ends in RANGES.items()
        ]

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {"rewind": self._rewind} | ({} if self._folder is None else {"save": self._save})

    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        begin = time.perf_counter()
        end, count = begin + seconds, 0
        while not self.status.finished:
            # As many steps as fit into what is left of the time.
            step, left = self.status.step_ms, 1e3 * (end - time.perf_counter())
            self.run.most = 1 if steps is not None or step is None else int(np.clip(left / step, 1, CHUNK))
            count += self._next()
            if (count >= steps) if steps is not None else time.perf_counter() >= end:
                break
        if count and not self.status.finished:
            self.status.step_ms = 1e3 * (time.perf_counter() - begin) / count

    def stop(self) -> None:
        self._stopped = True
        while not self.status.finished:
            self._next()

    def result(self) -> FitResult:
        """What the fit has found, after it was finished or stopped."""
        return self.run.result()

    # ---- steps
    def _next(self) -> int:
        """Go on to the next moment; the number of steps that it took."""
        before = self._moment
        moment = next(self._moments, None)
        if moment is None:
            self.status.finished, self.scene, self._moment = True, None, None
            return 0
        self._moment = moment
        if before is None or before.engine is not moment.engine:
            assert isinstance(moment.engine, DressiAD)
            self.scene = Scene(moment.engine, moment.work.subject)
            self.status.step_ms = None
        status, done = self.status, len(self.run.point.losses)
        steps, status.phase, status.done = max(done - status.done, 1), moment.work.name, done
        status.curves.setdefault("loss", []).append((done, moment.loss))
        return steps

    def _progress(self, now: Progress) -> None:
        for name, value in (("IoU", now.iou), ("PSNR", now.psnr)):
            if value is not None:
                self.status.curves.setdefault(name, []).append((now.done, value))
        if self._told is not None:
            self._told(now)

    # ---- requests
    def _steer(self, name: str, value: float) -> None:
        self.controls.set(name, value, step=self.status.done)
        if self._moment is not None:
            self.controls.send(self._moment.engine, self._moment.work.factors)

    def _rewind(self) -> None:
        """To the last checkpoint before now; again, to the one before."""
        earlier = [point for point in self.run.kept if len(point.losses) < self.status.done]
        if not earlier:
            self.status.note = "there is no earlier checkpoint yet"
            return
        point = earlier[-1]
        done = len(point.losses)
        self.run.rewind(point)
        status = self.status
        status.curves = {name: [p for p in curve if p[0] <= done] for name, curve in status.curves.items()}
        status.done, status.note = done, f"rewound to step {done}"
        # The engine of the round that was left closes before the next picture.
        self._next()

    def mesh(self) -> Mesh | None:
        """The mesh as it is now, in the world; None before the first step."""
        return None if self._moment is None else self.run.reached(self._moment)

    def _save(self) -> None:
        mesh = self.mesh()
        if mesh is None or self._folder is None:
            self.status.note = "there is nothing to save yet"
            return
        path = stamped(self._folder, self.status.done, ".glb")
        save_mesh(path, mesh)
        self.status.note = f"saved {path.name}"
