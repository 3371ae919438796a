"""The viewer: fits that are steered, examples, and the window of a fit."""

import doctest
import importlib
import pkgutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from screen import Screen, until
from typer.testing import CliRunner

import dressi
import dressi.viewer
from dressi import FLOAT, MAT4, VEC3, DressiAD, F, InputError, Variable, adam
from dressi.cli.commands import app
from dressi.render import (
    Cameras,
    Mesh,
    MorphGeometry,
    Node,
    PointGeometry,
    PointLight,
    Scene,
    StrandGeometry,
    load_mesh,
    load_scene,
    primitives,
    save_mesh,
)
from dressi.render.drawing.draw import draw
from dressi.render.fit import DirectionalColour, FitJob
from dressi.render.fit import job as running
from dressi.render.fit.data.directional import DIRECTIONAL
from dressi.render.fit.graphs import term
from dressi.render.io import read_image
from dressi.render.scene.clips import Clip, Motion, Track
from dressi.render.surface.color import linear_to_srgb
from dressi.viewer import EngineSession, FitSession, Handle, MeshSession, Orbit, Viewer, open_canvas
from dressi.viewer.panel import WIDTH
from dressi.viewer.pictures import BACKGROUND, FIT, MODES, TRUTH

SIZE = (WIDTH + 128, 128)


def key(viewer: Viewer, *names: str) -> None:
    for name in names:
        viewer.canvas.submit({"event_type": "key_down", "key": name, "modifiers": ()})
        viewer.canvas.process_events()


def pointer(viewer: Viewer, kind: str, x: float, y: float, button: int = 1) -> None:
    viewer.canvas.submit({"event_type": f"pointer_{kind}", "x": x, "y": y, "button": button, "modifiers": ()})
    viewer.canvas.process_events()


def press(viewer: Viewer, name: str) -> None:
    x, y = viewer.panel.places[name]
    for kind in ("down", "up"):
        pointer(viewer, kind, SIZE[0] - WIDTH + x, y)


def frame(viewer: Viewer) -> np.ndarray:
    """(128, 128, 3) codes of the picture beside the panel."""
    assert viewer.draw()
    return viewer.canvas.presenter.frame[:, : SIZE[0] - WIDTH, :3] / 255.0


@pytest.fixture
def canvas():
    with open_canvas("offscreen", SIZE) as found:
        yield found


@pytest.fixture
def fit(tiny_fits, canvas, tmp_path: Path):
    job = FitJob(tiny_fits.scene, tiny_fits.options, tiny_fits.make_engine)
    viewer = Viewer(FitSession(job, folder=tmp_path), canvas)
    yield viewer
    viewer.session.stop()


@pytest.mark.one_driver
def test_a_mesh_is_shown_in_every_mode_from_every_side(device, canvas):
    mesh = primitives.cube()
    with DressiAD(device) as engine:
        viewer = Viewer(MeshSession(mesh, engine), canvas)
        assert [mode.name for mode in viewer.modes] == [mode.name for mode in MODES if not mode.photograph]
        pictures = []
        for mode in viewer.modes:
            viewer.choose(mode.name)
            pictures.append(frame(viewer))
            # The corners of the picture are background, the middle is not.
            assert_allclose(pictures[-1][0, 0], BACKGROUND, atol=1 / 255)
            assert np.abs(pictures[-1][60, 74] - BACKGROUND).max() > 0.05
        assert all(np.abs(a - b).max() > 0.1 for k, a in enumerate(pictures) for b in pictures[:k])
        viewer.choose("normals")
        viewer.orbit.elevation = viewer.orbit.azimuth = 0.0
        # From +z the front face has the normal (0, 0, 1).
        assert_allclose(frame(viewer)[64, 64], (0.5, 0.5, 1.0), atol=0.35)
        key(viewer, "ArrowRight", "ArrowRight", "+")
        assert (viewer.orbit.azimuth, viewer.orbit.distance < 3.4) == (-16.0, True)
        key(viewer, "Home", "h")
        viewer.draw()
        assert not viewer.panel_shown and (viewer.orbit.azimuth, viewer.orbit.elevation) == (20.0, 20.0)


@pytest.mark.release
@pytest.mark.one_driver
def test_a_scene_is_shown_as_its_nodes_say(device, canvas):
    cube, place = primitives.cube(), np.eye(4)
    place[0, 3] = 4
    line = StrandGeometry([[0.0, -1, 0], [0, 1, 0]], radius=0.3, colours=(0.0, 0.0, 1.0))
    nodes = [
        Node(MorphGeometry(cube, cube.positions[None], [-0.5]), {"colour": (1, 0, 0)}),
        Node(line, lambda point: point.colour, place),
    ]
    with DressiAD(device) as engine:
        viewer = Viewer(MeshSession(Scene(nodes), engine), canvas)
        viewer.choose("textured")
        viewer.orbit.elevation = viewer.orbit.azimuth = 0.0
        shown = frame(viewer)
        red, blue = (shown[..., k] - shown[..., 1] for k in (0, 2))
        left, right = (np.nonzero((own > 0.3).any(0))[0] for own in (red, blue))
        assert left.max() < 64 < right.min()
        with pytest.raises(InputError, match="where the scene lies is not known"):
            MeshSession(Scene([Node(cube, to_world=Variable(MAT4, (1, 1)))]), engine)


@pytest.mark.one_driver
def test_points_alone_are_shown_in_one_mode(device, canvas):
    points = PointGeometry(np.array([[-0.2, 0, 0], [0.2, 0, 0]]), radius=0.4, colours=(0.0, 0.0, 1.0))
    with DressiAD(device) as engine:
        viewer = Viewer(MeshSession(Scene([Node(points)]), engine), canvas)
        assert viewer.names == ["textured"] and viewer.session.status.phase == "2 points"
        assert frame(viewer)[64, 64, 2] > 0.9
    alone = PointGeometry(np.array([[3.0, 4, 5]]), radius=0.4, colours=(0.0, 0.0, 1.0))
    with DressiAD(device) as engine:
        viewer = Viewer(MeshSession(Scene([Node(alone)]), engine), canvas)
        seen = frame(viewer)[..., 2] > 0.9
        assert seen[64, 64] and 0.1 < seen.mean() < 0.9


@pytest.mark.one_driver
def test_colours_by_direction_are_drawn_and_fade(device, canvas, tmp_path: Path):
    mesh, rng = primitives.pear(24, 16, 32), np.random.default_rng(0)
    slopes = rng.uniform(-0.3, 0.3, (9, 1, 3)) * np.ones((1, len(mesh.positions), 1))
    detail = rng.uniform(-0.1, 0.1, (4, 4, 3))
    DirectionalColour(mesh.positions, 0.1 * mesh.positions, slopes, detail).save(tmp_path / DIRECTIONAL)
    save_mesh(tmp_path / "result.glb", mesh)
    save_mesh(tmp_path / "confidence.glb", Mesh(mesh.positions, mesh.faces, colors=mesh.positions * 0 + 0.5))
    save_mesh(tmp_path / "other.glb", mesh.moved(mesh.positions * [1, 1.1, 1]))
    shown = load_scene(tmp_path / "result.glb")
    for other in ("confidence.glb", "other.glb"):
        assert DirectionalColour.beside(tmp_path / other, load_scene(tmp_path / other)) is None
    colour = DirectionalColour.beside(tmp_path / "result.glb", shown)
    assert colour is not None
    with DressiAD(device) as engine:
        session = MeshSession(shown, engine, directional=colour)
        viewer = Viewer(session, canvas)
        viewer.choose("textured")
        seen = frame(viewer)
        unit = session.graphs[0].unit
        placed = mesh.moved(mesh.positions @ unit[:3, :3].T + unit[:3, 3])
        shader = replace(colour, positions=placed.positions).shader(placed)
        camera = viewer.orbit.camera((128, 128))
        covered, wanted = draw(placed, Cameras([camera]), lambda: DressiAD(device), shader=shader)
        inside = covered[0] > 0
        assert_allclose(seen[inside], linear_to_srgb(wanted[0])[inside], atol=2 / 255)
        press(viewer, "colours by direction")
        assert session.sliders[0].get() == pytest.approx(0.5)
        session.sliders[0].set(0.0)
        plain = linear_to_srgb(draw(placed, Cameras([camera]), lambda: DressiAD(device))[1][0])
        assert_allclose(frame(viewer)[inside], plain[inside], atol=2 / 255)
        assert np.abs(seen - plain)[inside].max() > 0.2
    pictures = []
    for more in ([], ["--no-directional"]):
        file = tmp_path / "view.png"
        said = CliRunner().invoke(
            app, ["view", str(tmp_path), "--picture", str(file), "--size", "300x64", *more]
        )
        assert said.exit_code == 0, said.output
        pictures.append(read_image(file))
    assert np.abs(pictures[0] - pictures[1]).max() > 0.1


@pytest.mark.one_driver
def test_clips_are_played_paused_and_chosen(device, canvas):
    place, points = np.eye(4), PointGeometry(np.array([[0.0, 1.2, 0]]), radius=0.4, colours=(0.0, 0.0, 1.0))
    place[0, 3] = 2.0
    nodes = [Node(primitives.cube(0.5), {"colour": (1, 0, 0)}, place), Node(points, None, place)]
    # One clip moves the cube from the left to the right within a second, the other one the point.
    times, ways = np.array([0.0, 1]), np.array([[-2.0, 0, 0], [2, 0, 0]])
    tracks = [Track(node, "translation", times, ways, "LINEAR") for node in (0, 1)]
    clips = tuple(Clip(name, (track,)) for name, track in zip(("cube", "point"), tracks, strict=True))
    rest = {"translation": (2, 0, 0), "rotation": (0, 0, 0, 1), "scale": (1, 1, 1)}
    motion = Motion(clips, {}, {0: rest, 1: rest}, (0, 1), ((), ()))
    with DressiAD(device) as engine:
        viewer = Viewer(MeshSession(Scene(nodes, motion=motion), engine), canvas)
        session, scene = viewer.session, viewer.session.scene
        viewer.choose("textured")
        viewer.orbit.elevation = viewer.orbit.azimuth = 0.0

        def middles() -> list[float]:
            shown = frame(viewer)
            return [float(np.nonzero((shown[..., k] - shown[..., 1] > 0.3).any(0))[0].mean()) for k in (0, 2)]

        first = middles()
        sliders = {slider.name: slider for slider in session.sliders}
        sliders["time"].set(0.5)
        half = middles()
        sliders["time"].set(1.0)
        last = middles()
        assert first[0] < 40 and half[0] == pytest.approx(64, abs=2) and last[0] > 88 and first[1] == last[1]
        sliders["clip"].set(1.0)
        assert middles()[1] < 40 and sliders["clip"].names == ["cube", "point"]
        session.advance(0.0, steps=15)
        assert middles()[1] == pytest.approx(64, abs=2)
        viewer.toggle()
        held = sliders["time"].get()
        for _ in range(3):
            viewer.tick()
        assert sliders["time"].get() == held
        viewer.toggle()
        assert until(lambda: viewer.tick() and sliders["time"].get() < held)  # it plays and begins again
        assert session.scene is scene  # nothing was built for another time


@pytest.mark.one_driver
def test_two_are_compared_beyond_a_line(device, canvas):
    red, blue = (replace(primitives.cube(), color=colour) for colour in ((1.0, 0, 0), (0, 0, 1.0)))
    with DressiAD(device) as engine:
        viewer = Viewer(MeshSession(red, engine, against=blue.moved(blue.positions * 0.5)), canvas)
        viewer.choose("textured")
        assert viewer.session.status.phase == "12 faces | 12 faces"
        shown = frame(viewer)
        assert (
            shown[64, 52, 0] > 0.9 > 0.1 > shown[64, 52, 2]
            and shown[64, 76, 2] > 0.9 > 0.1 > shown[64, 76, 0]
        )
        # From one camera: the right half of the red cube is hidden, the blue one is half as large.
        assert_allclose(shown[64, 98], BACKGROUND, atol=0.01)
        pointer(viewer, "down", 66, 20)
        pointer(viewer, "move", 32, 20)
        assert viewer.wiper == 0.25 and viewer.orbit.azimuth == Orbit().azimuth
        assert frame(viewer)[64, 52, 2] > 0.9
        viewer.choose("difference")
        apart = frame(viewer)
        assert_allclose(apart[64, 64], (1.0, 0.0, 1.0), atol=0.02)
        assert apart[2, 2].max() == 0.0


@pytest.mark.one_driver
def test_axes_in_the_picture_write_variables(device, canvas):
    place = Variable(MAT4, (1, 1), name="box", data=np.eye(4)[None, None, None])
    lamp = Variable.of([1.0, 2.0, 3.0], VEC3, name="lamp")
    scene = Scene([Node(primitives.cube(0.5), to_world=place)], lights=[PointLight(lamp, 9.0)])
    wanted = np.array([0.5, 0.0, 0.0, 1.0])
    with DressiAD(device) as ad:
        ad.set_loss(F.sum_components(F.square(F.column(place, 3) - tuple(wanted))))
        ad.set_optimizer(adam(0.1), [place])
        session = EngineSession(ad, scene=scene, steps=100)
        viewer = Viewer(session, canvas)
        viewer.choose("textured")
        viewer.orbit.elevation = viewer.orbit.azimuth = 0.0
        before = frame(viewer)
        box, light = viewer.handles
        assert (box.name, light.name, list(light.transforms)) == ("box", "lamp", ["move"])
        # The camera looks along -z from the distance 3.4857: x is right, y is up, from the middle of the picture.
        for kind, x in (("down", 74), ("move", 84), ("up", 84)):
            pointer(viewer, kind, x, 64)
        pixel = 2 * 3.4857 * np.tan(np.radians(35 / 2)) / 128 / box.unit[0, 0]
        assert_allclose(box.matrix[:3, 3], (10 * pixel, 0, 0), rtol=0.02, atol=1e-5)
        assert np.abs(frame(viewer)[:, :60] - before[:, :60]).max() > 0.1  # it has left
        moved = box.matrix[0, 3]
        session.advance(0.0, steps=1)
        assert ad.losses()[0] == pytest.approx((moved - 0.5) ** 2, rel=1e-4)  # the step began from there
        while not session.status.finished:
            session.advance(0.0, steps=20)
        assert box.matrix[0, 3] == pytest.approx(0.5, abs=0.05)  # and the axes follow the optimizer
        viewer.draw()
        key(viewer, "g")
        assert viewer.transform == "turn"
        box.turn((0, 0, 1), 90)
        box.scale(2.0)
        assert_allclose(box.matrix[:3, 0], (0, 2, 0), atol=0.1)
        key(viewer, "Tab")
        assert viewer.handles[viewer.handle] is light and viewer.transform == "move"
        with pytest.raises(InputError, match="lamp is a place"):
            light.scale(2.0)
        with pytest.raises(InputError, match="a handle moves a leaf"):
            Handle(place * 2.0, ad)


@pytest.mark.one_driver
def test_the_mouse_turns_shifts_and_zooms(device, canvas):
    with DressiAD(device) as engine:
        viewer = Viewer(MeshSession(primitives.cube(), engine), canvas)
        frame(viewer)
        pointer(viewer, "down", 40, 40)
        pointer(viewer, "move", 72, 40)
        pointer(viewer, "up", 72, 40)
        pointer(viewer, "move", 10, 10)  # nothing is held any more
        assert viewer.orbit.azimuth == pytest.approx(20 - 220 * 32 / 128) and viewer.orbit.elevation == 20
        pointer(viewer, "down", 40, 40, button=2)
        pointer(viewer, "move", 104, 40)
        before = frame(viewer)
        # The cube was shifted half of the picture to the right: the left half is empty.
        assert_allclose(before[:, :32], np.broadcast_to(BACKGROUND, (128, 32, 3)), atol=1 / 255)
        canvas.submit({"event_type": "wheel", "dx": 0, "dy": -100, "modifiers": ()})
        canvas.process_events()
        assert viewer.orbit.distance == pytest.approx(Orbit().distance / 1.1)


@pytest.mark.release
@pytest.mark.one_driver
def test_a_watched_fit_finds_what_one_alone_does(fit, tiny_fits):
    whole, _ = tiny_fits.whole()
    while not fit.session.status.finished:
        fit.tick()
    result = fit.session.result()
    assert result.finished and fit.frames > 0 and fit.session.status.done == len(whole.losses)
    assert_allclose([x for _, x in result.losses], [x for _, x in whole.losses], rtol=1e-3)
    assert set(fit.session.status.curves) == {"loss", "IoU", "PSNR"}


@pytest.mark.one_driver
def test_pause_step_save_and_close(fit, tmp_path: Path):
    for _ in range(2):
        fit.tick()
    fit.draw()
    press(fit, "pause")
    done = fit.session.status.done
    fit.tick()
    assert fit.paused and fit.session.status.done == done
    press(fit, "step")
    fit.tick()
    assert fit.session.status.done == done + 1
    press(fit, "save")
    fit.tick()
    saved = tmp_path / f"view-{done + 1:06d}.glb"
    assert fit.session.status.note == f"saved {saved.name}"
    job = fit.session.job
    center = load_mesh(saved).positions.mean(0)
    assert np.linalg.norm(center - job.dataset.center) < job.dataset.radius
    key(fit, "q")
    assert not fit.tick() and not fit.session.result().finished
    assert fit.session.run.point.step % running.CHUNK in (0, 1)  # a resumed fit computes the same numbers


@pytest.mark.release
@pytest.mark.one_driver
def test_a_rewound_fit_goes_on_from_a_checkpoint(fit, monkeypatch):
    monkeypatch.setattr(running, "SAVE_SECONDS", 0.0)
    key(fit, "r")
    fit.tick()
    assert "no earlier checkpoint" in fit.session.status.note
    while fit.session.status.done < 14:
        fit.session.advance(0.0, steps=1)
    done = fit.session.status.done
    key(fit, "r")
    fit.tick()
    assert "rewound to step" in fit.session.status.note
    assert int(fit.session.status.note.split()[-1]) < done
    while not fit.session.status.finished:
        fit.tick()
    assert fit.session.result().finished


@pytest.mark.one_driver
def test_a_slider_moves_a_factor(fit):
    fit.tick()
    fit.draw()
    x, y = fit.panel.places["rate"]
    pointer(fit, "down", SIZE[0] - WIDTH + x + 60, y + 8)
    pointer(fit, "move", SIZE[0] - WIDTH + x + 1000, y + 8)
    pointer(fit, "up", 0, 0)
    assert fit.session.controls.values["rate"] == pytest.approx(5.0)
    assert [name for _, name, _ in fit.session.controls.changes] == ["rate", "rate"]


@pytest.mark.one_driver
def test_outlines_lie_over_the_nearest_photograph(fit):
    fit.tick()
    fit.choose("silhouettes")
    picture = frame(fit)
    for colour in (FIT, TRUTH):
        assert (np.abs(picture - colour).max(-1) < 0.12).any()
    fit.choose("difference")
    fit.orbit.azimuth = 100.0
    first = frame(fit)
    fit.orbit.azimuth = -140.0
    assert np.abs(first - frame(fit)).max() > 0.05


@pytest.mark.one_driver
def test_an_engine_of_ones_own_is_watched_and_steered(device, canvas):
    image = Variable.of(np.zeros((2, 8, 8, 3)), name="image")
    weight = Variable(FLOAT, name="weight", data=np.ones((1, 1, 1)))
    with DressiAD(device) as ad:
        ad.set_loss(F.mean(F.square(F.length(image - 1.0))) * weight)
        ad.set_optimizer(adam(0.1), [image])
        session = EngineSession(ad, image=image, tile=1, codes=True, sliders={weight: (0.1, 10.0)}, steps=40)
        viewer = Viewer(session, canvas)
        black = frame(viewer)
        while not session.status.finished:
            viewer.tick()
        assert session.status.done == 40 and len(ad.losses()) == 40
        assert black.max() == 0.0 and frame(viewer)[64, 64].min() > 0.8
        session.sliders[0].set(2.0)
        assert ad.recv(weight).item() == 2.0 == session.sliders[0].get()


@pytest.mark.one_driver
def test_what_cannot_be_shown_is_said(device):
    image = Variable.of(np.zeros((4, 4, 3)), name="image")
    with DressiAD(device) as ad:
        for given, said in (
            ({}, "either an image"),
            ({"image": image, "tile": 1}, "tiles 0 to 0"),
            ({"image": Variable.of(np.zeros((4, 4, 2)))}, "FLOAT, VEC3 or VEC4"),
            ({"image": image, "sliders": {image: (0.1, 1.0)}}, "slider"),
        ):
            with pytest.raises(InputError, match=said):
                EngineSession(ad, **given)


MODULES = [term] + [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(dressi.viewer.__path__, "dressi.viewer.")
    if ".windows" not in found.name and ".widget" not in found.name
]
GLOBALS = {"np": np, **{name: getattr(dressi, name) for name in dressi.__all__}}
EXAMPLES = [
    example
    for module in MODULES
    for example in doctest.DocTestFinder().find(module, globs=dict(GLOBALS))
    if example.examples
]


@pytest.mark.one_driver
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_examples_run(example: doctest.DocTest, device):
    flags = doctest.NORMALIZE_WHITESPACE
    said: list[str] = []
    example.globs.update(vars(importlib.import_module(example.globs.get("__name__", "dressi"))) | GLOBALS)
    assert doctest.DocTestRunner(optionflags=flags).run(example, out=said.append).failed == 0, "".join(said)


@pytest.mark.vk
def test_the_viewer_has_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.release
@pytest.mark.one_driver
def test_a_watched_fit_in_a_window_that_changes(tiny_fits, screen: Screen):
    glfw = pytest.importorskip("glfw")
    screen.managed()
    job = FitJob(tiny_fits.scene, tiny_fits.options, tiny_fits.make_engine)
    with open_canvas("glfw", (400, 240), "fit") as canvas:
        viewer = Viewer(FitSession(job), canvas)
        window = canvas.widget._window
        viewer.session.advance(0.0, steps=3)
        viewer.toggle()  # a fit this small would be finished before the window is
        for size, mode in (((400, 240), "shaded"), ((520, 300), "silhouettes"), ((330, 200), "normals")):
            glfw.set_window_size(window, *size)
            viewer.choose(mode)
            viewer.step()
            assert until(lambda size=size: viewer.tick() and canvas.presenter.size == size and viewer.draw())
        glfw.iconify_window(window)
        assert until(lambda: viewer.tick() and not viewer.draw())
        glfw.restore_window(window)
        assert until(lambda: viewer.tick() and viewer.draw())
        assert not canvas.presenter.copies
        viewer.canvas.close()
        assert not viewer.tick()
    # It is kept to the end of a chunk, or finished.
    assert viewer.session.status.finished and viewer.session.result().losses
