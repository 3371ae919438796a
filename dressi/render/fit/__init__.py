"""Shape and texture of an object from its pictures: a dataset, options, and a job that runs the rounds.

    dataset = mesh_dataset(load_mesh("pear.glb"), views=6, size=(256, 256), make_engine=DressiAD)
    result = FitJob(dataset, FitOptions(), DressiAD).run()
    save_mesh("result.glb", result.mesh)

This package does not depend on a device: ``make_engine`` makes the engine that runs a graph, such as
``dressi.DressiAD``.
"""

from ..core.engine import Engine, MakeEngine
from ..drawing.draw import draw
from .data.dataset import (
    TARGET_SAMPLES,
    Dataset,
    FitResult,
    Observations,
    Progress,
    mesh_dataset,
    photo_dataset,
    planned_dataset,
)
from .data.directional import DirectionalColour
from .disk import Checkpoint, check_folder, locked
from .graphs.term import FitRound
from .job import FitJob
from .options import FitOptions
from .options.schedule import shape_rounds
from .phases.materials import MaterialFit, MaterialOptions, MaterialResult
from .poses import FoundPose, find_pose
from .report import FILES, keep_mesh, write_results

__all__ = [
    "FILES", "TARGET_SAMPLES", "Checkpoint", "Dataset", "DirectionalColour", "Engine", "FitJob",
    "FitOptions", "FitResult", "FitRound", "FoundPose", "MakeEngine", "MaterialFit", "MaterialOptions",
    "MaterialResult", "Observations", "Progress", "check_folder", "draw", "find_pose", "keep_mesh",
    "locked", "mesh_dataset", "photo_dataset", "planned_dataset", "shape_rounds", "write_results",
]  # fmt: skip
