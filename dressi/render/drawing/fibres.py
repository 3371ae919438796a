"""Nodes of strands and points: in the world, and as they are lit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.types import FLOAT, MAT4, VEC3
from ...errors import InputError
from ..scene.scene import Node, Scene
from ..shading.lights import DirectionalLight, Light, LightSource
from ..shading.shadows.deep_opacity import light_arriving
from ..shading.shadows.shadow_map import Shadow
from ..strands.geometry import PointGeometry, StrandGeometry, leaf_of
from ..strands.opacity import StrandOpacity
from ..strands.point import KajiyaKay, StrandPoint, StrandShader
from .images.inputs import Given, per_view
from .images.placing import placed
from .look import View


@dataclass(frozen=True, eq=False)
class Fibres:
    """A node of strands or points in the world."""

    number: int
    node: Node
    shape: StrandGeometry | PointGeometry

    @property
    def variables(self) -> bool:
        """Whether something of it is a Variable."""
        shape, material = self.shape, self.node.material
        tables = [shape.points, shape.radius, shape.colours, shape.opacity]
        if hasattr(material, "__dataclass_fields__"):
            tables += [getattr(material, f.name) for f in fields(material)]
        return any(isinstance(t, Variable) for t in tables)

    def opacity(self, towards: Variable, shadow: Shadow) -> StrandOpacity:
        """What it hides of a parallel light. Raises InputError with the name of the node."""
        assert isinstance(self.shape, StrandGeometry)
        try:
            return StrandOpacity.of(self.shape, towards, shadow.size)
        except InputError as error:
            raise InputError(
                f"node '{self.node.name}' casts shadows, and where its points are is not known; give arrays, Variables with"
                " data, or lights without a shadow"
            ) from error


def split_nodes(scene: Scene, to_world: Any) -> tuple[Scene, list[Fibres], np.ndarray]:
    """The nodes of surfaces as a scene, those of strands and points, and the numbers of the former in the whole scene."""
    found = [
        Fibres(k, node, _in_world(node, to_world))
        for k, node in enumerate(scene)
        if isinstance(node.geometry, (StrandGeometry, PointGeometry))
    ]
    if not found:
        return scene, [], np.arange(len(scene))
    own = {fibres.number for fibres in found}
    numbers = np.array([k for k in range(len(scene)) if k not in own], np.int64)
    nodes = [scene.nodes[k] for k in numbers] or [_bounding(found)]
    return Scene(nodes, scene.cameras, scene.lights), found, numbers if len(numbers) else np.array([-1])


def places_of(surfaces: np.ndarray | None, found: Sequence[Fibres]) -> np.ndarray | None:
    """(P, 3): vertices, and the corners of the boxes around strands and points; None where some are not known."""
    try:
        boxes = [np.stack(one.shape.bounds()) for one in found]
    except InputError:
        return None
    return None if surfaces is None else np.concatenate([surfaces.reshape(-1, 3), *boxes])


def _bounding(found: Sequence[Fibres]) -> Node:
    """A triangle without area between the corners of the box around all points, for scenes that have no surface: cameras and
    shadows look at it, and no pixel shows it. A Variable where the box is not known."""
    places = places_of(np.zeros((0, 3)), found)
    if places is None:
        corners: Any = F.expand(F.constant((0.0, 0.0, 0.0)), 1, (2, 1))
    else:
        corners = np.stack([places.min(0), places.max(0)])
    return Node((corners, np.array([[0, 1, 1]])), name=found[0].node.name)


def _in_world(node: Node, whole: Any) -> StrandGeometry | PointGeometry:
    """The shape of a node moved into the world; lengths of the world grow by the mean of what the matrix makes of the axes."""
    shape = node.geometry
    assert isinstance(shape, (StrandGeometry, PointGeometry))
    given = [per_view("to_world", MAT4, m) for m in (whole, node.to_world) if m is not None]
    for matrix in reversed(given):
        shape = _moved(shape, matrix)
    return shape


def _moved(shape: Any, matrix: Given) -> Any:
    world = shape.unit == "world"
    if not isinstance(matrix, Variable) and len(matrix.array) == 1 and not isinstance(shape.points, Variable):
        own = matrix.array[0, 0, 0]
        points = shape.points @ own[:3, :3].T + own[:3, 3]
        scale = float(np.linalg.norm(own[:3, :3], axis=0).mean())
        return replace(shape, points=points, radius=shape.radius * scale if world else shape.radius)
    leaf = matrix if isinstance(matrix, Variable) else matrix.leaf("to_world")
    points = leaf_of("points", VEC3, shape.points)
    moved = placed(points, leaf)
    moved.count = points.count
    if not world:
        return replace(shape, points=moved)
    lengths = [F.length(F.column(leaf, k).xyz) for k in range(3)]
    scale = (lengths[0] + lengths[1] + lengths[2]) * (1 / 3)
    radius = leaf_of("radius", FLOAT, shape.radius)
    grown = radius * scale
    grown.count = radius.count
    return replace(shape, points=moved, radius=grown)


def transmitted(found: Sequence[Fibres]) -> Callable[[Shadow, Variable], Callable[[Variable], Variable]]:
    """From a shadow and the direction to its light: how much of it strands let through to a point, FLOAT."""

    def of_light(shadow: Shadow, towards: Variable) -> Callable[[Variable], Variable]:
        maps = [one.opacity(towards, shadow) for one in found if isinstance(one.shape, StrandGeometry)]

        def arriving(point: Variable) -> Variable:
            total = F.constant(0.0)
            for each in maps:
                total = total + each.crossed(point)
            return F.exp(-total)

        return arriving

    return of_light


def lit_by(fibres: Fibres, lights: Sequence[LightSource], view: View) -> StrandShader:
    """The shader of a node: its own, or that of Kajiya and Kay for strands under the lights, with the shadows of all nodes; points
    have their colours. Raises InputError for lights that it does not know."""
    material = fibres.node.material
    if material is not None:
        return material
    if not lights or isinstance(fibres.shape, PointGeometry):
        return lambda point: point.colour
    shaders: list[StrandShader] = []
    for light in lights:
        if isinstance(light, Light):
            shaders.append(_lambert(light))
        elif isinstance(light, DirectionalLight):
            shaders.append(_sun(light, view))
        else:
            raise InputError(
                f"node '{fibres.node.name}': strands are lit by DirectionalLight or a direction, not {type(light).__name__}; give"
                " the node a shader of its own as material"
            )

    def shader(point: StrandPoint) -> Variable:
        total = shaders[0](point)
        for other in shaders[1:]:
            total = total + other(point)
        return total

    return shader


def _lambert(light: Light) -> StrandShader:
    def shader(point: StrandPoint) -> Variable:
        towards = (
            point.to_eye if isinstance(light.direction, str) else F.normalize(as_variable(light.direction))
        )
        return KajiyaKay(towards, as_variable(light.colour), 0.1, ambient=as_variable(light.ambient))(point)

    return shader


def _sun(light: DirectionalLight, view: View) -> StrandShader:
    towards = F.normalize(as_variable(light.direction))
    colour = as_variable(light.colour) * (1 / np.pi)

    def shader(point: StrandPoint) -> Variable:
        shaded = KajiyaKay(towards, colour, 0.2, ambient=0.0)(point)
        if light.shadow is None:
            return shaded
        return shaded * light_arriving(light.shadow, view, towards, (point.point, towards))

    return shader
