"""A mesh or a scene in the viewer: nothing is optimised."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import Size
from ...errors import InputError
from ...render.drawing.entry import render
from ...render.drawing.fibres import places_of, split_nodes
from ...render.drawing.make import Maker
from ...render.drawing.pixels import Pixels
from ...render.drawing.scenes.joined import scene_given
from ...render.fit.graphs.subject import Subject
from ...render.mesh import Material, Mesh
from ...render.scene.scene import Node
from ...render.scene.scene import Scene as Nodes
from ...render.shading.environment import Environment
from ...render.shading.studio import studio
from ...render.surface.color import srgb_to_linear
from ...render.surface.transfer import encoded
from ...vk.run.engine import DressiAD
from ..pictures import BACKGROUND
from .session import Scene, Status

VALUES = "the viewer shows arrays; put what `recv` gives into the scene instead of Variables"


class MeshSession:
    """Shows a mesh or a scene as ``render`` draws it, scaled so that its bounding sphere has the radius 1 around the origin.

    Materials are lit by the lights of the scene, or by ``studio`` where it has none; without a material colours are shown as
    they are. The engine stays open. Raises InputError for Variables, which have no value here.
    """

    views = None
    sliders = ()

    def __init__(self, shown: Mesh | Nodes, engine: DressiAD, title: str | None = None):
        nodes = shown if isinstance(shown, Nodes) else Nodes([Node(shown)])
        lights = nodes.lights or (Environment(studio()) if any(map(_is_lit, nodes)) else None)
        behind = srgb_to_linear(np.array(BACKGROUND))
        surfaces, fibres, _ = split_nodes(nodes, None)
        points = places_of(scene_given(surfaces).framed, fibres)
        if points is None:
            raise InputError(VALUES)
        middle = (points.min(0) + points.max(0)) / 2
        radius = max(float(np.linalg.norm(points - middle, axis=1).max()), 1e-30)
        unit = np.diag([1 / radius] * 3 + [1.0])
        unit[:3, 3] = -middle / radius
        # Scenes without lights of their own move as a whole: single precision counts from the origin.
        self._unit = unit if nodes.lights else np.eye(4)
        pixels = render(
            nodes,
            size=(1, 1),
            filter="trilinear",
            light=lights,
            background=behind,
            to_world=None if nodes.lights else unit,
        )
        if not isinstance(pixels, Pixels):
            raise InputError(VALUES)
        recipe = self._recipe = pixels.recipe
        self._parts = {name: value.leaf(name) for name, value in recipe.values.items()}
        view = recipe.picture(self._parts).view
        position = view.position * float(self._unit[0, 0]) + tuple(self._unit[:3, 3].tolist())
        self.scene = Scene(engine, Subject(position, view.faces, view.face_count, picture=self._picture))
        self.up = np.array([0.0, 1.0, 0.0])
        self.status = Status(title or nodes[0].name, phase=f"{view.face_count:,} faces", finished=True)

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {}

    def _picture(self, matrices: Variable, size: Size) -> Variable:
        """VEC3: sRGB codes of all nodes."""
        parts = self._parts | {"cameras": F.matmul(matrices, F.mat4(*self._unit.T))}
        assert isinstance(self._recipe.picture, Maker)
        return encoded(F.maximum(replace(self._recipe.picture, size=size)(parts).colour, 0.0))

    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        time.sleep(max(seconds, 0.0))

    def stop(self) -> None:
        self.status.finished = True


def _is_lit(node: Node) -> bool:
    """Whether a node has a material that lights shade."""
    given = node.material
    if given is None:
        mesh = getattr(node.geometry, "mesh", None)
        given = None if mesh is None else mesh.material
    return given is not None and not (isinstance(given, Material) and given.unlit)
