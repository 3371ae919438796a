"""What a running fit shows of itself: IoU and PSNR of the training views, and a picture that is written as it goes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ....errors import InputError
from ...engine import Engine
from ...io import save_png
from ..data.result import Progress, Quality
from ..disk import Checkpoint
from ..graphs.round import Round

EVERY = 50
"""Steps between two looks; the first and the last step of a round are looked at, too."""


class Watch:
    """Looks at the rounds of a fit, which have so many ``steps``, and tells ``progress``. The numbers are kept in the checkpoint, so that the curves of a
    resumed fit go on.

    preview: a PNG file that each look replaces: targets, the fit, and the difference. A file that cannot be written is
    left out with a warning. Without progress and preview nothing is looked at.
    """

    def __init__(
        self,
        point: Checkpoint,
        steps: list[int],
        progress: Callable[[Progress], None] | None,
        preview: Path | None,
    ):
        self.point, self.rounds, self.total = point, len(steps), sum(steps)
        self.progress, self.preview = progress, preview

    def stepped(self, work: Round, engine: Engine, loss: float) -> None:
        """Called after some steps of a round, whose last loss is given."""
        if self.progress is None and self.preview is None:
            return
        point, done = self.point, len(self.point.losses)
        if point.step == 1 or point.step >= work.steps or done - self._looked >= EVERY:
            look = work.look(engine)
            # Colours start anew in every round, so its first step says nothing of them.
            psnr = None if point.step == 1 else look.psnr
            point.quality.append((done, look.iou, np.nan if psnr is None else psnr))
            if self.preview is not None:
                self._write(look.sheet())
        self._tell(work, loss, work.doing or work.name)

    def between(self, work: Round, doing: str) -> None:
        """Called when something is done after the steps of a round."""
        self._tell(work, self.point.losses[-1][1], doing)

    def _tell(self, work: Round, loss: float, doing: str) -> None:
        if self.progress is None:
            return
        point = self.point
        last = point.quality[-1] if point.quality else None
        found = (None, None) if last is None else (last[1], None if np.isnan(last[2]) else last[2])
        doing = f"{point.round + 1}/{self.rounds} {doing}"
        self.progress(Progress(work.name, len(point.losses), self.total, loss, *found, doing))

    @property
    def _looked(self) -> int:
        """The step of the last look, in an earlier run too: a resumed fit looks where one that was not stopped does."""
        return self.point.quality[-1][0] if self.point.quality else -EVERY

    def _write(self, sheet: np.ndarray) -> None:
        assert self.preview is not None
        try:
            save_png(self.preview, sheet)
        except (OSError, InputError) as error:
            warnings.warn(f"the preview is left out: {error}", stacklevel=2)
            self.preview = None


def qualities(point: Checkpoint, names: list[str]) -> list[Quality]:
    """The looks of a fit so far. names: of the phase of each round."""
    return [
        Quality(done, names[point.losses[done - 1][0]], iou, None if np.isnan(psnr) else psnr)
        for done, iou, psnr in point.quality
    ]
