"""The window of `dressi fit --view`, and what stands for it without one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dressi import Device, DressiAD
from dressi.cli.terminal import say
from dressi.errors import DressiError
from dressi.render.fit import FitJob, FitResult, Progress
from dressi.render.mesh import Mesh

Told = Callable[[Progress], None]
Asked = Callable[[], bool]


class NoWindow:
    """A fit that nobody watches."""

    def run(
        self, job: FitJob, *, resume: bool, progress: Told, stop: Asked, preview: Path | None
    ) -> FitResult:
        """What the job finds."""
        return job.run(resume=resume, progress=progress, stop=stop, preview=preview)

    def say(self, text: str, device: Device) -> None:
        """Something is done for which there is no picture."""
        say(text)

    def stay(self, mesh: Mesh, device: Device) -> None:
        """After the results were written."""

    def __enter__(self) -> NoWindow:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class FitWindow(NoWindow):
    """A window on the fit. Closing it stops the fit, which can be resumed. A finished fit stays in it until it is closed
    where a person sits at the terminal; a run of a script ends. Raises InputError where no window can be opened."""

    def __init__(self, title: str):
        from dressi.viewer import open_canvas

        self.canvas = open_canvas("glfw", (1100, 760), title)

    def run(
        self, job: FitJob, *, resume: bool, progress: Told, stop: Asked, preview: Path | None
    ) -> FitResult:
        from dressi.viewer import FitSession, Viewer

        session = FitSession(
            job, resume=resume, progress=progress, stop=stop, preview=preview, folder=job.folder
        )
        viewer = Viewer(session, self.canvas)
        try:
            viewer.run(stay=False)
        except BaseException:
            # The window or its surface is lost: the steps so far are kept.
            with suppress(DressiError):
                session.stop()
            raise
        return session.result()

    def say(self, text: str, device: Device) -> None:
        from dressi.viewer.notice import show_notice

        super().say(text, device)
        if not self.canvas.closed:
            with DressiAD(device) as engine:
                show_notice(self.canvas, engine, text)

    def stay(self, mesh: Mesh, device: Device) -> None:
        from dressi.viewer import MeshSession, Viewer

        if self.canvas.closed or not sys.stdin or not sys.stdin.isatty():
            return
        with DressiAD(device) as engine:
            viewer = Viewer(MeshSession(mesh, engine, "the result"), self.canvas)
            viewer.choose("textured")
            viewer.run()

    def __exit__(self, *_: object) -> None:
        self.canvas.close()
