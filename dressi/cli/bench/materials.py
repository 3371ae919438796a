"""The optimisations that shade glTF materials under an environment map: a frame, a material step, an environment step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dressi import DressiAD, F, Variable, adam
from dressi.ad.optim import Clocked, Optimizer, clock
from dressi.ad.types import FLOAT, VEC2, VEC3
from dressi.cli.bench.meshes import Model, cameras
from dressi.cli.bench.request import Request
from dressi.cli.bench.work import Work
from dressi.render.cameras.units import matrices_leaf
from dressi.render.drawing.entry import render
from dressi.render.fit.graphs.batches import ViewBatches
from dressi.render.mesh import Mesh
from dressi.render.mesh.material import Material
from dressi.render.objectives.losses import l2
from dressi.render.shading.environment import Environment

FRAMES = 8
"""Places of the camera that frames are drawn from in turn."""
SKY = (64, 32)
"""Texels of the environment map, which is optimised or known."""
GREY = 0.4
"""What maps start from."""


def shading(model: Model, size: tuple[int, int], texels: int, request: Request) -> Work:
    """One frame: rasterised and shaded from a camera that moves in every step. What is optimised is its exposure alone, one
    number: the squared difference of the mean light to a grey."""
    mesh, counter = _with_maps(model.mesh, texels), clock()
    pick = ViewBatches(FRAMES * request.views, request.views, counter)
    matrices = pick(matrices_leaf(cameras(FRAMES * request.views, size).matrices))
    sky = Environment(_sky())
    picture = render(mesh, matrices, size=size, light=sky, filter="trilinear", form="hard")
    stops = Variable(FLOAT, name="stops", data=np.full((1, 1, 1), 3.0))
    shown = picture.colour * F.exp2(stops)
    return _work(model, size, texels, request, l2(shown, 0.2), Clocked(adam(1.0), counter), [stops], shown)


def material(model: Model, size: tuple[int, int], texels: int, request: Request) -> Work:
    """Maps of albedo, metallic and roughness from pictures of all views, under a known light: sum-L2 of colours."""
    start = np.full((1, texels, texels, 3), GREY)
    albedo = Variable(VEC3, (texels, texels), name="albedo", data=start)
    both = Variable(VEC2, (texels, texels), name="metallic and roughness", data=start[..., :2])
    given = {"texture": albedo, "material": {"metallic_roughness": both}}
    mesh = _with_maps(model.mesh, texels)
    assert mesh.texture is not None and mesh.material is not None
    assert mesh.material.metallic_roughness is not None
    truth = [mesh.texture, mesh.material.metallic_roughness]
    return _recovery(model, size, texels, request, Environment(_sky()), given, [albedo, both], truth)


def roughness(model: Model, size: tuple[int, int], texels: int, request: Request) -> Work:
    """The factor of roughness, one number, from pictures of all views under a known light: sum-L2 of colours. The light is
    filtered for every roughness once, where what does not change is kept."""
    factor = Variable.of([[GREY]], FLOAT, name="roughness")
    given = {"material": {"roughness": factor}}
    return _recovery(model, size, texels, request, Environment(_sky()), given, [factor], [np.ones((1, 1, 1))])


def environment(model: Model, size: tuple[int, int], texels: int, request: Request) -> Work:
    """The environment map, of 64x32 texels, from pictures of a known material: sum-L2 of colours."""
    sky = Variable(VEC3, SKY, name="sky", data=np.full((1, *SKY[::-1], 3), GREY))
    return _recovery(model, size, texels, request, Environment(sky), {}, [sky], [_sky()])


def _recovery(
    model: Model,
    size: tuple[int, int],
    texels: int,
    request: Request,
    light: Environment,
    given: dict[str, Any],
    parameters: list[Variable],
    truth: list[np.ndarray],
) -> Work:
    mesh = _with_maps(model.mesh, texels)
    matrices = matrices_leaf(cameras(request.views, size).matrices)
    options: dict[str, Any] = {"size": size, "filter": "trilinear", "form": "hard"}
    found = render(mesh, matrices, light=light, **options, **given).colour
    # Nothing in it changes, so that it is drawn once.
    goal = render(mesh, matrices, light=Environment(_sky()), **options).colour
    loss = l2(found, goal, reduction="sum")
    return _work(model, size, texels, request, loss, adam(0.02), parameters, found, truth)


def _work(
    model: Model,
    size: tuple[int, int],
    texels: int,
    request: Request,
    loss: Variable,
    optimizer: Optimizer,
    parameters: list[Variable],
    image: Variable,
    truth: Sequence[np.ndarray] = (),
) -> Work:
    def quality(engine: DressiAD) -> dict[str, float | None]:
        found = zip(parameters, truth, strict=False)
        return {f"error of {p.name}": float(np.abs(engine.recv(p)[0] - true).mean()) for p, true in found}

    settings = {
        "views": request.views, **model.facts, "size": list(size), "texture_size": texels, "texture_gradient": "exact",
        "sky": list(SKY),
    }  # fmt: skip
    first, *others = parameters
    return Work(settings, loss, optimizer, first, image, quality, others=tuple(others))


def _with_maps(mesh: Mesh, texels: int) -> Mesh:
    """The mesh with patterns for maps of base colour, metallic, roughness and normals."""
    mesh = mesh if mesh.uvs is not None else mesh.unwrap()
    y, x = (np.mgrid[:texels, :texels] + 0.5) / texels
    waves = 6 * np.pi * np.stack([x + y, 2 * x - y, x - 3 * y], axis=-1)
    pattern = 0.5 + 0.4 * np.sin(waves)
    tilt = np.concatenate([0.2 * np.cos(waves[..., :2]), np.ones((texels, texels, 1))], axis=-1)
    both = np.stack([pattern[..., 0] > 0.6, pattern[..., 1]], axis=-1).astype(float)
    normal = tilt / np.linalg.norm(tilt, axis=-1, keepdims=True)
    made = Material(metallic=1.0, roughness=1.0, metallic_roughness=both, normal=normal)
    return replace(mesh, texture=pattern, color=(1.0, 1.0, 1.0), material=made)


def _sky() -> np.ndarray:
    """(32, 64, 3): bright above, dark below, with a sun."""
    width, height = SKY
    y, x = (np.mgrid[:height, :width] + 0.5) / height
    up = np.cos(np.pi * y)
    sun = 8 * np.exp(-60 * ((y - 0.3) ** 2 + (x / 2 - 0.4) ** 2))
    return (0.6 + 0.4 * up + sun)[..., None] * (0.9, 1.0, 1.1)
