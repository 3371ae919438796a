"""16-bit intermediates: what passes hand to each other on pixels takes half the bytes.

Half floats have 11 significant bits and end at 65504. They serve colours, distances in pixels and their gradients; they
do not serve positions: with half positions the face form's gradient is off by a fifth. Where a program rasterizes, only
images over the pixels of a raster are narrow, because lists of vertices and faces hold positions. What rasters read, the
bounds of sums, integers, single texels and all that outlives a step stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ad.graph import RasterFunction
from ....errors import PlanError
from ..context import Context
from ..substage import Compute, Fragment, SubStage


def narrow_intermediates(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages with narrow outputs. Raises PlanError on devices without images of 16-bit floats."""
    if not context.limits.half_images:
        raise PlanError(
            "this device has no images of 16-bit floats for all uses; leave narrow_intermediates out of the options"
        )
    rasters = {f.output.domain for f in context.functions if isinstance(f, RasterFunction)}

    def narrow(s: SubStage) -> SubStage:
        pixels = not rasters or s.domain in rasters
        if not isinstance(s.work, Fragment | Compute) or not pixels:
            return s
        outputs = (v for v in s.outputs if v.domain == s.domain and v.size != (1, 1) and not v.vtype.is_int)
        return replace(s, narrow=frozenset(outputs) - context.unchanged)

    return [narrow(s) for s in sub_stages]
