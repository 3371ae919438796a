"""Pictures of the guides: what each form draws and what moves with a shape, the shadow of a shape on a floor, the viewer.

    python apps/figures/guide_pictures.py --out apps/results/guides

forms.png: a column a form. Above: the coverage of a torus with a radius of 6 pixels. Below: its
derivative along a shift of the torus to the right, red where coverage grows, blue where it shrinks, white where nothing moves.
shadows.png: a torus over a floor without a shadow, with the filter of 3 texels, with that of 8.
stencils.png: a picture; the same blurred by a kernel of 9 x 9 that nothing else knows; that kernel, and what 20 and 600 steps
of Adam find of it, in colours from 0 to its largest weight.
viewer.png: the window on an optimisation that turns a sphere into a pear.
handles.png: the window on a scene whose ball and lamp are moved by their axes.
"""

import argparse
from pathlib import Path

import numpy as np

from dressi import DressiAD, F, Variable, adam, evaluate
from dressi.ad.graph.types import FLOAT, MAT4, VEC3
from dressi.ad.transform.gradient import jvp
from dressi.render import (
    Camera,
    DirectionalLight,
    Mesh,
    Node,
    PointLight,
    Scene,
    Shadow,
    adjacency,
    laplacian_loss,
    primitives,
    render,
    ring,
)
from dressi.render.forms.hard_soft_ras import SOFT_FORMS
from dressi.render.io import save_png
from dressi.render.surface.color import srgb_to_linear
from dressi.viewer import EngineSession, MeshSession, OffscreenPresenter, Viewer, open_canvas
from dressi.viewer.canvas import Canvas

RADIUS = 6
"""Pixels around the outline that a form draws."""
GAP = 4


def forms(size: int) -> np.ndarray:
    """(2 * size, columns, 3) linear: coverage above, derivative by a shift below."""
    mesh, camera = primitives.torus(), Camera.perspective(40, (size, size), (0.0, 2.8, 4.0), (0, 0, 0))
    columns = []
    for name in (*SOFT_FORMS, "edges"):
        shift = Variable.of(0.0, name="shift")
        moved = Variable.of(mesh.positions) + F.vec3(shift, 0.0, 0.0)
        radius = RADIUS / size if name in SOFT_FORMS else None
        picture = render(mesh, camera, positions=moved, form=name, radius=radius)
        moves = jvp([picture.mask], [shift], [2.0 / size])[0]
        mask, change = (v[0] for v in evaluate([picture.mask, moves]))
        strength = np.clip(change / np.percentile(np.abs(change), 99), -1, 1)[..., None]
        red = np.clip(1 + np.minimum(strength, 0) * (1, 1, 0) - np.maximum(strength, 0) * (0, 1, 1), 0, 1)
        columns.append(np.concatenate([np.repeat(mask[..., None], 3, -1), red]))
    return srgb_to_linear(_beside(columns))


def shadows(size: int) -> np.ndarray:
    """(size, columns, 3) linear."""
    torus = primitives.torus()
    corners = np.array([(x, -1.35, z) for x in (-3.0, 3.0) for z in (-3.0, 3.0)])
    faces = np.array([(0, 1, 3), (0, 3, 2)]) + len(torus.positions)
    turned = torus.positions[:, [0, 2, 1]] * (1, 1, -1)
    mesh = Mesh(np.concatenate([turned, corners]), np.concatenate([torus.faces, faces]))
    camera = Camera.perspective(35, (size, size), (2.0, 3.0, 6.5), (0, -0.5, 0))
    suns = (
        DirectionalLight((1, 2, 1), colour=2.5, shadow=shadow)
        for shadow in (None, Shadow(256), Shadow(256, softness=8, bias=4.0))
    )
    drawn = [render(mesh, camera, light=sun, samples=2, background=1.0).colour for sun in suns]
    return _beside([np.clip(image, 0, 1) for image in drawn])


def stencils(size: int) -> np.ndarray:
    """(size, columns, 3) linear."""
    view = Camera.perspective(40, (size, size), (0.0, 2.8, 4.0), (0, 0, 0))
    drawn = render(primitives.torus(), view, light=DirectionalLight((1, 2, 1)), samples=2).colour
    speckles = np.random.default_rng(0).uniform(0.2, 1.0, (-(-size // 4),) * 2)
    drawn = drawn * np.kron(speckles, np.ones((4, 4)))[:size, :size, None]
    picture = Variable.of(drawn, VEC3)
    row, column = np.mgrid[-4:5, -4:5]
    hidden = np.exp(-((row - column) ** 2) / 2.0 - (row + column) ** 2 / 40.0)
    hidden /= hidden.sum()
    target = evaluate(F.correlate(picture, Variable.of(hidden, FLOAT), border="clamp"))
    kernel = Variable.of(np.zeros((9, 9)), FLOAT, name="kernel")
    error = F.correlate(picture, kernel, border="clamp") - Variable.of(target[0], VEC3)
    found = []
    with DressiAD() as ad:
        ad.set_loss(F.mean(F.sum_components(F.square(error))))
        ad.set_optimizer(adam(0.004), [kernel])
        for steps in (20, 580):
            ad.step(steps)
            found.append(ad.recv(kernel).reshape(9, 9))
    columns = [drawn, target[0]]
    for weights in (hidden, *found):
        level = np.clip(weights / hidden.max(), 0, 1)
        large = np.kron(level, np.ones((-(-size // 9),) * 2))[:size, :size]
        columns.append(np.repeat(srgb_to_linear(large)[..., None], 3, -1))
    return _beside([np.clip(image, 0, 1) for image in columns])


def viewer(size: int) -> np.ndarray:
    """(2 * size, 4 * size, 3) linear."""
    sphere, cameras = primitives.octasphere(3, 0.6), ring(np.zeros(3), 1.0, 8, (64, 64))
    pear = primitives.pear()
    target = render(pear.moved(pear.positions * 0.8), cameras)
    positions, radius = Variable.of(sphere.positions, name="positions"), Variable.of(0.15, name="radius")
    picture = render(sphere, cameras, positions=positions, radius=radius)
    with DressiAD() as ad, open_canvas("offscreen", (4 * size, 2 * size), "sphere to pear") as canvas:
        smooth = laplacian_loss(positions, adjacency(sphere.faces, len(sphere.positions)))
        ad.set_loss(F.mean(F.square(picture.mask - picture.soft_target(target.mask))) + 10 * smooth)
        ad.set_optimizer(adam(0.01), [positions])
        session = EngineSession(
            ad, positions=positions, faces=sphere.faces, sliders={radius: (0.05, 0.5)}, steps=120
        )
        window = Viewer(session, canvas)
        while not session.status.finished:
            window.tick()
        window.draw()
        return _seen(canvas)


def handles(size: int) -> np.ndarray:
    """(2 * size, 4 * size, 3) linear."""
    place = Variable(MAT4, (1, 1), name="ball", data=np.eye(4)[None, None, None])
    lamp = Variable.of([1.5, 2.5, 2.0], VEC3, name="lamp")
    corners = np.array([(x, -0.7, z) for x in (-2.0, 2.0) for z in (-2.0, 2.0)])
    floor, soft = (corners, np.array([(0, 1, 3), (0, 3, 2)])), {"colour": (0.9, 0.45, 0.2), "roughness": 0.4}
    nodes = [Node(primitives.icosphere(3, 0.6), soft, place), Node(floor, {"colour": (0.5, 0.5, 0.5)})]
    with DressiAD() as ad, open_canvas("offscreen", (4 * size, 2 * size)) as canvas:
        session = MeshSession(Scene(nodes, lights=[PointLight(lamp, 12.0)]), ad, "a ball and a lamp")
        window = Viewer(session, canvas)
        window.choose("textured")
        window.orbit.zoom(1.4)
        window.draw()
        return _seen(canvas)


def _seen(canvas: Canvas) -> np.ndarray:
    """The last picture of an offscreen window, linear."""
    window = canvas.presenter
    assert isinstance(window, OffscreenPresenter) and window.frame is not None
    return srgb_to_linear(window.frame[..., :3] / 255.0)


def _beside(columns: list[np.ndarray]) -> np.ndarray:
    gap = np.ones((len(columns[0]), GAP, 3))
    return np.concatenate([part for column in columns for part in (gap, column)][1:], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/guides"))
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for draw in (forms, shadows, stencils, viewer, handles):
        save_png(given.out / f"{draw.__name__}.png", draw(given.size))


if __name__ == "__main__":
    main()
