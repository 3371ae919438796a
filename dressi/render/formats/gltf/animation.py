"""Animations of a glTF file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import shown
from ...io.files import Damaged
from ...scene.clips import PATHS, Clip, Motion, Track
from .document import REST, Document, Placed


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
