"""Examples of the Functions of filtered sampling; see ``examples``."""

from example_tools import BATCH, SIZE, add, example, of

from dressi.ad import functional as F
from dressi.ad.ops.texture import addressing, levels, mipmap, sample
from dressi.ad.types import FLOAT, VEC2, VEC3

for wrap in addressing.WRAPS:
    uv = of(VEC2, (6, 3), BATCH, -1.4, 1.7)
    add(addressing.WrapTexel, example(lambda t, c, w=wrap: F.sample(t, c, "bilinear", w), of(VEC3, SIZE), uv))
    add(
        addressing.WrapTexel,
        example(lambda t, c, w=wrap: F.sample(t, c, "nearest", w), of(FLOAT, SIZE, BATCH), uv),
    )
for wrap in sample.HARDWARE_WRAPS:
    add(sample.Filtered, example(lambda t, c, w=wrap: F.sample(t, c, "bilinear", w), of(VEC3, SIZE), uv))
mip_uv, mip_levels = of(VEC2, (6, 3), BATCH, -1.4, 1.7), of(FLOAT, (6, 3), 1, -0.7, 2.6)
ANYWHERE = ((1, 2, 4, 3), (5, 0, 3, 5), (0, 5, 1, 1))
for wrap in addressing.WRAPS:

    def mipped(t, c, k, w=wrap):
        return F.sample(t, c, "trilinear", w, level=k)

    add(addressing.LevelTexel, example(mipped, of(VEC3, (7, 5)), mip_uv, mip_levels))
    for places in (ANYWHERE, mipmap.mip_places((8, 8))):

        def somewhere(t, c, k, w=wrap, p=places):
            return levels.sample_levels(t, p, c, k, w)

        add(addressing.LevelPlace, example(somewhere, of(FLOAT, (8, 12)), mip_uv, mip_levels))
