"""The optimisations that are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ... import Device, DressiAD, F, Variable, adam
from ...ad.graph.evaluation import evaluate
from ...ad.graph.types import FLOAT, IVEC3, VEC2, VEC3, Size, list_values
from ...ad.optim import Clocked, Optimizer, clock, cosine, sgd
from ...ad.transform.gradient import gradient
from ...config import shader_text
from ...errors import InputError
from ...render.cameras import Cameras
from ...render.cameras.pose import matrices_leaf
from ...render.core.lists import list_leaf
from ...render.drawing.draw import draw, surface_uv
from ...render.drawing.entry import render
from ...render.fit.data.learned import ViewBatches, signed_distances
from ...render.fit.phases.texture import TextureRound
from ...render.forms.edges.edge_list import edge_list
from ...render.forms.hard_soft_ras import SOFT_FORMS, draw_form
from ...render.mesh import Mesh
from ...render.mesh.material import Material
from ...render.mesh.queries import SurfaceDistance
from ...render.objectives.losses import l2
from ...render.objectives.metrics import iou, psnr
from ...render.shading.environment import Environment
from ...render.surface.projection import to_clip
from ...render.surface.screen import rasterize_hard
from ...render.surface.texturing import texture_colour
from ...vk.plan.core.limits import DeviceLimits
from ...vk.plan.core.options import DEFAULT, PlanOptions
from ...vk.plan.execution.plan import Plan
from ...vk.plan.model.device import DeviceModel
from ...vk.planning import PlanningEngine
from .rasterizers import Deodr, Nvdiffrast
from .request import Model, Request, cameras, deformed, textured
from .stencils import RATE, Training

SHAPE_RATE = (0.01, 0.0005)
"""Learning rates of Adam on positions in the unit sphere, from the first to the last step."""
TEXTURE_RATE = 0.03


class Peer(Protocol):
    """Another program at the same task."""

    facts: dict[str, Any]

    def run(self, steps: int) -> None: ...
    def positions(self) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class Work:
    """One optimisation. image: what the loss compares, for comparisons between devices and plans.

    quality: measures of what an engine has reached.  peers: rivals, by name, made anew at each call.
    """

    settings: dict[str, Any]
    loss: Variable
    optimizer: Optimizer
    parameter: Variable
    image: Variable
    quality: Callable[[DressiAD], dict[str, float | None]]
    peers: dict[str, Callable[[], Peer]] = field(default_factory=dict)
    peer_quality: Callable[[Device, np.ndarray], dict[str, float | None]] | None = None
    others: tuple[Variable, ...] = ()
    """Parameters beside the first."""
    distance: Callable[[DressiAD], float] | None = None
    """The mean distance of an engine's shape from the true one; no loss compares it."""

    def describe(self, engine: DressiAD | PlanningEngine, *, record: bool = False) -> None:
        """Tell an engine what to optimise. record: whether every step makes the loss's value."""
        engine.set_loss(self.loss, record=record)
        engine.set_optimizer(self.optimizer, [self.parameter, *self.others])


@dataclass(frozen=True, eq=False)
class Trial:
    """A Work under options, limits and a device model. label: what sets it apart from the others of its case.

    limits, model: to plan with; None are those of the device.  record: whether every step makes the value of
    the loss, as the steps of ``DressiAD`` do by default.  traced: whether its curve is wanted: losses, and
    the distance after each of the first steps.
    """

    work: Work
    label: str = ""
    options: PlanOptions = DEFAULT
    limits: DeviceLimits | None = None
    model: DeviceModel | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    record: bool = False
    traced: bool = False

    def engine(self, device: Device, *, record: bool = False) -> DressiAD:
        """A fresh engine that optimises; the caller closes it. record: make the loss in every step."""
        engine = DressiAD(device, options=self.options, limits=self.limits, model=self.model)
        self.work.describe(engine, record=record or self.record)
        return engine

    def plan(self, limits: DeviceLimits, model: DeviceModel) -> Plan:
        """The plan of a step, without a device: under the trial's own limits and model, or these."""
        engine = PlanningEngine(self.limits or limits, self.model or model, shader_text, options=self.options)
        self.work.describe(engine, record=self.record)
        return engine.plan

    def first_values(self, device: Device) -> dict[str, np.ndarray]:
        """The image and the gradient before the first step, by the same options and limits."""
        work = self.work
        with DressiAD(device, options=self.options, limits=self.limits, model=self.model) as engine:
            engine.set_output("image", work.image)
            engine.set_output("gradient", gradient(work.loss, [work.parameter])[0])
            engine.step()
            return {name: engine.recv(name) for name in ("image", "gradient")}


def pixels(size: Size, steps: int) -> Work:
    """The paper's smallest example: the pixels of an image move until it looks like another one."""
    width, height = size
    y, x = (np.mgrid[:height, :width] + 0.5) / max(size) - 0.5
    goal = 0.5 + 0.5 * np.cos(40 * np.hypot(x, y)[..., None] + np.array([0.0, 2.1, 4.2]))
    image = Variable(VEC3, size, name="image", data=np.full((1, height, width, 3), 0.5))
    target = Variable(VEC3, size, name="target", data=goal[None])

    def quality(engine: DressiAD) -> dict[str, float | None]:
        return {"psnr": _decibel(psnr(engine.recv(image), goal[None], np.ones((1, height, width))))}

    return Work({"size": list(size)}, l2(image, target), adam(0.02), image, image - target, quality)


def descent(work: Training, peers: Sequence[str]) -> Work:
    """A stencil by gradient descent: forward, the gradients by all parameters and their update."""
    first, *others = work.parameters

    def quality(engine: DressiAD) -> dict[str, float | None]:
        return {"norm": float(np.linalg.norm(engine.recv(work.parameters[-1])))}

    rivals = {name: make for name, make in work.peers.items() if name in peers}
    loss = F.mean(F.square(work.made - work.target))
    return Work(work.settings, loss, sgd(RATE), first, work.made, quality, rivals, others=tuple(others))


def silhouette(model: Model, size: Size, request: Request, targets: Targets) -> Work:
    """Positions move until the soft silhouettes, r pixels wide, are those of the deformed mesh: sum-L2."""
    mesh = model.mesh
    ring = cameras(request.views, size)
    pictures = targets(model, replace(deformed(mesh), texture=None), ring)
    position = list_leaf("position", VEC3, mesh.positions)
    # The radius is data, as in a fit that shrinks it.
    radius = Variable(FLOAT, name="radius", data=np.full((1, 1, 1), request.radius_px / size[1]))
    form = SOFT_FORMS[request.form]
    edges = edge_list(mesh.faces) if form.draws_edges else None
    soft = draw_form(
        form,
        to_clip(position, matrices_leaf(ring.matrices)),
        list_leaf("faces", IVEC3, mesh.faces),
        size,
        len(mesh.faces),
        "back" if edges is not None and edges.closed else "none",
        radius=radius,
        layers=request.peels if form.layered else None,
        edges=edges,
    )
    goal = None if pictures is None else _goal(pictures.masks, request, size)
    target = Variable(FLOAT, size, request.views, name="target", data=goal)

    def reached(device: Device, positions: np.ndarray) -> dict[str, float | None]:
        if not np.isfinite(positions).all():
            return {"iou": None}
        drawn, _ = draw(replace(mesh.moved(positions), texture=None), ring, lambda: DressiAD(device))
        assert pictures is not None
        return {"iou": iou(drawn, pictures.masks)}

    def moved(engine: DressiAD) -> np.ndarray:
        return list_values(engine.recv(position), len(mesh.positions))[0].astype(float)

    def quality(engine: DressiAD) -> dict[str, float | None]:
        return reached(engine.device, moved(engine))

    truth = cache(lambda: SurfaceDistance(deformed(mesh)))

    def distance(engine: DressiAD) -> float:
        return float(truth().distances(moved(engine)).mean())

    def peer(kind: Callable[..., Peer]) -> Peer:
        assert pictures is not None
        return kind(mesh, ring.matrices, pictures.masks, SHAPE_RATE, request.steps)

    rivals = {"deodr": partial(peer, Deodr), "nvdiffrast": partial(peer, Nvdiffrast)}
    settings = {**request.settings, **model.facts, "size": list(size)}
    loss, rates = l2(soft.silhouette, target, reduction="sum"), adam(cosine(*SHAPE_RATE, request.steps))
    peers = {name: make for name, make in rivals.items() if name in request.peers}
    return Work(settings, loss, rates, position, soft.silhouette, quality, peers, reached, distance=distance)


def texture(model: Model, size: Size, texels: int, request: Request, targets: Targets) -> Work:
    """The texture of a fixed shape from pictures of it: sum-L2 of colours."""
    mesh = textured(model.mesh)
    ring = cameras(request.views, size)
    pictures = targets(model, mesh, ring)
    start = np.broadcast_to(0.5, (1, texels, texels, 3))
    table = Variable(VEC3, (texels, texels), name="texture", data=start)
    faces = list_leaf("faces", IVEC3, mesh.faces)
    clip = to_clip(list_leaf("position", VEC3, mesh.positions), matrices_leaf(ring.matrices))
    face = rasterize_hard(clip, faces, size=size, face_count=len(mesh.faces))
    counter = clock()
    uv = surface_uv(mesh, clip, faces, face, size)
    color = texture_colour(table, uv, face, gradient=request.gradient, step=counter)
    lit = np.where(np.array(mesh.color) > 0, mesh.color, 1.0)
    goal = None if pictures is None else pictures.colors / lit
    target = Variable(VEC3, size, request.views, name="target", data=goal)

    def quality(engine: DressiAD) -> dict[str, float | None]:
        textured = replace(mesh, texture=np.clip(engine.recv(table)[0], 0, 1).astype(float))
        return {"psnr": _reached(textured, ring, pictures, engine)["psnr"]}

    def nvdiffrast() -> Peer:
        assert goal is not None
        rates = (TEXTURE_RATE, TEXTURE_RATE)
        return Nvdiffrast(mesh, ring.matrices, goal, rates, request.steps, texels=texels)

    settings = _settings(model, size, texels, request, request.gradient)
    loss, rates = l2(color, target, reduction="sum"), Clocked(adam(TEXTURE_RATE), counter)
    peers = {"nvdiffrast": nvdiffrast} if "nvdiffrast" in request.peers else {}
    return Work(settings, loss, rates, table, color, quality, peers)


def joint(model: Model, size: Size, texels: int, request: Request, targets: Targets) -> Work:
    """The last round of a fit: positions and texture, from a few pictures of the deformed mesh a step."""
    mesh = textured(model.mesh)
    ring = cameras(request.views, size)
    pictures = targets(model, deformed(mesh), ring)
    shape = (request.views, size[1], size[0])
    masks, colors = (np.zeros(shape), np.zeros((*shape, 3))) if pictures is None else pictures
    work = TextureRound(
        mesh, ring.matrices, masks, colors, steps=request.steps, texture_size=texels, gradient=request.gradient, seed=0,
        shape=True, rest=mesh.positions,
    )  # fmt: skip
    first, image = work.position, work.pyramid.texture

    def quality(engine: DressiAD) -> dict[str, float | None]:
        result = work.result({"position": engine.recv(first)}, engine.recv(image))
        return _reached(result, ring, pictures, engine)

    settings = _settings(model, size, texels, request, request.gradient)
    others = tuple(p for p in work.parameters if p is not first)
    return Work(settings, work.loss, work.optimizer, first, image, quality, others=others)


def _settings(model: Model, size: Size, texels: int, request: Request, gradient: str) -> dict[str, Any]:
    settings = {"views": request.views, **model.facts, "size": list(size)}
    return {**settings, "texture_size": texels, "texture_gradient": gradient}


def _reached(mesh: Mesh, ring: Cameras, pictures: Pictures | None, engine: DressiAD) -> dict[str, Any]:
    """How near the pictures of a mesh come to the true ones."""
    assert pictures is not None
    masks, colors = draw(mesh, ring, lambda: DressiAD(engine.device))
    quality = psnr(colors * masks[..., None], pictures.colors, pictures.masks)
    return {"iou": iou(masks, pictures.masks), "psnr": _decibel(quality)}


def _goal(masks: np.ndarray, request: Request, size: Size) -> np.ndarray:
    """The masks, or what the form makes of a mesh with these silhouettes."""
    if request.target == "hard":
        return masks
    distance = Variable(FLOAT, size, len(masks), data=signed_distances(masks, size))
    target = SOFT_FORMS[request.form].target
    assert target is not None
    return evaluate([target(distance, request.radius_px / size[1], request.peels)])[0]


def _decibel(value: float) -> float | None:
    """None for infinity, which JSON has not: the images are equal."""
    return value if np.isfinite(value) else None


# Optimisations that shade glTF materials under an environment map: a frame, a material, the map.

FRAMES = 8
"""Places of the camera that frames are drawn from in turn."""
SKY = (64, 32)
"""Texels of the environment map, which is optimised or known."""
GREY = 0.4
"""What maps start from."""


def shading(model: Model, size: Size, texels: int, request: Request) -> Work:
    """One frame: rasterised and shaded from a camera that moves in every step. What is optimised is its
    exposure alone, one
    number: the squared difference of the mean light to a grey."""
    mesh, counter = _with_maps(model.mesh, texels), clock()
    pick = ViewBatches(FRAMES * request.views, request.views, counter)
    matrices = pick(matrices_leaf(cameras(FRAMES * request.views, size).matrices))
    sky = Environment(_sky())
    picture = render(mesh, matrices, size=size, light=sky, filter="trilinear", form="hard")
    stops = Variable(FLOAT, name="stops", data=np.full((1, 1, 1), 3.0))
    shown = picture.colour * F.exp2(stops)
    return _work(model, size, texels, request, l2(shown, 0.2), Clocked(adam(1.0), counter), [stops], shown)


def material(model: Model, size: Size, texels: int, request: Request) -> Work:
    """Maps of albedo, metallic and roughness from all views under a known light: sum-L2 of colours."""
    start = np.full((1, texels, texels, 3), GREY)
    albedo = Variable(VEC3, (texels, texels), name="albedo", data=start)
    both = Variable(VEC2, (texels, texels), name="metallic and roughness", data=start[..., :2])
    given = {"texture": albedo, "material": {"metallic_roughness": both}}
    mesh = _with_maps(model.mesh, texels)
    assert mesh.texture is not None and mesh.material is not None
    assert mesh.material.metallic_roughness is not None
    truth = [mesh.texture, mesh.material.metallic_roughness]
    return _recovery(model, size, texels, request, Environment(_sky()), given, [albedo, both], truth)


def roughness(model: Model, size: Size, texels: int, request: Request) -> Work:
    """The factor of roughness, one number, from pictures of all views under a known light: sum-L2 of colours.
    The light is filtered for every roughness once, where what does not change is kept."""
    factor = Variable.of([[GREY]], FLOAT, name="roughness")
    given = {"material": {"roughness": factor}}
    return _recovery(model, size, texels, request, Environment(_sky()), given, [factor], [np.ones((1, 1, 1))])


def environment(model: Model, size: Size, texels: int, request: Request) -> Work:
    """The environment map, of 64x32 texels, from pictures of a known material: sum-L2 of colours."""
    sky = Variable(VEC3, SKY, name="sky", data=np.full((1, *SKY[::-1], 3), GREY))
    return _recovery(model, size, texels, request, Environment(sky), {}, [sky], [_sky()])


def _recovery(
    model: Model, size: Size, texels: int, request: Request, light: Environment, given: dict[str, Any],
    parameters: list[Variable], truth: list[np.ndarray],
) -> Work:  # fmt: skip
    mesh = _with_maps(model.mesh, texels)
    matrices = matrices_leaf(cameras(request.views, size).matrices)
    options: dict[str, Any] = {"size": size, "filter": "trilinear", "form": "hard"}
    found = render(mesh, matrices, light=light, **options, **given).colour
    # Nothing in it changes, so that it is drawn once.
    goal = render(mesh, matrices, light=Environment(_sky()), **options).colour
    loss = l2(found, goal, reduction="sum")
    return _work(model, size, texels, request, loss, adam(0.02), parameters, found, truth)


def _work(
    model: Model, size: Size, texels: int, request: Request, loss: Variable, optimizer: Optimizer,
    parameters: list[Variable], image: Variable, truth: Sequence[np.ndarray] = (),
) -> Work:  # fmt: skip
    def quality(engine: DressiAD) -> dict[str, float | None]:
        pairs = zip(parameters, truth, strict=False)
        return {f"error of {p.name}": float(np.abs(engine.recv(p)[0] - true).mean()) for p, true in pairs}

    settings = {**_settings(model, size, texels, request, "exact"), "sky": list(SKY)}
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


# Targets of the optimisations: pictures drawn on a device, or none where only plans are made.


class Pictures(NamedTuple):
    """masks: (N, H, W) of 0 and 1.  colors: (N, H, W, 3), unlit and linear, on black."""

    masks: np.ndarray
    colors: np.ndarray


class Targets(Protocol):
    """Gives the pictures of a mesh, made of ``model``; None where targets need no values."""

    def __call__(self, model: Model, mesh: Mesh, ring: Cameras) -> Pictures | None: ...


def without_values(model: Model, mesh: Mesh, ring: Cameras) -> None:
    """Targets of plans, which depend on sizes and types alone: no device is needed."""


def drawn_on(device: Device) -> Targets:
    """Targets drawn on a device. Raises InputError where a view shows nothing."""

    def pictures(model: Model, mesh: Mesh, ring: Cameras) -> Pictures:
        found = Pictures(*draw(mesh, ring, lambda: DressiAD(device)))
        if not all(mask.any() for mask in found.masks):
            raise InputError(f"mesh {model.name!r} covers no pixel of a view; use a larger --size")
        return found

    return pictures
