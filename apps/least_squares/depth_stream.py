"""Depth images of a camera made smooth and whole, frame by frame, each from the result of the one before.

    python apps/least_squares/depth_stream.py --out out/depth_stream

The unknown X is the depth. It stays near the measured depth D, in units of the camera's noise s = 2 mm / m^2 D^2, and
bends little where the grey picture has no edge. Robust norms h leave outliers and jumps of the depth:

    E(X) = 1/2 sum over known D: h((X - D) / s)  +  1/2 sum over p: h(w (X(left) - 2 X + X(right)) / s), and the same down

Energy and solver are described once. A frame is sent, takes --steps Gauss-Newton steps and is read. It begins with the
result of the frame before, unless the camera has moved. The frames of ``rgbd`` are
played --rounds times, each of them --hold times in a row. Writes depth_stream.json (milliseconds and costs of every frame,
also from its own measured depth alone) and depth_stream.png: the last picture, and the slopes of the depth measured and
found.
"""

import time

import numpy as np
from images import DepthFrame, depth_frames, save_pictures
from problem import METHODS, options
from scipy.ndimage import distance_transform_edt, zoom

from dressi import Device, DressiAD, F, Variable
from dressi.ad.least_squares import Robust, cauchy, huber, in_bounds, neighbour
from dressi.render.io import write_json

NOISE = 0.002
"""Standard deviation over the square of the depth, 1 / m."""
OUTLIER = 2.0
"""Deviations from the measured depth that count as outliers, in standard deviations."""
SMOOTH = 10.0
JUMP = 3.0
"""Weighted bends beyond which the surface is taken to break."""
AGREE = 0.9
"""Share of pixels within three standard deviations of the frame before; less means that the camera has moved."""
EDGE = 0.04
"""Difference of grey that counts as an edge."""


def energy(x: Variable, depth: Variable, filled: Variable, grey: Variable) -> list[Variable | Robust]:
    """x: the unknown depth, FLOAT metres. depth: FLOAT, measured, 0 where unknown. filled: FLOAT, some depth everywhere, for
    the noise. grey: FLOAT in 0..1. Three FLOAT residuals."""
    scale = 1.0 / (NOISE * F.square(filled))
    residuals: list[Variable | Robust] = [
        Robust(F.select(depth > 0.0, scale * (x - depth), 0.0), huber(OUTLIER))
    ]
    for dx, dy in ((1, 0), (0, 1)):
        change = F.maximum(F.abs(grey - neighbour(grey, dx, dy)), F.abs(grey - neighbour(grey, -dx, -dy)))
        weight = SMOOTH * scale * F.exp(-0.5 * F.square(change / EDGE))
        bend = neighbour(x, -dx, -dy) - 2.0 * x + neighbour(x, dx, dy)
        inside = in_bounds(x, dx, dy) * in_bounds(x, -dx, -dy)
        residuals.append(Robust(F.select(inside, weight * bend, 0.0), cauchy(JUMP)))
    return residuals


def filled(depth: np.ndarray) -> np.ndarray:
    """(H, W): depths that are unknown are those of the nearest pixel where one is known."""
    rows, columns = distance_transform_edt(depth == 0, return_distances=False, return_indices=True)
    return depth[rows, columns]


def sent(frame: DepthFrame, every: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """depth, filled and grey of every so manieth pixel."""
    depth = frame.depth[::every, ::every]
    return depth, filled(depth), zoom(frame.grey, 1 / every, order=1) if every > 1 else frame.grey


def continued(before: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """(H, W): where a frame begins: at the result of the frame before, or, if too little of it agrees, at its own depth."""
    agrees = np.abs(before - whole) < 3 * NOISE * whole**2
    return before if agrees.mean() > AGREE else whole


def slopes(depth: np.ndarray) -> np.ndarray:
    """(H, W, 3) in 0..1: how the depth changes to the right (red) and down (green), grey where it does not."""
    down, right = np.gradient(depth)
    shades = [0.5 + 0.5 * np.tanh(slope / (0.01 * np.median(depth))) for slope in (right, down)]
    return np.stack([*shades, np.full_like(depth, 0.5)], -1)


def main() -> None:
    parser = options(__doc__ or "", "depth_stream", method="gn", steps=2, iterations=10)
    parser.add_argument("--every", type=int, default=2, help="take every so manieth pixel")
    parser.add_argument("--rounds", type=int, default=2, help="how often the frames are played")
    parser.add_argument("--hold", type=int, default=4, help="the camera moves on after so many frames")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    frames = [sent(frame, given.every) for frame in depth_frames()[0]]
    inputs = [
        Variable.of(v, name=name) for v, name in zip(frames[0], ("depth", "filled", "grey"), strict=True)
    ]
    x = Variable.of(frames[0][1], name="x")
    rows, before = [], frames[0][1]
    with Device.open(given.device) as device, DressiAD(device) as ad:
        ad.set_loss(energy(x, *inputs))
        ad.set_optimizer(METHODS[given.method](iterations=given.iterations, tolerance=0.0), [x])
        ad.step()
        for k in range(given.rounds * len(frames) * given.hold):
            frame = frames[k // given.hold % len(frames)]
            now = dict(zip(inputs, frame, strict=True))
            costs = []
            for warm in (False, True):
                begun, cpu = time.perf_counter(), time.process_time()
                start = continued(before, frame[1]) if warm else frame[1]
                ad.send_many({**now, x: start})
                ad.step(given.steps)
                found = ad.recv(x)
                spent = time.perf_counter() - begun, time.process_time() - cpu
                costs.append(ad.recv("loss").item())
            before = found[0]
            rows.append(
                {
                    "ms": 1e3 * spent[0],
                    "cpu_ms": 1e3 * spent[1],
                    "cost_from_its_own": costs[0],
                    "cost": costs[1],
                }
            )
            print(" ".join(f"{name} {value:.4g}" for name, value in rows[-1].items()))
        name = device.name
    median = {key: float(np.median([row[key] for row in rows])) for key in rows[0]}
    report = {
        "size": [x.size[0], x.size[1]],
        "steps": given.steps,
        "iterations": given.iterations,
        "device": name,
    }
    write_json(given.out / "depth_stream.json", {**report, "median": median, "frames": rows})
    print(f"{median['ms']:.3g} ms a frame of {x.size[0]}x{x.size[1]}, {median['cpu_ms']:.3g} ms of CPU time")
    save_pictures(given.out / "depth_stream.png", [frame[2], slopes(frame[1]), slopes(before)])


if __name__ == "__main__":
    main()
