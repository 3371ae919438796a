"""Which passes of the compiler run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

from ....errors import InputError
from ..model.schedules import NO_SCHEDULES, Row, Schedules


@dataclass(frozen=True)
class PlanOptions:
    """How a plan is made. Values are the same by all options, but for the three that say otherwise.

    True by default:

    pack_functions: put Functions that read each other at the same pixel into one shader. Without it each
        Function is a shader of its own, and no pass that follows runs: the baseline.
    rematerialize: compute cheap values again where they are read, and store operands that need fewer bytes
        than what is made of them (min-cut). Without it values that are read are stored.
    pack_stages: make shaders subpasses of one render pass. Without it each is a render pass.
    cache_static: compute once what no step changes (reactive cache). Without it every step computes all.
    adapt: make another plan for leaves that are sent before every step. Without it there is one plan.
    keep_what_pays: keep what some passes made only where it is predicted to be faster (``compiler.JUDGED``).
        Without it all is kept.
    gather_at_lists: add by lists of indices (corners of faces, edges) with inverse lists, which the host
        makes. Without it they are scattered with atomics.
    tile_contractions: compute large convolutions, matrix products and their gradients by register tiles.
        Without it an invocation computes one texel.

    False by default; these change values:

    narrow_intermediates: store what passes hand to each other on pixels as 16-bit floats: rounded to 11
        significant bits, 2**-11 of their largest value, and infinite beyond 65504. Leaves, outputs, optimizer
        state, lists, integers, sums and what is added up keep 32 bits. On CPU drivers it saves nothing: steps
        of the benchmarks take 0.98 to 1.03 of the time, and gradients are off by up to 3e-4 of their norm. A
        device without images of 16-bit floats raises PlanError.
    contract_operations: let the driver fuse products and sums, which are then rounded once instead of twice.
        Values that a comparison, a rounding, a raster or an index depends on are computed as before.
    half_products: multiply matrices, and their gradients, by the device's units for matrices where that is
        predicted to be faster. Operands are rounded to 11 significant bits and infinite beyond 65504; sums
        have 32 bits. It needs VK_KHR_cooperative_matrix with products of 16-bit floats that are added in 32
        bits; elsewhere nothing changes.

    Others:

    search: seconds in which an engine measures other plans before it builds the first, and keeps the fastest;
        0.0 for the plan as given. The engine plans each program of a step with single passes switched, those
        that matter for speed and round no value differently (but for the last bits of sums), runs the plans
        that differ on copies of the leaves, and goes on from the fastest. Values, optimizer state and losses
        are as without a search. The choice is kept in the cache by the structure of the program, these
        options, the device and its driver: later engines and processes build its plan at once. The values of
        all leaves must be known when the plan is built. Programs that read beside the steps of an
        optimisation, for ``recv`` and ``evaluate``, use the options as given.
    memory: the most bytes of images and buffers that a plan takes, 0 for any number. ``F.loop``s without
        ``checkpoints`` keep as few states as the plan of a step then fits, and compute the others again.
        Where none fits, and for other programs of an engine that do not, PlanError says what is needed.
    schedules: rows (``dressi.schedules``) of some contractions by hand, by what they make: ``{y: rows}``, or
        as ``ad.plan.schedule`` has them. The planner chooses all others.
    without: names of passes and lowerings that are left out (``compiler.OPTIONAL``).

    A ``search`` or ``memory`` below 0 or that is no number raises InputError, and so does an unknown name in
    ``without`` when a plan is built.

    Packed plans have the bits of ``BASELINE``, which has all flags False, on CPU drivers, with these
    exceptions: a sampler is exact within the tolerance of ``F.sample``, and gathers, register tiles and sums
    by faces may round the last bits of a sum otherwise. GPUs round sums and products the same in any shader,
    but quotients, roots and other functions to some units of the last place, and not alike beside other
    operations (``dressi doctor --gpu`` shows how often).

    >>> with DressiAD(options=PlanOptions(pack_stages=False)) as ad:
    ...     ad.evaluate(F.square(3.0)).item()
    9.0
    """

    pack_functions: bool = True
    rematerialize: bool = True
    pack_stages: bool = True
    cache_static: bool = True
    adapt: bool = True
    keep_what_pays: bool = True
    gather_at_lists: bool = True
    tile_contractions: bool = True
    narrow_intermediates: bool = False
    contract_operations: bool = False
    half_products: bool = False
    search: float = 0.0
    memory: int = 0
    schedules: Schedules | Mapping[Any, Sequence[Row]] = NO_SCHEDULES
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedules", Schedules.of(self.schedules))
        object.__setattr__(self, "without", tuple(sorted({*self.without})))
        if not isinstance(self.search, Real) or isinstance(self.search, bool) or not self.search >= 0:
            raise InputError(
                f"search is {self.search!r}; give the seconds for the search of a plan, 0 for none"
            )
        if not isinstance(self.memory, int) or isinstance(self.memory, bool) or self.memory < 0:
            raise InputError(
                f"memory is {self.memory!r}; give the bytes that a plan may take, 0 for any number"
            )

    def runs(self, name: str) -> bool:
        """Whether a pass or lowering of that name runs."""
        return name not in self.without and getattr(self, name, self.pack_functions)

    def switched(self, name: str) -> PlanOptions:
        """These options with a flag, or a pass without a flag, the other way round."""
        if name in FLAGS:
            return replace(self, **{name: not getattr(self, name)})
        return replace(self, without=tuple({*self.without} ^ {name}))


FLAGS = tuple(field.name for field in fields(PlanOptions) if isinstance(field.default, bool))
"""The options that are on or off."""
DEFAULT = PlanOptions()
BASELINE = replace(DEFAULT, **dict.fromkeys(FLAGS, False))
