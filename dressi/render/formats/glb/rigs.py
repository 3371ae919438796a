"""Morph targets, skins, cameras and lights as entries of a glTF file."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dressi.errors import InputError
from dressi.render.cameras import Camera
from dressi.render.formats.glb.document import Written
from dressi.render.formats.gltf.stage import LIGHTS
from dressi.render.mesh import Mesh, SeamSplit
from dressi.render.scene.morph import MorphGeometry
from dressi.render.scene.skeleton import Skeleton
from dressi.render.scene.skin import SkinnedGeometry
from dressi.render.shading.lights import DirectionalLight, LightSource, PointLight, SpotLight


def matrix_entry(matrix: np.ndarray) -> dict[str, Any]:
    """A (4, 4) as a part of a node."""
    values = np.asarray(matrix, np.float64)
    return {} if np.array_equal(values, np.eye(4)) else {"matrix": values.T.reshape(-1).tolist()}


def is_rigid_with_scale(matrix: np.ndarray) -> bool:
    """Whether a matrix is a scale, then a rotation and a shift, which is all that nodes of glTF hold."""
    turn = matrix[:3, :3]
    lengths = np.linalg.norm(turn, axis=0)
    if lengths.min() < 1e-12:
        return False
    product = (turn / lengths).T @ (turn / lengths)
    return bool(np.abs(product - np.eye(3)).max() < 1e-6) and np.array_equal(matrix[3], (0, 0, 0, 1))


def targets(document: Written, shape: MorphGeometry, split: SeamSplit, mesh: Mesh) -> list[dict[str, int]]:
    """The modes of a shape as morph targets of its primitive, with those of its normals: without them a reader leaves the
    normals where they are."""
    if shape.normal_modes is not None:
        # A corner of the split mesh has one vertex and one normal.
        owner = np.zeros(len(split.positions), np.int64)
        owner[split.faces] = np.asarray(mesh.normal_faces)
        turned = [mode[owner] for mode in shape.normal_modes]
    else:
        smooth = mesh.vertex_normals()
        each = (mesh.moved(mesh.positions + mode).vertex_normals() for mode in shape.modes)
        turned = [(normals - smooth)[split.source] for normals in each]
    return [
        {
            "POSITION": document.accessor(mode[split.source], "VEC3", bounds=True),
            "NORMAL": document.accessor(normal, "VEC3"),
        }
        for mode, normal in zip(shape.modes, turned, strict=True)
    ]


def joint_attributes(document: Written, shape: SkinnedGeometry, split: SeamSplit) -> dict[str, int]:
    """The joints and weights of the vertices of a primitive."""
    joints, weights = shape.joints[split.source], shape.weights[split.source]
    count, width = joints.shape
    # Each joint once a vertex, the heaviest first; float32 weights that add up to 1.
    merged = np.zeros((count, len(shape.inverse_bind)))
    np.add.at(merged, (np.arange(count)[:, None], joints), weights)
    width = min(width, -(-merged.shape[1] // 4) * 4)
    order = np.argsort(-merged, axis=1, kind="stable")[:, :width]
    order = np.pad(order, ((0, 0), (0, width - order.shape[1])))
    shares = np.take_along_axis(merged, order, axis=1)
    shares[:, merged.shape[1] :] = 0
    shares = shares.astype(np.float32)
    shares /= shares.sum(1, keepdims=True)
    order = np.where(shares > 0, order, 0)
    found = {}
    for k in range(width // 4):
        part = slice(4 * k, 4 * k + 4)
        dtype = "<u1" if order.max() < 256 else "<u2"
        found[f"JOINTS_{k}"] = document.accessor(order[:, part], "VEC4", dtype)
        found[f"WEIGHTS_{k}"] = document.accessor(shares[:, part], "VEC4")
    return found


def skin(document: Written, name: str, shape: SkinnedGeometry, to_world: np.ndarray | None) -> int:
    """A skin, its joints as nodes under one that places them, and its number. Raises InputError."""
    skeleton = shape.skeleton
    if not isinstance(skeleton, Skeleton):
        skeleton = Skeleton([-1] * len(shape.inverse_bind), skeleton)
    local = skeleton.local
    if not isinstance(local, np.ndarray) or local.ndim != 3:
        raise InputError(
            f"node '{name}': a file holds one pose, by arrays; give posed(Skeleton(parents, matrices, names))"
        )
    top = {} if to_world is None else matrix_entry(to_world)
    above = document.add("nodes", {"name": f"{name} joints", "children": [], **top})
    first = len(document.lists["nodes"])
    for joint, matrix in zip(skeleton.names, local, strict=True):
        if not is_rigid_with_scale(matrix):
            raise InputError(
                f"node '{name}': joint '{joint}' has shear, and nodes of glTF hold a rotation, a scale along its axes and a shift"
            )
        document.add("nodes", {"name": joint, **matrix_entry(matrix)})
    for k, parent in enumerate(skeleton.parents):
        holder = document.lists["nodes"][above if parent < 0 else first + int(parent)]
        holder.setdefault("children", []).append(first + k)
    rows = shape.inverse_bind.swapaxes(1, 2).reshape(-1, 16).copy()
    rows[:, 3::4] = (0, 0, 0, 1)
    bind = document.accessor(rows, "MAT4", target=None)
    joints = list(range(first, first + len(local)))
    return document.add("skins", {"name": name, "joints": joints, "inverseBindMatrices": bind})


def camera(document: Written, name: str, view: Camera) -> None:
    """A camera and its node."""
    (fx, _, cx), (_, fy, cy) = view.intrinsics[:2]
    width, height = view.size
    if abs(cx - width / 2) > 0.01 * width or abs(cy - height / 2) > 0.01 * height:
        warnings.warn(f"camera '{name}' looks past the centre of its picture; glTF centres it", stacklevel=4)
    lens = {
        "yfov": float(2 * np.arctan(height / (2 * fy))),
        "aspectRatio": float(width / height * fy / fx),
        "znear": float(view.near),
        "zfar": float(view.far),
    }
    number = document.add("cameras", {"type": "perspective", "perspective": lens, "name": name})
    matrix = np.eye(4)
    matrix[:3, :3] = view.rotation.T * (1, -1, -1)
    matrix[:3, 3] = view.center
    document.add("nodes", {"camera": number, "name": name, **matrix_entry(matrix)})


def light(document: Written, number: int, source: LightSource) -> None:
    """A punctual light and its node; a warning for a kind that files do not have. Raises InputError."""
    if not isinstance(source, (DirectionalLight, PointLight, SpotLight)):
        warnings.warn(
            f"light {number}, {type(source).__name__}, is none that glTF has; it was left out", stacklevel=4
        )
        return
    entry: dict[str, Any]
    place, shine = (0.0, 0.0, 0.0), (0.0, 0.0, -1.0)
    if isinstance(source, DirectionalLight):
        entry, colour = {"type": "directional"}, _three(number, source.colour)
        shine = tuple(-_three(number, source.direction))
    else:
        entry, colour = {"type": "point"}, _three(number, source.intensity)
        place = tuple(_three(number, source.position))
    if isinstance(source, SpotLight):
        inner, outer = (float(_three(number, angle)[0]) for angle in (source.inner, source.outer))
        entry = {"type": "spot", "spot": {"innerConeAngle": inner, "outerConeAngle": outer}}
        shine = tuple(_three(number, source.direction))
    strength = float(max(colour.max(), 1e-12))
    entry |= {"color": (colour / strength).tolist(), "intensity": strength}
    lights = document.root.setdefault(LIGHTS, {"lights": []})["lights"]
    lights.append(entry)
    document.extend(LIGHTS)
    node = {"name": f"light {number}", "extensions": {LIGHTS: {"light": len(lights) - 1}}}
    document.add("nodes", node | matrix_entry(_aimed(np.array(place), np.array(shine))))


def _three(number: int, value: Any) -> np.ndarray:
    """One value of a light as three numbers."""
    try:
        found = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.shape not in ((), (3,)):
        raise InputError(f"light {number} has Variables or several values; a file holds one light by numbers")
    return np.broadcast_to(found, 3)


def _aimed(place: np.ndarray, shine: np.ndarray) -> np.ndarray:
    """(4, 4) of a node at a place whose -z points along a direction."""
    matrix, back = np.eye(4), -shine / np.linalg.norm(shine)
    matrix[:3, 3] = place
    if not np.allclose(back, (0, 0, 1)):
        right = np.cross(np.eye(3)[int(np.argmin(np.abs(back)))], back)
        right /= np.linalg.norm(right)
        matrix[:3, :3] = np.stack([right, np.cross(back, right), back], axis=1)
    return matrix
