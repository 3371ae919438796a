"""The outline term: soft silhouettes are those of the masks."""

from __future__ import annotations

import numpy as np

from ....ad import functional as F
from ...io.images import resize
from ...objectives.losses import l2
from ..graphs.mask_distances import cut_off, least_distances, signed_distances
from ..graphs.term import Canvas, Term


class Outlines(Term):
    """L2 of silhouettes, in the mean over the picture without its margin.

    Beyond the border of a truncated mask the coverage is unknown. There the loss of a one-sided form is 0 as long as the
    silhouette lies between the one for an uncovered and the one for a covered outside.
    """

    def __init__(self, canvas: Canvas):
        form, views, soft, (width, height) = canvas.form, canvas.views, canvas.soft, canvas.size
        assert form.target is not None
        masks, known, size, margin = views.masks, views.known, canvas.size, canvas.margin
        outline = canvas.image("outline", signed_distances(masks, size, margin))
        weight = None
        target = form.target(outline, canvas.radius, canvas.layers)
        if form.one_sided and cut_off(masks, known).any():
            most = canvas.image("nearest", least_distances(masks, size, margin, known))
            most = form.target(most, canvas.radius, canvas.layers)
            target = F.maximum(target, F.minimum(soft.silhouette, most))
        elif not form.one_sided and known is not None:
            told = np.stack([resize(part.astype(np.float32), size) > 0.999 for part in known])
            weight = canvas.image("known", told)
        wide = canvas.wide
        super().__init__(l2(soft.silhouette, target, weight) * (wide[0] * wide[1] / (width * height)))
