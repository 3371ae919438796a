"""Examples of the Functions of rendering: filtered sampling, rasterization, sums over fragments; see
``examples``."""

import itertools

import numpy as np
from example_tools import BATCH, SIZE, Example, add, example, leaf, of

from dressi import FLOAT, INT, IVEC3, MAT2, VEC2, VEC3, VEC4, F, Variable, gradient
from dressi.ad.ops.image.draws import Rasterize
from dressi.ad.ops.texture import addressing, sample
from dressi.ad.sums import Accumulate, FragmentScatter

WRAPS = (*addressing.WRAPS, ("clamp", "repeat"), ("mirror", "zero"))
for wrap in WRAPS:
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
for wrap in WRAPS:

    def mipped(t, c, k, w=wrap):
        return F.sample(t, c, "trilinear", w, level=k)

    add(addressing.LevelTexel, example(mipped, of(VEC3, (7, 5)), mip_uv, mip_levels))
    for places in (ANYWHERE, sample.mip_places((8, 8))):

        def somewhere(t, c, k, w=wrap, p=places):
            return sample.sample_levels(t, p, c, k, w)

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
add(sample.CubeFace, example(F.cube_face, direction, only=0))
for width in (1, 3):
    cube_map = of(VEC2, (width, 6 * width))
    add(sample.CubeTexel, example(lambda t, d: F.sample_cube(t, d, "nearest"), cube_map, direction, only=1))
    add(sample.CubeTexel, example(F.sample_cube, cube_map, direction))
    add(
        sample.CubeTexel,
        example(lambda t, d, k: F.sample_cube(t, d, "trilinear", level=k), cube_map, direction, mip_levels),
    )
add(addressing.WrapTexel, example(F.sample_sphere, of(VEC2, (6, 3)), direction))

SCREEN = (16, 12)


# ---- rasterization: two tiles
def triangles(count: int, batch: int) -> Variable:
    """Right-angled triangles whose edges stay 0.25 pixels of a 16x12 image away from pixel centres.

    Drivers snap corners to a grid as coarse as 1/16 pixel. Depths of different triangles do not overlap.
    """
    rng = np.random.default_rng(5)
    corners = np.zeros((batch, 1, 3 * count, 4))
    for tile, k in itertools.product(range(batch), range(count)):
        right, down, long = rng.choice([-1, 1]), rng.choice([-1, 1]), rng.integers(3, 11)
        x, y = rng.integers(2, 14) + 0.25, rng.integers(2, 10) + (0.25 if right == down else 0.75)
        places = np.array([(x, y), (x + right * long, y), (x, y + down * long)])
        w = rng.choice([0.5, 1.0, 2.0], 3)
        corners[tile, 0, 3 * k : 3 * k + 3, :2] = (places / (8, 6) - 1) * w[:, None]
        depth = ((7 * k + tile) % count + rng.uniform(0.1, 0.7, 3)) / count
        corners[tile, 0, 3 * k : 3 * k + 3, 2:] = np.stack((depth * w, w), -1)
    return Variable(VEC4, (3 * count, 1), batch, data=corners.astype(np.float32))


def rasterized() -> Example:
    return Example(F.rasterize(triangles(4, BATCH), size=SCREEN))


def rasterized_faces() -> Example:
    faces = Variable(IVEC3, (3, 1), data=np.array([[[[0, 1, 2], [2, 3, 4], [5, 1, 0]]]]))
    depths = leaf(FLOAT, (3, 1), 1, 0.1, 0.9)

    def fragment(face: Variable):
        x = F.pixel_coordinates(SCREEN, BATCH).x
        return F.lookup(depths, face), F.greater(F.mod(x, 5), 0)

    return Example(F.rasterize(triangles(2, BATCH), faces, size=SCREEN, fragment=fragment))


def rasterized_live() -> Example:
    """Of four faces of two triangles some are live, others in each tile."""
    live = Variable(INT, (3, 2), BATCH, data=np.arange(6 * BATCH).reshape(BATCH, 2, 3) % 3)
    return Example(F.rasterize(triangles(8, 1), size=SCREEN, triangles_per_face=2, live=live))


add(Rasterize, rasterized, rasterized_faces, rasterized_live)


# ---- sums over fragments
def summed(**options) -> Example:
    """A list, an image and a texel of all tiles, in front of a limit, where a mask keeps the fragments."""
    alphas, image = leaf(VEC3, (4, 1), 1), leaf(FLOAT, SCREEN, BATCH, salt=1)
    scale, limit = leaf(FLOAT, (1, 1), 1, 0.5, 1.5), leaf(FLOAT, SCREEN, 1, 0.3, 1.2)

    def value(face: Variable, depth: Variable):
        kept = F.greater(F.mod(F.pixel_coordinates(SCREEN, BATCH).x, 5), 0)
        return F.sin(F.lookup(alphas, face) * image) * scale + image, kept

    drawn = F.accumulate(triangles(4, BATCH), size=SCREEN, value=value, limit=limit, **options)
    return Example(drawn, (alphas, image, scale))


def summed_depths() -> Example:
    """Moments of the depth, and values of the corners: they depend on the positions."""
    position = triangles(2, BATCH)
    faces = Variable(IVEC3, (2, 1), data=np.array([[[[5, 4, 3], [0, 1, 2]]]]))

    def value(face: Variable, depth: Variable):
        corner = F.lookup(position, F.lookup(faces, face).y)
        return F.vec4(depth, depth * depth, F.exp(corner.x) * depth, 1.0)

    return Example(F.accumulate(position, faces, size=SCREEN, value=value), (position,))


def summed_texture() -> Example:
    """A texture sampled in the fragments of live faces of two triangles; of one tile."""
    texture, move = leaf(VEC2, (3, 4)), leaf(VEC2, (4, 1), 1, 0.1, 0.9)
    live = Variable(INT, (4, 1), data=np.array([[[1, 0, 1, 1]]]))

    def value(face: Variable, depth: Variable):
        place = (F.to_float(F.pixel_coordinates(SCREEN)) + 0.5) * (1 / 16, 1 / 12)
        return F.sample(texture, place + F.lookup(move, face))

    drawn = F.accumulate(triangles(8, 1), size=SCREEN, triangles_per_face=2, live=live, value=value)
    return Example(drawn, (texture, move))


def summed_matrix() -> Example:
    """A matrix for each tile, once as a list and once at the pixel."""
    rows = leaf(MAT2, (2, 1), BATCH)

    def value(face: Variable, depth: Variable):
        return F.lookup(rows, F.mod(face, 2)) * F.square(depth + 1.0)

    return Example(F.accumulate(triangles(4, 1), size=SCREEN, value=value), (rows,))


def summed_count() -> Example:
    return Example(F.accumulate(triangles(4, 1), size=SCREEN, value=lambda face, depth: 1.0, limit=0.6))


def scattered(make) -> Example:
    """What the fragments of an example add to the gradients by the first of its leaves."""
    example = make()
    seed = leaf(example.output.vtype, SCREEN, BATCH if example.output.tiles > 1 else 1, salt=7)
    (found,) = gradient(example.output, example.wrt[:1], seed)
    return Example(found, (*example.wrt, seed))


add(Accumulate, summed, summed_depths, summed_texture, summed_matrix, summed_count)
add(Accumulate, lambda: summed(fixed_point=True))
add(FragmentScatter, *(lambda make=make: scattered(make) for make in (summed, summed_depths, summed_texture)))
