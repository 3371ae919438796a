"""The shape phase: fits the soft silhouettes of a mesh to masks, and its colours and depths to the pictures."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from ....ad import functional as F
from ....ad import traversal
from ....ad.graph import Variable
from ....ad.optim import optimizers as optim
from ....ad.optim.optimizer import owner
from ....ad.optim.optimizers import per_parameter
from ....ad.types import FLOAT, VEC3, list_values
from ...engine import Engine
from ...forms.hard_soft_ras import SOFT_FORMS, draw_form
from ...io.images import resize
from ...lists import list_leaf
from ...mesh import Mesh
from ...mesh.remesh import remesh
from ...objectives.large_steps import large_steps
from ...objectives.losses import l2
from ...objectives.regularizers import Adjacency, laplacian
from ...surface.color import linear_to_srgb
from ...surface.projection import to_clip
from ...surface.screen import DrawnMesh, covered, with_margin
from ..options import BETAS
from ..run.controls import UNCHANGED, Factors
from ..run.subject import Subject
from ..schedule import FitRound
from .batches import ViewBatches
from .colours import PACE, HarmonicLight, colour_term, vertex_colours
from .depths import depth_term
from .lists import Lists, SpareLists
from .look import Look
from .mask_distances import cut_off, least_distances, signed_distances
from .moving import Moving, matrices_of, optimizers_of
from .remeshed import FILL, bare


class ShapeRound:
    """One round at one size and one topology: L2 of silhouettes, and of colours, a robust distance of depths, plus a
    Laplacian, by Adam or by large steps.

    mesh: in units of the scene.  matrices: (N, 4, 4) from those units to clip space.  masks: (N, H, W); they are
    compared at ``size``, the image size of the round. The radius is data that shrinks from ``radius[0]`` to ``radius[1]``:
    a large radius reaches far.
    rest: (V, 3) the shape whose details the Laplacian preserves; without it the Laplacian smooths.  form: of HardSoftRas;
    layers: for layered forms.  known: (N, H, W) bool, the valid pixels of the masks; None if all are.
    batch: number of random views in each step, 0 for all; chosen by the seed.
    colors: (N, H, W, 3) linear, for a round that also compares colours and learns those of the vertices.
    factors: what a person may change meanwhile.
    depths: (N, H, W) along the optical axis in units of the scene, 0 where unknown, for a round that also compares them.

    Beyond the border of a truncated mask the coverage is unknown. There the loss of a one-sided form is 0 as long as the
    silhouette lies between the one for an uncovered and the one for a covered outside.
    """

    name = "shape"

    def __init__(
        self,
        mesh: Mesh,
        matrices: np.ndarray | Moving,
        masks: np.ndarray,
        size: tuple[int, int],
        plan: FitRound,
        layers: int,
        rest: np.ndarray | None = None,
        form: str = "outer",
        known: np.ndarray | None = None,
        colors: np.ndarray | None = None,
        batch: int = 0,
        seed: int = 0,
        depths: np.ndarray | None = None,
        factors: Factors = UNCHANGED,
    ):
        self.mesh, self.round, self.steps = mesh, plan, plan.steps
        self.moving = matrices if isinstance(matrices, Moving) else None
        # A mesh that does not suit, such as one with borders, keeps its faces. So does one whose vertices are lit by their
        # normals at the start of the round, which learned poses need for colours.
        lit = plan.colour > 0 and self.moving is not None
        moves_faces = plan.remesh > 0 and rest is None and not lit and SpareLists.suit(mesh, plan.faces)
        self.lists = lists = SpareLists(mesh, plan.faces) if moves_faces else Lists(mesh)
        self.position = lists.position
        self.of_vertices = [self.position]
        self.radius = Variable(FLOAT, name="radius")
        estimator = SOFT_FORMS[form]
        assert estimator.target is not None
        self.radii = tuple(estimator.usable_radius(r, size[1]) for r in plan.radius)
        margin = estimator.margin(self.radii[0], size[1])
        radius = self.radius
        if isinstance(factors.radius, Variable):
            # The margin has room for the largest radius of the round.
            radius = F.minimum(radius * factors.radius, self.radii[0])
        counter = optim.clock()
        pick = (
            ViewBatches(len(masks), batch, counter, seed) if 0 < batch < len(masks) else lambda views: views
        )
        clip, wide = with_margin(to_clip(self.position, pick(matrices_of(matrices))), size, margin)
        soft = draw_form(
            estimator,
            clip,
            lists.face_list,
            wide,
            lists.faces,
            radius=radius * (size[1] / wide[1]),
            layers=layers if estimator.layered else None,
            edges=lists.edges if estimator.draws_edges else None,
        )
        outline = pick(
            Variable(FLOAT, wide, len(masks), name="outline", data=signed_distances(masks, size, margin))
        )
        weight = None
        target = estimator.target(outline, radius, layers)
        if estimator.one_sided and cut_off(masks, known).any():
            nearest = least_distances(masks, size, margin, known)
            most = pick(Variable(FLOAT, wide, len(masks), name="nearest", data=nearest))
            most = estimator.target(most, radius, layers)
            target = F.maximum(target, F.minimum(soft.silhouette, most))
        elif not estimator.one_sided and known is not None:
            told = np.stack([resize(part.astype(np.float32), size) > 0.999 for part in known])
            weight = pick(Variable(FLOAT, wide, len(masks), name="known", data=told))
        # The mean is over the picture without its margin.
        pictures = l2(soft.silhouette, target, weight) * (wide[0] * wide[1] / (size[0] * size[1]))
        moved = self.position if rest is None else self.position - list_leaf("rest", VEC3, rest)
        neighbours = lists.neighbours
        self.loss = pictures + lists.bending(moved, plan.smoothness * factors.smoothness)
        rate = optim.cosine(plan.rate[0] * factors.rate, plan.rate[1] * factors.rate, plan.steps)
        if plan.spread:
            moves = large_steps(neighbours, rate, strength=plan.spread, betas=BETAS)
        else:
            moves = optim.chain(smoothed(neighbours), optim.adam(rate, BETAS))
        others, colour, light = optimizers_of(matrices), None, None
        if plan.colour and colors is not None:
            light = None if self.moving is None else HarmonicLight(mesh.vertex_normals(), len(masks))
            colour, distance = colour_term(
                soft.mesh, colors, masks, size, margin, lists.vertices, pick, light
            )
            self.loss = self.loss + distance * (plan.colour * factors.colour)
            others[colour] = optim.adam(PACE, BETAS)
            self.of_vertices.append(colour)
            if light is not None:
                others |= {leaf: optim.adam(0.02, BETAS) for leaf in light.parameters}
        if plan.depth and depths is not None:
            # Learned poses are in units of the scene; matrices are from them to the world.
            unit = 1.0 if isinstance(matrices, Moving) else float(np.linalg.norm(matrices[0, 3, :3]))
            away = depth_term(soft, depths, masks, size, margin, unit, estimator.exact_inside, pick)
            self.loss = self.loss + away * plan.depth
        self.parameters = [self.position, *others]
        if others:
            moves = per_parameter({self.position: moves, **others})
        self.optimizer = optim.Clocked(moves, counter)
        whole = DrawnMesh(to_clip(self.position, matrices_of(matrices)), lists.face_list, size, lists.faces)
        picture = None if colour is None or light is not None else vertex_colours(whole, colour)
        self._shown = covered(whole.face), picture
        codes = None if colour is None else partial(vertex_colours, colour=colour)
        self.subject = Subject(self.position, lists.face_list, lists.faces, codes)
        self.factors = ("rate", "radius", "smoothness", *(("colour",) if colour is not None else ()))
        """Names of the factors that this round reads."""
        self._targets = masks, None if picture is None else colors, size

    def look(self, engine: Engine) -> Look:
        """The training views as they are now, with the colours of vertices in a round that learns them."""
        (hard, picture), (shares, codes) = self._shown, self._resized
        if picture is None or codes is None:
            return Look(engine.recv(hard), shares, None, None)
        return Look(engine.recv(hard), shares, engine.recv(picture), codes)

    @cached_property
    def _resized(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Masks and colours, as sRGB codes, of the views at the size of the round, for ``look``."""
        masks, colors, size = self._targets
        shares = np.stack([resize(mask.astype(np.float32), size) for mask in masks])
        if colors is None:
            return shares, None
        return shares, linear_to_srgb(np.stack([resize(color.astype(np.float32), size) for color in colors]))

    def before(self, engine: Engine, step: int) -> None:
        """Send the radius of this step, after remeshing where it is time for that."""
        start, end = self.radii
        done = step / max(self.steps, 1)
        if isinstance(self.lists, SpareLists) and step > 0 and step % self.round.remesh == 0:
            self._remesh(engine, self.lists)
        engine.send(self.radius, np.full((1, 1, 1), start * (end / start) ** done))

    @cached_property
    def _read(self) -> set[Variable]:
        """The leaves of the loss and of what is shown."""
        return set(traversal.leaves([self.loss, *(image for image in self._shown if image is not None)]))

    def _remesh(self, engine: Engine, lists: SpareLists) -> None:
        """Remesh the present shape. Values of vertices, and the optimizer's moments of them, are carried over."""
        state, mesh = engine.state(), self.mesh
        own = [
            name for name in state if any(name == p.name or owner(name) == p.name for p in self.of_vertices)
        ]
        fields = {name: lists.rows(state[name], mesh).astype(np.float64) for name in own}
        mesh = bare(mesh.moved(fields["position"]))
        found = remesh(mesh, faces=int(FILL * lists.faces), most_faces=lists.faces, fields=fields, rounds=1)
        if not SpareLists.suit(found.mesh, lists.faces):
            return
        self.mesh = found.mesh
        for leaf in self._read.intersection(data := lists.data(found.mesh)):
            engine.send(leaf, data[leaf])
        engine.restore({**state, **{name: lists.image(found.fields[name]) for name in own}})

    def result(self, state: dict[str, np.ndarray]) -> Mesh:
        """The mesh from a state of the engine."""
        return self.mesh.moved(list_values(state["position"], len(self.mesh.positions))[0])


def smoothed(mesh: Adjacency, times: int = 2) -> optim.Optimizer:
    """Averages the gradients of neighbouring vertices before Adam normalises them. Without it, a single vertex with a
    gradient from distant pixels, such as those of a thin stem, would form a spike."""

    def average(gradient: Variable, state: optim.State, parameter: Variable) -> Variable:
        for _ in range(times):
            gradient = gradient + laplacian(gradient, mesh) * 0.5
        return gradient

    return optim.Stateless(average)
