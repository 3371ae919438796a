"""The photographs of a folder, and what their files say of the camera that took them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.ndimage import laplace

from ...errors import InputError, shown
from ...lazy import needed
from ..io.calibration import MASK_FOLDERS, PLACES, mask_in, pictures_in
from ..io.files import followed, read_bytes, read_json, reason, write_json
from ..io.images import image_size, read_image
from ..io.pixels import opened

FEWEST = 3
"""Photographs that a reconstruction needs."""


@dataclass(frozen=True)
class Picture:
    """name: relative to the folder of the photographs.  size: (W, H) of the pixels as they are stored. mask:
    the file of its mask, None where there is none."""

    name: str
    path: Path
    size: tuple[int, int]
    exif: Exif
    mask: Path | None = None

    @property
    def covered(self) -> np.ndarray | None:
        """(H, W) bool: the object, by the mask, or else by the alpha of the picture. None without both; alpha
        that is nowhere below 1/2 tells nothing apart, and counts as none."""
        if self.mask is not None:
            return read_image(self.mask)[..., 0] > 0.5
        codes = read_image(self.path)
        found = codes[..., -1] > 0.5
        return found if codes.shape[-1] == 4 and not found.all() else None

    @property
    def focal(self) -> float | None:
        """In pixels, as the file says it."""
        diagonal = float(np.hypot(*self.size))
        return self.exif.film_focal / FILM_DIAGONAL * diagonal if self.exif.film_focal else None

    @property
    def camera(self) -> tuple:
        """Pictures of the same camera, lens and zoom have equal ones, and share their intrinsics."""
        return (self.size, self.exif.model, self.exif.film_focal)

    @property
    def up(self) -> np.ndarray:
        """(3,) upwards in the axes of the camera (x right, y down), as the camera was held."""
        return np.array(_UP.get(self.exif.orientation, (0.0, -1.0, 0.0)))


_DOWN, _LEFT, _RIGHT = (0.0, 1.0, 0.0), (-1.0, 0.0, 0.0), (1.0, 0.0, 0.0)
_UP = {3: _DOWN, 4: _DOWN, 5: _LEFT, 6: _LEFT, 7: _RIGHT, 8: _RIGHT}
"""By the orientation of EXIF: where the upper side of the scene is in the pixels as they are stored."""


def list_pictures(folder: Path) -> list[Picture]:
    """Sorted by name: those in the folder, or in ``image``, ``images`` or ``train`` below it. Raises
    InputError."""
    if not folder.is_dir():
        raise InputError(f"there is no folder '{folder}'; give the folder that holds the photographs")
    for place in PLACES:
        files = pictures_in(folder / place)
        if files:
            break
    if len(files) < FEWEST:
        raise InputError(
            f"'{folder}' has {len(files)} photographs, and cameras are found of {FEWEST} or more; add"
            " photographs from other sides, 20 to 60 in all"
        )
    root = folder.resolve()
    masks = [folder / place for place in MASK_FOLDERS if (folder / place).is_dir()]
    pictures = []
    for file in files:
        followed(file, folder, folder)
        size = image_size(file)
        mask = next((found for place in masks if (found := mask_in(place, file)) is not None), None)
        pictures.append(Picture(file.relative_to(root).as_posix(), file, size, read_exif(file, size), mask))
    return pictures


# What a camera wrote beside its picture (EXIF).

FILM_DIAGONAL = 43.27
"""Millimetres."""
_MODEL, _ORIENTATION, _OWN = 0x0110, 0x0112, 0x8769
_FOCAL, _FILM_FOCAL = 0x920A, 0xA405
_WIDTH, _HEIGHT, _DENSITY, _UNIT = 0xA002, 0xA003, 0xA20E, 0xA210


@dataclass(frozen=True)
class Exif:
    """orientation: 1 to 8, of the TIFF standard, 1 if it is missing.  model: of the camera, "" if it is
    missing. film_focal: the focal length in millimetres on a picture with the diagonal of 35 mm film, 0 if it
    is missing."""

    orientation: int = 1
    model: str = ""
    film_focal: float = 0.0


def read_exif(path: Path, size: tuple[int, int]) -> Exif:
    """The Exif of a picture of a size (W, H); damaged data counts as missing. Raises InputError if that is
    no picture."""
    with opened(read_bytes(path, "image"), str(path)) as image:
        if image is None:
            return Exif()
        try:
            tags = image.getexif()
            orientation = int(tags.get(_ORIENTATION, 1))
            model, focal = shown(tags.get(_MODEL, "")), _film_focal(tags.get_ifd(_OWN), size)
        except Exception:  # Pillow's parsers raise many kinds of exceptions
            return Exif()
    return Exif(orientation if 1 <= orientation <= 8 else 1, model, focal)


def _film_focal(tags: Mapping[int, Any], size: tuple[int, int]) -> float:
    """As the file says it, or from the focal length of the lens and the pixels in a unit of length of the
    sensor."""
    focal = float(tags.get(_FILM_FOCAL) or 0)
    if not focal and tags.get(_FOCAL) and tags.get(_DENSITY):
        unit = {3: 10.0, 4: 1.0}.get(tags.get(_UNIT, 2), 25.4)
        longest = max(float(tags.get(_WIDTH) or 0), float(tags.get(_HEIGHT) or 0)) or max(size)
        diagonal = longest / float(tags[_DENSITY]) * unit * float(np.hypot(*size)) / max(size)
        focal = float(tags[_FOCAL]) / diagonal * FILM_DIAGONAL
    return focal if 5 < focal < 2000 else 0.0


# Photographs from a video: the sharpest frames, at equal distances along the way of the camera.

SUFFIXES = (".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm")
FEWEST_FRAMES, MOST = 16, 60
"""Frames that are chosen."""
APART = 0.06
"""Widths of the picture that things in it move from a chosen frame to the next, if this gives more than
``FEWEST``."""
LEAST_MOTION = 0.3
"""Widths of the picture that things in it move during the video: less shows one side of an object only."""
SMALL = 256
"""Width of the frames that are compared."""
TILES = 3
"""Along each side of a frame: each has a motion of its own."""
LONGEST = 100_000
"""Frames that are looked at."""
FACTS = "frames.json"
VERSION = 1


def is_video(path: Path) -> bool:
    """By the ending of its name."""
    return path.suffix.lower() in SUFFIXES


def check_video(path: Path) -> None:
    """Raise InputError if the file is not there."""
    if not path.is_file():
        raise InputError(f"there is no video '{path}' for --photos; check the path")


def chosen_frames(video: Path, into: Path) -> tuple[Path, str]:
    """Write frames of a video as JPEG files into a folder, unless an earlier run has; the folder, and a
    sentence on them.

    Raises InputError: no video, damaged, without PyAV, or of a camera that hardly moves.
    """
    check_video(video)
    status = video.stat()
    key = [VERSION, video.name, status.st_size, status.st_mtime_ns]
    facts = into / FACTS
    if facts.is_file():
        try:
            kept = read_json(facts, "list of frames")
            if kept["key"] == key:
                return into, str(kept["said"])
        except (InputError, LookupError, TypeError):
            pass  # they are written anew
    sharpness, motion = _looked_through(video)
    chosen = choose(sharpness, motion)
    if len(chosen) == 0:
        raise InputError(
            f"the camera of '{video}' hardly moves: things in its picture move by {motion.sum():.0%} of the"
            f" width in {len(motion)} frames. Walk around the object slowly, all the way"
        )
    shutil.rmtree(into, ignore_errors=True)
    try:
        into.mkdir(parents=True)
    except OSError as error:
        text = f"cannot write the frames into '{into}': {reason(error)}; give another --out"
        raise InputError(text) from None
    wanted = set(chosen.tolist())
    for number, frame in enumerate(_frames(video)):
        if number in wanted:
            picture = Image.fromarray(_upright(frame.to_ndarray(format="rgb24"), frame))
            picture.save(into / f"{number:06d}.jpg", quality=95)
    said = (
        f"{len(chosen)} of {len(motion)} frames of '{video.name}' are used, the sharpest at equal distances"
        " along the way of the camera"
    )
    write_json(facts, {"key": key, "said": said})
    return into, said


def choose(sharpness: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """Numbers of frames at about equal distances of motion, each the sharpest among its neighbours; none of a
    camera that hardly moves.

    sharpness: (F,).  motion: (F,) of things in the picture since the frame before, in widths of the picture.

    >>> choose(np.tile([1.0, 3.0, 2.0], 100), np.full(300, 0.01))[:3].tolist()
    [1, 7, 13]
    """
    way = np.cumsum(motion)
    total = float(way[-1]) if len(way) else 0.0
    if total < LEAST_MOTION:
        return np.zeros(0, dtype=int)
    count = int(np.clip(round(total / APART), FEWEST_FRAMES, MOST))
    part = np.minimum((way / total * count).astype(int), count - 1)
    chosen = []
    for k in range(count):
        frames = np.flatnonzero(part == k)
        if len(frames):
            # The last third of each part is left out, so that neighbours do not come from one place.
            frames = frames[: max(-(-2 * len(frames) // 3), 1)]
            chosen.append(int(frames[np.argmax(sharpness[frames])]))
    return np.array(chosen)


def _looked_through(video: Path) -> tuple[np.ndarray, np.ndarray]:
    """Sharpness and motion of all frames."""
    sharpness, motion = [], []
    before: np.ndarray | None = None
    for frame in _frames(video):
        height = max(round(frame.height * SMALL / frame.width), 8)
        grey = frame.reformat(width=SMALL, height=height, format="gray").to_ndarray().astype(np.float32)
        sharpness.append(float(laplace(grey).var() / max(float(grey.var()), 1.0)))
        motion.append(0.0 if before is None else moved(before, grey) / SMALL)
        before = grey
    if len(motion) < FEWEST_FRAMES:
        raise InputError(
            f"'{video}' has {len(motion)} frames, and {FEWEST_FRAMES} or more are needed; film a longer video"
        )
    return np.array(sharpness), np.array(motion)


def moved(before: np.ndarray, now: np.ndarray) -> float:
    """Pixels that things in a grey picture (H, W) have moved by: the median of its tiles, by phase
    correlation."""
    height, width = (side // TILES for side in before.shape)
    window = np.hanning(height)[:, None] * np.hanning(width)
    moves = []
    for row, column in np.ndindex(TILES, TILES):
        here = slice(row * height, (row + 1) * height), slice(column * width, (column + 1) * width)
        first, second = ((part[here] - part[here].mean()) * window for part in (before, now))
        if first.std() < 1.0:
            continue
        cross = np.fft.rfft2(second) * np.conj(np.fft.rfft2(first))
        peaks = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-6), s=(height, width))
        y, x = np.unravel_index(int(np.argmax(peaks)), peaks.shape)
        moves.append(np.hypot(min(y, height - y), min(x, width - x)))
    return float(np.median(moves)) if moves else 0.0


def _frames(video: Path) -> Iterator[Any]:
    av = needed(
        "av",
        f"reading the video '{video}' needs PyAV: pip install 'dressi[images]'; or give a folder of its frames",
    )
    try:
        with av.open(str(video)) as container:
            if not container.streams.video:
                raise InputError(f"'{video}' has no pictures; give a video")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            for number, frame in enumerate(container.decode(stream)):
                if number >= LONGEST:
                    raise InputError(
                        f"'{video}' has more than {LONGEST} frames; cut it to the part that shows the object"
                    )
                yield frame
    except InputError:
        raise
    except Exception as error:  # FFmpeg's are of many kinds
        text = f"cannot read the video '{video}': {reason(error)}; export it again as MP4"
        raise InputError(text) from None


def _upright(pixels: np.ndarray, frame: Any) -> np.ndarray:
    """As a player shows it: telephones store how they were held."""
    quarters = round(getattr(frame, "rotation", 0) / 90) % 4
    return np.ascontiguousarray(np.rot90(pixels, quarters))
