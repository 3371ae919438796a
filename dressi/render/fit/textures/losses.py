"""What the texture round compares its pictures by. A new loss is a function here and a row of ``LOSSES``."""

from __future__ import annotations

from collections.abc import Callable

from ....ad.graph import Variable
from ...objectives.losses import l1, l2
from ...objectives.perceptual import perceptual
from ...objectives.similarity import structural_similarity

Compare = Callable[[Variable, Variable, Variable | None], Variable]
"""From sRGB codes, those of the pictures (VEC3, N tiles), and a weight of pixels or None, to a FLOAT of one texel."""

SIMILARITY, PERCEPTUAL = 0.2, 0.003
"""Weights of one minus structural similarity beside .8 of the absolute differences, and of the perceptual distance beside the
squared ones, which keep the colours. More of it, such as .02, draws patterns that the features do not see."""


def _similarity(codes: Variable, target: Variable, weight: Variable | None) -> Variable:
    a, b = (codes, target) if weight is None else (codes * weight, target * weight)
    return l1(a, b) * (1 - SIMILARITY) + (1.0 - structural_similarity(a, b)) * SIMILARITY


def _perceptual(codes: Variable, target: Variable, weight: Variable | None) -> Variable:
    return perceptual(codes, target, weight=weight) * PERCEPTUAL + l2(codes, target, weight)


LOSSES: dict[str, Compare] = {"l2": l2, "l1": l1, "ssim": _similarity, "perceptual": _perceptual}
"""By the names of ``dressi fit --loss``: squared differences; absolute ones; those with structural similarity; features."""

LEAST = {"l2": 1, "l1": 1, "ssim": 11, "perceptual": 16}
"""Pixels along each side of a picture that a loss takes at least."""
