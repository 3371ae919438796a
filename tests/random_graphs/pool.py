"""The values that a random graph is grown from: leaves of every type and domain, and what was made of them so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dressi import FLOAT, INT, IVEC2, MAT2, MAT3, MAT4, VEC2, VEC3, VEC4, Access, Variable, VType
from dressi.ad.evaluate import coordinates, values_at, with_tiles

from .coverage import F

VECTORS = (VEC2, VEC3, VEC4)
MATRICES = (MAT2, MAT3, MAT4)
FLOATS = (FLOAT, *VECTORS, *MATRICES)
LARGEST = 50.0  # magnitude of the values in the pool

PERTURBED = 1e-5
"""Relative change of the leaves that tells whether a value is well conditioned."""


class Refused(Exception):
    """This operation does not fit the values at hand; another one is tried."""


class Pool:
    """``values`` of floats and ``ints`` of indices, over domains that mostly broadcast to (size, batch)."""

    def __init__(self, rng: np.random.Generator, channels: int = 1):
        self.rng, self.channels = rng, channels
        self.size = tuple(int(n) for n in self.among([(7, 5), (5, 3), (9, 1), (1, 6), (16, 12), (33, 18)]))
        self.batch = int(self.among([1, 1, 2, 3]))
        self.values: list[Variable] = []
        self.ints: list[Variable] = []
        self.leaves: list[Variable] = []
        self.parameters: list[Variable] = []
        self._known: dict[Variable, tuple[np.ndarray, ...]] = {}

    # ---- chance
    def among(self, choices: Sequence):
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def number(self, low: float = -1.0, high: float = 1.0) -> float:
        return float(np.float32(self.rng.uniform(low, high)))

    def domain(self):
        """A domain that broadcasts to that of the pool."""
        (w, h), n = self.size, self.batch
        full = ((w, h), n)
        return self.among([full, full, ((w, h), 1), ((1, 1), 1), ((1, 1), n), ((w, 1), 1), ((1, h), n)])

    # ---- leaves
    def leaf(
        self, vtype: VType, size, batch: int, low=-1.0, high=1.0, parameter=False, channels=1
    ) -> Variable:
        shape = Variable(vtype, size, batch, channels=channels).shape
        if vtype.is_int:
            data = self.rng.integers(int(low), int(high), shape)
        else:
            data = self.rng.uniform(low, high, shape).astype(np.float32)
        kind = "parameter" if parameter else "leaf"
        v = Variable(vtype, size, batch, channels=channels, data=data, name=f"{kind}{len(self.leaves)}")
        self.leaves.append(v)
        if parameter:
            self.parameters.append(v)
        return v

    # ---- values
    def float(self, *vtypes: VType, like: Variable | None = None) -> Variable:
        """A value of one of the types (default: any), of a domain that broadcasts with that of ``like``."""
        found = [
            v
            for v in self.values
            if (not vtypes or v.vtype in vtypes) and (like is None or broadcasts(v, like))
        ]
        if found:
            return self.among(found[-12:] if self.chance(0.7) else found)
        if like is not None and like.size != self.size and self.chance(0.5):
            raise Refused
        return self._made(self.among(vtypes or FLOATS), like)

    def _made(self, vtype: VType, like: Variable | None) -> Variable:
        """A value of a type that the pool lacks."""
        if vtype is FLOAT:
            raise Refused
        if vtype.is_matrix:
            column = {2: VEC2, 3: VEC3, 4: VEC4}[vtype.shape[0]]
            build = {MAT2: F.mat2, MAT3: F.mat3, MAT4: F.mat4}[vtype]
            first = self.float(column, like=like)
            return build(first, *(self.float(column, like=first) * 0.7 for _ in range(vtype.shape[0] - 1)))
        build = {VEC2: F.vec2, VEC3: F.vec3, VEC4: F.vec4}[vtype]
        first = self.float(FLOAT, like=like)
        return build(first, *(self.float(FLOAT, like=first) for _ in range(vtype.components - 1)))

    def scalar(self, like: Variable | None = None) -> Variable:
        v = self.float(FLOAT, like=like) if self.chance(0.5) else self.float(FLOAT, *VECTORS, like=like)
        return v if v.vtype is FLOAT else self.among([F.max_component, F.sum_components, lambda x: x[0]])(v)

    def index(self, cells: int, like: Variable | None = None) -> Variable:
        """An INT of a domain that broadcasts with ``like``, most of it inside of a table."""
        found = [v for v in self.ints if v.vtype is INT and (like is None or broadcasts(v, like))]
        if not found or self.chance(0.3):
            size, batch = (like.size, like.batch) if like is not None else self.domain()
            kind = self.rng.integers(4)
            if kind == 0:
                return F.linear_index(size, batch)
            if kind == 1:
                return self.leaf(INT, size, batch, -1, cells + 2)
            if kind == 2 and batch > 1:
                return F.tile_index(size, batch)
            x = self.scalar(like)
            return F.to_int(F.floor(x * (cells * 0.37) + (cells * 0.5 + 0.137)))
        v = self.among(found)
        return F.mod(v, cells) if self.chance(0.5) else v

    def texel(self, size, like: Variable | None = None) -> Variable:
        """An IVEC2 that counts texels of a table."""
        found = [v for v in self.ints if v.vtype is IVEC2 and (like is None or broadcasts(v, like))]
        if found and self.chance(0.6):
            return self.among(found)
        return F.ivec2(self.index(size[0], like), self.index(size[1], like))

    def steady(self, v: Variable) -> bool:
        """Whether a value is of moderate size, and moves little when leaves are rounded or perturbed."""
        exact, perturbed, single = self._meaning(v)
        if not np.isfinite(exact).all() or np.abs(exact).max(initial=0.0) > LARGEST:
            return False
        room = 0.0 if v.vtype.is_int else 2e-3
        return all(np.abs(exact - x).max(initial=0.0) <= room for x in (perturbed, single))

    def _meaning(self, v: Variable) -> tuple[np.ndarray, ...]:
        """In float64, in float64 from perturbed leaves, and in float32."""
        stack = [v]
        while stack:
            x = stack[-1]
            f = x.creator
            if x in self._known:
                stack.pop()
            elif f is None:
                assert x.data is not None
                data = np.asarray(x.data, np.int64 if x.vtype.is_int else np.float64).reshape(x.tiled)
                moved = (
                    data if x.vtype.is_int else data * (1 + PERTURBED * self.rng.uniform(-1, 1, data.shape))
                )
                self._known[x] = data, moved, data if x.vtype.is_int else data.astype(np.float32)
            elif missing := [y for y in f.inputs if y not in self._known]:
                stack.extend(missing)
            else:
                at, own = coordinates(f.working_domain), f.working_domain
                found = []
                with np.errstate(all="ignore"):
                    for k, dtype in enumerate((np.float64, np.float64, np.float32)):
                        inputs = [
                            with_tiles(self._known[y][k], y, own)
                            if a is Access.SAME_PIXEL
                            else self._known[y][k]
                            for y, a in zip(f.inputs, f.access, strict=True)
                        ]
                        found.append(np.broadcast_to(values_at(f, at, inputs, dtype), x.tiled))
                self._known[x] = tuple(found)
        return self._known[v]

    def add(self, v: Variable) -> None:
        """Takes a value in. Raises Refused when it is not steady or too large an image."""
        (width, height), tiles, _ = v.domain
        if width * height * tiles * v.vtype.components > 40_000 or not self.steady(v):
            raise Refused
        (self.ints if v.vtype.is_int else self.values).append(v)


def broadcasts(a: Variable, b: Variable) -> bool:
    pairs = zip((*a.size, a.batch, a.channels), (*b.size, b.batch, b.channels), strict=True)
    return all(n == m or 1 in (n, m) for n, m in pairs)
