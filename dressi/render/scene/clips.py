"""Clips: what moves nodes, joints and morph weights over time, as glTF animations say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import InputError, did_you_mean
from .geometry import MorphGeometry
from .skin import SkinnedGeometry

PATHS = {"translation": 3, "rotation": 4, "scale": 3, "weights": 0}
"""Properties that move, and how many numbers they have; weights as many as there are targets."""


def placement(translation: Any, rotation: Any, scale: Any) -> np.ndarray:
    """(4, 4) of a place, a quaternion (x, y, z, w) of any length but 0, and a scale."""
    # On arrays ``quaternion_to_matrix`` takes 25 times as long, and a clip does this for every joint.
    x, y, z, w = np.asarray(rotation) / np.linalg.norm(rotation)
    turn = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = np.array(turn) * scale, translation
    return matrix


@dataclass(frozen=True, eq=False)
class Track:
    """One property of one node of the file. values: (K, C) at K times in seconds; of CUBICSPLINE (K, 3, C):
    tangent before, value, tangent after."""

    node: int
    path: str
    times: np.ndarray
    values: np.ndarray
    interpolation: str

    def at(self, t: float) -> np.ndarray:
        """(C,) at a time, that of the nearest end outside."""
        times, values = self.times, self.values
        cubic = self.interpolation == "CUBICSPLINE"
        k = int(np.searchsorted(times, t, side="right")) - 1
        if k < 0 or k >= len(times) - 1 or self.interpolation == "STEP":
            row = values[min(max(k, 0), len(times) - 1)]
            return self._unit(row[1] if cubic else row)
        span = times[k + 1] - times[k]
        s = (t - times[k]) / span
        if cubic:
            (_, a, leave), (arrive, b, _) = values[k], values[k + 1]
            bend = (s**3 - 2 * s**2 + s) * leave + (s**3 - s**2) * arrive
            return self._unit((2 * s**3 - 3 * s**2 + 1) * a + (3 * s**2 - 2 * s**3) * b + span * bend)
        a, b = self._unit(values[k]), self._unit(values[k + 1])
        if self.path != "rotation":
            return (1 - s) * a + s * b
        b = b if a @ b >= 0 else -b  # the shorter way
        angle = math.acos(min(a @ b, 1.0))
        if angle < 1e-6:
            return self._unit((1 - s) * a + s * b)
        return (math.sin((1 - s) * angle) * a + math.sin(s * angle) * b) / math.sin(angle)

    def _unit(self, row: np.ndarray) -> np.ndarray:
        return row / max(np.linalg.norm(row), 1e-30) if self.path == "rotation" else row


@dataclass(frozen=True, eq=False)
class Clip:
    """What moves together, from ``start`` to ``end`` in seconds."""

    name: str
    tracks: tuple[Track, ...]

    @property
    def start(self) -> float:
        return min(float(track.times[0]) for track in self.tracks)

    @property
    def end(self) -> float:
        return max(float(track.times[-1]) for track in self.tracks)

    def __repr__(self) -> str:
        return f"Clip('{self.name}': {self.start:.4g} to {self.end:.4g} s)"


@dataclass(frozen=True, eq=False)
class Motion:
    """The tree of nodes of a file, which clips move.

    parents: by number of a node, -1 for none.  rest: its matrix, or its translation, rotation and scale.
    nodes: for each node of the scene that of the file.  joints: of its skin, in the order of its skeleton.
    """

    clips: tuple[Clip, ...]
    parents: Mapping[int, int]
    rest: Mapping[int, Mapping[str, np.ndarray]]
    nodes: Sequence[int]
    joints: Sequence[tuple[int, ...]]
    pose: Mapping[int, Mapping[str, np.ndarray]] = field(default_factory=dict)
    """What ``Scene.at`` has put in the place of the rest."""

    @cached_property
    def moved(self) -> set[int]:
        """The nodes of the file that a clip places."""
        return {track.node for clip in self.clips for track in clip.tracks if track.path != "weights"}

    def clip(self, which: int | str) -> Clip:
        """A clip by number or name. Raises InputError."""
        names = [clip.name for clip in self.clips]
        if isinstance(which, str):
            if which not in names:
                raise InputError(f"the scene has no clip '{which}'{did_you_mean(which, names)}")
            return self.clips[names.index(which)]
        if type(which) is not int or not 0 <= which < len(names):
            raise InputError(f"the scene has clips 0 to {len(names) - 1}, not {which!r}")
        return self.clips[which]

    def posed(self, t: float, which: int | str) -> Motion:
        """With the pose of a clip at a time."""
        pose: dict[int, dict[str, np.ndarray]] = {}
        for track in self.clip(which).tracks:
            pose.setdefault(track.node, {})[track.path] = track.at(t)
        return replace(self, pose=pose)

    def changes(self, scene: Sequence[Any]) -> dict[int, dict[str, Any]]:
        """What ``Node`` gets in a pose, by number of the node of the scene, where the clip moves it."""
        now = self.pose
        moved = {node for node, own in now.items() if own.keys() - {"weights"}}
        skeletons: dict[tuple, Any] = {}
        shapes: dict[tuple, Any] = {}
        changes: dict[int, dict[str, Any]] = {}
        for k, (node, index, joints) in enumerate(zip(scene, self.nodes, self.joints, strict=True)):
            weights, shape = now.get(index, {}).get("weights"), node.geometry
            bound = shape.bound if isinstance(shape, SkinnedGeometry) else shape
            if weights is not None and isinstance(bound, MorphGeometry):
                bound = bound.weighted(weights)
            if isinstance(shape, SkinnedGeometry) and joints:
                skeleton = shape.skeleton
                if any(moved & set(self.line(joint)) for joint in joints):
                    if joints not in skeletons:
                        local = [self._place(self.line(joint, joints)) for joint in joints]
                        skeletons[joints] = skeleton.posed(np.stack(local))
                    skeleton = skeletons[joints]
                if skeleton is not shape.skeleton or bound is not shape.bound:
                    key = id(shape), index if bound is not shape.bound else -1
                    if key not in shapes:  # instances stay instances
                        own = shape.joints, shape.weights, shape.inverse_bind
                        shapes[key] = SkinnedGeometry(bound, *own, skeleton)
                    changes[k] = {"geometry": shapes[key]}
            else:
                if bound is not shape:
                    changes[k] = {"geometry": bound}
                if moved & set(line := self.line(index)):
                    changes.setdefault(k, {})["to_world"] = self._place(line)
        return changes

    def line(self, node: int, until: Sequence[int] = ()) -> list[int]:
        """A node and those above it, up to one of these."""
        line = [node]
        while (above := self.parents.get(line[-1], -1)) != -1 and above not in until:
            line.append(above)
        return line

    def own(self, node: int) -> dict[str, np.ndarray]:
        """The rest of a node with what the pose has instead."""
        now = self.pose.get(node, {})
        return {path: now.get(path, part) for path, part in self.rest[node].items()}

    def _place(self, line: Sequence[int]) -> np.ndarray:
        place = np.eye(4)
        for node in line:
            own = self.own(node)
            place = (own["matrix"] if "matrix" in own else placement(**own)) @ place
        return place
