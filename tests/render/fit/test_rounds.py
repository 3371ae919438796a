"""Rounds of a fit: their schedule, remeshing, a fit as an iterator of moments, and what it goes on from when
it was stopped."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tiny_fits import unit_scene

from dressi import FLOAT, DressiAD, F, GraphError, InputError, Variable, optim
from dressi.render import Mesh, adjacency, primitives, ring
from dressi.render.fit import FitJob, FitOptions, FitRound, shape_rounds
from dressi.render.fit.data.learned import learned
from dressi.render.fit.graphs.round import start
from dressi.render.fit.graphs.term import Controls, Lists, SpareLists
from dressi.render.fit.phases import remeshed
from dressi.render.fit.phases.remeshed import healed, unfolded, unfolded_from
from dressi.render.fit.phases.shape import ShapeRound
from dressi.render.forms.edges.edge_list import edge_list, with_room
from dressi.render.forms.soft_target import check_reach, gap, marked
from dressi.render.mesh.checks import check_surface
from dressi.render.mesh.primitives import octasphere
from dressi.render.objectives.sparse import Room
from dressi.vk.run.measure.timing import RoundStages

REPOSITORY = Path(__file__).resolve().parents[3]


def far_range():
    spec = importlib.util.spec_from_file_location("far_range", REPOSITORY / "apps" / "far_range.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.release
def test_a_ball_feels_its_target_from_far(device):
    """The pull at 0.35 and 0.6 is at least that of overlap; from 1.2 and, with a margin, along the border it
    comes home."""
    app = far_range()
    far = app.Range("outer", 32, -app.FARTHEST / 2, app.FARTHEST / 2)
    near, *others = far.slopes(device, [app.FARTHEST - distance for distance in app.DISTANCES])
    assert near < 0 and max(others) <= near
    assert far.recover(device, 80) < 0.2
    assert app.Range("outer", 32, -0.9, 0.6).slopes(device, [0.0])[0] > 0
    assert app.Range("outer", 32, -0.9, 0.6, app.REACH).slopes(device, [0.0])[0] < 0


def masks(*columns: int) -> np.ndarray:
    """(N, 20, 20) with a square of four pixels that starts at each column."""
    found = np.zeros((len(columns), 20, 20))
    for image, column in zip(found, columns, strict=True):
        image[8:12, column : column + 4] = 1
    return found


def test_gaps_are_between_outlines():
    assert_allclose(gap(masks(0, 0, 2, 0), masks(4, 10, 0, 0)), [0, 6 / 20, 0, 0])
    assert_allclose(gap(masks(0), np.zeros((1, 20, 20))), [0])
    with pytest.raises(InputError, match="size"):
        gap(masks(0), masks(0, 1))


def test_what_is_out_of_reach_is_said():
    own, target = masks(0, 0), masks(10, 2)
    assert check_reach(own, target, 0.2) is None
    note = check_reach(own, target, 0.1)
    assert note is not None and "1 of 2 views (number 0)" in note and "0.3" in note
    with pytest.raises(InputError, match="nothing would pull"):
        check_reach(own[:1], target[:1], 0.1)


def test_points_mark_their_pixels():
    matrix = np.eye(4)
    points = np.array([(0.0, 0.0, 0.5), (-0.99, 0.99, 0.5), (2.0, 0.0, 0.5)])
    found = marked(matrix[None], points, (4, 6))
    assert np.argwhere(found[0]).tolist() == [[2, 3], [3, 0]]


def test_a_fit_out_of_reach_is_refused_before_it_starts():
    """The start is above, all masks show something below, and three pixels do not reach so far."""
    cameras = ring(np.zeros(3), 1.0, 2, (64, 64))
    seen = np.zeros((2, 64, 64))
    seen[:, 56:60, 30:34] = 1
    scene, options = unit_scene(cameras, seen), FitOptions(size=(64, 64), views=2, radius=0.01)
    job = FitJob(scene, options, lambda: pytest.fail("built"), init=octasphere(3, 0.25, (0.0, 0.45, 0.0)))
    with pytest.raises(InputError, match="nothing would pull"):
        job.run()


PLAN = FitRound(2, 24, 40, (0.2, 0.1), (0.02, 0.01), 2e-5, faces=300, remesh=10)


def work_of(tiny_fits, mesh: Mesh, plan: FitRound) -> ShapeRound:
    return ShapeRound(mesh, learned(tiny_fits.scene), (24, 24), plan)


def engine_of(tiny_fits, work: ShapeRound) -> DressiAD:
    engine = tiny_fits.make_engine()
    start(engine, work)
    return engine


@pytest.mark.release
def test_a_remeshed_mesh_is_data_of_the_same_plan(tiny_fits):
    plan = replace(PLAN, weights={"colours": 1.0, "consistency": 1e-3, "edge_length": 1e-3})
    ball = primitives.octasphere(2)
    work = work_of(tiny_fits, ball, plan)
    assert isinstance(work.lists, SpareLists)
    with engine_of(tiny_fits, work) as engine:
        work.before(engine, 0)
        engine.step(10)
        built, before = engine.executor, engine.state()
        work.before(engine, 10)
        after, mesh = engine.state(), work.mesh
        count = len(mesh.positions)
        assert len(mesh.faces) != len(ball.faces) and mesh.is_closed() and mesh.uvs is None
        # Moments are carried over, and vertices in excess have none.
        for name in ("position.adam_m", "position.adam_v", "colour", "colour.adam_m"):
            old, new = (state[name].reshape(-1, 3) for state in (before, after))
            old, empty = old[: len(ball.positions)], new[count:]
            assert np.abs(new).max() > 0 and (empty == 0).all()
            assert new[:count].min() >= old.min() and new[:count].max() <= old.max()
        assert after["step"] == before["step"] == 10
        done = len(engine.losses())
        engine.step(3)
        assert engine.executor is built
        found, moved = engine.losses()[done:], work.moved(engine.state()).positions
    # The same from a plan of this mesh alone.
    alone = work_of(tiny_fits, mesh, replace(plan, remesh=0))
    assert type(alone.lists) is Lists
    with engine_of(tiny_fits, alone) as engine:
        own = {
            name: value.reshape(1, -1, 3)[:, :count].reshape(shape.shape) if name != "step" else value
            for (name, value), shape in zip(after.items(), engine.state().values(), strict=True)
        }
        engine.restore(own)
        alone.before(engine, 10)
        engine.step(3)
        assert_allclose(engine.losses(), found, rtol=2e-4)
        assert_allclose(alone.moved(engine.state()).positions, moved, atol=1e-3)


@pytest.mark.release
def test_a_remeshed_fit_that_was_stopped_goes_on_with_the_same_numbers(tiny_fits, tmp_path, monkeypatch):
    monkeypatch.setattr("dressi.render.fit.options.schedule.REMESH", 10)
    options = replace(tiny_fits.options, steps=84, remesh=True)

    def job(folder: Path | None) -> FitJob:
        return FitJob(tiny_fits.scene, options, tiny_fits.make_engine, folder=folder)

    assert [plan.remesh for plan in job(None).rounds] == [10, 10, 10]
    whole = job(None).run()
    # In the second round, after a remeshing, where the mesh has no UVs; then the texture, where it has.
    for polls in (7, 6):
        calls = []
        part = job(tmp_path).run(
            resume=polls == 6, progress=calls.append, stop=lambda n=polls, c=calls: len(c) >= n
        )
        assert not part.finished
    rest = job(tmp_path).run(resume=True)
    assert rest.finished and rest.losses == whole.losses
    assert_array_equal(rest.mesh.faces, whole.mesh.faces)
    assert_array_equal(rest.mesh.positions, whole.mesh.positions)
    assert rest.mesh.uvs is not None and rest.mesh.is_closed()
    assert len(rest.mesh.faces) <= shape_rounds(options, True)[-1].faces


def test_what_has_no_room_keeps_its_faces(tiny_fits):
    ball = primitives.octasphere(2)
    open_ball = Mesh(ball.positions, ball.faces[1:])
    for mesh, faces in ((ball, 100), (open_ball, 300)):
        work = work_of(tiny_fits, mesh, replace(PLAN, faces=faces))
        assert type(work.lists) is Lists and work.lists.vertices == len(mesh.positions)
    with pytest.raises(InputError, match="room for 20"):
        with_room(edge_list(ball.faces), 20)
    near = adjacency(ball.faces, 100, room=Room(500, 8))
    with pytest.raises(InputError, match="room for 500"):
        near.data(adjacency(primitives.octasphere(3).faces, 300))
    fan = Mesh(np.zeros((12, 3)), [[0, k, k + 1] for k in range(1, 11)])
    with pytest.raises(InputError, match="11 in a row"):
        near.data(adjacency(fan.faces, 100))


@pytest.mark.release
def test_folds_that_mending_leaves_are_remeshed_away(monkeypatch):
    """A needle-thin fold: neighbours of a vertex pushed far through both sides of a thin shape."""
    ball = primitives.octasphere(3)
    disc = ball.moved(ball.positions * (1.0, 1.0, 0.1))
    positions = disc.positions.copy()
    inner = np.linalg.norm(positions[:, :2], axis=1) < 0.35
    positions[inner, 2] *= -1.5
    broken = disc.moved(positions)
    assert check_surface(broken).inside_out > 0
    # One iteration of mending is not enough.
    found = check_surface(healed(Mesh(broken.positions, broken.faces), tries=1))
    assert found.closed and found.handles == 0
    assert found.inside_out == 0 and found.self_intersecting == 0
    whole = Mesh(ball.positions, ball.faces)
    assert np.array_equal(healed(whole).positions, whole.positions)
    # The end of a limb that folds have cut off, a ten thousandth of the volume, stays where it is.
    monkeypatch.setattr(remeshed, "CELLS", 128)
    end = primitives.octasphere(2)
    apart = np.concatenate([broken.positions, end.positions * 0.025 + (1.3, 0.0, 0.0)])
    found = healed(Mesh(apart, np.concatenate([broken.faces, end.faces + len(broken.positions)])), tries=1)
    assert found.parts().max() == 1 and found.positions[:, 0].max() > 1.31


def test_folds_are_mended_where_they_are():
    """A spindle whose sides have passed through each other on a part of one end, and a disc beside it that is
    folded through."""
    ball = primitives.octasphere(3)
    spindle, disc = ball.positions * (1.0, 0.1, 0.1), ball.positions * (1.0, 1.0, 0.1) + (0.0, 2.0, 0.0)
    whole = Mesh(np.concatenate([spindle, disc]), np.concatenate([ball.faces, ball.faces + len(spindle)]))
    turned = (
        (whole.positions[:, 0] > 0.4)
        & (whole.positions[:, 0] < 0.7)
        & (np.arange(len(whole.positions)) < len(spindle))
    )
    pushed = np.linalg.norm(whole.positions[:, :2] - (0.0, 2.0), axis=1) < 0.35
    broken = whole.moved(
        whole.positions * np.where(turned, -1.0, np.where(pushed, -1.5, 1.0))[:, None] ** (0, 0, 1)
    )
    found = healed(broken)
    checked = check_surface(found)
    assert checked.inside_out == 0 and checked.self_intersecting == 0
    # The topology stays, and so do vertices that are far from folds.
    assert np.array_equal(found.faces, whole.faces)
    far = (whole.positions[:, 0] < 0) & (np.linalg.norm(whole.positions[:, :2] - (0.0, 2.0), axis=1) > 0.9)
    assert far.sum() > 100 and np.array_equal(found.positions[far], whole.positions[far])
    for part in (slice(0, len(ball.faces)), slice(len(ball.faces), None)):
        left, had, all_of_it = (
            Mesh(m.positions, m.faces[part]).signed_volume() for m in (found, broken, whole)
        )
        assert left > 0.85 * all_of_it > had


def test_folds_of_vertices_that_keep_their_faces_are_taken_back():
    """Half of a thin disc pushed through itself, which smoothing turns inside out."""
    ball = primitives.octasphere(4)
    before = ball.moved(ball.positions * (1.0, 1.0, 0.1))
    positions = before.positions.copy()
    positions[np.linalg.norm(positions[:, :2], axis=1) < 0.7, 2] *= -1.5
    positions[:, 0] *= 1.001
    after = before.moved(positions)
    assert check_surface(unfolded(after)).inside_out > 0
    found = unfolded_from(after, before)
    checked = check_surface(found)
    assert checked.inside_out == 0 and checked.self_intersecting == 0
    assert np.array_equal(found.faces, after.faces) and not np.array_equal(found.positions, before.positions)
    # One vertex of a plateau pushed through its side: the rest of the plateau stays, which smoothing would
    # wear down.
    positions = before.positions.copy()
    top = int(np.argmax(positions[:, 2]))
    positions[np.argsort(np.linalg.norm(positions - positions[top], axis=1))[:49], 2] += 0.3
    positions[top] += (0.5, 0.0, -0.1)
    folded = before.moved(positions)
    assert check_surface(folded).self_intersecting > 0
    found = unfolded_from(folded, before)
    assert check_surface(found).self_intersecting == 0
    lost, worn = (np.abs(mesh.positions - positions).sum() for mesh in (found, unfolded(folded)))
    assert lost < 0.7 * worn


def job_of(tiny_fits, **controls: float) -> FitJob:
    job = FitJob(tiny_fits.scene, tiny_fits.options, tiny_fits.make_engine)
    job.controls = Controls()
    for name, value in controls.items():
        job.controls.set(name, value, step=0)
    return job


@pytest.mark.release
def test_moments_of_a_few_steps_compute_the_same_fit(tiny_fits):
    whole, _ = tiny_fits.whole()
    run = FitJob(tiny_fits.scene, tiny_fits.options, tiny_fits.make_engine).started()
    run.most = 3
    seen = [moment.step for moment in run]
    assert max(np.diff(seen)) <= 3 and run.result().losses == whole.losses


@pytest.mark.release
def test_a_rewound_fit_computes_the_same_steps_again(tiny_fits, monkeypatch):
    monkeypatch.setattr("dressi.render.fit.job.SAVE_SECONDS", 0.0)
    whole = job_of(tiny_fits).run()
    run = job_of(tiny_fits).started()
    run.keeping, rewound = 3, 0
    for moment in run:
        if moment.work.name == "texture" and rewound < 2:
            rewound += 1
            assert len(run.kept) <= 3
            run.rewind(run.kept[0])
    assert rewound == 2 and run.finished
    assert run.result().losses == whole.losses
    assert_array_equal(run.result().mesh.positions, whole.mesh.positions)


def test_factors_are_data_that_change_a_fit(tiny_fits):
    whole, _ = tiny_fits.whole()
    same, faster = job_of(tiny_fits).run(), job_of(tiny_fits, rate=3.0).run()
    assert_allclose([x for _, x in same.losses], [x for _, x in whole.losses], rtol=1e-5)
    assert np.abs(faster.losses[8][1] / whole.losses[8][1] - 1) > 0.01


@pytest.mark.vk
@pytest.mark.parametrize(
    ("name", "value", "said"), [("speed", 1.0, "no factor"), ("rate", 100.0, "0.05 to 5")]
)
def test_a_factor_is_one_of_those_there_are_within_its_range(name: str, value: float, said: str):
    with pytest.raises(InputError, match=said):
        Controls().set(name, value, step=0)


def test_numbers_of_a_schedule_are_sent_before_the_first_step(device):
    x, rate = Variable.of(4.0, name="x"), Variable(FLOAT, name="rate", data=np.ones((1, 1, 1)))
    other = Variable.of(1.0)
    with DressiAD(device) as ad:
        ad.set_loss(F.square(x))
        ad.set_optimizer(optim.sgd(optim.linear(rate, rate, 4)), [x])
        ad.send(rate, np.full((1, 1, 1), 0.25))
        ad.step()
        assert ad.recv(x).item() == 2.0
        with pytest.raises(GraphError, match="not part of this program"):
            ad.send(other, 2.0)


class Killed(Exception):
    pass


def test_a_round_that_was_saved_at_its_end_is_not_measured(device, tiny_fits, tmp_path: Path, monkeypatch):
    """Its engine has run no step since, and was not sent what a step reads."""

    def job(measure) -> FitJob:
        return FitJob(
            tiny_fits.scene, tiny_fits.options, lambda: DressiAD(device), folder=tmp_path, measure=measure
        )

    def kill(name, engine):
        raise Killed

    monkeypatch.setattr("dressi.render.fit.job.SAVE_SECONDS", 0.0)
    with pytest.raises(Killed):
        job(kill).run()
    stages = RoundStages()
    found, (whole, _) = job(stages).run(resume=True), tiny_fits.whole()
    assert found.finished and found.losses == whole.losses
    assert [stage["round"] for stage in stages] == ["shape 2", "shape 3", "texture 4"]
