"""What a plan must respect, as plain data: read from a device, taken from a named profile, or given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ....ad.graph import Domain, Variable
from ....ad.graph.types import VType
from ....errors import InputError, PlanError
from ..model.schedules import NO_MATRIX, MatrixShape
from .substage import GROUP

if TYPE_CHECKING:
    from .substage import SubStage

UNLIMITED = 1 << 20
PORTABILITY = "VK_KHR_portability_subset"
"""The extension by which implementations on top of another interface, MoltenVK on Metal, make themselves
known."""
LARGEST_WORKGROUP = 256
"""Invocations of a workgroup that combines their results in shared memory; devices have at least 128."""

_FEWER_IMAGES = (
    "split it into Functions that read and write fewer images (a MAT3 or MAT4 takes an image for each column)"
)
_ANOTHER_DEVICE = "choose another device or larger limits"
_IMAGES = ("sampled_images", "storage_images", "input_attachments", "per_stage_resources")


@dataclass(frozen=True)
class Limit:
    """One row of the table of limits, which everyone reads who asks a driver, compares devices or checks a
    plan.

    reported: where a driver reports it: members of VkPhysicalDeviceLimits, of which the smallest counts, or a
    function of the answers of a driver (``run.device.capabilities.Driver``); empty where none does.
    minimum: what Vulkan guarantees.  needed: the least that plans need.  most: more than that is not made use
    of.  tighter: the stricter of the values of two devices.
    words, cure: how an error names what is counted, and what to do about it.
    """

    reported: str | Callable[[Any], Any]
    minimum: Any
    needed: int = 0
    most: int = UNLIMITED
    tighter: Callable[[Any, Any], Any] = min
    words: str = ""
    cure: str = _FEWER_IMAGES

    def read(self, driver: Any) -> Any:
        """What the driver of a device reports."""
        if callable(self.reported):
            return self.reported(driver)
        return min(*(int(getattr(driver.limits, member)) for member in self.reported.split()), self.most)


def _limit(default: Any, reported: str | Callable[[Any], Any] = "", minimum: Any = None, **row: Any) -> Any:
    """A field of DeviceLimits with its row. minimum: that of the default if absent."""
    minimum = default if minimum is None else minimum
    return field(default=default, metadata={"row": Limit(reported, minimum, **row)})


@dataclass(frozen=True)
class DeviceLimits:
    """Limits of a device, by the names of Vulkan's. ``violation`` says in a sentence what does not fit.

    A new limit is one field here, and its count under the same name in ``resources`` of ``core/substage``. Where
    packing should keep within it, ``passes/pack`` counts it for a group that grows.
    """

    max_image_dimension: int = _limit(16384, "maxImageDimension2D", 4096, needed=4096)
    max_framebuffer_width: int = _limit(16384, "maxFramebufferWidth", 4096)
    max_framebuffer_height: int = _limit(16384, "maxFramebufferHeight", 4096)
    max_color_attachments: int = _limit(8, "maxColorAttachments maxFragmentOutputAttachments", 4)
    max_input_attachments: int = _limit(
        UNLIMITED, "maxPerStageDescriptorInputAttachments maxDescriptorSetInputAttachments", 4
    )
    max_sampled_images: int = _limit(
        UNLIMITED,
        "maxPerStageDescriptorSampledImages maxDescriptorSetSampledImages maxPerStageResources",
        16,
    )
    max_storage_images: int = _limit(
        UNLIMITED, "maxPerStageDescriptorStorageImages maxDescriptorSetStorageImages", 4
    )
    max_storage_buffers: int = _limit(
        8,
        "maxPerStageDescriptorStorageBuffers maxDescriptorSetStorageBuffers",
        4,
        needed=3,
        cure=_ANOTHER_DEVICE,
    )
    max_per_stage_resources: int = _limit(UNLIMITED, "maxPerStageResources", 128)
    max_fragment_combined_output_resources: int = _limit(UNLIMITED, "maxFragmentCombinedOutputResources", 4)
    """Attachments, storage images and storage buffers that one fragment shader writes."""
    max_workgroup_invocations: int = _limit(
        128,
        lambda d: min(d.limits.maxComputeWorkGroupInvocations, d.limits.maxComputeWorkGroupSize[0]),
        needed=GROUP,
        cure=_ANOTHER_DEVICE,
    )
    max_workgroup_count: int = _limit(
        65535, lambda d: min(d.limits.maxComputeWorkGroupCount[k] for k in (0, 1))
    )
    max_shared_bytes: int = _limit(
        1 << 14,
        "maxComputeSharedMemorySize",
        most=1 << 14,
        words="bytes of shared memory",
        cure="make smaller blocks in a workgroup",
    )
    """Of memory that the invocations of a workgroup share. Blocks of more than 16 KiB are not planned."""
    max_storage_buffer_bytes: int = _limit(1 << 27, "maxStorageBufferRange", most=1 << 32)
    max_loop_iterations: int = _limit(65535, cure="work on a smaller image, or axis by axis")
    """Of all loops of an invocation together: lavapipe ends them there in silence, whatever their conditions
    say."""
    max_draw_indirect_count: int = _limit(
        UNLIMITED,
        lambda d: min(d.limits.maxDrawIndirectCount, UNLIMITED) if "multiDrawIndirect" in d.features else 1,
        1,
    )
    """Draws of one indirect call; 1 without the feature multiDrawIndirect."""
    fragment_atomics: bool = _limit(True, lambda d: "fragmentStoresAndAtomics" in d.features)
    int64_atomics: bool = _limit(
        True, lambda d: {"shaderInt64", "shaderBufferInt64Atomics"} <= d.features, False
    )
    """Of storage buffers."""
    lazy_images: bool = _limit(False, lambda d: d.lazy_memory, tighter=max)
    """Attachments that never leave their render pass need no memory. A profile can impose that on any device."""
    half_images: bool = _limit(True, lambda d: d.half_images, False)
    """Images of 16-bit floats can be used for all that those of 32 bits can."""
    filtered_images: bool = _limit(True, lambda d: d.offers("SAMPLED_IMAGE_FILTER_LINEAR"), False)
    """Samplers filter images of 32-bit floats."""
    float_blending: bool = _limit(True, lambda d: d.offers("COLOR_ATTACHMENT_BLEND"), False)
    """Draws add to attachments of 32-bit floats."""
    sub_texel_precision_bits: int = _limit(23, "subTexelPrecisionBits", 4)
    """A sampler tells 2 to the power of so many places between two texels apart; those of most GPUs 256, of 8
    bits."""
    subgroup: int = _limit(1, lambda d: d.subgroup)
    """Invocations of a compute shader that can take values from each other (``subgroupShuffle``); 1: none."""
    dispatch_base: bool = _limit(True, lambda d: not d.is_lavapipe)
    """Whether dispatches can begin at any workgroup. Indirect ones cannot: shaders of work behind a gate add
    the first workgroup to their own, a push constant. An indirect dispatch of lavapipe begins where the
    dispatch before it began."""
    pair_images: bool = _limit(True, lambda d: PORTABILITY not in d.extensions)
    """Whether a shader can read and write the same storage image of two components. Metal cannot: there
    values of two components take images of four."""
    matrix: MatrixShape = _limit(NO_MATRIX, lambda d: d.matrix)  # noqa: RUF009
    """Products of matrices by subgroups, used with ``PlanOptions.half_products``."""

    @classmethod
    def read(cls, driver: Any) -> DeviceLimits:
        """The limits that a driver reports (``run.device.capabilities.Driver``)."""
        return cls(**{name: row.read(driver) for name, row in LIMITS.items() if row.reported})

    def violation(self, sub_stage: SubStage) -> str | None:
        """The sentence an error prints when the SubStage exceeds a limit, None when it fits in some shape."""
        sentence = None
        for shape in sub_stage.shapes:
            sentence = self.violation_of(shape.descriptors)
            if sentence is None:
                return self.violation_of({"loop_iterations": sub_stage.iterations})
        return sentence

    @cached_property
    def _allowed(self) -> dict[str, int]:
        return {name.removeprefix("max_"): getattr(self, name) for name in LIMITS}

    @cached_property
    def _tilings(self) -> dict[Domain, Tiling]:
        return {}

    @cached_property
    def images_in_any_case(self) -> int:
        """So many images a subpass may read and write, whatever the bindings are, unless there are too many
        attachments."""
        return min(self._allowed[name] for name in (*_IMAGES, "fragment_combined_output_resources"))

    def violation_of(self, used: Mapping[str, int]) -> str | None:
        """The same of what is used, by the names of limits without ``max_``."""
        for name, count in used.items():
            allowed = self._allowed[name]
            if count > allowed:
                row = LIMITS[f"max_{name}"]
                words = row.words or name.replace("_", " ")
                return f"it needs {count} {words}, the device allows {allowed}; {row.cure}"
        return None

    def times(self, factor: int) -> DeviceLimits:
        """So many times as many images in a shader, all else the same."""
        return replace(self, **{f"max_{n}": factor * getattr(self, f"max_{n}") for n in _IMAGES})

    def workgroup(self, most: int = LARGEST_WORKGROUP) -> int:
        """Invocations of a workgroup that combines their results: the largest power of two up to ``most``."""
        return 1 << (min(most, LARGEST_WORKGROUP, self.max_workgroup_invocations).bit_length() - 1)

    @property
    def bilinear_error(self) -> float:
        """How far a filtered read by the sampler may be off, relative to the range of the texels: a place
        between two texels is off by up to one step, along both axes."""
        return 2.0 * 2.0**-self.sub_texel_precision_bits

    def channels(self, vtype: VType) -> int:
        """Components of the images that hold the planes of a type: 1, 2 or 4."""
        pair = 2 if self.pair_images else 4
        return {1: 1, 2: pair, 3: 4, 4: 4}[vtype.planes[0]]

    def bytes_of(self, v: Variable) -> int:
        """Bytes of the images that hold a Variable in 32 bits."""
        return 4 * self.channels(v.vtype) * len(v.vtype.planes) * self.tiling(v).texels

    def tiling(self, variable_or_domain: Variable | Domain) -> Tiling:
        """How the tiles of a batch lie in one image. Raises PlanError when they do not fit."""
        v = variable_or_domain
        domain = v.domain if isinstance(v, Variable) else v
        if domain not in self._tilings:
            self._tilings[domain] = self._tiled(domain)
        return self._tilings[domain]

    def _tiled(self, domain: Domain) -> Tiling:
        (width, height), batch, _ = domain
        high = min(self.max_image_dimension, self.max_framebuffer_height)
        wide = min(self.max_image_dimension, self.max_framebuffer_width)
        rows = min(batch, max(high // height, 1))
        columns = -(-batch // rows)
        if height > high or width * columns > wide:
            raise PlanError(
                f"an image of {domain} does not fit the device's limit of {wide}x{high} texels; "
                f"use a smaller size or fewer views"
            )
        return Tiling(domain.size, batch, rows, columns)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


LIMITS: dict[str, Limit] = {f.name: f.metadata["row"] for f in fields(DeviceLimits)}


@dataclass(frozen=True)
class Tiling:
    """Tiles of one size in columns of ``rows`` tiles: tile t lies at column t // rows, row t % rows."""

    size: tuple[int, int]
    batch: int
    rows: int
    columns: int

    @property
    def width(self) -> int:
        return self.size[0] * self.columns

    @property
    def height(self) -> int:
        return self.size[1] * self.rows

    @property
    def texels(self) -> int:
        """Texels of the image, all tiles together."""
        return self.width * self.height

    def offset(self, tile: int) -> tuple[int, int]:
        return (tile // self.rows) * self.size[0], (tile % self.rows) * self.size[1]


# The first three are what the paper compares: the attachments of a desktop, a laptop and a telephone.
# "minimum" is what Vulkan guarantees. The others are what drivers report: NVIDIA's for Turing and later,
# Mesa's for Raspberry Pi 4 (V3DV) and for CPUs (lavapipe 22.3), Google's for CPUs (SwiftShader).
_MINIMUM = DeviceLimits(**{name: row.minimum for name, row in LIMITS.items()})
PROFILES: dict[str, DeviceLimits] = {
    "desktop": DeviceLimits(sub_texel_precision_bits=8),
    "uhd620": DeviceLimits(max_input_attachments=8, sub_texel_precision_bits=8),
    "mali_g76": DeviceLimits(
        max_input_attachments=4,
        max_color_attachments=4,
        int64_atomics=False,
        lazy_images=True,
        filtered_images=False,
        float_blending=False,
        sub_texel_precision_bits=8,
    ),
    "minimum": _MINIMUM,
    "turing": DeviceLimits(
        max_image_dimension=32768,
        max_framebuffer_width=32768,
        max_framebuffer_height=32768,
        max_workgroup_invocations=1024,
        max_storage_buffers=UNLIMITED,
        max_fragment_combined_output_resources=16,
        max_storage_buffer_bytes=(1 << 32) - 1,
        sub_texel_precision_bits=8,
    ),
    "raspberry_pi4": replace(
        _MINIMUM,
        max_storage_buffers=8,
        max_fragment_combined_output_resources=16,
        max_workgroup_invocations=256,
    ),
    "lavapipe": DeviceLimits(
        max_input_attachments=8,
        max_sampled_images=128,
        max_storage_images=56,  # 64 with the input attachments, whatever lavapipe says
        max_storage_buffers=32,
        max_per_stage_resources=128,
        max_fragment_combined_output_resources=104,
        max_workgroup_invocations=1024,
        subgroup=8,
        sub_texel_precision_bits=8,
    ),
    "swiftshader": DeviceLimits(
        max_framebuffer_width=8192,
        max_framebuffer_height=8192,
        max_input_attachments=8,
        max_sampled_images=200,
        max_storage_images=16,
        max_storage_buffers=30,
        max_per_stage_resources=200,
        max_fragment_combined_output_resources=28,
        max_workgroup_invocations=256,
        max_storage_buffer_bytes=1 << 30,
        int64_atomics=False,
    ),
}


UNBOUNDED = DeviceLimits()


def profile(name: str) -> DeviceLimits:
    """Limits by name, one of PROFILES. Raises InputError."""
    if name not in PROFILES:
        raise InputError(f"no limits profile named {name!r}; there are {', '.join(PROFILES)}")
    return PROFILES[name]


def most_restrictive(a: DeviceLimits, b: DeviceLimits) -> DeviceLimits:
    """The stricter of each limit: a profile imposed on a device. Images are lazy where either has them so."""
    return DeviceLimits(
        **{name: row.tighter(getattr(a, name), getattr(b, name)) for name, row in LIMITS.items()}
    )
