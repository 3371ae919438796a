"""The options of a fit: one table, from which its checks, the command line, lists of fits and documentation
follow."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ....errors import InputError
from ...drawing.draw import MOST_SAMPLES
from ...forms.form import known_form
from ...forms.hard_soft_ras import SOFT_FORMS
from ...surface.texturing import GRADIENTS
from ..data.dataset import TARGET_SAMPLES
from ..data.textures import LEAST_SIZE, LOSSES
from ..graphs.terms import Colours, Consistency, Depths, EdgeLength
from .option import check_rows, described, option, rows

STEPS = 720
"""Default number of steps: five sixths for the shape, the rest for the texture. From the hull of exact masks
the shape takes fewer."""

STARTS = ("auto", "stereo", "hull", "sphere")
PICTURES, SHAPE, TEXTURE, RUN = "Pictures", "Shape", "Texture and material", "Steps"
"""Headings of the table."""


@described
@dataclass(frozen=True)
class FitOptions:
    """All options that affect the result of a fit. A new one is a row here. Raises InputError.

    >>> from dressi.render.fit import FitOptions
    >>> FitOptions(size=(64, 64), steps=60).texels
    128
    """

    size: tuple[int, int] = option((256, 256), "Width and height of the pictures.", PICTURES, command=False)
    views: int = option(6, "How many pictures are made of --target.", PICTURES, least=1)
    target_samples: int = option(
        TARGET_SAMPLES,
        "Samples a pixel of the pictures of --target; 1 samples the centres of pixels alone.",
        PICTURES,
        least=1,
        most=MOST_SAMPLES,
    )
    lit: bool = option(
        False,
        "Whether pictures show a lit mesh whose material is recovered afterwards. Highlights move over a"
        " surface, and a shape that followed them would get dents: only outlines move it then, in the texture"
        " round too.",
        PICTURES,
        command=False,
    )
    steps: int = option(STEPS, "Steps of both phases together; five sixths are for the shape.", RUN, least=1)
    seed: int = option(0, "Of everything random.", RUN, least=0, most=(1 << 31) - 1)
    batch: int = option(0, "Views that each step learns from, at random; 0 for all.", RUN, least=0)
    start: str = option(
        "auto",
        "What to start from: hull, the visual hull of the masks, which has their parts and holes; stereo, the"
        " surface within it on which pictures agree, which has concavities too; sphere; or auto: stereo where"
        " enough photographs agree, else the hull, but the sphere where there are fewer than four views or"
        " the masks contradict each other.",
        SHAPE,
        choices=STARTS,
    )
    form: str = option(
        "outer",
        "Of HardSoftRas: outer, or slower: face (the paper's).",
        SHAPE,
        check=lambda name: known_form(name, SOFT_FORMS),
    )
    radius: float = option(
        0.1,
        "Largest radius of HardSoftRas, a fraction of the image height.",
        SHAPE,
        least=0,
        most=1,
        inside=True,
    )
    peels: int = option(3, "Layers that the face form of HardSoftRas peels.", SHAPE, least=1, most=8)
    colours: bool | None = option(
        None,
        "The shape follows colours, too, not only outlines: they show concavities that no outline shows."
        " Default: as the outer form, which can; with --refine-poses only once the poses are found; not with"
        " --depth, nor for a --target whose material is recovered with --optimize.",
        SHAPE,
        term=Colours,
    )
    depth: bool = option(
        False,
        "The shape follows depth pictures, too: 16-bit PNG or .npy files in the folder 'depth' of --photos,"
        " named as the photographs; distances along the optical axis, 0 where unknown.",
        SHAPE,
        term=Depths,
    )
    consistency: float = option(
        0.0,
        "Weight of the angles between neighbouring faces, such as 0.001: for shapes of flat parts and"
        " creases.",
        SHAPE,
        least=0,
        most=1e12,
        example=0.001,
        term=Consistency,
    )
    edge_length: float = option(
        0.0,
        "Weight of differences of the lengths of edges from their mean, such as 0.001: for even faces.",
        SHAPE,
        least=0,
        most=1e12,
        example=0.001,
        term=EdgeLength,
    )
    spread: float = option(
        0.0,
        "Lambda of large steps for the shape, such as 6; 0 for the plain Laplacian.",
        SHAPE,
        least=0,
        most=1e12,
        example=19,
    )
    remesh: bool | None = option(
        None,
        "Whether the faces follow the shape while it is optimised: edges are split, collapsed and flipped,"
        " and folds made anew; by default not with --refine-poses. A mesh given with --init keeps its faces.",
        SHAPE,
    )
    faces: int | None = option(
        None,
        "Most faces of the result, where they follow the shape. Default: 8192 for pictures of more than 128 rows;"
        " --fine: twice as many.",
        SHAPE,
        least=64,
        most=1 << 20,
        example=8192,
    )
    refine_poses: bool = option(
        False,
        "Learn the cameras' poses, too, of photographs that are learned from: for calibrations that are a"
        " little wrong.",
        SHAPE,
    )
    adjust_poses: bool | None = option(
        None,
        "Adjust the poses of photographs once, with the shape, by colours and outlines: for cameras that are off by"
        " a pixel or two. Default: for cameras that the fit has found.",
        SHAPE,
    )
    texture_size: int | None = option(
        None,
        "Texels along each side of the texture. Default: by the size, at most 1024; more for --photos, 1024"
        " for 320 columns.",
        TEXTURE,
        least=1,
        most=1 << 16,
        example=512,
    )
    texture_gradient: str = option("exact", "exact or inverse_uv.", TEXTURE, choices=GRADIENTS)
    loss: str = option(
        "l2",
        "What the texture is fitted by: l2, squared differences; l1; ssim, l1 and structural similarity; or"
        " slower: perceptual, features of a small network beside l2.",
        TEXTURE,
        choices=tuple(LOSSES),
    )
    exposure: bool | None = option(
        None,
        "Find a brightness and white balance for each picture along with the texture. Default: for"
        " photographs.",
        TEXTURE,
    )
    directional: bool | None = option(
        None,
        "Find how colours change with the direction from which they are seen along with the texture, which then is"
        " the mean of what is seen. Default: for eight photographs or more, without --optimize.",
        TEXTURE,
    )
    gloss: bool | None = option(
        None,
        "With colours by direction: the thing is glossy all over; find the light around it that it mirrors, too, and"
        " a shape whose normals fit. Default: where one light explains how colours change better than each point"
        " does; matt things lose half a decibel by it.",
        TEXTURE,
    )
    joint: bool = option(
        True,
        "Whether the texture round moves vertices too, by what texels show, with mip levels as constants; not"
        " where the shape is not to follow colours.",
        TEXTURE,
        command=False,
    )

    def __post_init__(self) -> None:
        width, height = self.size
        if width < 1 or height < 1:
            raise InputError(f"the size {width}x{height} is empty; give at least 1x1, such as --size 256")
        check_rows(self)
        if self.gloss and self.directional is False:
            raise InputError("--gloss is a part of colours by direction; leave out --no-directional")
        least = LEAST_SIZE[self.loss]
        if min(width, height) < least:
            raise InputError(
                f"--loss {self.loss} compares windows, and pictures of {width}x{height} have none;"
                f" give at least --size {least}"
            )
        if self.colours and not SOFT_FORMS[self.form].colours:
            able = " or ".join(name for name, form in SOFT_FORMS.items() if form.colours)
            raise InputError(
                f"colours are compared by the {able} form, not {self.form!r}; leave out --colours or --form"
            )

    @property
    def follows_colours(self) -> bool:
        """Whether the shape follows colours from the start. With wrong poses, colours of coarse pictures lock
        in a wrong shape: outlines alone found better poses. With depths, the steps of coarse pictures with
        colours are better spent on finer ones."""
        return self.ends_by_colours and (self.colours is True or not self.refine_poses)

    @property
    def ends_by_colours(self) -> bool:
        """Whether the shape follows colours once the poses are right."""
        if self.colours is not None:
            return self.colours
        return SOFT_FORMS[self.form].colours and not (self.depth or self.lit)

    @property
    def remeshes(self) -> bool:
        """Whether faces follow the shape."""
        return not self.refine_poses if self.remesh is None else self.remesh

    @property
    def texels(self) -> int:
        """Along each side of the texture: by default the power of two from two texels for each row of a
        picture up."""
        if self.texture_size is not None:
            return self.texture_size
        rows = min(max(2 * self.size[1], 64), 1024)
        return 2 ** (rows - 1).bit_length()

    @property
    def texture_steps(self) -> int:
        """Steps of the texture round."""
        return max(self.steps // 6, 1)

    def as_dict(self) -> dict[str, Any]:
        """What the result depends on: values by name, with what the automatic ones come to."""
        told = {"colours": self.follows_colours, "remesh": self.remeshes, "texture_size": self.texels}
        return {**asdict(self), "size": list(self.size), **told}


TERMS = {name: row.option.term for name, row in rows(FitOptions).items() if row.option.term is not None}
"""The terms of the shape phase that have an option, by its name."""
