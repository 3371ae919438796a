"""What shows a fit that runs: nothing, the window of `dressi fit --view`, or a recording (`--rerun`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ... import Device, DressiAD
from ...errors import DressiError, InputError
from ...render.fit import FitJob, FitResult, Progress
from ...render.io.files import library
from ...render.mesh import Mesh
from ...render.surface.color import linear_to_srgb
from ..core.terminal import say
from .request import Request


def shown_by(request: Request) -> NoWindow:
    """What shows the fit of a request. Raises InputError where it cannot."""
    title = f"{request.out.name} - dressi fit"
    if request.rerun is not None:
        return Recording(request.rerun, title)
    return FitWindow(title) if request.view else NoWindow()


class NoWindow:
    """A fit that nobody watches."""

    def run(self, job: FitJob, **how: Any) -> FitResult:
        """The result of the job. how: arguments of ``FitJob.run``."""
        return job.run(**how)

    def say(self, text: str, device: Device) -> None:
        """Something is done for which there is no picture."""
        say(text)

    def stay(self, result: FitResult, device: Device) -> None:
        """After the results were written."""

    def __enter__(self) -> NoWindow:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class FitWindow(NoWindow):
    """A window on the fit. Closing it stops the fit, which can be resumed. A finished fit stays in it until
    it is closed where a person sits at the terminal; a run of a script ends. Raises InputError where no
    window can be opened."""

    def __init__(self, title: str):
        from ...viewer import open_canvas

        self.canvas = open_canvas("glfw", (1100, 760), title)

    def run(self, job: FitJob, **how: Any) -> FitResult:
        from ...viewer import FitSession, Viewer

        session = FitSession(job, folder=job.folder, **how)
        try:
            Viewer(session, self.canvas).run(stay=False)
        except BaseException:
            # The window or its surface is lost: the steps so far are kept.
            with suppress(DressiError):
                session.stop()
            raise
        return session.result()

    def say(self, text: str, device: Device) -> None:
        from ...viewer.viewer import show_notice

        super().say(text, device)
        if not self.canvas.closed:
            with DressiAD(device) as engine:
                show_notice(self.canvas, engine, text)

    def stay(self, result: FitResult, device: Device) -> None:
        from ...viewer import MeshSession, Viewer

        if self.canvas.closed or not sys.stdin or not sys.stdin.isatty():
            return
        with DressiAD(device) as engine:
            session = MeshSession(result.mesh, engine, "the result", directional=result.directional)
            viewer = Viewer(session, self.canvas)
            viewer.choose("textured")
            viewer.run()

    def __exit__(self, *_: object) -> None:
        self.canvas.close()


EVERY = 50
"""Steps between two pictures, with the mesh."""
WAIT = 5.0
"""Seconds at most until a viewer answers, and until it has taken what is left at the end."""


class Recording(NoWindow):
    """A sink of rerun's. to: a file .rrd, the address of a viewer (``rerun+http://host:port/proxy``), or "spawn", which
    opens one. Raises InputError without rerun-sdk, and where nothing can be written.

    Over the timeline "step" it gets the loss of each step, IoU and PSNR, and every 50 steps the training views
    (targets, the fit, their difference) and the mesh with its texture, as glTF.
    """

    def __init__(self, to: str, title: str):
        rerun = self._rerun = library("rerun", "rerun", "leave out --rerun")
        self._stream = rerun.RecordingStream("dressi fit", recording_id=uuid4())
        self._stream.send_recording_name(title)
        try:
            if to.endswith(".rrd"):
                Path(to).parent.mkdir(parents=True, exist_ok=True)
                self._stream.save(to)
            elif to == "spawn":
                self._stream.spawn()
            else:
                self._stream.connect_grpc(to)
            self._stream.flush(timeout_sec=WAIT)  # an address where nobody answers is said now
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(
                f"--rerun {to}: {str(error).splitlines()[0]}; give another file or address"
            ) from error

    def run(
        self, job: FitJob, *, progress: Callable[[Progress], None] | None = None, **how: Any
    ) -> FitResult:
        def told(now: Progress) -> None:
            self._numbers(now.done, IoU=now.iou, PSNR=now.psnr)
            if progress is not None:
                progress(now)

        if job.dataset.up[1] > 0.9:
            self._stream.log("world", self._rerun.ViewCoordinates.RIGHT_HAND_Y_UP, static=True)
        running, known, seen = job.started(progress=told, **how), 0, -EVERY
        for moment in running:
            losses = running.point.losses
            for step in range(known, len(losses)):
                self._numbers(step + 1, loss=losses[step][1])
            known = len(losses)
            if known >= seen + EVERY or moment.step == moment.work.steps:
                seen = known
                sheet = linear_to_srgb(np.clip(moment.work.look(moment.engine).sheet(), 0, 1))
                codes = (255 * sheet + 0.5).astype(np.uint8)
                self._stream.log("pictures", self._rerun.Image(codes).compress())
                self._mesh(running.reached(moment))
        result = running.result()
        self._mesh(result.mesh)
        return result

    def _numbers(self, step: int, **values: float | None) -> None:
        self._stream.set_time("step", sequence=step)
        for name, value in values.items():
            if value is not None:
                self._stream.log(name, self._rerun.Scalars(value))

    def _mesh(self, mesh: Mesh) -> None:
        from ...report.parts.model import glb_bytes

        model = self._rerun.Asset3D(contents=glb_bytes(mesh), media_type="model/gltf-binary")
        self._stream.log("world/mesh", model)

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # the viewer was closed
            self._stream.flush(timeout_sec=WAIT)
        self._stream.disconnect()
