"""Contractions that are all computed by register tiles, however small: chains in registers and in shared memory, products, parts,
packed operands. The forms take turns by the seeds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dressi.vk.plan.core.limits import DeviceLimits
from dressi.vk.plan.core.substage import SubStage
from dressi.vk.plan.lowering import tile_contractions as lowering
from dressi.vk.plan.lowering.chains import links_of, staged_in
from dressi.vk.plan.model.device import DeviceModel
from dressi.vk.plan.passes import schedule_contractions as passes
from random_graphs.operations import CONTRACTIONS
from random_graphs.programs import random_stencils

SIZES = ((20, 12), (33, 18), (48, 10), (70, 8), (16, 16), (64, 5))
"""Large enough for several workgroups, blocks with loops around them, and products."""
FORMS = {
    "as chosen": lambda staged, links: True,
    "registers": lambda staged, links: not staged,
    "values": lambda staged, links: 0 < staged < links,
    "images": lambda staged, links: staged >= links,
    "products": lambda staged, links: True,
}
draw_tiles = partial(random_stencils, operations=CONTRACTIONS, sizes=SIZES)


@contextmanager
def forced(seed: int) -> Iterator[None]:
    """Plans are made of register tiles of the form of a seed."""
    form = list(FORMS)[seed % len(FORMS)]

    def chain(s: SubStage, limits: DeviceLimits, model: DeviceModel) -> tuple[float, SubStage] | None:
        """The largest chain of the form, of blocks that compile fast, as if it took no time."""
        roomy = replace(model, straight=600)
        found = [
            x
            for x in passes.chain_schedules(s, limits, roomy)
            if FORMS[form](len(staged_in(links := links_of(x))), len(links))
        ]
        return (-(float(len(links_of(found[-1]))) ** 2), found[-1]) if found else None

    def product(s: SubStage, context) -> tuple[float, SubStage] | None:
        found = soonest(s, context)
        return found and (0.0, found[1])

    soonest = passes._soonest_product
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "WORTH", 0.0)
        patch.setattr(lowering, "GAIN", np.inf)
        patch.setattr(lowering, "LEAST_LANES", 1)
        patch.setattr(passes, "TILE_ROWS", (2,))
        patch.setattr(passes, "ITEM_ROWS", 2)
        if seed % 2:
            patch.setattr(lowering, "pack_seconds", lambda *_: 0.0)
        if form == "products":
            patch.setattr(passes, "_soonest_product", product)
            patch.setattr(passes, "FILLED", np.inf)
            patch.setattr(passes, "LEAST", 8)
        elif form != "as chosen":
            patch.setattr(passes, "soonest_chain", chain)
        lowering.chosen.cache_clear()
        yield
    lowering.chosen.cache_clear()
