"""Cameras of photographs that a calibration leaves out, by the shape and the colours that the other photographs show.

Features of a thing without texture place few cameras. Its outlines and its shading, drawn from everywhere, place the others: the
search begins between the cameras that are known, and beyond them.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from ...cameras import Camera, Cameras
from ...engine import MakeEngine
from ...mesh import Mesh
from .search import find_pose

NEIGHBOURS = 2
"""Of each camera that is known, the others nearest to it, towards which the search begins."""
STEP = 8.0
"""Degrees at most between two poses, on half of the way to each of them and as far away from it: of dino, poses were found from 4
degrees away within 2.4 degrees, from 9 within 6."""
LEAST = 0.85
"""IoU of a mask with the outline of the shape, with which a camera counts as found."""


def placed(
    mesh: Mesh,
    known: Cameras,
    cameras: Cameras,
    masks: np.ndarray,
    colors: np.ndarray,
    make_engine: MakeEngine,
) -> list[Camera | None]:
    """M cameras with the poses from which a textured mesh looks as in their pictures; None where it does not.

    known: of the photographs that the mesh was made of, in its world.  cameras: M, whose poses do not count.  masks: (M, H, W),
    covered from 1/2 on.  colors: (M, H, W, 3) linear, on black. Intrinsics stay.
    """
    center = mesh.bounding_sphere()[0]
    views, found = between(known, center), []
    for camera, mask, color in zip(cameras, masks, colors, strict=True):
        # The camera stays, and the mesh moves.
        starts = np.linalg.inv(camera.view) @ views
        pose = find_pose(mesh, camera, mask, color, starts=starts, make_engine=make_engine)
        found.append(camera.with_view(camera.view @ pose.to_world) if pose.iou >= LEAST else None)
    return found


def between(cameras: Cameras, center: np.ndarray) -> np.ndarray:
    """(S, 4, 4) world to camera: the cameras, and poses on the ways from each to its neighbours, on which the axes turn evenly
    and the point ``center`` (3,) moves evenly, as the camera sees it.

    >>> from dressi.render.cameras.views import ring
    >>> cameras = ring(np.zeros(3), 1.0, 8, (8, 8))
    >>> between(cameras, np.zeros(3)).shape
    (168, 4, 4)
    """
    turns = Rotation.from_matrix(np.array([camera.rotation for camera in cameras]))
    places = np.array([camera.rotation @ center + camera.translation for camera in cameras])
    found = [camera.view for camera in cameras]
    for a in range(len(places)):
        ways = turns * turns[a].inv()
        nearest = np.argsort(ways.magnitude(), kind="stable")
        for b in [b for b in nearest if b != a][:NEIGHBOURS]:
            count = max(int(np.ceil(np.degrees(ways[b].magnitude()) / 2 / STEP)), 1)
            shares = np.arange(1, count + 1) / (2 * count)
            for share in [*shares, *-shares]:
                view = np.eye(4)
                view[:3, :3] = (Rotation.from_rotvec(share * ways[b].as_rotvec()) * turns[a]).as_matrix()
                view[:3, 3] = places[a] + share * (places[b] - places[a]) - view[:3, :3] @ center
                found.append(view)
    return np.stack(found)
