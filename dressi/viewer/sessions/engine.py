"""An optimisation of one's own in the viewer: any ``DressiAD``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import FLOAT, IVEC3, VEC3, VEC4
from ...errors import InputError
from ...render.fit.graphs.subject import Subject
from ...render.io import save_png
from ...render.lists import as_list
from ...render.surface.color import srgb_to_linear
from ...render.surface.transfer import encoded
from ...vk.run.engine import DressiAD
from .session import Scene, Slider, Status, stamped


class EngineSession:
    """Steps of an engine, with a picture or a mesh of it.

    image: a FLOAT, VEC3 or VEC4 image of the engine, linear unless ``codes``, whose tile ``tile`` is shown. Or positions and
    faces: a VEC3 and an IVEC3 list (or arrays), drawn from any camera; they should lie about the origin, within a
    distance of 1. sliders: leaves (FLOAT, one texel) with their range. steps: how many there will be; None: until the window
    is closed. Raises InputError.

    >>> from dressi.viewer.sessions.engine import EngineSession
    >>> image = Variable.of(np.zeros((4, 6, 3)), name="image")
    >>> with DressiAD() as ad:
    ...     ad.set_loss(F.mean(F.square(F.length(image - 0.5))))
    ...     ad.set_optimizer(adam(0.05), [image])
    ...     session = EngineSession(ad, image=image, steps=3)
    ...     session.advance(0.0, steps=3)
    ...     session.status.done, session.status.finished
    (3, True)
    """

    views = None

    def __init__(
        self,
        engine: DressiAD,
        *,
        image: Variable | None = None,
        positions: Variable | None = None,
        faces: Variable | np.ndarray | None = None,
        codes: bool = False,
        tile: int = 0,
        sliders: Mapping[Variable, tuple[float, float]] | None = None,
        steps: int | None = None,
        folder: Path | None = None,
        title: str = "dressi",
        up: Sequence[float] = (0.0, 1.0, 0.0),
    ):
        if (image is None) == (positions is None) or (positions is None) != (faces is None):
            raise InputError("show either an image, or positions and faces")
        self._engine, self._folder = engine, folder
        self.status = Status(title, total=steps or 0)
        self.up = np.asarray(up, np.float64)
        shown = None if image is None else _one_tile(image, tile, codes)
        subject = None
        if positions is not None:
            table = as_list("faces", IVEC3, faces)
            count = len(faces) if isinstance(faces, np.ndarray) else table.size[0] * table.size[1]
            subject = Subject(as_list("positions", VEC3, positions), table, count)
        self.scene = Scene(engine, subject, shown)
        self._image = shown
        self._values: dict[Variable, float] = {}
        self.sliders = [self._slider(leaf, *ends) for leaf, ends in (sliders or {}).items()]

    @property
    def actions(self) -> Mapping[str, Callable[[], None]]:
        return {} if self._folder is None or self._image is None else {"save": self._save}

    def advance(self, seconds: float, *, steps: int | None = None) -> None:
        status, begin = self.status, time.perf_counter()
        before, count = status.done, 1
        while not status.finished:
            if status.total:
                count = min(count, status.total - status.done)
            self._engine.step(count)
            self._engine.wait()
            status.done += count
            status.finished = bool(status.total) and status.done >= status.total
            now = time.perf_counter() - begin
            if (status.done - before >= steps) if steps is not None else now >= seconds:
                break
            status.step_ms = 1e3 * now / (status.done - before)
            left = seconds - now
            count = 1 if steps is not None else int(np.clip(1e3 * left / max(status.step_ms, 1e-3), 1, 64))
        losses = self._engine.losses()
        if losses:
            status.curves["loss"] = [*status.curves.get("loss", []), (len(losses), losses[-1])]

    def stop(self) -> None:
        self.status.finished = True

    def _slider(self, leaf: Variable, least: float, most: float) -> Slider:
        if leaf.vtype is not FLOAT or leaf.size != (1, 1) or not 0 < least < most:
            raise InputError(f"a slider moves a FLOAT leaf of one texel between positive numbers, not {leaf}")
        data = leaf.data
        self._values[leaf] = float(np.clip(1.0 if data is None else np.asarray(data).flat[0], least, most))

        def move(value: float) -> None:
            self._engine.send(leaf, np.full((1, 1, 1), value))
            self._values[leaf] = value

        return Slider(leaf.name or "value", least, most, lambda: self._values[leaf], move)

    def _save(self) -> None:
        assert self._folder is not None and self._image is not None
        path = stamped(self._folder, self.status.done, ".png")
        save_png(path, srgb_to_linear(np.clip(self._engine.recv(self._image)[0], 0, 1)))
        self.status.note = f"saved {path.name}"


def _one_tile(image: Variable, tile: int, codes: bool) -> Variable:
    """VEC3 sRGB codes of one tile. Raises InputError."""
    if image.vtype not in (FLOAT, VEC3, VEC4):
        raise InputError(f"an image of FLOAT, VEC3 or VEC4 can be shown, not {image}")
    if not 0 <= tile < image.batch:
        raise InputError(f"{image} has tiles 0 to {image.batch - 1}, not {tile}")
    if image.batch > 1:
        image = F.take(image, F.constant(tile))
    colour = F.vec3(image) if image.vtype is FLOAT else F.swizzle(image, "xyz")
    return F.clamp(colour if codes else encoded(F.maximum(colour, 0.0)), 0.0, 1.0)
