"""Models of faces: files, landmarks, residuals, and fits of a made-up model of 42 vertices and 5 modes."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest

from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.least_squares import Energy
from dressi.errors import InputError
from dressi.render import Camera, Cameras, Mesh, primitives
from dressi.render.faces import Face, FaceGraph, FaceModel, load_face_model, save_face_model
from dressi.render.faces.files import MEDIAPIPE, load_landmarks
from dressi.render.faces.fit import FaceFitter, FaceOptions, fit_face
from dressi.render.faces.graph import FaceData, Noise, start_motion
from dressi.render.faces.model import procedural_albedo, scan_colours

RANDOM = np.random.default_rng(5)
BALL = primitives.icosphere(1)
HEAD = replace(BALL, positions=BALL.positions * (0.8, 1.0, 0.9))
P = HEAD.positions
MODES = np.stack([P * (0.1, 0, 0), P * (0, 0.1, 0), (P[:, :1] ** 2) * (0, 0, 0.15)])
SMILES = np.stack([P[:, 1:2] * P[:, :1] ** 2 * (0.2, 0.3, 0), np.abs(P[:, :1]) * (0, -0.15, 0.1)])
MARKS = np.where(P[np.arange(68) % 42, 2] > 0.1, np.arange(68) % 42, -1)
MODEL = FaceModel(
    HEAD,
    MODES,
    SMILES,
    ("smile", "frown"),
    landmarks=MARKS,
    regions={"front": P[:, 2] > 0},
    millimetres=100.0,
)
MODEL = MODEL.with_albedo(*procedural_albedo(MODEL, count=2))
SIZE = 32
CAMERA = Camera.perspective(40, (SIZE, SIZE), (0.4, 0.2, 4), (0, 0, 0), near=1, far=10)
SIDE = Camera.perspective(40, (SIZE, SIZE), (-2.0, 0.3, 3.5), (0, 0, 0), near=1, far=10)
LIGHT = np.zeros((16, 3))
LIGHT[0], LIGHT[1:4] = 2.0, 0.5
TURN = np.eye(4)
TURN[:3, :3] = [[np.cos(0.2), 0, np.sin(0.2)], [0, 1, 0], [-np.sin(0.2), 0, np.cos(0.2)]]
TURN[:3, 3] = 0.1, -0.1, 0.2
OTHER = replace(MODEL, millimetres=1.0)
TRUTH = Face(MODEL, [1.0, -0.8, 0.6], [0.7, 0.2], TURN, [0.5, -0.5], LIGHT)


def seen(face: Face, *cameras: Camera) -> dict[str, np.ndarray]:
    """What ``FaceData`` takes, without noise."""
    cameras_of = Cameras(cameras)
    nothing = np.zeros((len(cameras), SIZE, SIZE))
    picture = FaceGraph(FaceData(cameras_of, np.zeros((*nothing.shape, 3))), face).picture
    colour, depth, shown = evaluate([picture.colour, picture.depth, picture.face])
    marks = np.stack([c.project(face.world()[np.maximum(MARKS, 0)])[0] for c in cameras])
    marks[:, MARKS < 0] = np.nan
    return {"pictures": colour, "landmarks": marks, "depths": depth, "masks": shown >= 0}


def away(face: Face) -> float:
    return float(np.linalg.norm(face.world() - TRUTH.world(), axis=1).mean())


def test_a_model_comes_back_from_its_file(tmp_path):
    save_face_model(tmp_path / "m.npz", MODEL)
    found = load_face_model(tmp_path / "m.npz")
    assert np.allclose(found.positions(TRUTH.identity, TRUTH.expression), TRUTH.positions(), atol=1e-6)
    assert np.allclose(found.colours([1.0, 0.0]), MODEL.colours([1.0, 0.0]), atol=1e-6)
    assert found.expression_names == ("smile", "frown") and found.expression_bounds == (0.0, 1.0)
    assert (found.landmarks == MARKS).all() and (found.regions["front"] == MODEL.regions["front"]).all()
    assert found.part(1, 1).positions([1.0], [0.0]).shape == P.shape and found.millimetres == 100


def file_of(**arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


WHOLE = {"dressi_face": 1, "mean": P, "faces": HEAD.faces, "identity": MODES}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (file_of(**WHOLE)[:900], "truncated, or no .npz"),
        (file_of(**WHOLE | {"dressi_face": 7}), "version 7; this reads version 1"),
        (file_of(mean=P), "no array 'dressi_face'"),
        (file_of(dressi_face=1, mean=P, faces=HEAD.faces), "no array 'identity'"),
        (file_of(**WHOLE | {"identity": MODES[:, :5]}), r"an array \(N, 42, 3\)"),
        (file_of(**WHOLE | {"identity": MODES * np.nan}), "NaN or infinite"),
        (file_of(**WHOLE | {"landmarks": np.full(68, 42)}), "vertices 0 to 41"),
        (file_of(**WHOLE | {"regions": P[None, :, 2] > 0}), "1 regions has 0 region_names"),
        (file_of(**WHOLE | {"faces": HEAD.faces + 40}), "m.npz"),
        (file_of(**WHOLE | {"mean": np.array([{}])}), "cannot be used"),
    ],
)
def test_files_of_others_end_in_one_sentence(tmp_path, content, sentence):
    file = tmp_path / "m.npz"
    file.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        load_face_model(file)


def test_damaged_models_end_in_one_sentence(tmp_path):
    path = tmp_path / "m.npz"
    save_face_model(path, MODEL)
    whole = path.read_bytes()
    entry = whole.rindex(b"PK\1\2")
    # Its signature, the version that it needs, encryption, a compression of another kind, and its check sum.
    for at, value in ((0, 0), (6, 255), (8, 1), (10, 14), (16, whole[entry + 16] ^ 1)):
        path.write_bytes(whole[: entry + at] + bytes([value]) + whole[entry + at + 1 :])
        with pytest.raises(InputError, match=r"m\.npz': its arrays cannot be used \(") as found:
            load_face_model(path)
        assert len(str(found.value)) < 400
    np.savez(path, dressi_face=np.arange(100_000))
    with pytest.raises(InputError, match=r"is a face model of version \[0, 1, 2") as found:
        load_face_model(path)
    assert len(str(found.value)) < 400


def test_landmarks_of_any_detector(tmp_path):
    points = RANDOM.uniform(0, 1, (478, 3))
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"landmarks": [{"x": x, "y": y, "z": z} for x, y, z in points]}))
    assert np.allclose(load_landmarks(file, (64, 32)), points[list(MEDIAPIPE), :2] * (64, 32))
    rows = "\n".join(f"{x} {y}" for x, y in points[:68, :2])
    (tmp_path / "a.pts").write_text(f"version: 1\nn_points: 68\n{{\n{rows}\n}}")
    assert np.allclose(load_landmarks(tmp_path / "a.pts"), points[:68, :2])
    np.save(tmp_path / "a.npy", points[None, :68])
    assert load_landmarks(tmp_path / "a.npy").shape == (1, 68, 2)
    for text, sentence in (
        ("[[1, 2]]", r"\(1, 2\), not 68"),
        ("[[1", "a.json"),
        ('{"x": 1}', "an object with x and y"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=sentence):
            load_landmarks(file)
    with pytest.raises(InputError, match=r"\(width, height\)"):
        load_landmarks(file, (0, 32))
    (tmp_path / "a.pts").write_text(f"version: 1\nn_points: 68\n{{\n{rows}")
    with pytest.raises(InputError, match=r"a\.pts': it is truncated"):
        load_landmarks(tmp_path / "a.pts")
    (tmp_path / "a.txt").write_text(rows[: rows.rindex(" ")])
    with pytest.raises(InputError, match="landmark 67 has 1 numbers"):
        load_landmarks(tmp_path / "a.txt")


def test_residuals_have_the_derivatives_of_differences():
    views = seen(TRUTH, CAMERA, SIDE)
    start = replace(TRUTH, identity=[0.3, 0.1, 0.2], expression=[1.2, -0.1], albedo=[0.1, 0.2], zoom=1.03)
    graph = FaceGraph(FaceData([CAMERA, SIDE], **views), start)
    found = graph.residuals()
    smooth = [r for name, r in found.items() if name not in ("mask", "depth", "colour")]
    cost = Energy(smooth).cost()
    assert check_gradient(cost, graph.leaves(("identity", "expression", "pose", "zoom"))) < 1e-5
    # Which face a pixel shows has no derivative; colours have, by albedo and light.
    assert check_gradient(Energy([found["colour"]]).cost(), graph.leaves(("albedo", "light"))) < 1e-5
    # One view alone does not tell size from distance: a term of the modes that are known, by distance and
    # zoom.
    alone = FaceGraph(FaceData(CAMERA, landmarks=views["landmarks"][:1]), start)
    term = alone.residuals()["distance"]
    assert check_gradient(Energy([term]).cost(), alone.leaves(("pose", "zoom"))) < 1e-5
    told = np.square([*start.identity, *start.expression / MODEL.expression_deviation]).sum()
    assert evaluate([term])[0].item() ** 2 == pytest.approx(told) and "distance" not in found
    costs = {name: evaluate([Energy([r]).cost()])[0].item() for name, r in found.items()}
    at_truth = FaceGraph(FaceData([CAMERA, SIDE], **views), TRUTH).residuals()
    for name in ("landmarks", "colour", "depth", "mask"):
        assert evaluate([Energy([at_truth[name]]).cost()])[0].item() < 0.2 * costs[name] + 1e-3, name
    assert costs["expression bounds"] > 0.1


def test_what_is_over_exposed_is_at_least_as_bright():
    bright = replace(TRUTH, light=2.5 * LIGHT)
    views = seen(bright, CAMERA)
    photo = np.minimum(views["pictures"], 1.0)
    data = FaceData(CAMERA, photo)
    burnt = photo[0] >= 0.999
    assert 0.02 < burnt.mean() < 0.5 and np.array_equal(data.clipped[0] > 0, burnt)
    half = data.at_rows(SIZE // 2).clipped[0] > 0
    assert np.array_equal(half, burnt.reshape(SIZE // 2, 2, SIZE // 2, 2, 3).any((1, 3)))
    costs = {}
    for name, part in (("darker", 0.8), ("true", 1.0), ("brighter", 1.2)):
        graph = FaceGraph(data, replace(bright, light=2.5 * part * LIGHT))
        term = graph.residuals()["colour"].residual
        costs[name] = np.abs(evaluate([term])[0][0][burnt]).sum()
        if name != "true":
            assert check_gradient(Energy([term]).cost(), graph.leaves(("albedo", "light"))) < 1e-5
    assert costs["true"] == costs["brighter"] == 0 < costs["darker"]
    known = FaceData(CAMERA, photo, clipped=np.zeros(photo.shape))
    assert evaluate([FaceGraph(known, bright).residuals()["colour"].residual])[0][0][burnt].sum() > 0


def test_colours_wrong_in_whole_regions_count_as_few_pixels():
    graph = FaceGraph(FaceData(CAMERA, np.zeros((SIZE, SIZE, 3))), TRUTH)
    side, inside = SIZE // 8, evaluate([graph.picture.face])[0] >= 0
    white = np.where(inside[..., None], 0.03 * RANDOM.normal(size=(1, SIZE, SIZE, 3)), 0.0)
    blocks = np.repeat(np.repeat(RANDOM.normal(size=(1, 8, 8, 3)), side, 1), side, 2)
    leaf, alone = graph.trust(white)
    _, together = graph.trust(np.where(inside[..., None], 0.06 * blocks, 0.0))
    assert leaf.name == "trust" and 0.8 < alone.item() <= 1.0
    # Twice the deviation, and the pixels of a block tell the same: about as many times less as a block is wide.
    assert 0.7 < together.item() * 2 * side < 1.6


def test_landmarks_alone_tell_where_the_mean_face_is():
    marks = seen(Face(MODEL, motion=TURN), CAMERA)["landmarks"]
    found = start_motion(MODEL, FaceData(CAMERA, landmarks=marks))
    assert np.abs(found[:3, :3] - TURN[:3, :3]).max() < 0.1 and np.abs(found[:3, 3] - TURN[:3, 3]).max() < 0.3


@pytest.mark.one_driver
def test_a_face_from_landmarks(make_engine):
    """One engine finds several faces, by Levenberg-Marquardt."""
    with FaceFitter(MODEL, FaceOptions(learned=("identity", "expression", "pose")), make_engine) as fitter:
        for truth in (TRUTH, replace(TRUTH, identity=[-1.0, 0.5, 0.0])):
            marks = seen(truth, CAMERA, SIDE)["landmarks"]
            found = fitter.fit(FaceData([CAMERA, SIDE], landmarks=marks)).face
            assert np.linalg.norm(found.world() - truth.world(), axis=1).mean() < 0.015


@pytest.mark.release
@pytest.mark.one_driver
def test_a_face_from_depths(make_engine):
    """Depths with a place to start from, by Levenberg-Marquardt."""
    start = Face(MODEL, motion=TURN)
    options = FaceOptions(learned=("identity", "pose"), steps=8, iterations=15, rows=SIZE)
    truth = replace(TRUTH, expression=None)
    depths = seen(truth, CAMERA)["depths"]
    found = fit_face(MODEL, CAMERA, depths=depths, start=start, options=options, make_engine=make_engine).face
    errors = [np.linalg.norm(face.world() - truth.world(), axis=1).mean() for face in (found, start)]
    assert errors[0] < 0.5 * errors[1], errors


@pytest.mark.release
@pytest.mark.one_driver
def test_a_face_from_a_picture(make_engine):
    """Everything at once, by Adam."""
    start = Face(MODEL, motion=TURN, light=LIGHT)
    options = FaceOptions(method="adam", steps=60, rows=SIZE)
    found = fit_face(
        MODEL, CAMERA, **seen(TRUTH, CAMERA), start=start, options=options, make_engine=make_engine
    )
    assert away(found.face) < 0.3 * away(start)
    assert found.costs[-1][-1] <= found.costs[-1][0]
    assert np.abs(found.face.light[1:4] - LIGHT[1:4]).max() < 0.3


def test_what_is_missing_or_out_of_range_is_said():
    picture = np.full((SIZE, SIZE, 3), 0.5)
    marks = np.full((68, 2), np.nan)
    line = CAMERA.project(P[np.maximum(MARKS, 0)])[0] * (1.0, 0.0)
    behind = np.eye(4)
    behind[2, 3] = 20.0
    for call, sentence in (
        (lambda: fit_face(MODEL, CAMERA, pictures=picture), "there are no landmarks"),
        (lambda: fit_face(MODEL, CAMERA, pictures=picture, landmarks=marks), "no view has 6 landmarks"),
        (
            lambda: fit_face(replace(MODEL, landmarks=None), CAMERA, landmarks=marks),
            "no landmarks; add the vertices",
        ),
        (
            lambda: fit_face(MODEL, CAMERA, pictures=picture, start=Face(MODEL, motion=behind)),
            "not visible in any",
        ),
        (lambda: fit_face(MODEL, CAMERA, pictures=np.zeros((4, 4, 3))), "are an array"),
        (lambda: fit_face(MODEL, CAMERA), "give one of them"),
        (lambda: FaceOptions(method="newton"), "levenberg_marquardt or adam"),
        (lambda: FaceOptions(learned=("nose",)), "learned are some of"),
        (lambda: FaceOptions(rows=0), "rows of FaceOptions is a whole number"),
        (lambda: FaceOptions(poses="both"), "poses are 'shared' or 'each'"),
        (lambda: Noise(colour=0.0), "the noise colour of a face is a number above 0"),
        (lambda: Face(MODEL, identity=[1.0]), "identity weights are 3 numbers"),
        (lambda: Face(MODEL, identity=[np.nan] * 3), "identity weights have values that are NaN"),
        (lambda: Face(MODEL, motion=2 * np.eye(4)), "a rotation and a shift"),
        (lambda: Face(MODEL, zoom=0.0), "zoom of a face is a number above 0"),
        (lambda: Face(MODEL, light=np.zeros((9, 3))), r"light of a face is \(16, 3\)"),
        (lambda: fit_face(MODEL, CAMERA, landmarks=np.ones((68, 2))), "at one place or on one line"),
        (lambda: fit_face(MODEL, CAMERA, landmarks=line), "at one place or on one line"),
        (lambda: fit_face(MODEL, CAMERA, pictures=picture, start=Face(OTHER)), "of another model"),
        (lambda: FaceData(CAMERA, pictures=picture, masks=picture[..., 0] * 0), "masks of a face are empty"),
        (
            lambda: FaceData(CAMERA, pictures=picture, masks=picture[..., 0] * 4),
            r"masks of a face are in \[0, 1\]",
        ),
        (
            lambda: FaceGraph(FaceData(CAMERA, pictures=picture), Face(FaceModel(HEAD, MODES))),
            "has no albedo",
        ),
    ):
        with pytest.raises(InputError, match=sentence):
            call()


def test_albedo_is_between_black_and_white_and_takes_the_colours_of_a_scan():
    colours = np.where(P[:, 1:2] > 0, 0.6, 0.2) * np.ones(3)
    uvs = np.stack([np.full(42, 0.5), np.where(P[:, 1] > 0, 0.25, 0.75)], axis=1)
    texture = np.concatenate([np.full((8, 8, 3), 0.6), np.full((8, 8, 3), 0.2)])
    scan = Mesh(P * 1.04 + 0.02, HEAD.faces, uvs=uvs, uv_faces=HEAD.faces, texture=texture)
    found = scan_colours(MODEL, scan, np.eye(4))
    assert np.abs(found - colours).mean() < 0.08
    mean, modes = procedural_albedo(MODEL, found, count=2, seed=1)
    assert mean.min() > 0 and mean.max() < 1 and np.abs(modes).max(axis=(1, 2)).min() > 0.005
    again, _ = procedural_albedo(MODEL, found, count=2, seed=1)
    assert (again == mean).all()
