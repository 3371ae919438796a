"""Bundle adjustment of 100 cameras and 20,000 points, beside Ceres (pyceres) where that is installed.

    python apps/solvers/bundle_adjustment.py --cameras 100 --points 20000

Cameras on a ring see points in a ball, each point from ``--views`` of them, with noise of half a pixel. Poses
start off by about .5 degrees and 1 % of the distance, points by 2 %. The first camera stays, and the others
move on SE(3). Prints cost, root mean square in pixels, steps and seconds. ``--write`` keeps the problem as
arrays, from which ``--ceres`` solves it in another environment.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

FOCAL = 800.0


def turned(w: np.ndarray) -> np.ndarray:
    """Rotations (N, 3, 3) of axes times angles (N, 3)."""
    angle = np.maximum(np.linalg.norm(w, axis=-1), 1e-12)[:, None, None]
    x, y, z = (w / angle[:, :, 0]).T
    zero = np.zeros_like(x)
    k = np.stack([np.stack(row, -1) for row in ((zero, -z, y), (z, zero, -x), (-y, x, zero))], -2)
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def scene(cameras: int, points: int, views: int, seed: int = 0) -> dict[str, np.ndarray]:
    """poses (C, 4, 4) and places (P, 3) to start from, camera and point of each observation, and its pixel."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(points, 3))
    places *= rng.random((points, 1)) ** (1 / 3) / np.linalg.norm(places, axis=-1, keepdims=True)
    around = 2 * np.pi * np.arange(cameras) / cameras
    poses = np.tile(np.eye(4), (cameras, 1, 1))
    poses[:, :3, :3] = turned(np.stack([0.2 * np.sin(3 * around), around, 0 * around], -1))
    poses[:, 2, 3] = 4.0
    camera = np.stack([rng.permutation(cameras)[:views] for _ in range(points)]).ravel()
    point = np.repeat(np.arange(points), views)
    seen = (poses[camera, :3, :3] @ places[point][..., None])[..., 0] + poses[camera, :3, 3]
    pixel = FOCAL * seen[:, :2] / seen[:, 2:] + 0.5 * rng.normal(size=(len(point), 2))
    start = poses.copy()
    start[1:, :3, :3] = turned(0.01 * rng.normal(size=(cameras - 1, 3))) @ poses[1:, :3, :3]
    start[1:, :3, 3] += 0.04 * rng.normal(size=(cameras - 1, 3))
    near = places + 0.02 * rng.normal(size=places.shape)
    return {"poses": start, "places": near, "camera": camera, "point": point, "pixel": pixel}


def cost_of(data: dict[str, np.ndarray], poses: np.ndarray, places: np.ndarray) -> float:
    """Half the sum of the squared distances in pixels, in float64."""
    of = poses[data["camera"]]
    seen = (of[:, :3, :3] @ places[data["point"]][..., None])[..., 0] + of[:, :3, 3]
    return 0.5 * np.square(FOCAL * seen[:, :2] / seen[:, 2:] - data["pixel"]).sum()


def solve(data: dict[str, np.ndarray], steps: int, iterations: int) -> tuple[float, int, float]:
    """(cost, steps, seconds) of dressi."""
    from dressi import INT, MAT4, VEC2, VEC3, DressiAD, F, LevenbergMarquardt, Variable, least_squares

    poses = Variable.of(data["poses"], MAT4, name="poses")
    places = Variable.of(data["places"], VEC3, name="places")
    camera, point = (Variable.of(data[k], INT) for k in ("camera", "point"))
    seen = F.lookup(poses, camera) @ F.vec4(F.lookup(places, point), 1.0)
    residual = F.vec2(seen.x / seen.z, seen.y / seen.z) * FOCAL - Variable.of(data["pixel"], VEC2)
    solver = LevenbergMarquardt(
        iterations=iterations,
        function_tolerance=1e-6,
        preconditioner=least_squares.BlockJacobi(),
        forcing=0.01,
    )
    still = np.zeros((len(data["poses"]), 1, 1))
    still[0] = 1
    with DressiAD() as ad:
        ad.set_loss([residual])
        ad.set_optimizer(solver, [poses, places], manifolds={poses: "se3"}, fixed={poses: still})
        ad.step(0)
        _ = ad.plans
        start = time.perf_counter()
        ad.step(steps)
        found = [np.asarray(ad.recv(v), np.float64) for v in (poses, places)]
        seconds = time.perf_counter() - start
        print("dressi:", ad.stopped(), f"({ad.device.name})")
        return cost_of(data, *found), len(ad.losses()), seconds


def solve_ceres(data: dict[str, np.ndarray], steps: int) -> tuple[float, int, float]:
    """(cost, steps, seconds) of Ceres, with analytic derivatives in Python (most of its time) apart."""
    import pyceres

    class Reprojection(pyceres.CostFunction):
        def __init__(self, pixel: np.ndarray, base: np.ndarray):
            super().__init__()
            self.pixel, self.base = pixel, base
            self.set_num_residuals(2)
            self.set_parameter_block_sizes([6, 3])

        def Evaluate(self, parameters, residuals, jacobians):
            twist, x = parameters
            turn = turned(twist[None, :3])[0]
            local = self.base[:3, :3] @ x + self.base[:3, 3]
            arm = turn @ local
            y = arm + twist[3:]
            residuals[:] = FOCAL * y[:2] / y[2] - self.pixel
            if jacobians is not None:
                project = FOCAL / y[2] * np.array([[1, 0, -y[0] / y[2]], [0, 1, -y[1] / y[2]]])
                if jacobians[0] is not None:
                    w = twist[:3]
                    skew = lambda v: np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])  # noqa: E731
                    t = np.linalg.norm(w)
                    a, b = (0.5, 1 / 6) if t < 1e-4 else ((1 - np.cos(t)) / t**2, (t - np.sin(t)) / t**3)
                    left = np.eye(3) + a * skew(w) + b * skew(w) @ skew(w)
                    jacobians[0][:] = (project @ np.hstack([-skew(arm) @ left, np.eye(3)])).ravel()
                if jacobians[1] is not None:
                    jacobians[1][:] = (project @ turn @ self.base[:3, :3]).ravel()
            return True

    twists = np.zeros((len(data["poses"]), 6))
    places = data["places"].copy()
    problem = pyceres.Problem()
    costs = []
    for c, p, pixel in zip(data["camera"], data["point"], data["pixel"], strict=True):
        costs.append(Reprojection(pixel, data["poses"][c]))
        problem.add_residual_block(costs[-1], None, [twists[c], places[p]])
    problem.set_parameter_block_constant(twists[0])
    options = pyceres.SolverOptions()
    options.linear_solver_type = pyceres.LinearSolverType.SPARSE_SCHUR
    options.max_num_iterations, options.function_tolerance = steps, 1e-6
    summary = pyceres.SolverSummary()
    start = time.perf_counter()
    pyceres.solve(options, problem, summary)
    seconds = time.perf_counter() - start
    print("Ceres:", summary.BriefReport())
    inside = summary.residual_evaluation_time_in_seconds + summary.jacobian_evaluation_time_in_seconds
    print(f"of {seconds:.2f} s, {inside:.2f} s are residuals and derivatives in Python")
    poses = np.tile(np.eye(4), (len(twists), 1, 1))
    poses[:, :3, :3], poses[:, :3, 3] = turned(twists[:, :3]), twists[:, 3:]
    return cost_of(data, poses @ data["poses"], places), summary.num_successful_steps, seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cameras", type=int, default=100)
    parser.add_argument("--points", type=int, default=20000)
    parser.add_argument("--views", type=int, default=6)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--write", type=Path, help="file for the problem (.npz)")
    parser.add_argument("--ceres", type=Path, help="solve the problem of this file with pyceres")
    options = parser.parse_args()
    if options.ceres:
        data = dict(np.load(options.ceres))
        cost, steps, seconds = solve_ceres(data, options.steps)
    else:
        data = scene(options.cameras, options.points, options.views)
        if options.write:
            np.savez(options.write, **data)
        cost, steps, seconds = solve(data, options.steps, options.iterations)
    start = cost_of(data, data["poses"], data["places"])
    rms = np.sqrt(2 * cost / len(data["point"]))
    print(f"cost {start:.1f} -> {cost:.3f}, rms {rms:.4f} pixels, {steps} steps, {seconds:.2f} s")


if __name__ == "__main__":
    main()
