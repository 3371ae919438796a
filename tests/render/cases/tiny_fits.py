"""A small scene, and fits to it that many tests look at."""

from dataclasses import replace
from functools import cache

import numpy as np

from dressi import DressiAD
from dressi.render import Cameras
from dressi.render.fit import Dataset, FitJob, FitOptions, FitResult, Observations, Progress, mesh_dataset
from dressi.render.mesh.primitives import pear


class TinyFits:
    """A small scene on a device, and fits to it that many tests look at: nobody may change what they return."""

    options = FitOptions(size=(24, 24), views=3, steps=30, texture_size=16, colours=False, joint=False)

    def __init__(self, device):
        self.device = device
        self.scene: Dataset = mesh_dataset(
            pear(16, 12, 32), self.options.views, self.options.size, self.make_engine
        )
        self.whole = cache(self._whole)

    def make_engine(self) -> DressiAD:
        return DressiAD(self.device)

    def _whole(self, form: str = "outer") -> tuple[FitResult, list[Progress]]:
        """The fit that nothing disturbs, and the progress it told."""
        seen: list[Progress] = []
        job = FitJob(self.scene, replace(self.options, form=form), self.make_engine)
        return job.run(progress=seen.append), seen


@cache
def fits_on(device) -> TinyFits:
    """Those of a device, which all modules share."""
    return TinyFits(device)


def unit_scene(
    cameras: Cameras, masks: np.ndarray, known: np.ndarray | None = None, colors: np.ndarray | None = None
) -> Dataset:
    """Photographs of an object in the unit sphere, white unless colours are given."""
    train = Observations(cameras, masks, masks[..., None] * np.ones(3) if colors is None else colors, known)
    return Dataset(train, None, np.zeros(3), 1.0, np.array([[-1.0] * 3, [1.0] * 3]), np.array([0.0, 1, 0]))
