"""Dense optical flow between two frames.

    python apps/least_squares/optical_flow.py --out out/optical_flow

The unknown X is where each pixel p goes, in pixels. Both frames, grey, agree along it, and it is smooth (Horn and Schunck 1981):

    E(X) = w_fit/2 sum over p: |I(p) - J(p + X(p))|^2  +  w_smooth/2 sum over p, over neighbours n of p: |X(p) - X(n)|^2

J is read between its pixels, bilinearly. Both frames are blurred, first much and then little, and w_fit rises from solve
to solve. Writes optical_flow.json (costs, times, the differences of the frames before and after) and optical_flow.png.
"""

from images import in_bounds, neighbour

from dressi import F, Variable

SMOOTH = 0.1


def energy(
    flow: Variable, first: Variable, second: Variable, fit: Variable, smooth: float = SMOOTH
) -> list[Variable]:
    """flow: the unknown, VEC2 pixels. first, second: FLOAT in 0..1. fit: FLOAT, w_fit. A FLOAT and two VEC2 residuals.

    Each pair of neighbours is twice in the sum, and once in a residual with twice the weight.
    """
    residuals = [F.sqrt(fit) * (first - warped(second, flow))]
    for to in ((1, 0), (0, 1)):
        step = (2 * smooth) ** 0.5 * (flow - neighbour(flow, *to))
        residuals.append(F.select(in_bounds(flow.size, *to), step, 0.0))
    return residuals


def warped(image: Variable, flow: Variable) -> Variable:
    """The image at p + flow(p), in the type of the image; border texels are repeated outside."""
    x, y = F.pixel_coordinates(flow.size)
    place = F.vec2(F.to_float(x) + 0.5, F.to_float(y) + 0.5) + flow
    extent = (1.0 / image.size[0], 1.0 / image.size[1])
    return F.sample(image, place * extent, wrap="clamp", tolerance=0)
