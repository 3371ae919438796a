"""Nodes and scenes.

body = Node(load_mesh("body.glb"), name="body") wheel = load_mesh("wheel.glb") scene = Scene([body,
Node(wheel, to_world=left), Node(wheel, to_world=right)]) picture = render(scene, camera, light=sun)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ad.graph import Variable
from ...ad.graph.types import MAT4
from ...errors import InputError, did_you_mean
from ..cameras import Camera
from ..cameras.rigid import check_affine
from ..mesh import Material
from ..shading.bsdf import Bsdf
from ..shading.lights import LightSource
from ..strands.geometry import PointGeometry, StrandGeometry
from .clips import Clip, Motion
from .geometry import geometry_of

LARGEST_SCENE = 65_536
"""Nodes of a scene."""
SHOWN = 8
"""Nodes that the text of a scene names."""


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """A shape with a material at a place. Raises InputError.

    geometry: a ``Mesh`` with its own texture, colours and material, a pair (positions, faces), or a
    ``Geometry``: ``TriangleGeometry``, ``MorphGeometry``, ``SkinnedGeometry``; or a ``StrandGeometry`` or
    ``PointGeometry``. Nodes that share one object are instances: Variables in it are shared, and gradients by
    them are sums.
    material: a ``Material`` instead of the mesh's, parts that replace those of the mesh, as ``render`` takes
    them: values, maps or Variables by name, or a surface of one's own, a ``Bsdf``. Of strands and points a
    function of a ``StrandPoint``, such as ``KajiyaKay``; by default strands are lit by that model, and points
    have their colours.
    to_world: from coordinates of the geometry to the world, (4, 4), (N, 4, 4) or a MAT4 1x1 with 1 or N
    tiles; None for the world itself. Differentiable. In a mirror faces are turned, so that their fronts stay
    outside; whether a Variable mirrors is taken from the value that it was made with.
    name: in messages, files and ``Scene.replace``; by default that of the geometry.

    >>> Node(primitives.cube(), {"metallic": 1.0}, name="box").name
    'box'
    """

    geometry: Any
    material: Any
    to_world: np.ndarray | Variable | None
    name: str

    def __init__(self, geometry: Any, material: Any = None, to_world: Any = None, name: str | None = None):
        fibres = isinstance(geometry, (StrandGeometry, PointGeometry))
        shape = geometry if fibres else geometry_of(geometry)
        name = shape.name if name is None else name
        if not isinstance(name, str):
            raise InputError(f"the name of a node is a text, not {name!r}")
        if fibres and not (material is None or callable(material)):
            kind = type(material).__name__
            raise InputError(
                f"node '{name}': the material of strands and points is a function of a StrandPoint, such as"
                f" KajiyaKay, not {kind}"
            )
        if not fibres and material is not None and not isinstance(material, (Material, Mapping, Bsdf)):
            kind = type(material).__name__
            raise InputError(
                f"node '{name}': material is a Material, parts of one by name or a Bsdf, not {kind}"
            )
        object.__setattr__(self, "geometry", shape)
        object.__setattr__(self, "material", material)
        object.__setattr__(self, "to_world", _matrix(name, to_world))
        object.__setattr__(self, "name", name)

    def __repr__(self) -> str:
        parts = [type(self.geometry).__name__]
        if isinstance(self.material, Mapping):
            parts.append(f"material {', '.join(self.material)}")
        elif self.material is not None:
            parts.append(f"material {type(self.material).__name__}")
        if self.to_world is not None:
            parts.append("to_world a Variable" if isinstance(self.to_world, Variable) else "placed")
        return f"Node('{self.name}': {', '.join(parts)})"


def _matrix(name: str, value: Any) -> np.ndarray | Variable | None:
    if value is None:
        return None
    if isinstance(value, Variable):
        if value.vtype is not MAT4 or value.size != (1, 1):
            raise InputError(
                f"node '{name}': to_world is a MAT4 1x1 Variable, not {value} (made at {value.where})"
            )
        if value.data is not None:
            check_affine("to_world", value.data)
        return value
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim not in (2, 3) or array.shape[-2:] != (4, 4) or not len(array):
        shape = np.shape(value)
        raise InputError(f"node '{name}': to_world is a matrix (4, 4) or (N, 4, 4), not of shape {shape}")
    if not np.isfinite(array).all():
        raise InputError(f"node '{name}': to_world has values that are NaN or infinite; repair it")
    check_affine("to_world", array)
    return array


@dataclass(frozen=True, eq=False, repr=False)
class Scene:
    """What is drawn together: nodes, which hide each other and shade each other. Raises InputError.

    nodes: one or more ``Node``.  cameras, lights: those of the file that ``load_scene`` read, by name and as
    a list; ``render`` takes them only when they are given to it.  motion: what clips of the file
    move, for ``at``.

    >>> scene = Scene([Node(primitives.cube(), name="left"), Node(primitives.cube(), to_world=np.diag([2, 2, 2, 1.0]))])
    >>> [node.name for node in scene]
    ['left', 'cube']
    """

    nodes: tuple[Node, ...]
    cameras: Mapping[str, Camera] = dataclasses.field(default_factory=dict)
    lights: Sequence[LightSource] = ()
    motion: Motion | None = None

    def __init__(
        self,
        nodes: Sequence[Node],
        cameras: Mapping[str, Camera] | None = None,
        lights: Sequence[LightSource] = (),
        motion: Motion | None = None,
    ):
        nodes = tuple(nodes)
        for k, node in enumerate(nodes):
            if not isinstance(node, Node):
                kind = type(node).__name__
                raise InputError(
                    f"node {k} of a scene is a Node, not {kind}; write Node(mesh, material, to_world)"
                )
        if not nodes:
            raise InputError("a scene needs at least one node")
        if len(nodes) > LARGEST_SCENE:
            raise InputError(f"a scene has at most {LARGEST_SCENE:,} nodes, not {len(nodes):,}; join meshes")
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "cameras", dict(cameras or {}))
        object.__setattr__(self, "lights", tuple(lights))
        object.__setattr__(self, "motion", motion)

    def __repr__(self) -> str:
        names = [node.name for node in self.nodes[:SHOWN]]
        more = ", ..." if len(self.nodes) > SHOWN else ""
        parts = [f"{_counted(len(self.nodes), 'node')}: {', '.join(names)}{more}"]
        for count, one in ((len(self.cameras), "camera"), (len(self.lights), "light")):
            parts += [_counted(count, one)] if count else []
        return f"Scene({'; '.join(parts)})"

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str | int) -> Node:
        return self.nodes[self.number(name)]

    def number(self, name: str | int) -> int:
        """The number of the node of that name, the first of several. Raises InputError."""
        if isinstance(name, str):
            names = [node.name for node in self.nodes]
            if name not in names:
                raise InputError(f"the scene has no node '{name}'{did_you_mean(name, names)}")
            return names.index(name)
        if not 0 <= name < len(self.nodes):
            raise InputError(f"the scene has nodes 0 to {len(self.nodes) - 1}, not {name}")
        return name

    def replace(self, name: str | int, **changes: Any) -> Scene:
        """The scene with another geometry, material, to_world or name of one node. Raises InputError.

        >>> scene = Scene([Node(primitives.cube(), name="box")])
        >>> scene.replace("box", material={"metallic": 1.0})["box"].material
        {'metallic': 1.0}
        """
        at, fields = self.number(name), ("geometry", "material", "to_world", "name")
        for change in changes:
            if change not in fields:
                raise InputError(
                    f"a node has {', '.join(fields)}, not {change!r}{did_you_mean(change, fields)}"
                )
        node = self.nodes[at]
        changed = Node(**{field: changes.get(field, getattr(node, field)) for field in fields})
        return self._with((*self.nodes[:at], changed, *self.nodes[at + 1 :]))

    def _with(self, nodes: Sequence[Node]) -> Scene:
        return Scene(nodes, self.cameras, self.lights, self.motion)

    @property
    def clips(self) -> tuple[Clip, ...]:
        """The animations of the file."""
        return () if self.motion is None else self.motion.clips

    def at(self, t: float, clip: int | str = 0) -> Scene:
        """The scene at a time of a clip in seconds: places of nodes, joints and morph weights that it moves.

        Times outside are those of the nearest end. A number, which is not differentiable. What the clip does
        not move stays, also what ``replace`` has changed. Raises InputError.
        """
        if self.motion is None:
            raise InputError("the scene has no clips; load_scene reads those of glTF files")
        if not isinstance(t, (int, float, np.integer, np.floating)) or not math.isfinite(t):
            raise InputError(f"the time of a clip is a finite number of seconds, not {t!r}")
        motion, nodes = self.motion.posed(float(t), clip), list(self.nodes)
        changes = motion.changes(nodes)
        for k, own in changes.items():
            parts = {"geometry": nodes[k].geometry, "to_world": nodes[k].to_world} | own
            nodes[k] = Node(parts["geometry"], nodes[k].material, parts["to_world"], nodes[k].name)
        return Scene(nodes, self.cameras, self.lights, motion)


def _counted(count: int, one: str) -> str:
    return f"{count} {one}{'' if count == 1 else 's'}"
