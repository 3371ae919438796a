"""What a fit can be asked for, and the rounds it goes through."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ...errors import InputError
from ..forms.hard_soft_ras import SOFT_FORMS
from ..surface.texturing import GRADIENTS

STEPS = 720
"""Steps of a fit that is not told how many: five sixths for the shape."""

BETAS = (0.9, 0.99)
"""Of Adam, in every phase."""
HASTE = 16.0
"""Learning rates of large steps over those of Adam: they say how far the fastest vertex moves before the move is
spread, and of details that leaves a small part."""
EASED = 0.1
"""How much of the Laplacian's weight is left where large steps keep the shape smooth."""
COLOUR, SPREAD = 1.0, 9.0
"""Of the rounds that compare colours, too: their weight beside the silhouettes, and the lambda of large steps."""


@dataclass(frozen=True)
class FitRound:
    """Part of the shape phase, on one topology and one size of images; pairs go from the first to the last step."""

    subdivisions: int
    """How often the start mesh is subdivided."""
    pixels: int
    """Roughly how many rows the images have; never more than the fit's size."""
    steps: int
    radius: tuple[float, float]
    """Of HardSoftRas, in image heights; the outer form's stays at three pixels where that is more."""
    rate: tuple[float, float]
    """Learning rate of Adam, in units of the scene's radius."""
    smoothness: float
    """Weight of the Laplacian."""
    spread: float = 0.0
    """The lambda of large steps; 0: gradients averaged with those of neighbours, and Adam."""
    colour: float = 0.0
    """Weight of the colours of vertices; 0 is without."""
    turn: tuple[float, float] = (0.0, 0.0)
    """Learning rate of the poses' turns, in radians; 0: cameras do not turn."""
    shift: tuple[float, float] = (0.0, 0.0)
    """Of their shifts, in radii of the scene."""
    opens: bool = False
    """Whether holes that pictures see through, and the mesh closes, are opened at its end."""


@dataclass(frozen=True)
class FitOptions:
    """Everything that changes the numbers of a fit; raises InputError."""

    size: tuple[int, int] = (256, 256)
    views: int = 6
    steps: int = STEPS
    seed: int = 0
    radius: float = 0.1
    """Largest radius of HardSoftRas, a fraction of the image height."""
    form: str = "outer"
    """Of HardSoftRas: "outer", several times faster and on larger images, the paper's "face", or "silhouette"."""
    colours: bool | None = None
    """Whether the shape follows the pictures' colours, too, which show what no outline does; the outer form can, and
    does if not told, but where poses are refined."""
    peels: int = 3
    """Of the face form."""
    texture_size: int = 0
    """Texels along each side; 0: three or more for each row of a picture, at most 1024."""
    texture_gradient: str = "exact"
    spread: float = 0.0
    """Above 0 shapes move by large steps with this lambda, such as 19, and a weaker Laplacian."""
    refine_poses: bool = False
    """Whether the cameras' poses are learned along with the shape, for calibrations that are a little wrong."""
    batch: int = 0
    """How many views each step learns from, at random; 0: all of them."""
    exposure: bool = False
    """Whether each picture has a brightness of its own, found with the texture; for photographs that differ."""

    def __post_init__(self) -> None:
        width, height = self.size
        if width < 1 or height < 1:
            raise InputError(f"the size {width}x{height} is empty; give at least 1x1, such as --size 256")
        if self.views < 1:
            raise InputError(f"{self.views} views cannot be fitted; give --views of at least 1")
        if self.steps < 1:
            raise InputError(f"{self.steps} steps fit nothing; give --steps of at least 1")
        if not 0 <= self.seed < 1 << 31:
            raise InputError(
                f"the seed is a whole number from 0 to 2147483647, not {self.seed}; try --seed 0"
            )
        if not 0 < self.radius < 1:
            raise InputError(
                f"the radius is a fraction of the image height inside (0, 1), not {self.radius}; try --radius 0.1"
            )
        if not 0 <= self.spread < 1e12:
            raise InputError(f"the spread of large steps is 0 or more, such as 19, not {self.spread}")
        if self.batch < 0:
            raise InputError(f"a batch of views is 0, for all, or more, not {self.batch}")
        if self.form not in SOFT_FORMS:
            raise InputError(f"the form is one of {', '.join(SOFT_FORMS)}, not {self.form!r}")
        if self.colours is None:
            # Colours in coarse pictures settle on a shape for poses that are still wrong: outlines alone found better ones.
            object.__setattr__(self, "colours", SOFT_FORMS[self.form].colours and not self.refine_poses)
        if self.colours and not SOFT_FORMS[self.form].colours:
            able = " or ".join(name for name, form in SOFT_FORMS.items() if form.colours)
            raise InputError(
                f"colours are compared by the {able} form, not {self.form!r}; leave out --colours or --form"
            )
        if not 1 <= self.peels <= 8:
            raise InputError(f"HardSoftRas peels 1 to 8 layers, not {self.peels}; try --peels 3")
        if self.texture_size == 0:
            rows = min(max(3 * height, 64), 1024)
            object.__setattr__(self, "texture_size", 2 ** (rows - 1).bit_length())
        if self.texture_size < 1:
            raise InputError(f"a texture of {self.texture_size} texels cannot be; try --texture-size 512")
        if self.texture_gradient not in GRADIENTS:
            raise InputError(
                f"the texture gradient is one of {', '.join(GRADIENTS)}, not {self.texture_gradient!r}"
            )

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "size": list(self.size)}

    @property
    def texture_steps(self) -> int:
        return max(self.steps // 6, 1)

    def rounds(self, exact: bool = False) -> list[FitRound]:
        """The shape phase from coarse to fine, the radius from far to near.

        exact: whether the masks are, as those of pictures drawn of a mesh, and not those of photographs. Then outlines
        have the last word, else colours.
        """
        steps = max(self.steps - self.texture_steps, 1)
        parts = (0.35, 0.35)
        if self.colours:
            parts = (0.2, 0.15, 0.15, 0.1, 0.06, 0.04) if exact else (0.2, 0.13, 0.25, 0.17, 0.1, 0.07)
        share = [int(steps * part) for part in parts]
        share.append(steps - sum(share))
        plans = (
            self._fine_rounds(share, exact)
            if SOFT_FORMS[self.form].full_resolution
            else self._coarse_rounds(share)
        )
        if self.spread:
            plans = [plan if plan.spread else self._large(plan) for plan in plans]
        if self.refine_poses:
            plans = _moving(plans)
        return [plan for plan in plans if plan.steps > 0]

    def _large(self, plan: FitRound) -> FitRound:
        """The round by large steps."""
        rate = (HASTE * plan.rate[0], HASTE * plan.rate[1])
        return replace(plan, spread=self.spread, smoothness=plan.smoothness * EASED, rate=rate)

    def _fine_rounds(self, share: list[int], exact: bool) -> list[FitRound]:
        """Outlines on twice the rows of the round before, with a radius that goes on where that one ended.

        The Laplacian is strong where the radius is large, for a start without folds, and weak at the end, for details.
        Faces get smaller only where pixels do.
        """
        radii = [self.radius * part for part in (1, 0.4, 0.2, 0.12)]
        # All steps together go about one radius of the scene: faster ones push the sides of thin parts through
        # each other, which leaves those inside out.
        far = min(0.02, 1.35 / max(share[0], 1))
        finer = [3 + sum(rows < min(self.size[1], pixels) for rows in (64, 128)) for pixels in (64, 128, 256)]
        rounds = [
            FitRound(finer[0], 64, share[0], (radii[0], radii[1]), (far, far / 2), 4e-5),
            FitRound(finer[1], 128, share[1], (radii[1], radii[2]), (0.008, 0.004), 2e-5, opens=True),
        ]
        if not self.colours:
            return [*rounds, FitRound(finer[2], 256, share[2], (radii[2], radii[3]), (0.004, 0.0005), 1e-5)]
        # Colours pull from a few pixels away only, so they begin in pictures so small that a few pixels are far. By large
        # steps, for what few pixels show, or none, must not go as far as what many agree about: it would fold over.
        near, slow = (radii[2], radii[3]), (0.003, 0.0005)
        last = FitRound(finer[2], 256, share[6], near, slow, 1e-6)
        return [
            *rounds,
            FitRound(finer[1], 24, share[2], near, (0.03, 0.015), 1e-6, SPREAD, COLOUR),
            FitRound(finer[1], 40, share[3], near, (0.02, 0.01), 1e-6, SPREAD, COLOUR),
            FitRound(finer[1], 64, share[4], near, (0.01, 0.005), 1e-6, SPREAD, COLOUR),
            FitRound(finer[2], 128, share[5], near, (0.005, 0.003), 1e-6, SPREAD, COLOUR),
            last if exact else replace(last, spread=SPREAD, colour=COLOUR),
        ]

    def _coarse_rounds(self, share: list[int]) -> list[FitRound]:
        r = self.radius
        # A quarter, three eighths and half of the rows: targets know where the outline lies between the pixels.
        low, middle, high = (
            max(least, self.size[1] * part // 8) for least, part in ((64, 2), (96, 3), (128, 4))
        )
        return [
            FitRound(3, low, share[0], (r, max(r / 3, 2 / low)), (0.02, 0.01), 2e-5),
            FitRound(
                4, middle, share[1], (max(r / 3, 2 / low), 2 / middle), (0.008, 0.004), 2e-5, opens=True
            ),
            FitRound(4, high, share[2], (2 / middle, 1.5 / high), (0.004, 0.0005), 2e-5),
        ]


TURNS = ((0.32, 0.16), (0.12, 0.04), (0.05, 0.01))
SHIFTS = ((0.8, 0.3), (0.24, 0.06), (0.05, 0.01))
"""Of poses that are refined: learning rates at the start and end of a round that moves them, times its steps; those after
the third as the third."""


def _moving(plans: list[FitRound]) -> list[FitRound]:
    """Cameras go as far as a badly calibrated one needs, and slower from round to round: where outlines say little, Adam
    would follow what is left of the shape's own errors. Pictures coarser than those before would only blur poses."""
    moved, finest = [], 0
    for plan in plans:
        if plan.pixels >= finest:
            number = min(sum(other.turn[0] > 0 for other in moved), len(TURNS) - 1)
            steps = max(plan.steps, 100)
            turn, shift = ((a / steps, b / steps) for a, b in (TURNS[number], SHIFTS[number]))
            plan, finest = replace(plan, turn=turn, shift=shift), plan.pixels
        moved.append(plan)
    return moved
