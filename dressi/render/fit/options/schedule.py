"""The rounds that the shape phase of a fit consists of, from coarse to fine."""

from __future__ import annotations

from dataclasses import replace

from ...forms.hard_soft_ras import SOFT_FORMS
from ...io.images import scaled_size
from ..graphs.term import FitRound
from .fit_options import TERMS, FitOptions

HASTE = 16.0
"""Learning rates of large steps relative to those of Adam. The rate bounds the move of a vertex before it is
spread, and spreading leaves a small part of a detail."""
EASED = 0.1
"""Factor on the weight of the Laplacian with large steps, which keep the shape smooth by themselves."""
COLOURS, SPREAD = {"colours": 1.0}, 9.0
"""The weight of colours relative to silhouettes, and lambda, in rounds of large steps that compare both."""


def shape_rounds(
    options: FitOptions, exact: bool = False, near: bool = False, thin: bool = False
) -> list[FitRound]:
    """The shape phase from coarse to fine, the radius from far to near.

    exact: whether the masks are exact (rendered from a mesh). With exact masks the last round uses
    silhouettes only, else colours too.  near: whether the start already fits the masks, as their visual hull
    does. The first round, which goes far, is left out then. With exact masks two rounds of a part of the
    steps remain, without colours: from the hull the surface is found better by outlines and the Laplacian.
    thin: whether such a start has parts that are thin.
    """
    steps = max(options.steps - options.texture_steps, 1)
    parts = (0.35, 0.35)
    if options.follows_colours:
        parts = (0.2, 0.15, 0.15, 0.1, 0.06, 0.04) if exact else (0.2, 0.13, 0.25, 0.17, 0.1, 0.07)
    share = [int(steps * part) for part in parts]
    share.append(steps - sum(share))
    full = SOFT_FORMS[options.form].full_resolution
    if near:
        share[:2] = [0, share[0] + share[1]]
    if near and exact and (options.follows_colours or options.lit) and full:
        plans = _thin_rounds(options, steps) if thin else _near_rounds(options, steps)
    elif near and thin and full and options.adjust_poses:
        # Coarse pictures, in which colours reach far, would take such parts away.
        last = _fitted_round(options, min(steps, FITTED_STEPS), options.follows_colours)
        plans = [*_thin_rounds(options, steps), replace(last, adjusts=True)]
    else:
        plans = _fine_rounds(options, share, exact) if full else _coarse_rounds(options, share)
    return _finished(options, plans, exact)


FITTED_STEPS = 45
"""Steps of the shape from a start that fits already. More raise the overlap and blur what stereo found."""


def fitted_rounds(options: FitOptions, exact: bool = False) -> list[FitRound]:
    """The shape phase from a start that fits already, with its concavities: large steps at full size only.
    exact: as for ``shape_rounds``."""
    steps = min(max(options.steps - options.texture_steps, 1), FITTED_STEPS)
    plan = _fitted_round(options, steps, options.follows_colours and not exact)
    if options.adjust_poses and not exact:
        plan = replace(plan, adjusts=True)
    return _finished(options, [plan], exact)


def _fitted_round(options: FitOptions, steps: int, colours: bool) -> FitRound:
    finer, radii, weights = _subdivisions(options, 256), _radii(options)[2:], COLOURS if colours else {}
    return FitRound(finer, options.size[1], steps, radii, (0.003, 0.0005), 1e-6, SPREAD, weights)


def _finished(options: FitOptions, plans: list[FitRound], exact: bool) -> list[FitRound]:
    """The rounds with what further options ask for, those without steps left out."""
    plans = [_weighted(options, plan) for plan in plans]
    if options.spread:
        plans = [plan if plan.spread else _large(options, plan) for plan in plans]
    if options.remeshes:
        finest = sphere_faces(plans[-1].subdivisions)
        plans = [_remeshed(plan, (options.faces or finest) / finest) for plan in plans]
    if options.refine_poses:
        plans = _moving(plans) if exact else _adjusting(options, _moving(plans))
    return [plan for plan in plans if plan.steps > 0]


def _weighted(options: FitOptions, plan: FitRound) -> FitRound:
    """Add the terms whose options have a weight."""
    weights = dict(plan.weights)
    for name, term in TERMS.items():
        weight = 0.0 if term.scheduled else float(getattr(options, name)) * term.share
        if weight and (term.far or plan.radius[0] < options.radius):
            weights[name] = weight
    return replace(plan, weights=weights)


def _large(options: FitOptions, plan: FitRound) -> FitRound:
    rate = (HASTE * plan.rate[0], HASTE * plan.rate[1])
    return replace(plan, spread=options.spread, smoothness=plan.smoothness * EASED, rate=rate)


def _radii(options: FitOptions) -> tuple[float, float, float, float]:
    """The radii between which rounds shrink them, from far to near."""
    radius = options.radius
    return radius, 0.4 * radius, 0.2 * radius, 0.12 * radius


def _subdivisions(options: FitOptions, pixels: int) -> int:
    """Subdivisions of the start for pictures of about so many rows, at most those that there are."""
    return 3 + sum(rows < min(options.size[1], pixels) for rows in (64, 128))


def _fine_rounds(options: FitOptions, share: list[int], exact: bool) -> list[FitRound]:
    """Each round has twice the rows of the round before, and its radius starts where that one ended.

    The Laplacian is strong while the radius is large, which avoids folds, and weak at the end, for details.
    The mesh is subdivided only where the resolution rises.
    """
    radii = _radii(options)
    # All steps together move a vertex by about one radius of the scene. Faster steps push the two sides of a
    # thin part through each other and turn it inside out.
    far = min(0.02, 1.35 / max(share[0], 1))
    finer = [_subdivisions(options, pixels) for pixels in (64, 128, 256)]
    rounds = [
        FitRound(finer[0], 64, share[0], (radii[0], radii[1]), (far, far / 2), 4e-5),
        FitRound(finer[1], 128, share[1], (radii[1], radii[2]), (0.008, 0.004), 2e-5, opens=True),
    ]
    if not options.follows_colours:
        return [*rounds, FitRound(finer[2], 256, share[2], (radii[2], radii[3]), (0.004, 0.0005), 1e-5)]
    # The gradient of colours reaches a few pixels, so colours start at low resolution, where these are a long
    # way. Large steps: with Adam alone, vertices seen by few pixels would move as far as all others and fold
    # over.
    near, slow = (radii[2], radii[3]), (0.003, 0.0005)
    last = FitRound(finer[2], 256, share[6], near, slow, 1e-6)
    return [
        *rounds,
        FitRound(finer[1], 24, share[2], near, (0.03, 0.015), 1e-6, SPREAD, COLOURS),
        FitRound(finer[1], 40, share[3], near, (0.02, 0.01), 1e-6, SPREAD, COLOURS),
        FitRound(finer[1], 64, share[4], near, (0.01, 0.005), 1e-6, SPREAD, COLOURS),
        FitRound(finer[2], 128, share[5], near, (0.005, 0.003), 1e-6, SPREAD, COLOURS),
        last if exact else replace(last, spread=SPREAD, weights=COLOURS),
    ]


def _near_rounds(options: FitOptions, steps: int) -> list[FitRound]:
    """From a start that is a few pixels off: fast steps and a strong Laplacian take phantom volume away."""
    _, far, middle, last = _radii(options)
    coarse, finer = _subdivisions(options, 128), _subdivisions(options, 256)
    return [
        FitRound(coarse, 128, int(0.4 * steps), (far, middle), (0.008, 0.004), 2e-5, opens=True),
        FitRound(finer, 256, int(0.3 * steps), (middle, last), (0.003, 0.0005), 1e-6),
    ]


def _thin_rounds(options: FitOptions, steps: int) -> list[FitRound]:
    """The same for limbs of a few pixels: at full size, as coarse pictures do not show them; slow steps of
    Adam, which leave few folds; then large steps, which leave none, for the details that healing took."""
    (_, far, middle, last), finer = _radii(options), _subdivisions(options, 256)
    return [
        FitRound(finer, 256, int(0.3 * steps), (far, last), (0.001, 0.0002), 1e-6, opens=True),
        FitRound(finer, 256, int(0.15 * steps), (middle, last), (0.006, 0.0008), 1e-6, SPREAD),
    ]


def _coarse_rounds(options: FitOptions, share: list[int]) -> list[FitRound]:
    r = options.radius
    # A quarter, three eighths and half of the rows suffice: the targets have sub-pixel outlines.
    low, middle, high = (
        max(least, options.size[1] * part // 8) for least, part in ((64, 2), (96, 3), (128, 4))
    )
    return [
        FitRound(3, low, share[0], (r, max(r / 3, 2 / low)), (0.02, 0.01), 2e-5),
        FitRound(4, middle, share[1], (max(r / 3, 2 / low), 2 / middle), (0.008, 0.004), 2e-5, opens=True),
        FitRound(4, high, share[2], (2 / middle, 1.5 / high), (0.004, 0.0005), 2e-5),
    ]


REMESH = 30
"""Number of steps between two remeshings."""


def _remeshed(plan: FitRound, share: float) -> FitRound:
    """A share of as many faces as a subdivided octahedron has. The operators of large steps are factorised for
    one topology, so such rounds, which are short, are remeshed at their start only."""
    faces = round(share * sphere_faces(plan.subdivisions))
    return replace(plan, faces=faces, remesh=0 if plan.spread else REMESH)


def sphere_faces(subdivisions: int) -> int:
    """The number of faces of the start sphere."""
    return 8 * 4**subdivisions


TURNS = ((0.32, 0.16), (0.12, 0.04), (0.05, 0.01))
SHIFTS = ((0.8, 0.3), (0.24, 0.06), (0.05, 0.01))
"""Learning rates of poses at the start and end of each round that moves them, times its number of steps.
Rounds after the third use the third entry."""


def _moving(plans: list[FitRound]) -> list[FitRound]:
    """Poses move far enough for a bad calibration in the first round, and less in each later one: where
    outlines carry little information, Adam would follow remaining errors of the shape. A round coarser than
    one before it moves none."""
    moved, finest = [], 0
    for plan in plans:
        if plan.pixels >= finest:
            number = min(sum(other.turn[0] > 0 for other in moved), len(TURNS) - 1)
            steps = max(plan.steps, 100)
            turn, shift = ((a / steps, b / steps) for a, b in (TURNS[number], SHIFTS[number]))
            plan, finest = replace(plan, turn=turn, shift=shift), plan.pixels
        moved.append(plan)
    return moved


def _adjusting(options: FitOptions, plans: list[FitRound]) -> list[FitRound]:
    """Before the last third of the last round, poses and shape are adjusted together. The poses stay fixed
    afterwards; the shape, or that of stereo with these poses, goes on as one that fits. For photographs: by
    exact masks, outlines alone found better poses."""
    *others, last = plans
    still = last.steps // 3
    before = replace(last, steps=last.steps - still, adjusts=True)
    return [*others, before, _weighted(options, _fitted_round(options, still, options.ends_by_colours))]


# The pictures that the texture round learns from, from coarse to fine.

ENOUGH = 150_000
"""Pixels of a picture above which the texture round begins with pictures of half the size, and so on."""
FINER = (0.2, 0.3)
"""Shares of the steps for the largest pictures and for those of half the size, where there are smaller ones."""
HALVINGS = len(FINER)
AT_ONCE = 1_500_000
"""Pixels of all pictures of a step of the finest level, above which fewer pictures are taken, at least one: what is
kept of each pixel until the gradient takes about two kilobytes."""


def texture_levels(
    size: tuple[int, int], texels: int, steps: int, chunk: int
) -> list[tuple[tuple[int, int], int, int]]:
    """Of the levels of the texture round, from coarse to fine: the size of the pictures, the texels along each side of
    the texture, and the step at which the level ends, a multiple of ``chunk`` but for the last.

    A texel is learned from the pictures that show it about as large as a pixel, so that the cost of the finest ones is
    paid for the finest details alone.

    >>> texture_levels((320, 240), 1024, 240, 10)
    [((320, 240), 1024, 240)]
    >>> texture_levels((1600, 1200), 4096, 240, 10)
    [((400, 300), 1024, 120), ((800, 600), 2048, 190), ((1600, 1200), 4096, 240)]
    """
    count = 0
    while count < HALVINGS and size[0] * size[1] > ENOUGH * 4**count:
        count += 1
    levels, end = [], steps
    for halvings in range(count + 1):
        # Texels are halved as long as the textures have the same levels of their pyramids.
        side = texels >> halvings if texels % (1 << count) == 0 else texels
        levels.insert(0, (scaled_size(size, 0.5**halvings), side, end))
        if halvings < count:
            end = max(end - round(FINER[halvings] * steps), 0) // chunk * chunk
    return [level for level in levels if level[2] > 0]
