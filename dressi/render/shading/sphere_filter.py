"""Convolution of an equirectangular image with a kernel of the angle between two directions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...ad.contract.contraction import SumOfParts
from ...ad.graph import Variable, domain_of
from ...ad.graph.types import Access, Size
from ...ad.ops.image.coordinates import fetch
from ...ad.ops.pixel.kinds import Linear


@dataclass(frozen=True)
class GgxKernel:
    """The lobe of GGX for a surface seen from straight above: D(h) V(l, v) n.l with v = n, not normalised.

    alpha: squared roughness. spread: half the angle of a texel of the image, radians; the distribution is
    averaged over a ring of that half width, so that lobes narrower than a texel keep the weight that they
    have in it. reach: the kernel is 0 beyond this angle, at most pi / 2.
    """

    alpha: float
    spread: float = 0.0
    reach: float = math.pi / 2

    operations = 34.0

    @property
    def glsl(self) -> str:
        """An expression statement: ``k`` from ``t``, the squared sine of half the angle."""
        squared = self.alpha**2
        rest = 1.0 - squared
        return (
            f"float root = sqrt(t), low = max(root - {self.spread / 2!r}, 0.0), high = root + {self.spread / 2!r};\n"
            f"float c = max(1.0 - 2.0 * t, 0.0);\n"
            f"float k = c * {squared!r} / (({squared!r} + {rest!r} * low * low) * ({squared!r} + {rest!r} * high * high)"
            f" * (c + sqrt({rest!r} * c * c + {squared!r})));\n"
        )

    def __call__(self, t: np.ndarray) -> np.ndarray:
        squared = self.alpha**2
        rest, c, root = 1.0 - squared, np.maximum(1.0 - 2.0 * t, 0.0), np.sqrt(t)
        low, high = np.maximum(root - self.spread / 2, 0.0), root + self.spread / 2
        ring = squared / ((squared + rest * low**2) * (squared + rest * high**2))
        return c * ring / (c + np.sqrt(rest * c * c + squared))


@dataclass(frozen=True)
class CosineKernel:
    """The cosine of the angle, 0 below the horizon: what a matt surface gathers."""

    reach: float = math.pi / 2

    operations = 8.0
    glsl = "float k = max(1.0 - 2.0 * t, 0.0);\n"

    def __call__(self, t: np.ndarray) -> np.ndarray:
        return np.maximum(1.0 - 2.0 * t, 0.0)


Kernel = GgxKernel | CosineKernel


STORED = 10_000
"""Shorter loops are computed again in each shader that reads the result, and compile slowly."""


def _sine(x: str) -> str:
    """GLSL: the sine of a name in [-1.8, 1.8] to single precision; drivers may be off by 1 / 2048."""
    terms = [(-1) ** k / math.factorial(2 * k + 1) for k in range(6)]
    text = repr(terms[-1])
    for term in reversed(terms[:-1]):
        text = f"({term!r} + {x} * {x} * {text})"
    return f"({x} * {text})"


class SphereFilter(Linear):
    """Each texel of the output: the sum of all texels of the input times the kernel of the angle between.

        y(i) = sum over j of k(t) x(j),   t = sin^2(angle / 2) = sin^2(dv / 2) + sin v_i sin v_j sin^2(du / 2)

    Input: FLOAT or VECn, an equirectangular image; a batch is filtered tile by tile. Texels are not weighted
    by their solid angle. The transpose is the same Function with the sizes exchanged.

    rows: 0, or how many rows of the input make a partial sum. The partial sums of a texel lie in ``parts``
    tiles behind each other, so that a batch of N has N * ``parts`` tiles; made for devices on which long
    loops are slow.
    """

    fields = ("kernel", "size", "rows")
    kernel: Kernel
    size: Size
    rows: int = 0

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def infer(self):
        x = self.inputs[0]
        if x.vtype.is_int or x.vtype.is_matrix:
            raise self.fail("filters FLOAT and VECn")
        batch, channels = (x.tiles * self.parts, 1) if self.rows else (x.batch, x.channels)
        return x.vtype, domain_of(self.size, batch, channels)

    @property
    def operations(self) -> float:
        return self.kernel.operations + 12.0

    @property
    def _reached(self) -> int:
        """Rows within reach. All columns of a row are: near the poles."""
        height = self.inputs[0].size[1]
        return min(height, math.ceil(2 * self.kernel.reach / math.pi * height) + 2)

    @property
    def iterations(self) -> int:
        """Of a whole sum no fewer than make planners store it."""
        width = self.inputs[0].size[0]
        return self.rows * width or max(self._reached * width, STORED)

    @property
    def fetches(self) -> float:
        return float(self.inputs[0].size[0] * (self.rows or self._reached))

    @property
    def parts(self) -> int:
        """The number of partial sums of a texel: of blocks of the input with rows within reach."""
        if not self.rows:
            return 1
        return min(-(-self._reached // self.rows) + 1, -(-self.inputs[0].size[1] // self.rows))

    def shortened(self, most):
        """Partial sums over whole rows, so that both loops are short."""
        width = self.inputs[0].size[0]
        if self.rows or width > most:
            return None
        rows = min(max(round(math.sqrt(self._reached / width)), 1), most // width)
        partial = SphereFilter(self.inputs[0], self.kernel, self.size, rows)
        return SumOfParts(partial.output, partial.parts, self.inputs[0].channels).output

    @cached_property
    def glsl(self) -> str:
        (width, height), (columns, rows) = self.inputs[0].size, self.output.size
        limit = math.sin(self.kernel.reach / 2) ** 2
        turn = math.pi / width  # half the angle between columns
        tile, only = "tile", ""
        if self.rows:
            # Of every ``parts`` consecutive blocks of rows one is this partial sum's.
            tile = f"tile / {self.parts}"
            only = (
                f"int block = first / {self.rows}, turn = tile % {self.parts} - block % {self.parts};\n"
                f"block += turn < 0 ? turn + {self.parts} : turn;\n"
                f"first = max(first, block * {self.rows}); last = min(last, block * {self.rows} + {self.rows - 1});\n"
            )
        return f"""$y = $type(0);
{{
float latitude = (float(pixel.y) + 0.5) * {math.pi / rows!r}, column = (float(pixel.x) + 0.5) * {width / columns!r} - 0.5;
float above = min(latitude, {math.pi!r} - latitude), sine = {_sine("above")};
int first = max(int(floor((latitude - {self.kernel.reach!r}) * {height / math.pi!r} - 0.5)), 0);
int last = min(int(ceil((latitude + {self.kernel.reach!r}) * {height / math.pi!r} - 0.5)), {height - 1});
{only}for (int j = first; j <= last; ++j) {{
float other = (float(j) + 0.5) * {math.pi / height!r}, half_down = (other - latitude) * 0.5;
other = min(other, {math.pi!r} - other);
float down = {_sine("half_down")}, base = down * down, scale = sine * {_sine("other")};
float most = sqrt(clamp(({limit!r} - base) / scale, 0.0, 1.0));
// The arc sine of drivers may be off by 1 / 2048, and more near 1.
int reach = most > 0.98 ? {width} : int(ceil(asin(most) * {1 / turn!r})) + 1;
int count = min(2 * reach + 2, {width});
int begin = int(floor(column)) - count / 2 + 1;
float angle = (float(begin) - column) * {turn!r}, half_angle = 0.5 * angle;
float s = {_sine("angle")}, c = {_sine("half_angle")};
c = 1.0 - 2.0 * c * c;
begin += begin < 0 ? {width} : 0;
$type line = $type(0);
for (int n = 0; n < count; ++n) {{
float t = base + scale * s * s;
if (t <= {limit!r}) {{
{self.kernel.glsl}line += k * $0(ivec2(begin, j), {tile});
}}
float turned = s * {math.cos(turn)!r} + c * {math.sin(turn)!r};
c = c * {math.cos(turn)!r} - s * {math.sin(turn)!r};
s = turned;
begin = begin == {width - 1} ? 0 : begin + 1;
}}
$y += line;
}}
}}"""

    def weights(self, y: np.ndarray) -> np.ndarray:
        """(len(y), columns, height, width): the kernel between texels of output rows and of the input."""
        (width, height), (columns, rows) = self.inputs[0].size, self.output.size
        above = (y + 0.5) * (np.pi / rows)
        other = (np.arange(height) + 0.5) * (np.pi / height)
        turn = (np.arange(width) + 0.5)[None] / width - (np.arange(columns) + 0.5)[:, None] / columns
        sine = np.sin(turn * np.pi) ** 2
        down = np.sin((other[None] - above[:, None]) / 2) ** 2
        scale = np.sin(other)[None] * np.sin(above)[:, None]
        t = down[:, None, :, None] + scale[:, None, :, None] * sine[None, :, None, :]
        return np.where(t <= math.sin(self.kernel.reach / 2) ** 2, self.kernel(np.clip(t, 0, 1)), 0.0)

    def eval(self, x: np.ndarray) -> np.ndarray:
        if self.rows:
            block = np.arange(x.shape[1]) // self.rows % self.parts
            own = block == np.arange(self.parts)[:, None]
            masks = own.reshape(1, self.parts, -1, *(1,) * (x.ndim - 2))
            x = (x[:, None] * masks).reshape(-1, *x.shape[1:])
        # A row of the output at a time: all weights together are as many as the product of both images.
        lines = [
            np.tensordot(x, self.weights(np.array([y]))[0], ((1, 2), (1, 2))) for y in range(self.size[1])
        ]
        # (batch, components..., columns) for each row.
        return np.moveaxis(np.stack(lines, axis=1), -1, 2)

    def evaluate(self, at, x):
        return fetch(self.eval(x), at)

    def transpose(self, gy: Variable) -> Variable:
        return SphereFilter(gy, self.kernel, self.inputs[0].size).output


def sphere_filter(x: Variable, kernel: Kernel, size: Size) -> Variable:
    """An equirectangular image convolved with a kernel of the angle: see ``SphereFilter``. Linear in x.

    x: FLOAT or VECn, (W, H), each texel times its solid angle. size: (W, H) of the result.

    >>> cosine = sphere_filter(solid_angles((32, 16)), CosineKernel(), (8, 4))
    >>> bool(abs(evaluate(cosine) - np.pi).max() < 0.05)
    True
    """
    return SphereFilter(x, kernel, size).output


def solid_angles(size: Size) -> Variable:
    """FLOAT (1, H): the solid angle of a texel in each row of an equirectangular image, steradians. All
    texels add up to 4 pi.

    >>> bool(abs(evaluate(F.sum(solid_angles((8, 4)))).item() - 4 * np.pi) < 1e-6)
    True
    """
    width, height = size
    edges = np.cos(np.linspace(0, np.pi, height + 1))
    values = np.broadcast_to(((edges[:-1] - edges[1:]) * (2 * np.pi / width))[:, None], (height, width))
    return Variable(size=size, name="solid angles", data=values)


def directions(size: Size) -> np.ndarray:
    """(H, W, 3): the unit directions of the texels of an equirectangular image: up +Y, the centre is -Z.

    >>> directions((4, 2)).shape
    (2, 4, 3)
    """
    width, height = size
    azimuth = ((np.arange(width) + 0.5) / width - 0.5) * (2 * np.pi)
    polar, azimuth = np.meshgrid((np.arange(height) + 0.5) * (np.pi / height), azimuth, indexing="ij")
    sine = np.sin(polar)
    return np.stack([sine * np.sin(azimuth), np.cos(polar), -sine * np.cos(azimuth)], axis=-1)
