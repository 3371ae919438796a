"""Cameras that move while rows of a picture are read one after the other: a rolling shutter.

COLMAP takes a picture for one moment. Here a model is adjusted again with a motion of each camera over the time of reading, so
that poses are those of the middle row. Motions and the time of reading are not told apart: only their product is found.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.transform import Rotation

from ..cameras.lens import read_along

TURN, SHIFT = 0.002, 0.001
"""Usual motions over the time of reading beside that of the whole film: radians, and shares of the distance. Weak pulls leave
cameras free to move in ways that the same motion of all of them, and a flat world, explain as well."""
STEPS, DONE = 40, 1e-4
"""Most steps of an adjustment, and the least relative gain of one."""
HELD, WORTH = 5, 0.95
"""One in so many points is held out to see whether motions help: their pixels off have to fall to this share."""
LARGE = 1e12
"""Weight of what is held."""
MOST, TRIANGULATED = 200, 8
"""Pictures of a model that is adjusted, whose matrix is dense, and steps that place a point held out."""
MODEL = "SIMPLE_RADIAL"
"""COLMAP's name of the lens that is adjusted."""


@dataclass(frozen=True, eq=False)
class Observed:
    """O places of points in pictures. view, point, lens: (O,) their indices.  place: (O, 2) pixels.  time: (O,) of reading, from
    -0.5 to 0.5.  number: (N,) of each picture in the film, they grow."""

    view: np.ndarray
    point: np.ndarray
    lens: np.ndarray
    place: np.ndarray
    time: np.ndarray
    number: np.ndarray

    def of(self, chosen: np.ndarray) -> Observed:
        """Those of chosen points (P,) bool."""
        kept = chosen[self.point]
        parts = (part[kept] for part in (self.view, self.point, self.lens, self.place, self.time))
        return Observed(*parts, self.number)


@dataclass(frozen=True, eq=False)
class State:
    """Poses x -> R x + t of N pictures at the middle of their reading, R (N, 3, 3), t (N, 3); motions (N, 6), a rotation vector
    and a shift in axes of the camera over the whole of it; points (P, 3); lenses (C, 4): f, cx, cy, k."""

    R: np.ndarray
    t: np.ndarray
    motion: np.ndarray
    points: np.ndarray
    lenses: np.ndarray

    def seen(self, seen: Observed) -> tuple[np.ndarray, ...]:
        """(O, 2) pixels off, and their derivatives: (O, 2, 12) by increments of poses and motions, (O, 2, 3) by points, (O, 2, 4)
        by lenses."""
        tau, motion, R = seen.time[:, None], self.motion[seen.view], self.R[seen.view]
        still = np.einsum("oij,oj->oi", R, self.points[seen.point]) + self.t[seen.view]
        turn = Rotation.from_rotvec(tau * motion[:, :3]).as_matrix()
        turned = np.einsum("oij,oj->oi", turn, still)
        at = turned + tau * motion[:, 3:]
        depth = np.where(np.abs(at[:, 2:]) < 1e-9, 1e-9, at[:, 2:])
        plane = at[:, :2] / depth
        f, k, square = (
            self.lenses[seen.lens, :1],
            self.lenses[seen.lens, 3:],
            (plane**2).sum(1, keepdims=True),
        )
        off = f * plane * (1 + k * square) + self.lenses[seen.lens, 1:3] - seen.place
        by_plane = f[..., None] * (
            (1 + k * square)[..., None] * np.eye(2) + 2 * k[..., None] * plane[:, :, None] * plane[:, None]
        )
        by_at = np.concatenate([by_plane, -by_plane @ plane[..., None]], 2) / depth[..., None]
        by_still = by_at @ turn
        rows = [
            np.cross(still[:, None], by_still), by_still,
            np.cross(turned[:, None], by_at) * tau[..., None], by_at * tau[..., None],
        ]  # fmt: skip
        by_middle = np.broadcast_to(np.eye(2), (len(plane), 2, 2))
        by_f, by_k = (plane * (1 + k * square))[..., None], (f * plane * square)[..., None]
        by_lens = np.concatenate([by_f, by_middle, by_k], 2)
        return off, np.concatenate(rows, 2), by_still @ R, by_lens

    def usual(self, seen: Observed) -> np.ndarray:
        """(N, 6) motions from a picture to the next over one frame, by the pictures before and after each."""
        last, motions = len(self.R) - 1, []
        for i in range(last + 1):
            before, after = max(i - 1, 0), min(i + 1, last)
            frames = seen.number[[before, after]] - seen.number[i]
            turn = Rotation.from_matrix(self.R[after] @ self.R[before].T).as_rotvec() / (
                frames[1] - frames[0]
            )
            shifts = [
                self.t[j] - Rotation.from_rotvec(n * turn).apply(self.t[i])
                for j, n in zip((before, after), frames, strict=True)
            ]
            motions.append(np.concatenate([turn, (shifts[1] - shifts[0]) / (frames[1] - frames[0])]))
        return np.stack(motions)

    def placed(self, seen: Observed) -> np.ndarray:
        """(O,) pixels off of points that are placed anew by these cameras."""
        here, used = self, np.unique(seen.point)
        for _ in range(TRIANGULATED):
            off, _, slopes, _ = here.seen(seen)
            weight = 1 / np.sqrt(1 + (off**2).sum(1))
            matrix, right = np.zeros((len(self.points), 3, 3)), np.zeros((len(self.points), 3))
            np.add.at(matrix, seen.point, np.einsum("o,oki,okj->oij", weight, slopes, slopes))
            np.add.at(right, seen.point, np.einsum("o,oki,ok->oi", weight, slopes, off))
            damped = matrix[used] + 1e-6 * np.trace(matrix[used], axis1=1, axis2=2)[:, None, None] * np.eye(3)
            points = here.points.copy()
            points[used] -= np.linalg.solve(damped, right[used][..., None])[..., 0]
            here = replace(here, points=points)
        return np.linalg.norm(here.seen(seen)[0], axis=1)


def adjusted(state: State, seen: Observed, middles: bool = False) -> State:
    """The state with the least robust sum of squared pixels off, and of motions beside a share of the film's own, by Levenberg
    and Marquardt's method. Points are eliminated. middles: whether principal points move, too."""
    views, lenses = len(state.R), len(state.lenses)
    away = float(np.median(np.linalg.norm(state.t, axis=1)))
    scale = np.repeat([TURN, SHIFT * away], 3)
    usual = state.usual(seen) / scale
    used, point = np.unique(seen.point, return_inverse=True)
    observed, size = np.arange(2 * len(point)), 12 * views + 4 * lenses
    own = 12 * seen.view[:, None] + np.arange(12)
    columns = np.concatenate([own, 12 * views + 4 * seen.lens[:, None] + np.arange(4)], 1).repeat(2, 0)
    blocks = (3 * point[:, None] + np.arange(3)).repeat(2, 0)
    moving = (12 * np.arange(views)[:, None] + np.arange(6, 12)).ravel()
    # The first camera, and how far the farthest is from it along one axis, say where the world is and how large.
    centers = -np.einsum("nji,nj->ni", state.R, state.t)
    far = int(np.linalg.norm(centers - centers[0], axis=1).argmax())
    along = int(np.abs(state.R[far] @ (centers[far] - centers[0])).argmax())
    still = () if middles else (12 * views + 4 * np.arange(lenses)[:, None] + (1, 2)).ravel()
    held = np.array([*range(6), 12 * far + 3 + along, *still])

    def beside(motion: np.ndarray) -> np.ndarray:
        """What is left of motions, in usual ones, beside the share of the film's that explains them best."""
        motion = motion / scale
        return motion - (motion * usual).sum() / max(float((usual**2).sum()), 1e-12) * usual

    def cost(one: State) -> float:
        off = (one.seen(seen)[0] ** 2).sum(1)
        return float(2 * (np.sqrt(1 + off) - 1).sum() + (beside(one.motion) ** 2).sum())

    least, damping = cost(state), 1e-3
    for _ in range(STEPS):
        off, by_pose, by_point, by_lens = state.seen(seen)
        root = (1 + (off**2).sum(1)) ** -0.25
        rows = np.concatenate([by_pose, by_lens], 2) * root[:, None, None]
        first = sparse.csr_array(
            (rows.ravel(), (observed.repeat(16), columns.ravel())), (len(observed), size)
        )
        rows = by_point * root[:, None, None]
        second = sparse.csr_array(
            (rows.ravel(), (observed.repeat(3), blocks.ravel())), (len(observed), 3 * len(used))
        )
        own = np.zeros((len(used), 3, 3))
        np.add.at(own, point, rows.swapaxes(1, 2) @ rows)
        error = (off * root[:, None]).ravel()
        matrix, mixed = (first.T @ first).toarray(), sparse.csr_array(first.T @ second)
        right, of_points = first.T @ error, second.T @ error
        matrix[moving, moving] += np.tile(scale**-2, views)
        right[moving] += (beside(state.motion) / scale).ravel()
        matrix[held, held] += LARGE
        while damping < 1e6:
            inverse = np.linalg.inv(own * (1 + damping * np.eye(3)) + 1e-9 * np.eye(3))
            inverse = sparse.bsr_array((inverse, np.arange(len(used)), np.arange(len(used) + 1)))
            carried = mixed @ inverse
            reduced = (
                matrix
                - (carried @ mixed.T).toarray()
                + damping * np.diag(np.diag(matrix))
                + 1e-9 * np.eye(size)
            )
            step = -np.linalg.solve(reduced, right - carried @ of_points)
            moved = -(inverse @ (of_points + mixed.T @ step)).reshape(-1, 3)
            tried = stepped(state, step, used, moved)
            now = cost(tried)
            if now < least:
                break
            damping *= 10
        else:
            return state
        gain, state, least, damping = 1 - now / least, tried, now, max(damping / 10, 1e-9)
        if gain < DONE:
            return state
    return state


def stepped(state: State, step: np.ndarray, used: np.ndarray, moved: np.ndarray) -> State:
    """The state after a step of poses, motions and lenses, and of the points used."""
    own = step[: 12 * len(state.R)].reshape(-1, 12)
    turn = Rotation.from_rotvec(own[:, :3]).as_matrix()
    points, lenses = state.points.copy(), state.lenses.copy()
    points[used] += moved
    lenses += step[12 * len(state.R) :].reshape(-1, 4)
    t = np.einsum("nij,nj->ni", turn, state.t) + own[:, 3:6]
    return State(turn @ state.R, t, state.motion + own[:, 6:], points, lenses)


def moving(state: State, seen: Observed, middles: bool = False) -> State | None:
    """The state adjusted, None where motions do not bring points that were held out of the adjustment nearer to where they are
    seen: cameras that stand still are not to move with the noise."""
    held = np.arange(len(state.points)) % HELD == 0
    tried = adjusted(state, seen.of(~held), middles)
    before, after = (float(np.median(one.placed(seen.of(held)))) for one in (state, tried))
    return adjusted(tried, seen, middles) if after < WORTH * before else None


def rolled(model: Any, middles: bool) -> tuple[Any, dict[str, np.ndarray]]:
    """A model of COLMAP, the names of whose pictures begin with their numbers, with poses of the middle rows, and motions (6,) of
    its pictures by their names; as it is and without motions where ``moving`` finds none, and where cameras are other than
    ``MODEL``. middles: whether principal points were found: without motions they are off by as much as rows are bent."""
    if len(model.images) > MOST or any(camera.model.name != MODEL for camera in model.cameras.values()):
        return model, {}
    images = sorted(model.images.values(), key=lambda image: image.name)
    state = moving(*_read(model, images), middles)
    if state is None:
        return model, {}
    model = copy.deepcopy(model)
    _write(state, model)
    return model, {image.name: motion for image, motion in zip(images, state.motion, strict=True)}


def _read(model: Any, images: list[Any]) -> tuple[State, Observed]:
    numbers = {number: i for i, number in enumerate(model.points3D)}
    cameras = {number: i for i, number in enumerate(model.cameras)}
    rows = []
    for i, image in enumerate(images):
        camera = model.cameras[image.camera_id]
        size = camera.width, camera.height
        axis = read_along(size)
        for one in image.points2D:
            if one.has_point3D():
                time = one.xy[axis] / size[axis] - 0.5
                rows.append([i, numbers[one.point3D_id], cameras[image.camera_id], *one.xy, time])
    table = np.array(rows)
    poses = [image.cam_from_world() for image in images]
    number = np.array([int(image.name[:5]) for image in images])
    view, point, lens = table[:, :3].astype(np.int64).T
    state = State(
        np.stack([pose.rotation.matrix() for pose in poses]),
        np.stack([pose.translation for pose in poses]),
        np.zeros((len(images), 6)),
        np.stack([one.xyz for one in model.points3D.values()]),
        np.stack([camera.params for camera in model.cameras.values()]),
    )
    return state, Observed(view, point, lens, table[:, 3:5], table[:, 5], number)


def _write(state: State, model: Any) -> None:
    """Into the model that it was read from."""
    for image, turn, shift in zip(
        sorted(model.images.values(), key=lambda image: image.name), state.R, state.t, strict=True
    ):
        pose = image.cam_from_world()
        pose.rotation, pose.translation = type(pose.rotation)(turn), shift
        image.frame.set_cam_from_world(image.camera_id, pose)
    for point, place in zip(model.points3D.values(), state.points, strict=True):
        point.xyz = place
    for camera, lens in zip(model.cameras.values(), state.lenses, strict=True):
        camera.params = lens
