"""Meshes and scenes in the viewer, with their materials, lights and animations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..ad import functional as F
from ..ad.graph import Variable
from ..ad.graph.types import MAT4, Size
from ..errors import InputError
from ..render.drawing.entry import Maker, leaves
from ..render.drawing.fibres import Fibres, places_of, split_nodes
from ..render.drawing.scenes import images
from ..render.drawing.scenes.images import Given, Values
from ..render.drawing.scenes.joined import scene_given
from ..render.fit.data.directional import DirectionalColour
from ..render.fit.graphs.round import Subject
from ..render.forms.form import HARD
from ..render.mesh import Material, Mesh
from ..render.scene.scene import Node
from ..render.scene.scene import Scene as Nodes
from ..render.shading.environment import Environment, studio
from ..render.strands.geometry import PointGeometry, StrandGeometry
from ..render.surface.color import encoded, srgb_to_linear
from ..vk.run.engine import DressiAD
from .handles import Handle
from .pictures import BACKGROUND
from .session import Scene, Slider, Status

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
