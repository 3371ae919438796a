"""Pictures as Variables: the result of ``render`` if an argument is a Variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.graph.types import FLOAT, Size, vector_type
from ...ad.ops.pixel.constant import Like
from ...ad.transform.gradient import total
from ...errors import InputError, OfVariables
from ...figures import Figures
from ..core.lists import list_leaf
from ..forms.form import Form, Silhouette
from ..forms.soft_target import outside_distance
from ..layers.stacks import Layered, Transparent
from ..surface.screen import Surface, covered
from .point import Look, Shader, SurfacePoint, View


class Picked(NamedTuple):
    """The owners of the faces of a picture: INT images, -1 where there is no face."""

    node: Variable
    material: Variable
    face: Variable


@dataclass(frozen=True, eq=False)
class Picture(OfVariables, Figures):
    """A differentiable picture: images as Variables, of size (W, H), N tiles (``render``).

    Each image is built on first use; unused ones cost nothing. Colours are linear. Read them with an engine:
    ``ad.set_loss(F.mean(F.square(F.length(picture.colour - target))))``.

    >>> from dressi import Variable
    >>> from dressi.render import Camera, primitives, render
    >>> angle = Variable(name="angle", data=[[[0.3]]])
    >>> turn = rigid(axis_angle_to_matrix(F.vec3(0.0, angle, 0.0)), (0.0, 0.0, 0.0))
    >>> picture = render(primitives.cube(), Camera.perspective(45, (64, 48), (0, 0, 5), (0, 0, 0)), to_world=turn)
    >>> picture.colour.vtype, picture.mask.vtype, picture.colour.size
    (VEC3, FLOAT, (64, 48))
    """

    view: View
    looks: tuple[Look, ...]
    """How its faces are shaded; opaque ones first."""
    size: Size
    samples: int
    background: Variable | None
    shader: Shader | None
    radius: Variable | None
    """FLOAT 1x1: of a soft silhouette, a fraction of the image height."""
    estimator: Form
    draw: Callable[[Size], Silhouette]
    pick: Callable[[Variable], Picked]
    """Gives the owners of the faces in an image of faces of the view, INT."""
    mean: bool = field(default=False, kw_only=True)
    """Whether colour and mask are the means of all tiles; other images have one tile a view."""

    @property
    def form(self) -> str:
        """The name of the form of HardSoftRas, or "hard"."""
        return self.estimator.name

    @cached_property
    def _drawn(self) -> Silhouette:
        return self.draw((self.size[0] * self.samples, self.size[1] * self.samples))

    @cached_property
    def _plain(self) -> Silhouette:
        return self._drawn if self.samples == 1 else self.draw(self.size)

    def _shown(self, image: Variable) -> Variable:
        shown = F.resize(image, self.size, "area")
        return F.mean(shown, "n") if self.mean else shown

    @cached_property
    def mask(self) -> Variable:
        """FLOAT in [0, 1]: how much the mesh covers the pixel; for transparent surfaces, how much of the
        background they take, the mean of red, green and blue. Differentiable in the geometry unless the form
        is "hard"; also in transmittances."""
        drawn = self._drawn
        if not isinstance(drawn, Transparent):
            return self._shown(drawn.silhouette)

        def taken(surface: Surface, solid: bool) -> tuple[Variable, Variable]:
            _, through = self._layer(None, surface, solid)
            return 1.0 - through, through

        return self._shown(F.sum_components(drawn.composed(taken)) * (1 / 3))

    @cached_property
    def missed(self) -> Variable:
        """FLOAT mask: the centre of the pixel shows more transparent surfaces than ``transparency`` layers;
        those behind are left out. No derivative."""
        drawn = self._plain
        return drawn.peeled.missed if isinstance(drawn, Layered) else F.expand(0.0, 1, self.size)

    @cached_property
    def colour(self) -> Variable:
        """VEC3: the shaded mesh over the background (black by default), linear."""
        return self.blend(self.shader or SurfacePoint.lit)

    @property
    def color(self) -> Variable:
        """``colour``."""
        return self.colour

    def blend(self, shader: Shader, background: Like | None = None) -> Variable:
        """The shaded surface (``shader`` gives a float image) over a background (default: that of the
        picture), with the mask as opacity. Differentiable in all Variables that the shader uses.

        For a transparent surface the shader gives what the surface adds to what is seen through it, which
        counts by ``SurfacePoint.transmittance``."""
        behind = self.background if background is None else as_variable(background)
        if behind is not None and behind.size != (1, 1) and self.samples > 1:
            behind = F.resize(behind, self._drawn.mesh.size, "nearest")
        drawn = self._drawn
        if isinstance(drawn, Transparent):
            return self._shown(drawn.composed(lambda s, solid: self._layer(shader, s, solid), behind))
        shaded = [self._shaded(shader, s) for s in drawn.surfaces]
        return self._shown(drawn.blend(shaded, behind))

    def _shaded(self, shader: Shader, surface: Surface) -> Variable:
        """A surface by the shader: each look shades its own faces; 0 elsewhere if there are several looks."""
        return _sum(self._points(surface, self.looks), shader)

    def _points(self, surface: Surface, looks: Sequence[Look]) -> list[SurfacePoint]:
        """The points of a surface by look."""
        if len(self.looks) == 1:
            return [SurfacePoint(self.looks[0], surface)]
        whole = SurfacePoint(self._whole, surface)
        return [SurfacePoint(look, look.of(surface), whole) for look in looks]

    def _layer(self, shader: Shader | None, surface: Surface, solid: bool) -> tuple[Variable, Variable]:
        """The surface shaded by the opaque looks (``solid``) or by the others, and its transmittance."""
        nothing = F.constant((0.0, 0.0, 0.0))
        points = self._points(surface, [look for look in self.looks if look.transparent is not solid])
        colour = nothing if shader is None or not points else _sum(points, shader)
        if solid or not points:
            return colour, nothing
        return colour, _sum(points, lambda p: nothing if p.transmittance is None else p.transmittance)

    @cached_property
    def _whole(self) -> Look:
        """All faces without a material."""
        return self.looks[0] if len(self.looks) == 1 else Look(self.view, {}, self.looks[0].smooth)

    @cached_property
    def seen(self) -> SurfacePoint:
        """The nearest surface at the centre of every pixel; independent of ``samples``. In a scene of several
        nodes it has a place and a shape, and no material."""
        return SurfacePoint(self._whole, self._plain.seen)

    @cached_property
    def _picked(self) -> Picked:
        return self.pick(self._plain.mesh.face)

    @property
    def face(self) -> Variable:
        """INT: the face that covers the centre of the pixel, -1 for none: its number in the mesh, and in a
        scene of several nodes that in the geometry of its ``node``. No derivative."""
        return self._picked.face

    @property
    def node(self) -> Variable:
        """INT: the number of the scene's node at the centre of the pixel, -1 for none. No derivative."""
        return self._picked.node

    @property
    def material(self) -> Variable:
        """INT: the number of its material, -1 for none. No derivative.

        Materials are counted in the order of the nodes; nodes with one material object share a number."""
        return self._picked.material

    def _attribute(self, shader: Shader) -> Variable:
        """An attribute of all nodes as one mesh: at the nearest surface, or blended as colours are in forms
        whose derivative is exact inside of the outline."""
        if not self.estimator.exact_inside:
            return shader(self.seen)
        shaded = [shader(SurfacePoint(self._whole, s)) for s in self._drawn.surfaces]
        return self._shown(self._drawn.blend(shaded, 0.0))

    def _by_look(self, shader: Shader) -> Variable:
        """The same for an attribute that differs from node to node."""
        if self.estimator.exact_inside:
            return self.blend(shader, 0.0)
        return self._shaded(shader, self._plain.seen)

    @cached_property
    def depth(self) -> Variable:
        """FLOAT: the distance from the camera along its axis, 0 where there is nothing. A matrix of a
        parallel projection has no place of a camera: there it is z / w, 0 at the near plane and 1 at the far
        one, in all forms and their derivatives.

        The form "edges" blends depth, normal, point and attributes as it blends colours: what is in front and
        what is behind, or 0, by the share of the pixel that each covers. So a loss of these images has the
        derivative by what covers a pixel (guide "Limits"). The other forms, and ``seen.depth`` in all forms, give the
        value of the nearest surface at the centre of the pixel, whose visibility has no derivative ::

            picture = render(mesh, camera, positions=positions, form="edges")
            loss = pyramid(l2, 3)(picture.depth, measured) + pyramid(l2, 3)(picture.normal, normals)

        The minimum lies within 0.03 pixels of the measured image. Compare images that are means over a pixel
        too, or leave out pixels at outlines: measured depths seldom are. The pyramid brings the reach; leave
        out its coarse levels, or the pyramid, for the last steps. Creases carry no derivative: of normals use
        smooth ones.
        """
        return self._attribute(lambda p: p.depth)

    @cached_property
    def normal(self) -> Variable:
        """VEC3: the unit normal in the world, 0 where there is nothing. Blended, and then shorter, like
        ``depth``."""
        own = any("normals" in look.parts for look in self.looks)
        return (self._by_look if own else self._attribute)(lambda p: p.normal)

    @cached_property
    def point(self) -> Variable:
        """VEC3: the place in the world, 0 where there is nothing. Blended like ``depth``."""
        return self._attribute(lambda p: p.point)

    @property
    def uv(self) -> Variable:
        """VEC2: the texture coordinates, 0 where there is nothing and on nodes without any. Raises InputError
        when there are none at all."""
        if len(self.looks) == 1 or not any("uvs" in look.parts for look in self.looks):
            return self.seen.uv
        nothing = F.constant((0.0, 0.0))
        return self._shaded(lambda p: p.uv if "uvs" in p.look.parts else nothing, self._plain.seen)

    def attribute(self, table: Variable | np.ndarray) -> Variable:
        """An attribute of the vertices, of all nodes one after the other, interpolated: a list (FLOAT or
        vectors) or an array (V,) or (V, 2 to 4). Differentiable in it and in the geometry; 0 where there is
        nothing. Blended like ``depth``."""
        values = table if isinstance(table, Variable) else attribute_leaf(table)
        return self._attribute(lambda p: p.attribute(values))

    def soft_target(self, masks: np.ndarray) -> Variable:
        """FLOAT, N tiles: what ``mask`` is for a mesh with these masks, so that a mask loss has its minimum
        there.

        masks: (N, H, W) or (H, W) in [0, 1], plain or filtered: the outline lies where coverage is 0.5
        (``outline_distances``). For the outer form, whose soft margin lies outside of the
        outline: with the masks themselves the mesh would shrink. Raises InputError for other forms.
        """
        if not self.estimator.one_sided or self.estimator.target is None or self.radius is None:
            raise InputError(f"masks of the form {self.estimator.name!r} are compared as they are")
        masks = np.asarray(masks)
        if masks.shape[-2:] != (self.size[1], self.size[0]):
            raise InputError(f"masks of {self.size[0]}x{self.size[1]} are needed, not of shape {masks.shape}")
        signed = -outside_distance(masks).reshape(-1, *masks.shape[-2:])
        outline = Variable(FLOAT, self.size, len(signed), name="outline", data=signed)
        return self.estimator.target(outline, self.radius, 1)


def _sum(points: Sequence[SurfacePoint], shader: Shader) -> Variable:
    """The shaded points of one surface, each where it has a face; a single point everywhere."""
    if len(points) == 1 and points[0].whole is None:
        return shader(points[0])
    return total([F.select(covered(point.face), shader(point), 0.0) for point in points])


def attribute_leaf(values: np.ndarray) -> Variable:
    """A list of an array (V,) or (V, 2 to 4). Raises InputError."""
    values = np.asarray(values, np.float64)
    if values.ndim not in (1, 2) or (values.ndim == 2 and not 1 <= values.shape[1] <= 4):
        raise InputError(
            f"an attribute is an array (V,) or (V, 1 to 4), one row a vertex, not {values.shape}"
        )
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return list_leaf("attribute", vector_type(values.shape[1] if values.ndim == 2 else 1), values)
