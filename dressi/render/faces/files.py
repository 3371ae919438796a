"""Models of faces in files: a format of NumPy arrays, and the arrays of ICT-FaceKit.

A model is an ``.npz`` file, compressed or not, of these arrays; V vertices, F triangles.

| array | shape | |
|---|---|---|
| `dressi_face` | () | the version, 1 |
| `mean` | (V, 3) | positions |
| `faces` | (F, 3) or (F, 4) | a triangle among quads repeats its last vertex |
| `identity` | (I, V, 3) | modes, for weights of one standard deviation |
| `expression` | (E, V, 3) | optional |
| `expression_names` | (E,) | optional, text |
| `expression_bounds` | (2,) | optional: lowest and highest weight; left out: any |
| `expression_deviation` | () | optional: standard deviation of their weights, .5 |
| `landmarks` | (68,) | optional: vertices in the order of Multi-PIE, -1 for those that are missing |
| `region_names`, `regions` | (R,), (R, V) | optional: text, and bool |
| `albedo`, `albedo_modes` | (V, 3), (A, V, 3) | optional: linear, mean and modes |
| `uvs`, `uv_faces` | (U, 2), as `faces` | optional: (0, 0) is the top left corner |
| `millimetres` | () | optional: in a unit of length, 1 |
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, shown
from ..io.files import LARGEST_FILE, parse_json, read_bytes, usable, write_files
from ..mesh import Mesh, triangulate
from .model import POINTS, FaceModel, table

VERSION = 1
ICT_LANDMARKS = (
    1225, 1888, 1052, 367, 1719, 1722, 2199, 1447, 966, 3661, 4390, 3927, 3924, 2608, 3272, 4088, 3443,
    268, 493, 1914, 2044, 1401, 3615, 4240, 4114, 2734, 2509, 978, 4527, 4942, 4857, 1140, 2075, 1147, 4269, 3360, 1507,
    1542, 1537, 1528, 1518, 1511, 3742, 3751, 3756, 3721, 3725, 3732, 5708, 5695, 2081, 0, 4275, 6200, 6213, 6346, 6461,
    5518, 5957, 5841, 5702, 5711, 5533, 6216, 6207, 6470, 5517, 5966,
)  # fmt: skip
"""Vertices of the Multi-PIE landmarks, as the documentation of ICT-FaceKit lists them."""
ICT_FACE = 9409
"""Its first vertices are the face; the others are the back of the head and the neck."""
ICT_MILLIMETRES = 10.0


def load_face_model(path: str | os.PathLike) -> FaceModel:
    """A model from an ``.npz`` file of this format, or of the arrays of ICT-FaceKit (``neutral``, ``quads``,
    ``identity``, ``expression``). Raises InputError naming the file.

    >>> import os, tempfile
    >>> ball = primitives.icosphere(1)
    >>> path = os.path.join(tempfile.mkdtemp(), "ball.npz")
    >>> save_face_model(path, FaceModel(ball, identity=ball.positions[None]))
    >>> load_face_model(path)
    FaceModel of 42 vertices: 1 identity, 0 expression and 0 albedo modes, 0 landmarks
    """
    path = Path(path)
    arrays = _arrays(path)
    with usable(path, "the model"):
        if "neutral" in arrays and "quads" in arrays:
            return _ict(arrays)
        if "dressi_face" not in arrays:
            raise InputError(f"'{path}' is no face model: it has no array 'dressi_face' with its version")
        if (version := arrays["dressi_face"].tolist()) != VERSION:
            told = f"a face model of version {shown(version)}; this reads version {VERSION}"
            raise InputError(f"'{path}' is {told}")
        missing = [name for name in ("mean", "faces", "identity") if name not in arrays]
        if missing:
            needs = "a face model needs mean, faces and identity"
            raise InputError(f"'{path}' has no array '{missing[0]}'; {needs}")
        return _model(arrays)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    data = read_bytes(path, "face model")
    with usable(path, "its arrays"):
        if not zipfile.is_zipfile(io.BytesIO(data)):
            raise InputError(f"'{path}' is truncated, or no .npz file; copy it again")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            declared = sum(member.file_size for member in archive.infolist())
        if declared > LARGEST_FILE:
            raise InputError(f"'{path}' holds {declared:,} bytes of arrays; the limit is {LARGEST_FILE:,}")
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}


def _corners(faces: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(T, 3): the triangles of triangles or quads (F, 3) or (F, 4), as numbers of their corners. A quad is
    cut inside; one that repeats its last vertex is one triangle."""
    if faces.ndim != 2 or faces.shape[1] not in (3, 4) or faces.dtype.kind not in "iu":
        given = f"{shown(faces.dtype)} {faces.shape}"
        raise InputError(f"faces of a face model are whole numbers (F, 3) or (F, 4), not {given}")
    if faces.size and not 0 <= faces.min() <= faces.max() < len(points):
        vertex = f"vertex {faces.max()} of {len(points)}"
        raise InputError(f"faces of a face model refer to {vertex}; copy the file again")
    rows = triangulate(points[faces].reshape(-1, 3), np.full(len(faces), faces.shape[1]))[1]
    triangles = faces.reshape(-1)[rows]
    return rows[(triangles != np.roll(triangles, 1, axis=1)).all(1)]


def _mesh(mean: np.ndarray, faces: np.ndarray, uvs: Any, uv_faces: Any) -> Mesh:
    mean = table("positions", mean, (None, 3), np.float64)
    corners = _corners(faces, mean)
    at = {}
    if uvs is not None:
        if np.shape(uv_faces) != faces.shape:
            raise InputError(
                f"uv_faces of a face model are as many as its faces, {faces.shape}, not {np.shape(uv_faces)}"
            )
        at = {"uvs": uvs, "uv_faces": np.asarray(uv_faces).reshape(-1)[corners]}
    return Mesh(mean, faces.reshape(-1)[corners], name="face", **at)


def _model(arrays: Mapping[str, np.ndarray]) -> FaceModel:
    mesh = _mesh(arrays["mean"], arrays["faces"], arrays.get("uvs"), arrays.get("uv_faces"))
    names = ("expression", "landmarks", "albedo", "albedo_modes")
    more: dict[str, Any] = {k: arrays[k] for k in names if k in arrays}
    more |= {k: arrays[k].item() for k in ("millimetres", "expression_deviation") if k in arrays}
    more["expression_names"] = tuple(arrays.get("expression_names", np.zeros(0, "U1")).tolist())
    bounds = arrays.get("expression_bounds")
    more["expression_bounds"] = None if bounds is None else tuple(bounds.astype(float).tolist())
    names, regions = (arrays.get(name, np.zeros(0)) for name in ("region_names", "regions"))
    if len(names) != len(regions):
        raise InputError(f"a face model with {len(regions)} regions has {len(names)} region_names; name each")
    more["regions"] = dict(zip(names.tolist(), regions, strict=True))
    return FaceModel(mesh, arrays["identity"], **more)


def _ict(arrays: Mapping[str, np.ndarray]) -> FaceModel:
    uvs, uv_faces = arrays.get("uv"), arrays.get("quads_uv")
    if uvs is not None:
        uvs = uvs.astype(np.float64) * (1, -1) + (0, 1)  # its origin is the bottom left corner
    mesh = _mesh(arrays["neutral"], arrays["quads"], uvs, uv_faces)
    return FaceModel(
        mesh,
        arrays["identity"],
        arrays["expression"],
        tuple(arrays["expression_names"].tolist()) if "expression_names" in arrays else (),
        landmarks=np.array(ICT_LANDMARKS),
        regions={"face": np.arange(len(mesh.positions)) < ICT_FACE},
        millimetres=ICT_MILLIMETRES,
    )


def save_face_model(path: str | os.PathLike, model: FaceModel) -> None:
    """Write a model, its modes as float32. Raises InputError when the file cannot be written."""
    mesh = model.mesh
    arrays: dict[str, Any] = {
        "dressi_face": VERSION,
        "mean": mesh.positions,
        "faces": mesh.faces,
        "identity": model.identity,
        "expression_deviation": model.expression_deviation,
        "millimetres": model.millimetres,
        "expression": model.expression if len(model.expression) else None,
        "expression_names": np.array(model.expression_names) if model.expression_names else None,
        "expression_bounds": model.expression_bounds,
        "landmarks": model.landmarks,
        "albedo": model.albedo,
        "albedo_modes": model.albedo_modes if len(model.albedo_modes) else None,
        "uvs": mesh.uvs,
        "uv_faces": mesh.uv_faces,
    }
    if model.regions:
        arrays |= {"region_names": np.array([*model.regions]), "regions": np.stack([*model.regions.values()])}
    stream = io.BytesIO()
    given: dict[str, Any] = {name: np.asarray(a) for name, a in arrays.items() if a is not None}
    np.savez_compressed(stream, **given)
    write_files({Path(path): stream.getvalue()})


# Landmarks in files: the 68 points of Multi-PIE, or the 478 (468) of MediaPipe, of any detector.

MEDIAPIPE = (
    127, 234, 93, 58, 172, 136, 149, 148, 152, 377, 378, 365, 397, 288, 323, 454, 356,
    70, 63, 105, 66, 107, 336, 296, 334, 293, 300,
    168, 197, 5, 4, 75, 97, 2, 326, 305,
    33, 160, 158, 133, 153, 144, 362, 385, 387, 263, 373, 380,
    61, 39, 37, 0, 267, 269, 291, 405, 314, 17, 84, 181,
    78, 82, 13, 312, 308, 317, 14, 87,
)  # fmt: skip
"""Numbers of MediaPipe's points that lie at the 68 of Multi-PIE."""
COUNTS = (POINTS, 468, 478)
MOST_BYTES = 16 << 20
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan", re.IGNORECASE)


def load_landmarks(path: str | os.PathLike, size: tuple[int, int] | None = None) -> np.ndarray:
    """(68, 2) float64: places in pixels, (0, 0) is the outer corner of the first pixel; NaN where there is
    none. The points of several pictures are (N, 68, 2).

    The file is .json (a list of points, of objects with "x" and "y", or an object whose "landmarks" are one
    of these), .npy, .pts, or text with a point a line: 68 points of Multi-PIE, or 468 or 478 of MediaPipe, of
    which those at the 68 are taken. Further coordinates, such as a depth, are left out.
    size: (W, H) of the picture, for coordinates that are fractions of it, as MediaPipe gives them. Raises
    InputError.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.json")
    >>> _ = open(path, "w").write(str([[10.0, 20.0]] * 68))
    >>> load_landmarks(path).shape
    (68, 2)
    """
    path = Path(path)
    if size is not None and not (len(size) == 2 and min(size) > 0):
        raise InputError(f"size= of landmarks is (width, height) of their picture in pixels, not {size}")
    data = read_bytes(path, "file of landmarks", most=MOST_BYTES)
    with usable(path, "its landmarks"):
        if path.suffix == ".npy":
            found = np.load(io.BytesIO(data), allow_pickle=False)
        elif path.suffix == ".json":
            found = _rows(parse_json(data, path))
        else:
            found = _text(data.decode("utf-8"), path.suffix == ".pts")
        found = np.asarray(found, np.float64)
    if found.ndim not in (2, 3) or found.shape[-1] < 2 or found.shape[-2] not in COUNTS:
        raise InputError(
            f"'{path}' has an array {found.shape}, not 68 points of Multi-PIE or 468 or 478 of MediaPipe;"
            " export all points"
        )
    found = found[..., :2] if found.shape[-2] == POINTS else found[..., MEDIAPIPE, :2]
    if np.isinf(found).any():
        raise InputError(f"'{path}' has a landmark at infinity; write NaN for points that are not seen")
    return found if size is None else found * np.asarray(size, np.float64)


def _rows(value: Any) -> Any:
    """Points of parsed JSON as nested lists."""
    if isinstance(value, dict):
        if "landmarks" in value:
            return _rows(value["landmarks"])
        if not {"x", "y"} <= {*value}:
            raise InputError("a landmark is an object with x and y, or a list; or 'landmarks' are the points")
        return [value["x"], value["y"]]
    if isinstance(value, list):
        return [_rows(item) for item in value]
    return np.nan if value is None else float(value)


def _text(text: str, braces: bool) -> list[list[float]]:
    """A point a line; of .pts those between the braces."""
    if braces:
        if not 0 <= text.find("{") < text.find("}"):
            raise InputError(
                "it is truncated, or no .pts file: the points stand between { and }; copy it again"
            )
        text = text[text.index("{") + 1 : text.index("}")]
    lines = [line for line in map(_NUMBER.findall, text.splitlines()) if line]
    for k, line in enumerate(lines):
        if len(line) != len(lines[0]) or len(line) < 2:
            counts = f"{len(line)} numbers, the first {len(lines[0])}"
            raise InputError(f"landmark {k} has {counts}; copy it again")
    return [[float(number) for number in line] for line in lines]
