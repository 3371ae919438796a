"""glTF 2.0 in: as a scene, and as one mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import InputError, shown
from ...cameras import Camera
from ...io.files import Damaged
from ...mesh import Mesh, weld
from ...scene.clips import PATHS, Clip, Motion, Track
from ...scene.geometry import MOST_MODES, Geometry, MorphGeometry, TriangleGeometry, geometry_of
from ...scene.scene import Node, Scene
from ...scene.skin import Skeleton, SkinnedGeometry
from ...shading.lights import DirectionalLight, LightSource, PointLight, SpotLight
from ...strands.ribbons import unlit
from .document import REST, Document, Placed
from .primitives import Part, Primitives, lines_of


def load_gltf_scene(path: Path) -> Scene:
    """The scene of a .glb or .gltf; see ``load_scene``."""
    document = Document(path)
    placed = list(document.placed())
    rigs = Rigs(document, placed)
    shapes: dict[tuple, Geometry] = {}
    nodes: list[Node] = []
    origins: list[Placed] = []
    for node, parts in rigs.primitives.drawn(placed, lines=False):
        number, own = node.entry["mesh"], _name(document, node)
        for k, part in enumerate(parts):
            name = own
            if len(parts) > 1:
                name += (
                    f" {k}" if part.material is None else f" {rigs.primitives.materials.name(part.material)}"
                )
            # Nodes with other weights, or with a skin, have a shape of their own.
            key = (number, k, node.entry.get("skin"), node.index if "weights" in node.entry else None)
            if key not in shapes:
                shapes[key] = rigs.geometry(part, name, node)
            nodes.append(Node(shapes[key], to_world=rigs.matrix(node), name=name))
        nodes += [Node(s, unlit, node.matrix, own) for s in lines_of(document, number, own)]
        origins += [node] * (len(nodes) - len(origins))
    if not nodes:
        raise InputError("it has no triangles and no lines; export a mesh with faces")
    cameras: dict[str, Camera] = {}
    lights: list[LightSource] = []
    for node in placed:
        if "camera" in node.entry:
            own = _name(document, node)
            names = [own, *(f"{own} {k}" for k in range(2, len(cameras) + 3))]
            name = next(name for name in names if name not in cameras)
            camera = _camera(document, node, name)
            if camera is not None:
                cameras[name] = camera
        light = _light(document, node)
        if light is not None:
            lights.append(light)
    return Scene(nodes, cameras, lights, read_motion(document, placed, origins))


def _name(document: Document, node: Placed) -> str:
    """That of the node, else of its mesh or camera, else its number."""
    entries = [node.entry]
    if "mesh" in node.entry:
        entries.append(document.item("meshes", node.entry["mesh"]))
    elif "camera" in node.entry:
        entries.append(document.item("cameras", node.entry["camera"]))
    for entry in entries:
        name = entry.get("name")
        if isinstance(name, str) and name:
            return shown(name)
    return f"node {node.index}" if node.index >= 0 else document.path.stem


def load_gltf(path: Path) -> Mesh:
    """Read a .glb or .gltf as one welded Mesh, not cleaned yet: all nodes of the scene, with their
    transforms, the weights of their morph targets and their skins applied, as ``load_scene`` shows them. As
    glTF says, a mesh with a skin lies where its joints are, whatever its own node says.

    Maps and factors of materials that differ lie in one atlas (``joined``). Where that is above
    `config.max_megapixels`, or maps have placements of their own, texture and `Material` are those of the
    first material with a base colour texture (else with any, else the first), and a warning names what is
    left out. Base colour factors that differ between materials are multiplied into the vertex colours
    (``COLOR_0``, linear light, alpha left out). A file without materials gives ``material=None``; a material
    without metallicFactor and roughnessFactor has the standard's 1. Maps with a texture transform other than
    the base colour's are resampled; maps with other UVs than its are left out with a warning. TANGENT is kept
    where there is a map of normals. Raises InputError, also when the file refers to anything outside its
    folder.
    """
    document = Document(path)
    if document.items("animations"):
        document.warn("has animations, which load_scene reads; the mesh stands as its nodes say")
    placed = list(document.placed())
    rigs = Rigs(document, placed)
    parts = []
    for node, own in rigs.primitives.drawn(placed, lines=True):
        matrix = rigs.matrix(node)
        for part in own:
            posed = rigs.posed(part, node)
            parts.append(posed if matrix is None else posed.placed(matrix))
    if not parts:
        raise InputError("it has no triangles; export a mesh with faces (load_scene draws lines and points)")
    return rigs.primitives.mesh(parts)


# Cameras and punctual lights of a glTF file.

LIGHTS = "KHR_lights_punctual"
HEIGHT = 512
"""Rows of the pictures of cameras, of which files know the shape alone."""
FARTHEST = 1e5
"""Times the near plane: the far plane of cameras without one."""


def _axes(node: Placed) -> tuple[np.ndarray, np.ndarray]:
    """Unit right, up and back (rows), and the place."""
    matrix = np.eye(4) if node.matrix is None else node.matrix
    u, _, v = np.linalg.svd(matrix[:3, :3])
    turn = u @ v
    return (turn if np.linalg.det(turn) > 0 else -turn).T, matrix[:3, 3]


def _camera(document: Document, node: Placed, name: str) -> Camera | None:
    """The camera of a node; None with a warning for a kind that glTF lacks."""
    entry, (_, up, back), place = document.item("cameras", node.entry["camera"]), *_axes(node)
    kind = entry.get("type")
    if kind not in ("perspective", "orthographic"):
        document.warn(f"has a camera '{name}' that is {shown(kind)}, which is not read here and was left out")
        return None
    lens, where = entry.get(kind, {}), (place, place - back)
    if kind == "orthographic":
        half, high = document.number(lens, "xmag", 1.0), document.number(lens, "ymag", 1.0)
        near, far = document.number(lens, "znear", 0.0), document.number(lens, "zfar", 100.0)
        if not (0 <= near < far and half and high and 1e-3 < half / high < 1e3):
            raise Damaged(
                f"camera '{name}' has xmag {half:.4g}, ymag {high:.4g}, znear {near:.4g} and zfar {far:.4g},"
                " which is no view"
            )
        aspect, near = half / high, max(near, far * 1e-9)
        size = (max(round(HEIGHT * aspect), 1), HEIGHT)
        camera = Camera.orthographic(2 * abs(high), size, *where, up=up, near=near, far=far, name=name)
    else:
        fov, near = document.number(lens, "yfov", 1.0), document.number(lens, "znear", 0.01)
        aspect, far = (
            document.number(lens, "aspectRatio", 1.0),
            document.number(lens, "zfar", near * FARTHEST),
        )
        if not (0 < fov < np.pi and 0 < near < far and 1e-3 < aspect < 1e3):
            raise Damaged(
                f"camera '{name}' has yfov {fov:.4g}, aspectRatio {aspect:.4g}, znear {near:.4g} and zfar"
                f" {far:.4g}, which is no view"
            )
        size = (max(round(HEIGHT * aspect), 1), HEIGHT)
        degrees = np.degrees(fov)
        camera = Camera.perspective(degrees, size, *where, up=up, near=near, far=far, name=name)
    # The view has the shape of the file, not that of whole pixels.
    exact = np.diag([size[0] / (HEIGHT * aspect), 1.0, 1.0])
    exact[0, 2] = camera.intrinsics[0, 2] * (1 - exact[0, 0])
    return replace(camera, intrinsics=exact @ camera.intrinsics)


def _light(document: Document, node: Placed) -> LightSource | None:
    """The light of a node, if it has one."""
    extension = node.entry.get("extensions", {}).get(LIGHTS)
    if extension is None:
        return None
    lights = document.json.get("extensions", {}).get(LIGHTS, {}).get("lights", [])
    number = document.whole(extension, "light")
    if number >= len(lights):
        raise Damaged(f"{document.node_name(node.index)} refers to light {number} of {len(lights)}")
    entry = lights[number]
    colour = document.numbers(entry, "color", (1.0, 1.0, 1.0)) * document.number(entry, "intensity", 1.0)
    if colour.min() < 0:
        raise Damaged(f"light {number} is darker than black")
    if "range" in entry:
        document.warn(
            f"has a range of light {number}, which is not read here; its light falls off without an end"
        )
    (_, _, back), place = _axes(node)
    shine, centre, colour = tuple((-back).tolist()), tuple(place.tolist()), tuple(colour.tolist())
    kind = entry.get("type")
    if kind == "directional":
        return DirectionalLight(tuple(back.tolist()), colour)
    if kind == "point":
        return PointLight(centre, colour)
    if kind != "spot":
        raise Damaged(f"light {number} is {shown(kind)}, which glTF lacks")
    cone = entry.get("spot", {})
    inner = document.number(cone, "innerConeAngle", 0.0)
    outer = document.number(cone, "outerConeAngle", np.pi / 4)
    if not 0 <= inner < outer <= np.pi / 2:
        raise Damaged(f"light {number} has a cone from {inner:.4g} to {outer:.4g}, which is none")
    return SpotLight(centre, shine, colour, inner, outer)


# Morph targets and skins.

SETS = 8
"""Of four joints each, that are read."""


class Rigs:
    """What moves the vertices of primitives; methods raise InputError naming the node."""

    def __init__(self, document: Document, placed: Sequence[Placed]):
        self.document, self.placed = document, {node.index: node for node in placed}
        self.primitives = Primitives(document)
        self._skeletons: dict[int, tuple[Skeleton, np.ndarray]] = {}

    def geometry(self, part: Part, name: str, node: Placed) -> Geometry:
        """A primitive as the geometry of a node."""
        weights = self._weights(part, node)
        joints = self._joints(part, node) if "skin" in node.entry else None
        if weights is None and joints is None:
            mesh = self.primitives.merged([part])
            mesh.name = name
            return TriangleGeometry(mesh.clean())
        modes = self._modes(part, "POSITION", 0 if weights is None else len(weights))
        count = len(part.positions)
        # Vertices are one where they are equal and move alike.
        columns = [part.positions, modes.transpose(1, 0, 2).reshape(count, -1), *(joints or ())]
        ends = np.cumsum([column.shape[1] for column in columns])
        rows, faces = weld(np.concatenate(columns, axis=1), part.faces)
        mesh = self.primitives.dressed(Mesh(rows[:, :3], faces, name=name), [part], part.faces)
        mesh = mesh.validate()
        normal_modes = self._normal_modes(part, mesh, len(modes))
        keep = ~mesh.degenerate_faces()
        if not keep.any():
            raise Damaged(f"all faces of '{name}' are degenerate")
        mesh = mesh if keep.all() else mesh.with_faces(keep)
        geometry: Geometry = TriangleGeometry(mesh)
        if weights is not None:
            modes = rows[:, 3 : ends[1]].reshape(len(rows), len(modes), 3).transpose(1, 0, 2)
            names = self._names(node, len(modes))
            geometry = MorphGeometry(mesh, modes, weights, normal_modes=normal_modes, names=names)
        if joints is None:
            return geometry
        own = rows[:, ends[1] : ends[2]].astype(np.int64), rows[:, ends[2] : ends[3]]
        return self._skinned(node, mesh if weights is None else geometry, *own)

    def matrix(self, node: Placed) -> np.ndarray | None:
        """(4, 4) of the vertices of a node to the world, None where they lie there. Joints say where a skin
        is, whatever its own node says."""
        return None if "skin" in node.entry else node.matrix

    def posed(self, part: Part, node: Placed) -> Part:
        """A primitive where its morph targets and joints put it at the weights and poses of the file."""
        weights = self._weights(part, node)
        joints = self._joints(part, node) if "skin" in node.entry else None
        if joints is None and (weights is None or not weights.any()):
            return part
        mesh = Mesh(part.positions, part.faces, name=self.document.node_name(node.index))
        if part.normals is not None:
            mesh.normals, mesh.normal_faces = part.normals, part.faces
        modes = self._modes(part, "POSITION", 0 if weights is None else len(weights))
        normal_modes = self._normal_modes(part, mesh, len(modes))
        geometry: Any = mesh
        if weights is not None:
            geometry = MorphGeometry(mesh, modes, weights, normal_modes=normal_modes)
        if joints is not None:
            geometry = self._skinned(node, geometry, joints[0].astype(np.int64), joints[1])
        lists = geometry_of(geometry).lists()
        normals = None
        if lists.get("normals") is not None:
            normals = np.zeros_like(part.positions)
            normals[part.faces] = lists["normals"][lists["normal_faces"]]
        # Tangents of the file belong to the shape that was bound; they are computed of this one.
        return replace(part, positions=lists["positions"], normals=normals, tangents=None)

    def _skinned(self, node: Placed, bound: Any, joints: np.ndarray, weights: np.ndarray) -> SkinnedGeometry:
        skeleton, inverse_bind = self.skeleton(node)
        try:
            return SkinnedGeometry(bound, joints, weights, inverse_bind, skeleton)
        except InputError as error:
            raise InputError(f"{self.document.node_name(node.index)}: {error}") from None

    # ---- morph targets

    def _weights(self, part: Part, node: Placed) -> np.ndarray | None:
        """The default weights of the targets of a primitive; None without any."""
        count = len(part.entry.get("targets", ()))
        if not count:
            return None
        if count > MOST_MODES:
            raise InputError(f"it has {count:,} morph targets, above the limit of {MOST_MODES:,}")
        mesh = self.document.item("meshes", node.entry["mesh"])
        given = node.entry if "weights" in node.entry else mesh
        if "weights" not in given:
            return np.zeros(count)
        return self.document.numbers(given, "weights", (0.0,) * count)

    def _names(self, node: Placed, count: int) -> tuple[str, ...]:
        extras = self.document.item("meshes", node.entry["mesh"]).get("extras")
        names = extras.get("targetNames") if isinstance(extras, dict) else None
        if not isinstance(names, list) or len(names) != count or not all(isinstance(n, str) for n in names):
            return ()
        return tuple(names)

    def _modes(self, part: Part, what: str, count: int) -> np.ndarray:
        """(count, V, 3): displacements of the vertices of a primitive."""
        modes = np.zeros((count, len(part.positions), 3))
        vertices = self.document.count(part.entry["attributes"]["POSITION"])
        for mode, target in zip(modes, part.entry.get("targets", ())[:count], strict=True):
            if what in target:
                values = self.document.accessor(target[what])
                if values.shape != (vertices, 3):
                    raise Damaged(f"a morph target has {what} {values.shape} for {vertices} vertices")
                mode[:] = values[part.used]
        return modes

    def _normal_modes(self, part: Part, mesh: Mesh, count: int) -> np.ndarray | None:
        """(count, K, 3) of the normals of the mesh, which become distinct where they move apart. Where
        targets have none, the normals of a file stay."""
        if mesh.normals is None or not count:
            return None
        if not any("NORMAL" in target for target in part.entry.get("targets", ())):
            return np.zeros((count, len(mesh.normals), 3), np.float32)
        modes = self._modes(part, "NORMAL", count)
        normals = np.asarray(part.normals)
        normals = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
        rows = np.concatenate([normals, modes.transpose(1, 0, 2).reshape(len(normals), -1)], axis=1)
        rows, mesh.normal_faces = weld(rows, part.faces)
        mesh.normals = np.ascontiguousarray(rows[:, :3])
        return rows[:, 3:].reshape(len(rows), count, 3).transpose(1, 0, 2)

    # ---- skins

    def _joints(self, part: Part, node: Placed) -> tuple[np.ndarray, np.ndarray] | None:
        """(V, 4 n) numbers of joints, and weights."""
        attributes = part.entry["attributes"]
        columns: tuple[list[np.ndarray], list[np.ndarray]] = [], []
        vertices, name = self.document.count(attributes["POSITION"]), self.document.node_name(node.index)
        if f"JOINTS_{SETS}" in attributes:
            self.document.warn(f"has more than {4 * SETS} joints a vertex in {name}; the first are used")
        for k in range(SETS):
            names = f"JOINTS_{k}", f"WEIGHTS_{k}"
            if not set(names) <= attributes.keys():
                break
            for rows, what in zip(columns, names, strict=True):
                values = self.document.accessor(attributes[what])
                if values.shape != (vertices, 4):
                    raise Damaged(f"{what} is {values.shape} for {vertices} vertices")
                rows.append(values[part.used])
        if not columns[0]:
            raise InputError(
                f"{name} has a skin, and its mesh has no JOINTS_0 and WEIGHTS_0; bind it again, or remove the"
                " skin"
            )
        return np.concatenate(columns[0], axis=1), np.concatenate(columns[1], axis=1)

    def skeleton(self, node: Placed) -> tuple[Skeleton, np.ndarray]:
        """The skeleton of a node, one for all nodes with its skin, and (K, 4, 4) inverse bind matrices."""
        number = node.entry["skin"]
        if number not in self._skeletons:
            self._skeletons[number] = self._skeleton(node, self.document.item("skins", number))
        return self._skeletons[number]

    def _skeleton(self, node: Placed, skin: dict[str, Any]) -> tuple[Skeleton, np.ndarray]:
        name, joints = self.document.node_name(node.index), skin.get("joints", [])
        if not joints:
            raise InputError(f"{name} has a skin without joints; bind it to some, or remove it")
        numbers = {joint: k for k, joint in enumerate(joints)}
        parents, local, names = [], [], []
        for joint in joints:
            if joint not in self.placed:
                raise Damaged(
                    f"{name} has a joint, {self.document.node_name(joint)}, that is not in its scene"
                )
            place, at = np.eye(4), joint
            while at != -1:
                own = self.document.matrix(self.placed[at].entry)
                place = place if own is None else own @ place
                at = self.placed[at].parent
                if at in numbers:
                    break
            parents.append(numbers.get(at, -1))
            local.append(place)
            called = self.placed[joint].entry.get("name")
            names.append(called if isinstance(called, str) and called else f"joint {len(names)}")
        inverse_bind = np.tile(np.eye(4), (len(joints), 1, 1))
        if "inverseBindMatrices" in skin:
            rows = self.document.accessor(skin["inverseBindMatrices"])
            if rows.shape[1] != 16 or len(rows) < len(joints) or not np.isfinite(rows).all():
                raise Damaged(
                    f"{name} has a skin of {len(joints)} joints with {len(rows)} inverse bind matrices"
                )
            inverse_bind = rows[: len(joints)].reshape(-1, 4, 4).swapaxes(1, 2)
        return Skeleton(parents, np.stack(local), names), inverse_bind


# Animations of a glTF file.


def read_motion(document: Document, placed: Sequence[Placed], nodes: Sequence[Placed]) -> Motion | None:
    """What moves the nodes of a scene, each of one of the file; None without a clip. Raises InputError."""
    tree = {node.index: node for node in placed}
    clips = []
    for k, entry in enumerate(document.items("animations")):
        name = entry.get("name")
        name = shown(name) if isinstance(name, str) and name else f"animation {k}"
        channels = [_track(document, name, entry, channel, tree) for channel in entry.get("channels", ())]
        tracks = tuple(track for track in channels if track is not None)
        if tracks:
            clips.append(Clip(name, tracks))
        elif not channels:
            document.warn(f"has an animation '{name}' that moves nothing and was left out")
    if not clips:
        return None
    parents = {node.index: node.parent for node in placed}
    moved = {track.node for clip in clips for track in clip.tracks if track.path != "weights"}
    for node in placed:  # parents first
        if node.parent in moved:
            moved.add(node.index)
        if node.index in moved and ("camera" in node.entry or "KHR_lights_punctual" in str(node.entry)):
            document.warn(f"moves a camera or light of {document.node_name(node.index)}, which stays here")
    rest: dict[int, dict[str, Any]] = {
        node.index: {"matrix": document.matrix(node.entry)}
        if "matrix" in node.entry
        else {path: document.numbers(node.entry, path, own) for path, own in REST.items()}
        for node in placed
    }
    skins = [node.entry.get("skin") for node in nodes]
    joints = [() if skin is None else tuple(document.item("skins", skin)["joints"]) for skin in skins]
    return Motion(tuple(clips), parents, rest, [node.index for node in nodes], joints)


def _track(document: Document, clip: str, entry: Any, channel: Any, tree: dict[int, Placed]) -> Track | None:
    target = channel.get("target", {})
    path, node = target.get("path"), target.get("node")
    if path not in PATHS or node is None:
        document.warn(f"moves {shown(path)} in animation '{clip}', which is not read here and was left out")
        return None
    document.item("nodes", node)
    if node not in tree:
        return None
    where, samplers = f"animation '{clip}', {path} of {document.node_name(node)}", entry.get("samplers", ())
    number = document.whole(channel, "sampler")
    if number >= len(samplers):
        raise Damaged(f"{where}: it refers to sampler {number} of {len(samplers)}")
    sampler = samplers[number]
    for key in ("input", "output"):
        if key not in sampler:
            raise Damaged(f"{where}: its sampler has no {key} accessor")
    if path != "weights" and "matrix" in tree[node].entry:
        raise Damaged(f"{where}: the node has a matrix, which nothing can move")
    kind = sampler.get("interpolation", "LINEAR")
    if kind not in ("STEP", "LINEAR", "CUBICSPLINE"):
        raise Damaged(f"{where}: there is no interpolation {shown(kind)} in glTF")
    times, values = (document.accessor(sampler[key]) for key in ("input", "output"))
    width = PATHS[path] or _targets(document, tree[node])
    if not width:
        document.warn(f"moves weights of {document.node_name(node)}, which has no morph targets")
        return None
    rows = len(times) * (3 if kind == "CUBICSPLINE" else 1)
    fits = times.shape[1] == 1 and values.shape[1] == (1 if path == "weights" else width)
    if not rows or not fits or values.size != rows * width:
        raise Damaged(f"{where}: {times.shape} times with {values.shape} values are no {kind} sampler")
    times = times[:, 0]
    if not (np.isfinite(times).all() and np.isfinite(values).all() and (np.diff(times) > 0).all()):
        raise Damaged(f"{where}: times do not increase, or values are NaN or infinite")
    shape = (len(times), 3, width) if kind == "CUBICSPLINE" else (len(times), width)
    values = values.reshape(shape)
    keys = values[:, 1] if kind == "CUBICSPLINE" else values
    if path == "rotation" and np.linalg.norm(keys, axis=1).min() < 1e-6:
        raise Damaged(f"{where}: a rotation of length 0 is no quaternion")
    return Track(node, path, times, values, kind)


def _targets(document: Document, node: Placed) -> int:
    if "mesh" not in node.entry:
        return 0
    parts = document.item("meshes", node.entry["mesh"])["primitives"]
    return len(parts[0].get("targets", ())) if parts else 0
