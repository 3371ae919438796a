"""Points of photographs whose cameras are known: features and their matches with pycolmap, seen from two or more of them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..io.calibration import Calibration, View
from ..io.colmap import SparsePoints
from .motion import Poll, Tell, copied, database, find_features, library, numbered, runner
from .pictures import Exif, Picture

WIDEST = 800
"""Pixels of the longer side of the copies that features are found in."""
NEIGHBOURS, WIDE = 6, 50.0
"""Others that a photograph is matched with: so many, and degrees between the optical axes that they may not exceed."""


def triangulate(
    calibration: Calibration, *, tell: Tell = lambda text: None, stop: Poll = lambda: False
) -> SparsePoints:
    """Points in the world of a calibration, with the indices of its views that see them.

    tell: what is done now.  stop: polled; true raises ``Interrupted``. Raises InputError, without pycolmap too.
    """
    colmap, views = library(), calibration.views
    pictures = [Picture(view.image.name, view.image, view.camera.size, Exif()) for view in views]
    with tempfile.TemporaryDirectory(prefix="dressi-points-") as place:
        work, run = Path(place), runner(colmap, stop)
        tell(f"points of {len(views)} photographs ...")
        scales = [copied(picture, work, False, WIDEST) for picture in pictures]
        find_features(colmap, run, pictures, scales, work, True, False)
        base = _placed(colmap, views, scales, work)
        pairs = sorted(neighbours(views))
        (work / "pairs.txt").write_text("".join(f"{numbered(i)} {numbered(j)}\n" for i, j in pairs))
        run(
            colmap.match_image_pairs, database(work), device=colmap.Device.cpu,
            pairing_options=colmap.ImportedPairingOptions(match_list_path=str(work / "pairs.txt")),
        )  # fmt: skip
        (work / "points").mkdir()
        model = run(colmap.triangulate_points, base, database(work), work / "images", work / "points")
    found = list(model.points3D.values())
    index = {number: int(image.name[:5]) for number, image in model.images.items()}
    seen = [sorted({index[element.image_id] for element in point.track.elements}) for point in found]
    return SparsePoints(
        np.array([point.xyz for point in found]).reshape(-1, 3),
        np.array([point.error for point in found]),
        np.repeat(np.arange(len(found)), [len(one) for one in seen]),
        np.array([view for one in seen for view in one], np.int64),
    )


def neighbours(views: list[View]) -> set[tuple[int, int]]:
    """Pairs (i, j), i < j, of views that look in nearly the same direction."""
    forward = np.stack([view.camera.forward for view in views])
    angles = np.degrees(np.arccos(np.clip(forward @ forward.T, -1, 1)))
    np.fill_diagonal(angles, np.inf)
    pairs = set()
    for i, row in enumerate(angles):
        for j in np.argsort(row, kind="stable")[:NEIGHBOURS].tolist():
            if row[j] < WIDE:
                pairs.add((min(i, j), max(i, j)))
    return pairs


def _placed(colmap: Any, views: list[View], scales: list[np.ndarray], work: Path) -> Any:
    """A model without points of the cameras at the sizes of the copies, which the database gets, too."""
    model, base = colmap.Reconstruction(), colmap.Database.open(database(work))
    try:
        for image in sorted(base.read_all_images(), key=lambda image: image.name):
            view, scale = views[int(image.name[:5])], scales[int(image.name[:5])]
            k = np.diag([*scale, 1.0]) @ view.camera.intrinsics
            lens = view.lens
            size = np.round(scale * view.camera.size).astype(int).tolist()
            camera = colmap.Camera(
                camera_id=image.camera_id, model="FULL_OPENCV", width=size[0], height=size[1], has_prior_focal_length=True,
                params=[k[0, 0], k[1, 1], k[0, 2], k[1, 2], lens.k1, lens.k2, lens.p1, lens.p2, lens.k3, 0, 0, 0],
            )  # fmt: skip
            base.update_camera(camera)
            model.add_camera_with_trivial_rig(camera)
            pose = colmap.Rigid3d(colmap.Rotation3d(view.camera.rotation), view.camera.translation)
            model.add_image_with_trivial_frame(
                colmap.Image(name=image.name, camera_id=image.camera_id, image_id=image.image_id), pose
            )
    finally:
        base.close()
    return model
