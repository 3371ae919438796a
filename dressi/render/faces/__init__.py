"""Faces: statistical models of heads, fitted to pictures, landmarks and depths (Dressi, equation 8).

    model = load_face_model("face.npz")
    found = fit_face(model, camera, pictures=picture, landmarks=load_landmarks("landmarks.json"))
    save_mesh(found.mesh(), "face.obj")

| module | what |
|---|---|
| `model` | `FaceModel`: mean, modes, landmarks, regions; `Face`: its parameters; `procedural_albedo`, `scan_colours` |
| `files` | `load_face_model`, `save_face_model`, of our format and ICT-FaceKit's; `load_landmarks` of any detector |
| `graph` | `FaceData`: what is seen, checked; the parameters as Variables, the residuals of equation 8, and where a fit starts |
| `fit` | `fit_face`, and `FaceFitter` for many faces: stages of Levenberg-Marquardt or Adam |
"""

from .files import load_face_model, load_landmarks, save_face_model
from .fit import FaceFitter, FaceOptions, FoundFace, fit_face
from .graph import FaceData, FaceGraph
from .model import Face, FaceModel, procedural_albedo, scan_colours

__all__ = [
    "Face", "FaceData", "FaceFitter", "FaceGraph", "FaceModel", "FaceOptions", "FoundFace", "fit_face",
    "load_face_model", "load_landmarks", "procedural_albedo", "save_face_model", "scan_colours",
]  # fmt: skip
