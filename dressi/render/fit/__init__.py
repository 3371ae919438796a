"""Shape and texture of an object from its pictures: a scene, options, and a job that runs the rounds.

    scene = mesh_scene(load_mesh("pear.glb"), views=6, size=(256, 256), make_engine=DressiAD)
    result = FitJob(scene, FitOptions(), DressiAD).run()
    save_mesh("result.glb", result.mesh)

Nothing here knows what runs the graphs: ``make_engine`` makes an optimisation, ``dressi.DressiAD`` for one.
"""

from ..drawing.draw import draw
from ..engine import Engine, MakeEngine
from .disk import Checkpoint, check_folder, locked
from .job import FitJob
from .options import FitOptions, Round
from .report import FILES, keep_mesh, write_results
from .result import FitResult, Progress
from .scene import Scene, Views, mesh_scene, photo_scene, planned_scene

__all__ = [
    "FILES",
    "Checkpoint",
    "Engine",
    "FitJob",
    "FitOptions",
    "FitResult",
    "MakeEngine",
    "Progress",
    "Round",
    "Scene",
    "Views",
    "check_folder",
    "draw",
    "keep_mesh",
    "locked",
    "mesh_scene",
    "photo_scene",
    "planned_scene",
    "write_results",
]
