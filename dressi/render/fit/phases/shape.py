"""The shape phase: fits the soft silhouettes of a mesh to masks, and whatever else its terms compare."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ....ad import functional as F
from ....ad import optim
from ....ad.graph import Variable, traversal
from ....ad.graph.types import FLOAT, Size
from ....ad.optim.optimizer import owner
from ...cameras.pose import matrices_leaf
from ...core.engine import Engine
from ...forms.hard_soft_ras import SOFT_FORMS, draw_form
from ...mesh import Mesh
from ...mesh.remesh import remesh
from ...objectives.large_steps import large_steps
from ...objectives.regularizers import Adjacency, laplacian
from ...surface.color import linear_to_srgb
from ...surface.projection import to_clip
from ...surface.screen import DrawnMesh, covered, with_margin
from ..data.learned import Learned, ViewBatches, resized
from ..graphs.round import Comparison, Found, Round, Subject
from ..graphs.term import BETAS, UNCHANGED, Canvas, Factors, FitRound, Lists, Moving, SpareLists
from ..graphs.terms import Bending, Outlines
from ..options.fit_options import TERMS
from .remeshed import FILL, bare


class ShapeRound(Round):
    """One round at one size and one topology: silhouettes, a Laplacian, and the terms that ``plan.weights``
    names, by Adam or by large steps.

    mesh: in units of the scene.  views: the pictures, compared at ``size``.  layers: for layered forms.
    moving: poses that are learned in place of the matrices of the views.  rest: (V, 3) the shape whose
    details the Laplacian preserves; without it the Laplacian smooths.  form: of HardSoftRas, whose radius is
    data that shrinks from step to step: a large radius reaches far.  batch: number of random views in each
    step, 0 for all; chosen by the seed.  factors: what a person may change meanwhile.
    """

    name = "shape"
    factors = ("rate", "radius")

    def __init__(
        self,
        mesh: Mesh,
        views: Learned,
        size: Size,
        plan: FitRound,
        layers: int = 1,
        *,
        moving: Moving | None = None,
        rest: np.ndarray | None = None,
        form: str = "outer",
        batch: int = 0,
        seed: int = 0,
        factors: Factors = UNCHANGED,
    ):
        self.round, self.moving, self.views, self.size = plan, moving, views, size
        # A mesh that does not suit, such as one with borders, keeps its faces. So does one whose vertices are
        # lit by their normals at the start of the round, which learned poses need for colours.
        lit = "colours" in plan.weights and moving is not None
        moves_faces = plan.remesh > 0 and rest is None and not lit and SpareLists.suit(mesh, plan.faces)
        self.lists = lists = SpareLists(mesh, plan.faces) if moves_faces else Lists(mesh)
        self.position = lists.position
        self.radius = Variable(FLOAT, name="radius")
        estimator = SOFT_FORMS[form]
        self.radii = tuple(estimator.usable_radius(r, size[1]) for r in plan.radius)
        margin = estimator.margin(self.radii[0], size[1])
        radius = self.radius
        if isinstance(factors.radius, Variable):
            # The margin has room for the largest radius of the round.
            radius = F.minimum(radius * factors.radius, self.radii[0])
        counter, count = optim.clock(), len(views.masks)
        pick = ViewBatches(count, batch, counter, seed) if 0 < batch < count else lambda images: images

        def clip_of(pick: Callable[[Variable], Variable] = lambda views: views) -> Variable:
            matrices = matrices_leaf(views.matrices) if moving is None else moving.matrices
            return to_clip(self.position, pick(matrices))

        clip, wide = with_margin(clip_of(pick), size, margin)
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
        matrices = None if moving is not None else views.matrices
        drawn = size, wide, margin, estimator, layers, radius, soft
        canvas = Canvas(lists, rest, views, pick, matrices, *drawn, plan, factors)
        weights = {name: weight for name, weight in plan.weights.items() if weight}
        own = [TERMS[name](canvas, weight) for name, weight in weights.items()]
        rate = optim.cosine(plan.rate[0] * factors.rate, plan.rate[1] * factors.rate, plan.steps)
        if plan.spread:
            moves = large_steps(lists.neighbours, rate, strength=plan.spread, betas=BETAS)
        else:
            moves = optim.chain(smoothed(lists.neighbours), optim.adam(rate, BETAS))
        descent = {self.position: moves, **({} if moving is None else moving.optimizers)}
        super().__init__(mesh, plan.steps, [Outlines(canvas), Bending(canvas), *own], descent, counter)
        self.of_vertices = [self.position, *(leaf for term in own for leaf in term.of_vertices)]
        whole = DrawnMesh(clip_of(), lists.face_list, size, lists.faces)
        codes, shown = next(((term.codes, term.shown) for term in own if term.codes), (None, False))
        self._shown = covered(whole.face), codes(whole) if codes is not None and shown else None
        compared = " and ".join(["outlines", *weights])
        self.doing = f"shape by {compared}, {size[0]}x{size[1]}, {len(mesh.faces)} faces"
        seen = None if codes is None else lambda drawn, matrices: codes(drawn)
        self.subject = Subject(self.position, lists.face_list, lists.faces, seen)

    def look(self, engine: Engine) -> Comparison:
        """The training views as they are now, with the colours of vertices in a round that learns them."""
        (hard, picture), (shares, codes) = self._shown, self._resized
        if picture is None or codes is None:
            return Comparison(engine.recv(hard), shares, None, None)
        covered, colours = engine.evaluate((hard, picture))
        return Comparison(covered, shares, colours, codes)

    @cached_property
    def _resized(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Masks and colours, as sRGB codes, of the views at the size of the round, for ``look``."""
        views, size = self.views, self.size
        colours = None if self._shown[1] is None else linear_to_srgb(resized(views.colors, size))
        return resized(views.masks, size), colours

    def before(self, engine: Engine, step: int) -> None:
        """Send the radius of this step, after remeshing where it is time for that."""
        start, end = self.radii
        if isinstance(self.lists, SpareLists) and step > 0 and step % self.round.remesh == 0:
            self._remesh(engine, self.lists)
        engine.send(self.radius, np.full((1, 1, 1), start * (end / start) ** (step / max(self.steps, 1))))

    @cached_property
    def _read(self) -> set[Variable]:
        """The leaves of the loss and of what is shown."""
        return set(traversal.leaves([self.loss, *(image for image in self._shown if image is not None)]))

    def _remesh(self, engine: Engine, lists: SpareLists) -> None:
        """Remesh the present shape. Values of vertices and the optimizer's moments of them are carried
        over."""
        state, names = engine.state(), {leaf.name for leaf in self.of_vertices}
        own = [name for name in state if name in names or owner(name) in names]
        fields = {name: lists.rows(state[name], self.mesh).astype(np.float64) for name in own}
        mesh, most = bare(self.mesh.moved(fields["position"])), lists.faces
        remeshed = remesh(mesh, faces=int(FILL * most), most_faces=most, fields=fields, rounds=1)
        if not SpareLists.suit(remeshed.mesh, most):
            return
        self.mesh = remeshed.mesh
        data = lists.data(self.mesh)
        for term in self.terms:
            data |= term.data(self.mesh)
        for leaf in self._read.intersection(data):
            engine.send(leaf, data[leaf])
        engine.restore({**state, **{name: lists.image(remeshed.fields[name]) for name in own}})

    def found(self, engine: Engine) -> Found:
        """The mesh, and the cameras where they are learned."""
        cameras = None if self.moving is None else self.moving.found(engine)
        return Found(self.moved(engine.state()), cameras)


def smoothed(mesh: Adjacency, times: int = 2) -> optim.Optimizer:
    """Averages the gradients of neighbouring vertices before Adam normalises them. Without it, a single
    vertex with a gradient from distant pixels, such as those of a thin stem, would form a spike."""

    def average(gradient: Variable, state: optim.State, parameter: Variable) -> Variable:
        for _ in range(times):
            gradient = gradient + laplacian(gradient, mesh) * 0.5
        return gradient

    return optim.Stateless(average)
