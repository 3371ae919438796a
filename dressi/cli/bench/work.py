"""The optimisations that are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol

import numpy as np

from dressi import Device, DressiAD, F, Variable, adam
from dressi.ad.evaluate import evaluate
from dressi.ad.optim import Clocked, Optimizer, clock, cosine, sgd
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, IVEC3, VEC3, list_values
from dressi.cli.bench.meshes import Model, cameras, deformed, textured
from dressi.cli.bench.request import Request
from dressi.cli.bench.stencils.trained import RATE, Training
from dressi.cli.bench.targets import Targets
from dressi.config import shader_text
from dressi.render.cameras.units import matrices_leaf
from dressi.render.drawing.draw import draw, surface_uv
from dressi.render.fit.graphs.mask_distances import signed_distances
from dressi.render.fit.phases.texture import TextureRound
from dressi.render.forms.edges.edge_list import edge_list
from dressi.render.forms.hard_soft_ras import SOFT_FORMS, draw_form
from dressi.render.lists import list_leaf
from dressi.render.mesh.sampling import SurfaceDistance
from dressi.render.objectives.losses import l2
from dressi.render.objectives.metrics import iou, psnr
from dressi.render.surface.projection import to_clip
from dressi.render.surface.screen import rasterize_hard
from dressi.render.surface.texturing import texture_colour
from dressi.vk.plan.limits import DeviceLimits
from dressi.vk.plan.model.device import DeviceModel
from dressi.vk.plan.options import DEFAULT, PlanOptions
from dressi.vk.plan.plan import Plan
from dressi.vk.planning import PlanningEngine

SHAPE_RATE = (0.01, 0.0005)
"""Learning rates of Adam on positions in the unit sphere, from the first to the last step."""


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
    """Of the shape of an engine from the true one; no loss compares it."""

    def describe(self, engine: DressiAD | PlanningEngine, *, record: bool = False) -> None:
        """Tell an engine what to optimise. record: whether every step makes the loss's value."""
        engine.set_loss(self.loss, record=record)
        engine.set_optimizer(self.optimizer, [self.parameter, *self.others])


@dataclass(frozen=True, eq=False)
class Trial:
    """A Work under options, limits and a device model. label: what sets it apart from the others of its case.

    limits, model: to plan with; None are those of the device.  record: whether every step makes the value of the loss, as
    the steps of ``DressiAD`` do by default.  traced: whether its curve is wanted: losses, and the
    distance after each of the first steps.
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
        """A fresh engine that optimises; the caller closes it. record: with the value of the loss in every step in any case."""
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


def pixels(size: tuple[int, int], steps: int) -> Work:
    """The paper's smallest example: the pixels of an image move until it looks like another one."""
    width, height = size
    y, x = (np.mgrid[:height, :width] + 0.5) / max(size) - 0.5
    goal = 0.5 + 0.5 * np.cos(40 * np.hypot(x, y)[..., None] + np.array([0.0, 2.1, 4.2]))
    image = Variable(VEC3, size, name="image", data=np.full((1, height, width, 3), 0.5))
    target = Variable(VEC3, size, name="target", data=goal[None])

    def quality(engine: DressiAD) -> dict[str, float | None]:
        return {"psnr": _decibel(psnr(engine.recv(image), goal[None], np.ones((1, height, width))))}

    return Work(
        {"size": list(size)}, l2(image, target), adam(0.02), image, image - target, quality
    )  # fmt: skip


def descent(work: Training, peer: str | None) -> Work:
    """A stencil by gradient descent: forward, the gradients by all parameters and their update."""
    first, *others = work.parameters

    def quality(engine: DressiAD) -> dict[str, float | None]:
        return {"norm": float(np.linalg.norm(engine.recv(work.parameters[-1])))}

    rivals = {name: make for name, make in work.peers.items() if name == peer}
    loss = F.mean(F.square(work.made - work.target))
    return Work(work.settings, loss, sgd(RATE), first, work.made, quality, rivals, others=tuple(others))


def silhouette(model: Model, size: tuple[int, int], request: Request, targets: Targets) -> Work:
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

    def deodr() -> Peer:
        from dressi.cli.bench.peers import Deodr

        assert pictures is not None
        return Deodr(mesh, ring.matrices, pictures.masks, SHAPE_RATE, request.steps)

    return Work(
        {**request.settings, **model.facts, "size": list(size)},
        l2(soft.silhouette, target, reduction="sum"),
        adam(cosine(*SHAPE_RATE, request.steps)),
        position,
        soft.silhouette,
        quality,
        {"deodr": deodr} if request.peer == "deodr" else {},
        reached,
        distance=distance,
    )


def texture(model: Model, size: tuple[int, int], texels: int, request: Request, targets: Targets) -> Work:
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
        found = replace(mesh, texture=np.clip(engine.recv(table)[0], 0, 1).astype(float))
        drawn_masks, drawn = draw(found, ring, lambda: DressiAD(engine.device))
        assert pictures is not None
        return {"psnr": _decibel(psnr(drawn * drawn_masks[..., None], pictures.colors, pictures.masks))}

    return Work(
        {
            "views": request.views,
            **model.facts,
            "size": list(size),
            "texture_size": texels,
            "texture_gradient": request.gradient,
        },
        l2(color, target, reduction="sum"),
        Clocked(adam(0.03), counter),
        table,
        color,
        quality,
    )


def joint(model: Model, size: tuple[int, int], texels: int, request: Request, targets: Targets) -> Work:
    """The last round of a fit: positions and texture together, from pictures of the deformed mesh, a few views a step."""
    mesh = textured(model.mesh)
    ring = cameras(request.views, size)
    pictures = targets(model, deformed(mesh), ring)
    shape = (request.views, size[1], size[0])
    masks, colors = (np.zeros(shape), np.zeros((*shape, 3))) if pictures is None else pictures
    work = TextureRound(
        mesh,
        ring.matrices,
        masks,
        colors,
        steps=request.steps,
        texture_size=texels,
        gradient=request.gradient,
        seed=0,
        shape=True,
        rest=mesh.positions,
    )

    def quality(engine: DressiAD) -> dict[str, float | None]:
        state = {"position": engine.recv(work.position)}
        found = work.result(state, engine.recv(work.pyramid.texture))
        drawn_masks, drawn = draw(found, ring, lambda: DressiAD(engine.device))
        assert pictures is not None
        return {
            "iou": iou(drawn_masks, pictures.masks),
            "psnr": _decibel(psnr(drawn * drawn_masks[..., None], pictures.colors, pictures.masks)),
        }

    settings = {
        "views": request.views, **model.facts, "size": list(size), "texture_size": texels,
        "texture_gradient": request.gradient,
    }  # fmt: skip
    others = tuple(p for p in work.parameters if p is not work.position)
    return Work(
        settings, work.loss, work.optimizer, work.position, work.pyramid.texture, quality, others=others
    )


def _goal(masks: np.ndarray, request: Request, size: tuple[int, int]) -> np.ndarray:
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
