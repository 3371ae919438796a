"""Rounds that remesh: a remeshed mesh is data of the same plan, and gives the numbers of a plan made for it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dressi import DressiAD
from dressi.errors import InputError
from dressi.render.fit import FitJob, shape_rounds
from dressi.render.fit.graphs.learned import learned
from dressi.render.fit.graphs.lists import Lists, SpareLists
from dressi.render.fit.graphs.plan import FitRound
from dressi.render.fit.phases import unfold
from dressi.render.fit.phases.shape import ShapeRound
from dressi.render.fit.phases.unfold import healed, unfolded, unfolded_from
from dressi.render.forms.edges.edge_list import edge_list, with_room
from dressi.render.mesh import Mesh, primitives
from dressi.render.mesh.checks import check_surface
from dressi.render.objectives.regularizers import adjacency
from dressi.render.objectives.sparse import Room

PLAN = FitRound(2, 24, 40, (0.2, 0.1), (0.02, 0.01), 2e-5, faces=300, remesh=10)


def work_of(tiny_fits, mesh: Mesh, plan: FitRound) -> ShapeRound:
    return ShapeRound(mesh, learned(tiny_fits.scene), (24, 24), plan)


def engine_of(tiny_fits, work: ShapeRound) -> DressiAD:
    engine = tiny_fits.make_engine()
    engine.set_loss(work.loss)
    engine.set_optimizer(work.optimizer, work.parameters)
    return engine


@pytest.mark.release
def test_a_remeshed_mesh_is_data_of_the_same_plan(tiny_fits):
    plan = replace(PLAN, weights={"colours": 1.0, "consistency": 1e-3})
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
        np.testing.assert_allclose(engine.losses(), found, rtol=2e-4)
        np.testing.assert_allclose(alone.moved(engine.state()).positions, moved, atol=1e-3)


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
    np.testing.assert_array_equal(rest.mesh.faces, whole.mesh.faces)
    np.testing.assert_array_equal(rest.mesh.positions, whole.mesh.positions)
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
    monkeypatch.setattr(unfold, "CELLS", 128)
    end = primitives.octasphere(2)
    apart = np.concatenate([broken.positions, end.positions * 0.025 + (1.3, 0.0, 0.0)])
    found = healed(Mesh(apart, np.concatenate([broken.faces, end.faces + len(broken.positions)])), tries=1)
    assert found.parts().max() == 1 and found.positions[:, 0].max() > 1.31


def test_folds_are_mended_where_they_are():
    """A spindle whose sides have passed through each other on a part of one end, and a disc beside it that is folded through."""
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
    # One vertex of a plateau pushed through its side: the rest of the plateau stays, which smoothing would wear down.
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
