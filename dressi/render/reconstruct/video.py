"""Photographs from a video: the sharpest frames, at equal distances along the way of the camera."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.ndimage import laplace

from ...errors import InputError
from ..io.files import read_json, reason, write_json

SUFFIXES = (".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm")
FEWEST, MOST = 16, 60
"""Frames that are chosen."""
APART = 0.06
"""Widths of the picture that things in it move from a chosen frame to the next, if this gives more than ``FEWEST``."""
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
    """Write frames of a video as JPEG files into a folder, unless an earlier run has; the folder, and a sentence on them.

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
            f"the camera of '{video}' hardly moves: things in its picture move by {motion.sum():.0%} of the width in"
            f" {len(motion)} frames. Walk around the object slowly, all the way"
        )
    shutil.rmtree(into, ignore_errors=True)
    try:
        into.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"cannot write the frames into '{into}': {reason(error)}; give another --out"
        ) from None
    wanted = set(chosen.tolist())
    for number, frame in enumerate(_frames(video)):
        if number in wanted:
            picture = Image.fromarray(_upright(frame.to_ndarray(format="rgb24"), frame))
            picture.save(into / f"{number:06d}.jpg", quality=95)
    said = (
        f"{len(chosen)} of {len(motion)} frames of '{video.name}' are used, the sharpest at equal distances along the way"
        " of the camera"
    )
    write_json(facts, {"key": key, "said": said})
    return into, said


def choose(sharpness: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """Numbers of frames at about equal distances of motion, each the sharpest among its neighbours; none of a camera that
    hardly moves.

    sharpness: (F,).  motion: (F,) of things in the picture since the frame before, in widths of the picture.

    >>> choose(np.tile([1.0, 3.0, 2.0], 100), np.full(300, 0.01))[:3].tolist()
    [1, 7, 13]
    """
    way = np.cumsum(motion)
    total = float(way[-1]) if len(way) else 0.0
    if total < LEAST_MOTION:
        return np.zeros(0, dtype=int)
    count = int(np.clip(round(total / APART), FEWEST, MOST))
    part = np.minimum((way / total * count).astype(int), count - 1)
    found = [np.flatnonzero(part == k) for k in range(count)]
    # The last third of each part is left out, so that neighbours do not come from one place.
    found = [frames[: max(-(-2 * len(frames) // 3), 1)] for frames in found if len(frames)]
    return np.array([int(frames[np.argmax(sharpness[frames])]) for frames in found])


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
    if len(motion) < FEWEST:
        raise InputError(
            f"'{video}' has {len(motion)} frames, and {FEWEST} or more are needed; film a longer video"
        )
    return np.array(sharpness), np.array(motion)


def moved(before: np.ndarray, now: np.ndarray) -> float:
    """Pixels that things in a grey picture (H, W) have moved by, the median of its tiles, by phase correlation."""
    height, width = (side // TILES for side in before.shape)
    window = np.hanning(height)[:, None] * np.hanning(width)
    found = []
    for row in range(TILES):
        for column in range(TILES):
            here = slice(row * height, (row + 1) * height), slice(column * width, (column + 1) * width)
            first, second = ((part[here] - part[here].mean()) * window for part in (before, now))
            if first.std() < 1.0:
                continue
            cross = np.fft.rfft2(second) * np.conj(np.fft.rfft2(first))
            peaks = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-6), s=(height, width))
            y, x = np.unravel_index(int(np.argmax(peaks)), peaks.shape)
            found.append(np.hypot(min(y, height - y), min(x, width - x)))
    return float(np.median(found)) if found else 0.0


@contextmanager
def _opened(video: Path) -> Iterator[Any]:
    try:
        import av  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError(
            f"reading the video '{video}' needs PyAV: pip install 'dressi[images]'; or give a folder of its frames"
        ) from None
    try:
        with av.open(str(video)) as container:
            yield container
    except InputError:
        raise
    except Exception as error:  # FFmpeg's are of many kinds
        raise InputError(
            f"cannot read the video '{video}': {reason(error)}; export it again as MP4"
        ) from None


def _frames(video: Path) -> Iterator[Any]:
    with _opened(video) as container:
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


def _upright(pixels: np.ndarray, frame: Any) -> np.ndarray:
    """As a player shows it: telephones store how they were held."""
    quarters = round(getattr(frame, "rotation", 0) / 90) % 4
    return np.ascontiguousarray(np.rot90(pixels, quarters))
