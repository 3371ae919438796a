"""What is asked of a benchmark, checked, what each case does when it is not told, and the meshes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...render.cameras import Cameras
from ...render.cameras.views import ring
from ...render.formats import load_mesh
from ...render.forms.form import known_form
from ...render.forms.hard_soft_ras import SOFT_FORMS
from ...render.mesh import Mesh
from ...render.mesh.primitives import pear
from ...render.surface.texturing import GRADIENTS
from ...vk.plan.core.limits import profile
from ..core.sizes import parse_size
from .names import CASES, PREDICTED, RIVALS

# The meshes of the benchmarks: made by code, or read from a file; all in a unit sphere.

MESHES = {"small": (19, 19), "medium": (84, 84), "large": (160, 160)}
"""Pears of 684, 13,944 and 50,880 faces: points around and along."""
ROOM = 1.2
"""Radius that the cameras show: the deformed mesh and a band around it fit into the image."""


@dataclass(frozen=True, eq=False)
class Model:
    """name: as it was asked for.  mesh: with UVs and a texture, in the unit sphere."""

    name: str
    mesh: Mesh

    @property
    def facts(self) -> dict[str, str | int]:
        return {"mesh": self.name, "faces": len(self.mesh.faces), "vertices": len(self.mesh.positions)}


def load(name: str) -> Model:
    """A mesh by its name or from a file. Raises InputError."""
    if name in MESHES:
        return _made(name)
    if not Path(name).suffix and not Path(name).exists():
        raise InputError(f"there is no mesh {name!r}; give {', '.join(MESHES)} or a file")
    return _in_unit_sphere(Path(name).stem, load_mesh(name))


@cache
def _made(name: str) -> Model:
    return _in_unit_sphere(name, pear(*MESHES[name], 256))


def _in_unit_sphere(name: str, mesh: Mesh) -> Model:
    center, radius = mesh.bounding_sphere()
    if not radius > 0:
        raise InputError(f"mesh {name!r} has no extent; give a mesh with some area")
    return Model(name, mesh.moved((mesh.positions - center) / radius))


def textured(mesh: Mesh, texels: int = 256) -> Mesh:
    """The mesh with UVs and a texture; a pattern where it has none."""
    mesh = mesh if mesh.uvs is not None else mesh.unwrap()
    if mesh.texture is not None:
        return mesh
    y, x = (np.mgrid[:texels, :texels] + 0.5) / texels
    waves = 6 * np.pi * np.stack([x + y, 2 * x - y, x - 3 * y], axis=-1)
    return replace(mesh, texture=0.5 + 0.4 * np.sin(waves))


def deformed(mesh: Mesh) -> Mesh:
    """Stretched by a few percent, with dents: what a silhouette fit starting from the mesh has to find."""
    p = mesh.positions
    dents = 0.04 * np.sin(3.0 * p[:, [1, 2, 0]] + (0.3, 1.1, 2.0))
    return mesh.moved(p * (1.06, 0.95, 1.03) + dents)


def cameras(views: int, size: tuple[int, int]) -> Cameras:
    """A ring around the unit sphere."""
    return ring(np.zeros(3), ROOM, views, size)


TARGETS = ("hard", "soft")
MOST_PIXELS = 1 << 28
"""Of the views of one case together; more do not fit into the memory of most machines."""


@dataclass(frozen=True)
class Defaults:
    """What a case does by itself.

    sizes, textures: pixels of the window and texels of the texture, along a side.  form: of HardSoftRas; the
    tables that show what packing does keep to the paper's, which needs most passes.  gradient: of textures;
    exact sums need more memory than many drivers give the largest ones.  batches: timed ones; many where
    small differences are the question.
    """

    sizes: tuple[int, ...] = (256,)
    textures: tuple[int, ...] = (256,)
    meshes: tuple[str, ...] = ("small",)
    steps: int = 20
    form: str = "outer"
    gradient: str = "exact"
    batches: int = 11
    all_devices: bool = False
    views: int = 1


DEFAULTS = {
    "image_fitting": Defaults((64,), steps=150),
    "silhouette": Defaults(steps=150),
    "texture": Defaults(textures=(1024,), steps=150),
    "table2": Defaults(form="face"),
    "table3": Defaults(form="face", batches=101),
    "table4": Defaults((256, 512, 1024, 2048), meshes=("small", "medium", "large")),
    "table5": Defaults((2048,), (1024, 2048, 4096), meshes=("medium",), gradient="inverse_uv"),
    "figure9": Defaults((128,), steps=150, all_devices=True),
    "fit": Defaults(steps=600),
    "joint": Defaults(textures=(512,), views=6),
    "shading": Defaults((512,), (512,)),
    "material": Defaults(textures=(512,), views=6),
    "environment": Defaults((192,), views=4),
    "convolution": Defaults(views=4),
    "matmul": Defaults((1024,)),
    "slice": Defaults((1024,), views=4),
    "blur": Defaults((1024,)),
    "chain": Defaults((1024,)),
    "pyramid": Defaults((1024,)),
}


QUICK: dict[str, dict[str, Any]] = {
    "table2": {"size": "128", "form": "outer", "profile": "turing,uhd620,mali_g76", "batches": 3},
    "table3": {"size": "128", "form": "outer", "batches": 7},
    "table4": {"size": "256,512", "mesh": "small,medium", "batches": 5},
    "table5": {"size": "512", "texture_size": "1024,2048", "mesh": "small", "batches": 3, "steps": 5},
}
"""What ``bench tables --quick`` asks for where the command line does not."""


@dataclass(frozen=True)
class Request:
    """A benchmark, checked. device: None for the best, "all" for every one.  quick: the paper's part is enough."""

    case: str
    views: int
    sizes: tuple[tuple[int, int], ...]
    textures: tuple[int, ...]
    gradient: str
    models: tuple[Model, ...]
    form: str
    target: str
    device: str | None
    steps: int
    batches: int
    peels: int = 3
    radius_px: float = 2.0
    profile: str | None = None
    peer: str | None = None
    cold: bool = False
    json_file: Path | None = None
    channels: int = 16
    kernel: int = 3
    depthwise: bool = False
    quick: bool = False

    def __post_init__(self) -> None:
        for name in ("views", "steps", "batches", "channels", "kernel"):
            if (count := getattr(self, name)) < 1:
                raise InputError(f"--{name} {count} leaves nothing to measure; give at least 1")
        pixels = self.views * max(width * height for width, height in self.sizes)
        if pixels > MOST_PIXELS:
            raise InputError(
                f"--views {self.views} of that size have {pixels} pixels; give fewer, at most {MOST_PIXELS} in all"
            )
        if not 1 <= self.peels <= 8:
            raise InputError(f"--peels {self.peels} is not possible; HardSoftRas peels 1 to 8 layers")
        known_form(self.form, SOFT_FORMS)
        smallest = min(height for _, height in self.sizes)
        if not 0 < self.radius_px < smallest:
            raise InputError(
                f"--radius-px {self.radius_px} must be positive and less than the {smallest} pixels of the image; try 2"
            )
        if self.target not in TARGETS:
            raise InputError(f"--target {self.target!r} is unknown; there are {', '.join(TARGETS)}")
        peers = sorted({name for names in RIVALS.values() for name in names})
        for peer in self.peers:
            if peer not in peers:
                raise InputError(f"--peer {peer!r} is unknown; there are {', '.join(peers)}")
            if peer not in RIVALS.get(self.case, ()):
                others = " and ".join(case for case, names in RIVALS.items() if peer in names)
                raise InputError(f"--peer {peer} runs beside {others} only; drop it for {self.case}")
        if self.gradient not in GRADIENTS:
            raise InputError(
                f"--texture-gradient {self.gradient!r} is unknown; there are {', '.join(GRADIENTS)}"
            )
        if self.profile is not None:
            profile(self.profile)
        if self.json_file is not None:
            _check_file(self.json_file)

    @classmethod
    def parse(
        cls,
        case: str,
        *,
        size: str | None = None,
        texture_size: str | None = None,
        texture_gradient: str | None = None,
        form: str | None = None,
        mesh: str | None = None,
        device: str | None = None,
        target: str | None = None,
        **rest: Any,
    ) -> Request:
        """The options of the command line, None for what the case decides. Raises InputError."""
        if case not in PREDICTED:
            raise InputError(f"there is no case {case!r}; there are {', '.join(PREDICTED)}")
        usual = DEFAULTS[case]
        form = usual.form if form is None else form
        # With a hard target the mesh of a one-sided form would shrink.
        one_sided = form in SOFT_FORMS and SOFT_FORMS[form].one_sided
        for name in ("views", "steps", "batches"):
            if rest.get(name) is None:
                rest[name] = getattr(usual, name)
        return cls(
            case=case,
            sizes=tuple((n, n) for n in usual.sizes)
            if size is None
            else tuple(map(parse_size, _parts(size))),
            textures=usual.textures if texture_size is None else tuple(map(_texels, _parts(texture_size))),
            gradient=usual.gradient if texture_gradient is None else texture_gradient,
            models=tuple(load(name) for name in (usual.meshes if mesh is None else _parts(mesh))),
            form=form,
            device="all" if device is None and usual.all_devices else device,
            target=("soft" if one_sided else "hard") if target is None else target,
            **rest,
        )

    @property
    def peers(self) -> tuple[str, ...]:
        return () if self.peer is None else tuple(_parts(self.peer))

    @property
    def settings(self) -> dict[str, Any]:
        """Of HardSoftRas and the views: what results carry with them."""
        peels = {"peels": self.peels} if SOFT_FORMS[self.form].layered else {}
        settings = {"views": self.views, "form": self.form, **peels}
        return {**settings, "radius_px": self.radius_px, "target": self.target}


def check_model(case: str, predicted: str | None, device_model: str | None, measure: bool) -> None:
    """Whether the arguments of `bench` and `bench model` go together. Raises InputError."""
    if case == "model":
        if predicted is None:
            raise InputError(f"`bench model` needs a case; give one of {', '.join(PREDICTED)}")
        return
    if predicted is not None:
        raise InputError(
            f"`bench {case}` takes no second case {predicted!r}; `bench model {case}` predicts it"
        )
    if case not in CASES:
        raise InputError(
            f"there is no benchmark {case!r}; there are {', '.join(CASES)}, all, tables and model"
        )
    if device_model is not None or measure:
        option = "--device-model" if device_model is not None else "--measure or --against"
        raise InputError(f"{option} belongs to `bench model`; leave it out, or use `bench model {case}`")


def check_all(case: str, predicted: str | None, refused: dict[str, Any]) -> None:
    """Whether the arguments go together with `bench all` or `tables`. refused: values of options that it does not have,
    by name, None or False where they were not given. Raises InputError."""
    if predicted is not None:
        raise InputError(
            f"`bench {case}` takes no second case {predicted!r}; `bench {predicted}` measures it alone"
        )
    for name, value in refused.items():
        if value not in (None, False):
            option = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{option} does not belong to `bench {case}`, which writes into --out DIR; leave it out"
            )


def _check_file(path: Path) -> None:
    """A long run must not end in a file that cannot be written."""
    if path.is_dir():
        raise InputError(f"--json '{path}' is a folder; give the name of a file in it")
    if path.exists() and not path.is_file():
        raise InputError(f"--json '{path}' is not a regular file; give the name of one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--json '{path}' cannot be written ({error.strerror}); choose another place"
        ) from None


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _texels(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise InputError(f"--texture-size {text!r} is not a number of texels; give one like 256")
    return int(text)
