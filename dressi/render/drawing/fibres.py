"""Nodes of strands and points: in the world, and as they are lit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.graph.types import FLOAT, INT, MAT4, VEC3
from ...ad.transform.gradient import total
from ...errors import InputError
from ..core.lists import list_leaf
from ..layers.stacks import Transparent, depth_of
from ..scene.scene import Node, Scene
from ..shading.lights import DirectionalLight, Light, LightSource, Shadow, light_arriving
from ..strands.draw import StrandPicture, draw_strands
from ..strands.geometry import PointGeometry, StrandGeometry, leaf_of
from ..strands.marschner import StrandOpacity
from ..strands.ribbons import KajiyaKay, StrandPoint, StrandShader
from ..surface.screen import Surface, covered
from .picture import Picked, Picture
from .point import SurfacePoint, View
from .scenes.images import Given, per_view, placed


@dataclass(frozen=True, eq=False)
class Fibres:
    """A node of strands or points in the world."""

    number: int
    node: Node
    shape: StrandGeometry | PointGeometry

    @property
    def variables(self) -> bool:
        """Whether any of its values is a Variable."""
        shape, material = self.shape, self.node.material
        tables = [shape.points, shape.radius, shape.colours, shape.opacity]
        if hasattr(material, "__dataclass_fields__"):
            tables += [getattr(material, f.name) for f in fields(material)]
        return any(isinstance(t, Variable) for t in tables)


def split_nodes(scene: Scene, to_world: Any) -> tuple[Scene, list[Fibres], np.ndarray]:
    """The nodes of surfaces as a scene, those of strands and points, and the former's numbers."""
    numbers, fibres = [], []
    for k, node in enumerate(scene):
        if isinstance(node.geometry, (StrandGeometry, PointGeometry)):
            fibres.append(Fibres(k, node, _in_world(node, to_world)))
        else:
            numbers.append(k)
    if not fibres:
        return scene, [], np.array(numbers)
    nodes = [scene.nodes[k] for k in numbers] or [_bounding(fibres)]
    return Scene(nodes, scene.cameras, scene.lights), fibres, np.array(numbers or [-1])


def places_of(surfaces: np.ndarray | None, found: Sequence[Fibres]) -> np.ndarray | None:
    """(P, 3): vertices, and the corners of the boxes around strands and points; None if not known."""
    try:
        boxes = [np.stack(one.shape.bounds()) for one in found]
    except InputError:
        return None
    return None if surfaces is None else np.concatenate([surfaces.reshape(-1, 3), *boxes])


def _bounding(found: Sequence[Fibres]) -> Node:
    """A triangle without area across the box around all points, for scenes without a surface: cameras and
    shadows look at it, and no pixel shows it. A Variable where the box is not known."""
    places = places_of(np.zeros((0, 3)), found)
    if places is None:
        corners: Any = F.expand(F.constant((0.0, 0.0, 0.0)), 1, (2, 1))
    else:
        corners = np.stack([places.min(0), places.max(0)])
    return Node((corners, np.array([[0, 1, 1]])), name=found[0].node.name)


def _in_world(node: Node, whole: Any) -> StrandGeometry | PointGeometry:
    """The shape of a node in the world. Radii in units of the world grow by the mean length of its axes."""
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
    """From a shadow and the direction to its light: how much of the light strands let through to a point,
    FLOAT. Raises InputError with the name of a node."""

    def opacity(node: Node, shape: StrandGeometry, towards: Variable, shadow: Shadow) -> StrandOpacity:
        try:
            return StrandOpacity.of(shape, towards, shadow.size)
        except InputError as error:
            raise InputError(
                f"node '{node.name}' casts shadows, and where its points are is not known; give arrays, Variables with data, or"
                " lights without a shadow"
            ) from error

    def of_light(shadow: Shadow, towards: Variable) -> Callable[[Variable], Variable]:
        strands = [(one.node, one.shape) for one in found if isinstance(one.shape, StrandGeometry)]
        maps = [opacity(node, shape, towards, shadow) for node, shape in strands]
        return lambda point: F.exp(-total([F.constant(0.0), *(each.crossed(point) for each in maps)]))

    return of_light


def lit_by(fibres: Fibres, lights: Sequence[LightSource], view: View) -> StrandShader:
    """The shader of a node: its own; else for strands that of Kajiya and Kay under the lights, with the
    shadows of all nodes, and for points their colours. Raises InputError for lights that it does not know."""
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
    return lambda point: total([shader(point) for shader in shaders])


def _lambert(light: Light) -> StrandShader:
    def shader(point: StrandPoint) -> Variable:
        headlight = isinstance(light.direction, str)
        towards = point.to_eye if headlight else F.normalize(as_variable(light.direction))
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


# The picture of a scene with nodes of strands and points. Opaque surfaces in front hide them. Among
# transparent surfaces each node counts as one layer at the mean depth of its visible part.


def opaque_depth(picture: Picture) -> Variable | None:
    """FLOAT: z / w of the nearest opaque surface at the centre of each pixel, else of the far plane."""
    mesh, count = picture._plain.mesh, picture.view.opaque_faces
    if count is not None:
        mesh = replace(mesh, face_count=count, seen=None)
    return F.stop_gradient(depth_of(mesh, mesh.face)) if mesh.face_count else None


@dataclass(frozen=True, eq=False)
class FibrePicture(Picture):
    """A ``Picture`` with nodes of strands and points over that of the other nodes. ``normal``, ``point``,
    ``uv`` and attributes are those of the surfaces."""

    surfaces: Picture
    fibres: tuple[tuple[Fibres, StrandPicture], ...]
    numbers: np.ndarray
    """The numbers of the nodes of surfaces in the scene."""

    @cached_property
    def _weights(self) -> list[Variable]:
        """FLOATs: how much of each node of strands the nodes of strands before it let through."""
        drawn = [picture for _, picture in self.fibres]
        weights = []
        for k, own in enumerate(drawn):
            weight = F.constant(1.0)
            for j, other in enumerate(drawn):
                if j != k:
                    nearer = F.less(other.distance, own.distance)
                    tied = F.equal(other.distance, own.distance) if j < k else F.constant(0.0)
                    before = F.logical_or(nearer, tied)
                    weight = weight * (1.0 - other.mask * F.stop_gradient(before))
            weights.append(weight)
        return weights

    @cached_property
    def _through(self) -> Variable:
        """FLOAT: how much all strands let through."""
        through = F.constant(1.0)
        for _, picture in self.fibres:
            through = through * (1.0 - picture.mask)
        return through

    @cached_property
    def mask(self) -> Variable:
        """FLOAT in [0, 1]: how much surfaces and strands cover the pixel. Differentiable."""
        return 1.0 - (1.0 - self.surfaces.mask) * self._through

    @cached_property
    def colour(self) -> Variable:
        """VEC3: everything shaded, over the background, linear. Differentiable."""
        colour = self._surfaces
        for (_, picture), weight in zip(self.fibres, self._weights, strict=True):
            colour = colour + F.hadamard(picture.colour, self._panes_before(picture)) * weight
        return colour

    @property
    def _surfaces(self) -> Variable:
        """VEC3: what is seen of surfaces and background. Nearer strands veil transparent surfaces."""
        own = self.surfaces
        if self._transparent is None:
            return own.colour * self._through
        shader, through = own.shader or SurfacePoint.lit, self._resized(self._through)

        def veiled(surface: Surface, solid: bool) -> tuple[Variable, Variable]:
            colour, clear = own._layer(shader, surface, solid)
            veil = through
            if not solid:
                veil, depth = F.constant(1.0), self._depth_of(surface)
                for _, picture in self.fibres:
                    nearer = F.less(self._resized(F.stop_gradient(picture.distance)), depth)
                    veil = veil * (1.0 - self._resized(picture.mask) * F.stop_gradient(nearer))
            return colour * veil, clear

        far = F.constant((0.0, 0.0, 0.0)) if own.background is None else self._resized(own.background)
        return own._shown(self._transparent.composed(veiled, far * through))

    def _panes_before(self, picture: StrandPicture) -> Variable:
        """VEC3: how much the transparent surfaces in front of strands let through."""
        white = F.constant((1.0, 1.0, 1.0))
        if self._transparent is None:
            return white
        depth = self._resized(F.stop_gradient(picture.distance))

        def clear(surface: Surface, solid: bool) -> tuple[Variable, Variable]:
            _, through = self.surfaces._layer(None, surface, solid)
            before = F.stop_gradient(F.less(self._depth_of(surface), depth))
            return (white, through) if solid else (0.0 * white, F.select(before, through, white))

        return self.surfaces._shown(self._transparent.composed(clear, white))

    @property
    def _transparent(self) -> Transparent | None:
        drawn = self.surfaces._drawn
        return drawn if isinstance(drawn, Transparent) else None

    def _depth_of(self, surface: Surface) -> Variable:
        return SurfacePoint(self.surfaces._whole, surface).depth

    def _resized(self, image: Variable) -> Variable:
        """An image of the picture at the size of its samples."""
        if self.samples == 1 or image.size == (1, 1):
            return image
        return F.resize(image, self.surfaces._drawn.mesh.size, "nearest")

    @cached_property
    def depth(self) -> Variable:
        """FLOAT: the distance from the camera along its axis (``Picture.depth``), that of strands where they
        cover half of the pixel or more; in forms that blend depth, all that is seen, blended over 0."""
        if self.estimator.exact_inside and self._transparent is None:
            depth = self.surfaces.depth * self._through
            for (_, picture), weight in zip(self.fibres, self._weights, strict=True):
                depth = depth + picture.depth * weight
            return depth
        depth, hidden = self.surfaces.depth, self._through
        for shown, (_, picture) in zip(self._half, self.fibres, strict=True):
            depth = F.select(shown, picture.distance, depth)
        return F.select(F.less(hidden, 1.0), depth, self.surfaces.depth)

    @cached_property
    def _half(self) -> list[Variable]:
        """FLOAT masks: where each node of strands covers half of the pixel or more, and no transparent
        surface lies before it."""
        masks = []
        for (_, picture), weight in zip(self.fibres, self._weights, strict=True):
            shown = F.greater_equal(picture.mask * weight, 0.5)
            if self._transparent is not None:
                pane = self.surfaces.seen
                before = F.logical_and(covered(pane.face), F.less(pane.depth, picture.distance))
                shown = F.logical_and(shown, F.logical_not(before))
            masks.append(shown)
        return masks

    @cached_property
    def _picked(self) -> Picked:
        """Where strands are seen (``_half``): the number of their node, also as the material, and no face."""
        node, material, face = self.surfaces._picked
        table = list_leaf("numbers of nodes", INT, self.numbers)
        node = F.select(F.less(node, 0), -1, F.lookup(table, node))
        material = F.select(F.less(material, 0), -1, F.lookup(table, material))
        for shown, (one, _) in zip(self._half, self.fibres, strict=True):
            node, material = (F.select(shown, F.constant(one.number), n) for n in (node, material))
            face = F.select(shown, -1, face)
        return Picked(node, material, face)


def with_fibres(
    picture: Picture, found: Sequence[Fibres], numbers: np.ndarray, lights: Sequence[LightSource]
) -> Picture:
    view, limit, drawn = picture.view, opaque_depth(picture), []
    for one in found:
        shader = lit_by(one, lights, view)
        strands = draw_strands(one.shape, view.matrices, size=picture.size, shader=shader, limit=limit)
        drawn.append((one, strands))
    own = {f.name: getattr(picture, f.name) for f in fields(Picture)}
    return FibrePicture(**own, surfaces=picture, fibres=tuple(drawn), numbers=numbers)
