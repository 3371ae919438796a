"""Dense optical flow between two frames.

    python apps/least_squares/optical_flow.py --out out/optical_flow

The unknown X is where each pixel p goes, in pixels. Both frames, grey, agree along it, and it is smooth (Horn and Schunck 1981):

    E(X) = w_fit/2 sum over p: |I(p) - J(p + X(p))|^2  +  w_smooth/2 sum over p, over neighbours n of p: |X(p) - X(n)|^2

J is read between its pixels, bilinearly. Both frames are blurred, first much and then little, and w_fit rises from solve
to solve. --robust takes robust norms (Huber) of both parts, so that edges of the motion stay sharp; it needs some more --steps.
--known puts a motion that is known on the second frame and measures the end-point error. Writes optical_flow.json (costs and times of every step, the differences of the frames) and optical_flow.png: the first frame, the flow
(direction as hue, length as saturation), the second frame moved back, and the differences of the frames, fourfold, without and
with the flow.
"""

import colorsys

import numpy as np
from images import GREY, flow_frames, save_pictures
from problem import Problem, Run, options, run_program, solve
from scipy.ndimage import gaussian_filter

from dressi import F, Variable
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.least_squares import GaussNewton, Robust, huber, in_bounds, neighbour

FIT, SMOOTH = (10.0, 50.0), 0.1
"""Weights: w_fit before the first and at the last solve, and w_smooth."""
BLURS = (5.0, 1.0)
"""Standard deviations in pixels, from coarse to fine."""
BORDER = 10
WIDTHS = (0.05, 0.01)
"""Beyond which residuals are outliers: weighted differences of grey, and weighted steps of the flow."""


def energy(
    flow: Variable, first: Variable, second: Variable, fit: Variable, smooth: float = SMOOTH
) -> list[Variable]:
    """flow: the unknown, VEC2 pixels. first, second: FLOAT in 0..1. fit: FLOAT, w_fit. A FLOAT and two VEC2 residuals.

    Each pair of neighbours is twice in the sum, and once in a residual with twice the weight.
    """
    residuals = [F.sqrt(fit) * (first - warped(second, flow))]
    for to in ((1, 0), (0, 1)):
        step = (2 * smooth) ** 0.5 * (flow - neighbour(flow, *to))
        residuals.append(F.select(in_bounds(flow, *to), step, 0.0))
    return residuals


def warped(image: Variable, flow: Variable) -> Variable:
    """The image at p + flow(p), in the type of the image; border texels are repeated outside."""
    place = F.to_float(F.pixel_coordinates(flow.size)) + 0.5 + flow
    extent = (1.0 / image.size[0], 1.0 / image.size[1])
    return F.sample(image, place * extent, wrap="clamp", tolerance=0)


def robust(residuals: list[Variable]) -> list[Robust]:
    """The energy with Huber's norm."""
    data, *steps = residuals
    return [Robust(data, huber(WIDTHS[0])), *(Robust(step, huber(WIDTHS[1])) for step in steps)]


class Pyramid:
    """The flow between two grey frames (H, W) in 0..1 from coarse to fine: the problem, and what each step is sent."""

    def __init__(self, first: np.ndarray, second: np.ndarray, *, steps: int, kernels: bool = False):
        self.levels = [
            [gaussian_filter(frame, blur, mode="nearest") for frame in (first, second)] for blur in BLURS
        ]
        self.steps = steps
        self.flow = Variable.of(np.zeros((*first.shape, 2)), name="flow")
        self.frames = [
            Variable.of(v, name=name) for v, name in zip(self.levels[0], ("first", "second"), strict=True)
        ]
        self.fit = Variable.of(self.weight(0), name="fit")
        residuals = energy(self.flow, *self.frames, self.fit)
        self.problem = Problem("optical_flow", robust(residuals) if kernels else residuals, [self.flow])

    def weight(self, step: int) -> float:
        """w_fit of a step."""
        return FIT[0] + (FIT[1] - FIT[0]) * (step + 1) / (self.steps * len(BLURS))

    def sent(self, step: int) -> dict[Variable, np.ndarray]:
        """Frames and weight of a step."""
        level = self.levels[step // self.steps]
        return {**dict(zip(self.frames, level, strict=True)), self.fit: np.array(self.weight(step))}


def moved_back(image: np.ndarray, flow: np.ndarray) -> np.ndarray:
    """(H, W, 3): a second frame at the places of the first one."""
    return evaluate([warped(Variable.of(image), Variable.of(flow))])[0][0]


def colours(flow: np.ndarray) -> np.ndarray:
    """(H, W, 3) in 0..1: direction as hue, length as saturation; white is no motion, the longest one is full."""
    length = np.hypot(flow[..., 0], flow[..., 1])
    hue = np.arctan2(flow[..., 1], flow[..., 0]) / (2 * np.pi) % 1
    bins = np.array([colorsys.hsv_to_rgb(h, 1, 1) for h in np.arange(360) / 360])
    full = bins[(360 * hue).astype(int) % 360]
    return 1 - (1 - full) * np.clip(length / np.percentile(length, 99.5), 0, 1)[..., None]


def difference(first: np.ndarray, second: np.ndarray) -> float:
    """Root of the mean squared difference of grey, in 0..255, without a margin of BORDER pixels."""
    grey = (255 * (second - first) @ GREY)[BORDER:-BORDER, BORDER:-BORDER]
    return float(np.sqrt(np.mean(grey**2)))


def there_and_back(flow: np.ndarray, returned: np.ndarray) -> dict[str, float]:
    """How far pixels are from where they began after the flow and then the flow between the frames in the other order, in
    pixels. It is small where both are right, but also where both are wrong alike."""
    third = np.dstack([returned, np.zeros(returned.shape[:2])])
    away = np.linalg.norm(flow + moved_back(third, flow)[..., :2], axis=-1)[BORDER:-BORDER, BORDER:-BORDER]
    return {"there_and_back_median": float(np.median(away)), "there_and_back_mean": float(away.mean())}


def known_motion(height: int, width: int) -> np.ndarray:
    """(H, W, 2) in pixels, x and y: a turn of a degree and a half about the middle, and waves of up to two pixels."""
    y, x = np.mgrid[:height, :width].astype(float)
    turn, waves = np.radians(1.5), 2.0 * np.sin(2 * np.pi * x / width) * np.cos(2 * np.pi * y / height)
    return np.stack([-turn * (y - height / 2) + waves, turn * (x - width / 2) - waves], -1)


def end_point_error(flow: np.ndarray, truth: np.ndarray) -> float:
    """The mean distance of two flows, in pixels, without a margin of BORDER pixels."""
    return float(np.linalg.norm(flow - truth, axis=-1)[BORDER:-BORDER, BORDER:-BORDER].mean())


def main() -> None:
    parser = options(__doc__ or "", "optical_flow", method="gn", steps=3, iterations=50)
    parser.add_argument("--robust", action="store_true", help="Huber's norm instead of squares")
    parser.add_argument(
        "--both-ways", action="store_true", help="compare with the flow from the second frame to the first"
    )
    parser.add_argument(
        "--known", action="store_true", help="the first frame is the second one under a known motion"
    )
    given = parser.parse_args()
    first, second = flow_frames()
    truth = known_motion(*first.shape[:2]) if given.known else None
    if truth is not None:
        first = moved_back(second, truth)
    pyramid = Pyramid(first @ GREY, second @ GREY, steps=given.steps, kernels=given.robust)
    given.steps *= len(BLURS)

    def figures(run: Run) -> dict[str, float]:
        flow = run.unknowns[0][0]
        found = {
            "difference_before": difference(first, second),
            "difference_after": difference(first, moved_back(second, flow)),
        }
        if truth is not None:
            found["end_point_error"] = end_point_error(flow, truth)
            found["end_point_error_of_no_motion"] = end_point_error(0.0 * truth, truth)
        if given.both_ways:
            other = Pyramid(second @ GREY, first @ GREY, steps=pyramid.steps, kernels=given.robust)
            returned = solve(
                other.problem,
                GaussNewton(iterations=given.iterations, tolerance=0.0),
                given.steps,
                given.device,
                other.sent,
            )
            found |= there_and_back(flow, returned.unknowns[0][0])
        return found

    run = run_program(pyramid.problem, given, pyramid.sent, figures, tolerance=0.0)
    flow = run.unknowns[0][0]
    back = moved_back(second, flow)
    without, within = (4 * np.abs(frame - first) for frame in (second, back))
    save_pictures(given.out / "optical_flow.png", [first, colours(flow), back, without, within])


if __name__ == "__main__":
    main()
