"""Which passes of the compiler run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

from ...errors import InputError
from .model.schedules import NO_SCHEDULES, Row, Schedules


@dataclass(frozen=True)
class PlanOptions:
    """Parts of the compiler that can be switched off, to compare and to measure. Results stay the same.

    The first group has one flag for each pass of ``dressi.vk.plan.compiler.PASSES``, by the name of the pass; the
    second concerns the plan as a whole.

    | field | what it does | without it |
    |-------|--------------|------------|
    | pack_functions | puts Functions that read each other at the same pixel into one shader | one Function a shader |
    | store_operands | stores the operands of values where they need fewer bytes (min-cut rematerialization) | values that are read are stored |
    | update_in_place | writes a new value into the image of the leaf that it replaces | updates are copied at the end of a step |
    | split_overflow | on tilers, splits work with more attachments than a subpass has into several subpasses | it becomes a dispatch |
    | fuse_horizontally | does work on a single texel inside of a larger dispatch | a pass for every counter |
    | compact_live_faces | draws only the faces that a mask leaves, from a list made on the device | all faces are drawn |
    | draw_scatters | draws the primitives under a scatter instead of visiting every pixel | scatters visit every pixel |
    | run_on_active_blocks | skips blocks of pixels where a raster hit nothing | every pixel is computed |
    | fuse_epilogues | lets a scatter do the work of the only reader of its table | the table becomes an image |
    | overlap_tiles | computes what one contraction reads of another once for each block of the reader, where that is faster than storing it | it is stored |
    | tile_products | has workgroups make matrix products and convolutions together, block after block of operands that they stage in shared memory, where that is faster | each invocation by itself |
    | fuse_contractions | lets contractions that do not wait for each other share a dispatch | one contraction a dispatch |
    | stage_operands | has workgroups stage what contractions read in shared memory, where that is faster | each invocation loads for itself |
    | choose_lowering | chooses between subpass and dispatch by the device's costs and limits | subpasses wherever possible |
    | pack_channels | puts values that are made and read together into the channels of one image | an image for every value |
    | copy_leaves_first | copies leaves that a step cannot overwrite while it reads them, when it begins | copies their new values at its end |
    | store_in_buffers | keeps what dispatches hand on in storage buffers where the device is faster with them | in images |
    | load_images | reads texels from storage images where the device is faster with them | from textures |
    | pack_stages | makes shaders subpasses of one render pass | one shader a render pass |
    | keep_what_pays | keeps what some passes made only where it is predicted to be faster (``compiler.JUDGED``) | it is kept in any case |
    | rematerialize | computes cheap values again where they are read | values that are read are stored |
    | cache_static | computes once what no step changes (reactive cache) | every step computes everything |
    | alias_images | lets values that do not live at the same time share an image | every value has its own image |
    | sample_in_hardware | reads textures with the device's sampler, where it is exact enough and faster | filters are computed from single texels |
    | tile_contractions | computes large convolutions, matrix products and their gradients by register tiles | one texel an invocation |
    | fuse_into_draws | computes values that follow from a raster in the fragments that draw it | at every pixel |
    | gather_at_lists | adds by lists of indices (corners of faces, edges) with inverse lists, which the host makes | they are scattered with atomics |
    | sum_by_faces | adds up the fragments of small faces by an invocation a face, where that is faster than atomics | each fragment adds by atomics |
    | adapt | makes another plan for leaves that are sent before every step | one plan |

    | narrow_intermediates | stores what passes hand to each other on pixels as 16-bit floats | 32-bit floats |

    | contract_operations | lets the driver fuse products and sums, where no test depends on the value | every operation is rounded by itself |

    | half_products | multiplies matrices by units for matrices, operands rounded to 16-bit floats, where the device has some and is faster so | 32-bit floats |

    | schedules | the rows (``dressi.schedules``) of some contractions by hand, by what they make: ``{y: rows}``, or as ``ad.plan.schedule`` has them | the planner chooses all |

    | search | seconds in which an engine measures other plans before it builds the first, and keeps the fastest | the plan as given |
    | memory | the most bytes of images and buffers that a plan takes; gradients of loops compute again what does not fit | loops store all that their gradients read |

    All flags but the last three are True by default. All False is the baseline, one Function a pass. ``search`` is 0.0, ``memory`` 0.

    ``narrow_intermediates``, ``contract_operations`` and ``half_products`` change results, and so does a sampler, within the tolerance of ``F.sample``; a gather may differ from a scatter
    in the last bit of a sum, and a sum by faces from one by atomics too, and a contraction by register tiles from one term by term in the last bits. Else packed plans
    have the bits of the baseline on CPU drivers. GPUs round sums and products the same in any shader, but quotients, roots and other
    functions to some units of the last place, and not alike beside other operations (``dressi doctor --gpu`` shows how often).
    ``contract_operations`` gives that up everywhere: a fused product and sum is rounded once instead of twice. Values that a
    comparison, a rounding, a raster or an index depends on are computed as before. ``narrow_intermediates``
    rounds images that passes hand to each other to 11 significant
    bits, 2**-11 of their largest value, and makes those beyond 65504 infinite. Leaves, outputs, optimizer state, lists,
    integers, sums and what is added up keep 32 bits. On CPU drivers it saves nothing: steps of the benchmarks take 0.98 to 1.03
    of the time, and gradients are off by up to 3e-4 of their norm. A device without images of 16-bit floats raises PlanError.

    ``half_products`` rounds the operands of matrix products, and of their gradients, to 11 significant bits, and makes those beyond
    65504 infinite; sums have 32 bits. It is used where the device has VK_KHR_cooperative_matrix with products of 16-bit floats
    that are added in 32 bits, and where that is predicted to be faster; elsewhere nothing changes.

    ``search``: the engine plans each program of a step with single flags switched, those that matter for speed and round no
    value differently (but for the last bits of sums), runs the plans that differ on copies of the leaves, and goes on from
    the fastest. Values, optimizer state and losses are as without a search. The choice is kept in the cache by the
    structure of the program, these options, the device and its driver: later engines and processes build its plan at once.
    The values of all leaves must be known when the plan is built. Programs that read beside the steps of an
    optimisation, for ``recv`` and ``evaluate``, use the options as given.

    ``memory``: of ``F.loop``s without ``checkpoints`` as few states are kept as the plan of a step then fits, see there. Where none
    fits, and for other programs of an engine that do not, PlanError says what is needed. A number below 0, and what is no number, raises InputError.

    >>> with DressiAD(options=PlanOptions(pack_stages=False)) as ad:
    ...     ad.evaluate(F.square(3.0)).item()
    9.0
    """

    pack_functions: bool = True
    store_operands: bool = True
    update_in_place: bool = True
    split_overflow: bool = True
    fuse_horizontally: bool = True
    compact_live_faces: bool = True
    draw_scatters: bool = True
    run_on_active_blocks: bool = True
    fuse_epilogues: bool = True
    overlap_tiles: bool = True
    tile_products: bool = True
    fuse_contractions: bool = True
    stage_operands: bool = True
    choose_lowering: bool = True
    pack_channels: bool = True
    copy_leaves_first: bool = True
    store_in_buffers: bool = True
    load_images: bool = True
    pack_stages: bool = True
    keep_what_pays: bool = True
    rematerialize: bool = True
    cache_static: bool = True
    alias_images: bool = True
    sample_in_hardware: bool = True
    gather_at_lists: bool = True
    tile_contractions: bool = True
    fuse_into_draws: bool = True
    sum_by_faces: bool = True
    adapt: bool = True
    narrow_intermediates: bool = False
    contract_operations: bool = False
    half_products: bool = False
    search: float = 0.0
    memory: int = 0
    schedules: Schedules | Mapping[Any, Sequence[Row]] = NO_SCHEDULES

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedules", Schedules.of(self.schedules))
        if not isinstance(self.search, Real) or isinstance(self.search, bool) or not self.search >= 0:
            raise InputError(
                f"search is {self.search!r}; give the seconds for the search of a plan, 0 for none"
            )
        if not isinstance(self.memory, int) or isinstance(self.memory, bool) or self.memory < 0:
            raise InputError(
                f"memory is {self.memory!r}; give the bytes that a plan may take, 0 for any number"
            )


FLAGS = tuple(field.name for field in fields(PlanOptions) if isinstance(field.default, bool))
"""The options that are on or off."""
DEFAULT = PlanOptions()
BASELINE = replace(DEFAULT, **dict.fromkeys(FLAGS, False))
