"""Structure from motion with pycolmap: features of photographs, their matches, a model of cameras and points."""

from __future__ import annotations

import copy
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.ndimage import binary_dilation

from ...errors import InputError
from ...lazy import needed
from ..cameras import Camera, Cameras
from ..cameras.lens import MODELS
from ..cameras.views import DISTANCE
from ..io.calibration import Calibration, SparsePoints, View
from ..io.files import silenced
from ..io.images import read_image, resize, scaled_size
from ..objectives.hull import check_cameras, estimate_bounds, hull_iou
from .pictures import Exif, Picture
from .rolling import rolled

# The world of a reconstruction: which way is up, where the ground is, and the unit. Photographs alone do not
# tell them.

ROLL = 4.0
"""The horizontal axes of pictures lie in a plane if they spread across it this many times less than along
it."""
STEEPEST = 25.0
"""Degrees between the normal of the ground and the upward direction of the pictures."""
THICK = 0.01
"""Of the distance of the cameras: points this far from the ground lie on it."""
GROUND, BELOW = 0.15, 0.05
"""Least share of the points on the ground, and most of those below it."""
PLANES = 500


@dataclass(frozen=True, eq=False)
class World:
    """x -> scale * rotation @ x + translation takes the reconstruction to a world with y up.  said: how it
    was found, a sentence."""

    scale: float
    rotation: np.ndarray
    translation: np.ndarray
    said: str


def guess_world(centers: np.ndarray, rotations: np.ndarray, ups: np.ndarray, points: np.ndarray) -> World:
    """The world of N cameras and P points.

    centers: (N, 3).  rotations: (N, 3, 3) from the world to the cameras' axes.  ups: (N, 3) the upward
    direction of each picture in its camera's axes.  points: (P, 3).

    y is up: across the ground if many points lie on a plane below the cameras, otherwise as the pictures were
    held. The cameras are ``DISTANCE`` units away from what they look at, which is above or at the origin; the
    ground has y = 0.
    """
    forward = rotations[:, 2]
    focus = looked_at(centers, forward)
    distance = float(np.median(np.linalg.norm(centers - focus, axis=1)))
    held = np.einsum("nij,ni->nj", rotations, ups)
    up = held_up(np.cross(held, forward), held)
    ground = find_ground(points, centers, up, THICK * distance)
    said = "up is y, as the pictures were held"
    if ground is not None:
        up, height = ground
        focus = focus - (focus @ up - height) * up
        said = "up is y, across the ground, a plane that many points lie on and that has y = 0"
    # The first picture looks along -z as far as the horizontal goes.
    front = centers[0] - focus
    front = front - (front @ up) * up
    if np.linalg.norm(front) < 1e-6 * distance:
        front = np.cross(up, np.eye(3)[int(np.argmin(np.abs(up)))])
    front = front / np.linalg.norm(front)
    rotation = np.stack([np.cross(up, front), up, front])
    scale = DISTANCE / distance
    said = (
        f"{said}; one unit is 1/{DISTANCE:g} of the distance of the cameras: photographs do not show the size"
        " of things"
    )
    return World(scale, rotation, -scale * rotation @ focus, said)


def looked_at(centers: np.ndarray, forward: np.ndarray) -> np.ndarray:
    """(3,) the point that is nearest to the optical axes of cameras; before them where they are parallel.

    >>> looked_at(np.array([[0.0, 0, 2], [2, 0, 0]]), np.array([[0.0, 0, -1], [-1, 0, 0]])).round(6).tolist()
    [0.0, 0.0, 0.0]
    """
    across = np.eye(3) - forward[:, :, None] * forward[:, None]
    # A little of the nearest point to the centres keeps it defined where axes are parallel.
    matrix = across.sum(0) + 1e-6 * len(centers) * np.eye(3)
    point = np.linalg.solve(matrix, np.einsum("nij,nj->i", across, centers) + 1e-6 * centers.sum(0))
    if np.median(((point - centers) * forward).sum(1)) > 0:
        return point
    spread = float(np.linalg.norm(centers - centers.mean(0), axis=1).max())
    return centers.mean(0) + forward.mean(0) * max(spread, 1.0)


def held_up(right: np.ndarray, held: np.ndarray) -> np.ndarray:
    """(3,) upwards, of the horizontal axes (N, 3) of pictures and their upward directions (N, 3).

    People hold cameras level: up is across the horizontal axes, if these differ. Otherwise it is the mean of
    the upward directions, which leans back where pictures look down from one side.
    """
    mean = held.mean(0)
    values, axes = np.linalg.eigh(right.T @ right / len(right))
    level = axes[:, 0] * (1.0 if axes[:, 0] @ mean >= 0 else -1.0)
    steady = values[1] > max(ROLL * values[0], 0.02) and abs(level @ mean) > 0.3
    up = level if steady else mean
    return up / max(float(np.linalg.norm(up)), 1e-12)


def find_ground(
    points: np.ndarray, centers: np.ndarray, up: np.ndarray, thick: float
) -> tuple[np.ndarray, float] | None:
    """The plane below all cameras that many points (P, 3) lie on, and few below: its unit normal (3,) and its
    height along it. None if there is none."""
    if len(points) < 50:
        return None
    rng = np.random.default_rng(0)
    steepest = np.cos(np.radians(STEEPEST))
    best: tuple[int, np.ndarray, float] | None = None
    for three in rng.integers(0, len(points), (PLANES, 3)):
        a, b, c = points[three]
        normal = np.cross(b - a, c - a)
        length = float(np.linalg.norm(normal))
        if length < 1e-12:
            continue
        normal = normal / (length if normal @ up > 0 else -length)
        if normal @ up < steepest:
            continue
        height = float(a @ normal)
        above = points @ normal - height
        if (above < -2 * thick).mean() > BELOW or (centers @ normal - height).min() < 0:
            continue
        count = int((np.abs(above) < thick).sum())
        if best is None or count > best[0]:
            best = count, normal, height
    if best is None or best[0] < GROUND * len(points):
        return None
    _, normal, height = best
    for _ in range(3):
        near = points[np.abs(points @ normal - height) < thick]
        middle = near.mean(0)
        across = np.linalg.svd(near - middle, full_matrices=False)[2][2]
        normal = across * (1.0 if across @ normal > 0 else -1.0)
        height = float(middle @ normal)
    return normal, height


WIDEST = 1600
"""Pixels of the longer side of the copies that features are found in."""
FEATURES = {30: 8192, 100: 4096}
"""Most features of a photograph, for up to so many photographs; half of the last for more."""
LARGE = 40
"""More photographs than these are matched with their neighbours, if they follow each other, and every
``STRIDE``-th with all of those."""
STRIDE, OVERLAP = 4, 8
TWICE = 10
"""Photographs of one camera that its principal point is found from; of fewer it is the middle of the
picture."""
OFF = 0.06
"""Most that the principal point may be off the middle, in widths of the picture."""
WIDER = 3
"""Pixels by which masks are widened before features are looked for in them."""
GREY = 0.5
"""sRGB code of what is transparent."""
SEED = 0
PEAK, EDGE, RATIO = 0.002, 20.0, 0.9
"""Of a thorough search: least contrast of a feature, most ratio of its curvatures, and most ratio of the
distances to the best and to the second best match. Smooth things have few features of high contrast."""
START_MATCHES, START_ANGLE = 30, 8.0
PLACE_MATCHES, PLACE_SHARE = 12, 0.15
"""Of a thorough search, what the mapping starts from (matches and degrees between two photographs), and what
it places a photograph by (matches with points, and their share of all its matches)."""
TRIALS = 6
"""Mappings of a thorough search from other random numbers: the first pair of photographs decides the
shape."""

Tell = Callable[[str], None]
Poll = Callable[[], bool]


@dataclass(frozen=True, eq=False)
class Models:
    """found: the models of COLMAP that share no camera, the largest first.  features: (N,) of each
    photograph. matches: (N, N) features that agree with one motion of the camera between two photographs.
    motions: (6,) of photographs of the largest, by their names, as ``rolled`` found them."""

    found: list[Any]
    features: np.ndarray
    matches: np.ndarray
    motions: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def placed(self) -> int:
        """How many photographs have a camera in the largest."""
        return self.found[0].num_reg_images() if self.found else 0

    @property
    def names(self) -> set[str]:
        """The photographs that have a camera in the largest."""
        return {image.name for model in self.found[:1] for image in model.images.values()}


class Interrupted(Exception):
    """``stop()`` became true."""


def library() -> Any:
    """The module pycolmap. Raises InputError."""
    what = "or give cameras with the photographs, see `dressi fit --help`"
    pycolmap = needed(
        "pycolmap", f"--cameras auto needs the library pycolmap: pip install 'dressi[photos]'; {what}"
    )
    pycolmap.logging.minloglevel = 3  # it counts every feature on stderr
    return pycolmap


def reconstruct(
    pictures: Sequence[Picture],
    *,
    own: bool = False,
    masked: bool = False,
    thorough: bool = False,
    ordered: bool = False,
    tell: Tell = lambda text: None,
    stop: Poll = lambda: False,
) -> Models:
    """Models of the photographs, in pixels of the files, in units and axes of their own.

    own: whether each photograph has intrinsics of its own; otherwise those of the same camera
    (``Picture.camera``) share them.  masked: whether only features in the masks count: of an object on a
    turntable.  thorough: whether faint features of affine shape are used, too, and few matches suffice, of
    lenses without distortion, and the best of ``TRIALS`` mappings is taken. It takes several times as long.
    ordered: whether neighbours in the list were taken one after the other.  tell: what is done now.  stop:
    polled; true raises ``Interrupted``. Raises InputError.
    """
    colmap = library()
    with tempfile.TemporaryDirectory(prefix="dressi-cameras-") as place:
        work = Path(place)
        tell(f"features of {len(pictures)} photographs ...")
        scales = [copied(picture, work, masked) for picture in pictures]
        run = runner(colmap, stop)
        find_features(colmap, run, pictures, scales, work, own, thorough)
        _matches(colmap, run, len(pictures), work, ordered, thorough, tell)
        tell("placing the cameras ...")
        trials = [_mapped(colmap, run, work, thorough, SEED + i) for i in range(TRIALS if thorough else 1)]
        copies = {numbered(i): picture for i, picture in enumerate(pictures)}
        masks = small_masks(copies) if thorough else None
        models = max(trials, key=lambda models: _explained(models, masks))
        motions: dict[str, np.ndarray] = {}
        if models:
            refined = _refined(colmap, run, models[0])
            models[0], motions = rolled(refined, middles=refined is not models[0])
        features, matches = _counts(colmap, pictures, work)
    for model in models:
        for camera in model.cameras.values():
            image = next(image for image in model.images.values() if image.camera_id == camera.camera_id)
            camera.rescale(*copies[image.name].size)
        for image in model.images.values():
            index = int(image.name[:5])
            image.name = pictures[index].name
            for point in image.points2D:
                point.xy = point.xy / scales[index]
    motions = {copies[name].name: motion for name, motion in motions.items()}
    return Models(models, features, matches, motions)


def numbered(index: int) -> str:
    """The name of the copy of a photograph."""
    return f"{index:05d}.png"


def database(work: Path) -> Path:
    return work / "database.db"


def copied(picture: Picture, work: Path, masked: bool, widest: int = WIDEST) -> np.ndarray:
    """Write a photograph as pycolmap can read it, at no more than ``widest`` pixels along a side. Returns
    (2,) the scale of its sides."""
    codes = read_image(picture.path)
    if codes.shape[-1] == 4:
        codes = codes[..., :3] * codes[..., 3:] + GREY * (1 - codes[..., 3:])
    size = scaled_size(picture.size, min(1.0, widest / max(picture.size)))
    index = len(list((work / "images").glob("*"))) if (work / "images").is_dir() else 0
    _save(work / "images" / numbered(index), codes.mean(-1), size)
    covered = picture.covered if masked else None
    if covered is not None:
        _save(work / "masks" / f"{numbered(index)}.png", binary_dilation(covered, iterations=WIDER), size)
    return np.array(size) / picture.size


def _save(path: Path, plane: np.ndarray, size: tuple[int, int]) -> None:
    path.parent.mkdir(exist_ok=True)
    plane = plane.astype(np.float32)
    if size != plane.shape[::-1]:
        plane = resize(plane, size)
    Image.fromarray(np.clip(plane * 255 + 0.5, 0, 255).astype(np.uint8)).save(path, compress_level=1)


def find_features(
    colmap: Any,
    run: Any,
    pictures: Sequence[Picture],
    scales: Sequence[np.ndarray],
    work: Path,
    own: bool,
    thorough: bool,
) -> None:
    """Into the database, camera by camera."""
    groups: dict[Any, list[int]] = {}
    for index, picture in enumerate(pictures):
        groups.setdefault(index if own else picture.camera, []).append(index)
    options = colmap.FeatureExtractionOptions(max_image_size=WIDEST)
    options.sift.max_num_features = next((most for n, most in FEATURES.items() if len(pictures) <= n), 2048)
    if thorough:
        options.sift.peak_threshold, options.sift.edge_threshold = PEAK, EDGE
        options.sift.estimate_affine_shape = options.sift.domain_size_pooling = True
    for group in groups.values():
        first, scale = pictures[group[0]], scales[group[0]]
        reader = colmap.ImageReaderOptions(camera_model="SIMPLE_PINHOLE" if thorough else "SIMPLE_RADIAL")
        if (work / "masks").is_dir():
            reader.mask_path = str(work / "masks")
        if first.focal is not None:
            middle = scale * first.size / 2
            params = f"{first.focal * scale.mean()},{middle[0]},{middle[1]}"
            reader.camera_params = params if thorough else f"{params},0"
        run(
            colmap.extract_features, database(work), work / "images",
            image_names=[numbered(i) for i in group], camera_mode=colmap.CameraMode.SINGLE,
            reader_options=reader, extraction_options=options, device=colmap.Device.cpu,
        )  # fmt: skip


def _matches(
    colmap: Any, run: Any, count: int, work: Path, ordered: bool, thorough: bool, tell: Tell
) -> None:
    pairs = {(i, j) for j in range(count) for i in range(j)}
    if ordered and count > LARGE:
        pairs = {(i, j) for i, j in pairs if j - i <= OVERLAP or (i % STRIDE == 0 and j % STRIDE == 0)}
    tell(f"matching {len(pairs)} pairs of photographs ...")
    (work / "pairs.txt").write_text("".join(f"{numbered(i)} {numbered(j)}\n" for i, j in sorted(pairs)))
    pairing = colmap.ImportedPairingOptions(match_list_path=str(work / "pairs.txt"))
    matching = colmap.FeatureMatchingOptions(guided_matching=thorough)
    if thorough:
        matching.sift.max_ratio = RATIO
    geometry = colmap.TwoViewGeometryOptions()
    geometry.ransac.random_seed = SEED
    run(
        colmap.match_image_pairs, database(work), matching_options=matching, pairing_options=pairing,
        verification_options=geometry, device=colmap.Device.cpu,
    )  # fmt: skip


def _explained(models: Sequence[Any], masks: dict[str, np.ndarray] | None) -> tuple[int, float]:
    """How many photographs the largest model places, and how well: by its silhouettes or, without masks, by
    the pixels from features to where its points are seen."""
    if not models:
        return 0, 0.0
    best = models[0]
    well = -best.compute_mean_reprojection_error() if masks is None else agreement(best, masks)
    return best.num_reg_images(), well


def _mapped(colmap: Any, run: Any, work: Path, thorough: bool, seed: int) -> list[Any]:
    """Models, the largest first, that grow camera by camera."""
    options = colmap.IncrementalPipelineOptions(random_seed=seed, min_model_size=3)
    if thorough:
        mapper = options.mapper
        mapper.init_min_num_inliers, mapper.init_min_tri_angle = START_MATCHES, START_ANGLE
        mapper.abs_pose_min_num_inliers, mapper.abs_pose_min_inlier_ratio = PLACE_MATCHES, PLACE_SHARE
        options.triangulation.ignore_two_view_tracks = False
    place = work / f"models{seed}"
    place.mkdir()
    found = run(colmap.incremental_mapping, database(work), work / "images", place, options)
    return sorted(found.values(), key=lambda model: -model.num_reg_images())


def _refined(colmap: Any, run: Any, model: Any) -> Any:
    """The model with principal points that its photographs agree on; as it is if these are far off the
    middle."""
    counts = Counter(image.camera_id for image in model.images.values())
    if min(counts.values()) < TWICE:
        return model
    refined = copy.deepcopy(model)
    options = colmap.BundleAdjustmentOptions(refine_principal_point=True, print_summary=False)
    options.ceres.loss_function_type = colmap.LossFunctionType.SOFT_L1
    with silenced():  # it prints whatever the level
        run(colmap.bundle_adjustment, refined, options)
    for camera in refined.cameras.values():
        right, down = (
            camera.principal_point_x - camera.width / 2,
            camera.principal_point_y - camera.height / 2,
        )
        if max(abs(right), abs(down)) > OFF * max(camera.width, camera.height):
            return model
    return refined


def _counts(colmap: Any, pictures: Sequence[Picture], work: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features of each photograph, and matches of each pair."""
    features, matches = np.zeros(len(pictures), int), np.zeros((len(pictures),) * 2, int)
    with closing(colmap.Database.open(database(work))) as base:
        numbers = {image.image_id: int(image.name[:5]) for image in base.read_all_images()}
        for image, index in numbers.items():
            features[index] = base.num_keypoints_for_image(image)
        for pair, count in zip(*base.read_two_view_geometry_num_inliers(), strict=True):
            a, b = (numbers[image] for image in colmap.pair_id_to_image_pair(pair))
            matches[a, b] = matches[b, a] = count
    return features, matches


def runner(colmap: Any, stop: Poll) -> Callable[..., Any]:
    """Calls a function of the library in a thread, which ends when ``stop()`` becomes true or at Ctrl-C."""
    token = colmap.CancellationToken()

    def run(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        result: list[Any] = []
        failed: list[Exception] = []

        def work() -> None:
            try:
                result.append(function(*given, **named, cancellation_token=token))
            except Exception as error:  # the library raises those of C++
                failed.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.2)
                if stop():
                    raise Interrupted
        except (Interrupted, KeyboardInterrupt):
            token.cancel()
            thread.join()
            raise
        if failed:
            text = " ".join(str(failed[0]).split())[:200]
            raise InputError(f"pycolmap found no cameras: {text}; give cameras with the photographs")
        return result[0]

    return run


# Silhouettes as evidence for cameras: masks that the visual hull of all of them explains.
#
# With a long lens two shapes explain the features about as well: one, and its mirror image in depth, which
# turns the other way. The silhouettes of only one of them have a hull that fills its masks.

WIDTH = 96
"""Pixels of the longer side of the masks that are compared: cameras that turn the other way are far off."""


def small_masks(pictures: Mapping[str, Picture]) -> dict[str, np.ndarray] | None:
    """(h, w) float32 of each photograph, by its name; None if one has neither a mask nor alpha."""
    masks = {}
    for name, picture in pictures.items():
        covered = picture.covered
        if covered is None:
            return None
        size = scaled_size(picture.size, min(1.0, WIDTH / max(picture.size)))
        masks[name] = resize(covered.astype(np.float32), size)
    return masks


def agreement(model: Any, masks: Mapping[str, np.ndarray]) -> float:
    """IoU of masks with the silhouettes of their hull by the cameras of a model of COLMAP, whose images have
    the names of the masks; 0 where the cameras do not look at one object."""
    views, chosen = [], []
    for image in model.images.values():
        mask, camera, pose = masks[image.name], model.cameras[image.camera_id], image.cam_from_world()
        size = mask.shape[1], mask.shape[0]
        scale = np.diag([size[0] / camera.width, size[1] / camera.height, 1.0])
        intrinsics = scale @ camera.calibration_matrix()
        views.append(Camera(intrinsics, pose.rotation.matrix(), pose.translation, size, name=image.name))
        chosen.append(mask)
    if len({mask.shape for mask in chosen}) != 1 or not all((mask >= 0.5).any() for mask in chosen):
        return 0.0
    cameras, planes = Cameras(views), (np.stack(chosen) >= 0.5).astype(np.float32)
    try:
        bounds = estimate_bounds(planes, cameras)
        check_cameras(cameras, bounds)
        around = cameras.around(bounds.mean(0), 0.5 * float(np.linalg.norm(np.ptp(bounds, axis=0))))
        return hull_iou(planes, around, planes, around, bounds)
    except InputError:
        return 0.0


# Points of photographs whose cameras are known: features that two or more of them show.

WIDEST_PICTURE = 800
"""Pixels of the longer side of the copies that features are found in."""
NEIGHBOURS, WIDE = 6, 50.0
"""Others that a photograph is matched with: how many, and the most degrees between the optical axes."""


def triangulate(
    calibration: Calibration, *, tell: Tell = lambda text: None, stop: Poll = lambda: False
) -> SparsePoints:
    """Points in the world of a calibration, with the indices of its views that see them.

    tell: what is done now.  stop: polled; true raises ``Interrupted``. Raises InputError, also without
    pycolmap.
    """
    colmap, views = library(), calibration.views
    pictures = [Picture(view.image.name, view.image, view.camera.size, Exif()) for view in views]
    with tempfile.TemporaryDirectory(prefix="dressi-points-") as place:
        work, run = Path(place), runner(colmap, stop)
        tell(f"points of {len(views)} photographs ...")
        scales = [copied(picture, work, False, WIDEST_PICTURE) for picture in pictures]
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
    points = list(model.points3D.values())
    index = {number: int(image.name[:5]) for number, image in model.images.items()}
    seen = [sorted({index[element.image_id] for element in point.track.elements}) for point in points]
    return SparsePoints(
        np.array([point.xyz for point in points]).reshape(-1, 3),
        np.array([point.error for point in points]),
        np.repeat(np.arange(len(points)), [len(one) for one in seen]),
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
    model = colmap.Reconstruction()
    with closing(colmap.Database.open(database(work))) as base:
        for image in sorted(base.read_all_images(), key=lambda image: image.name):
            view, scale = views[int(image.name[:5])], scales[int(image.name[:5])]
            k, lens = np.diag([*scale, 1.0]) @ view.camera.intrinsics, view.lens
            size = np.round(scale * view.camera.size).astype(int).tolist()
            distortion = [getattr(lens, name) for name in MODELS[lens.model][1].split()[4:]]
            camera = colmap.Camera(
                camera_id=image.camera_id, model=lens.model, width=size[0], height=size[1],
                has_prior_focal_length=True, params=[k[0, 0], k[1, 1], k[0, 2], k[1, 2], *distortion],
            )  # fmt: skip
            base.update_camera(camera)
            model.add_camera_with_trivial_rig(camera)
            pose = colmap.Rigid3d(colmap.Rotation3d(view.camera.rotation), view.camera.translation)
            placed = colmap.Image(name=image.name, camera_id=image.camera_id, image_id=image.image_id)
            model.add_image_with_trivial_frame(placed, pose)
    return model
