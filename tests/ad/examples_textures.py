"""Examples of the Functions of filtered sampling; see ``examples``."""

from example_tools import BATCH, SIZE, add, example, of

from dressi.ad import functional as F
from dressi.ad.ops.texture import addressing, cube, levels, mipmap, sample
from dressi.ad.types import FLOAT, INT, VEC2, VEC3

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

LAYERS = 3
layer = of(INT, (6, 3), 1, -1, LAYERS + 1)
for filter in ("nearest", "bilinear"):

    def stacked(t, c, k, f=filter):
        return F.sample(t, c, f, layers=LAYERS, layer=k)

    add(addressing.LevelTexel, example(stacked, of(VEC2, (4, 5 * LAYERS)), mip_uv, layer))
add(
    addressing.LevelTexel,
    example(
        lambda t, c, k, n: F.sample(t, c, "trilinear", "mirror", level=k, layers=LAYERS, layer=n),
        of(VEC2, (4, 5 * LAYERS)),
        mip_uv,
        mip_levels,
        layer,
    ),
    example(
        lambda t, c, a, b: F.sample(t, c, "anisotropic", across=a, down=b, taps=2),
        of(VEC2, (7, 5)),
        mip_uv,
        of(VEC2, (6, 3), 1, 0.1, 0.4),
        of(VEC2, (6, 3), 1, -0.1, 0.2),
    ),
)

# ---- cube maps and equirectangular maps
direction = of(VEC3, (6, 3), BATCH, -1, 1, salt=1)
add(cube.CubeFace, example(F.cube_face, direction, only=0))
for width in (1, 3):
    cube_map = of(VEC2, (width, 6 * width))
    add(cube.CubeTexel, example(lambda t, d: F.sample_cube(t, d, "nearest"), cube_map, direction, only=1))
    add(cube.CubeTexel, example(F.sample_cube, cube_map, direction))
    add(
        cube.CubeTexel,
        example(lambda t, d, k: F.sample_cube(t, d, "trilinear", level=k), cube_map, direction, mip_levels),
    )
add(addressing.WrapTexel, example(F.sample_sphere, of(VEC2, (6, 3)), direction))
