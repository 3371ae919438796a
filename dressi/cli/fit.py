"""`dressi fit`: shape and texture of an object from pictures."""

from pathlib import Path
from typing import Annotated

import typer

from dressi.cli.interrupt import imports
from dressi.errors import InputError


def fit(
    target: Annotated[
        Path | None, typer.Option(help="A mesh (.glb, .gltf, .obj, .ply) whose own pictures are the target.")
    ] = None,
    photos: Annotated[Path | None, typer.Option(help="A folder with photographs, masks and cameras.")] = None,
    masks: Annotated[
        str | None,
        typer.Option(
            help="Make masks for --photos: background:FILE_OR_FOLDER, threshold[:dark, bright, saturation or chroma],"
            " box, or rembg[:MODEL]; they are written into the folder 'masks' of the results."
        ),
    ] = None,
    depth: Annotated[
        bool,
        typer.Option(
            "--depth",
            help="The shape follows depth pictures, too: 16-bit PNG or .npy files in the folder 'depth' of --photos, named as"
            " the photographs; distances along the optical axis, 0 where unknown.",
        ),
    ] = False,
    depth_scale: Annotated[
        float | None,
        typer.Option(
            help="With --depth: codes in one unit of the scene. Default: what cameras.json says as depth_scale, or 1000."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="What to start from: hull, the visual hull of the masks, which has their parts and holes; sphere; or auto,"
            " the default: the hull, but the sphere where there are fewer than four views or the masks contradict each other."
        ),
    ] = None,
    init: Annotated[Path | None, typer.Option(help="A mesh to start from instead; its faces stay.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("out"),
    size: Annotated[
        str | None,
        typer.Option(help="Pixels of a picture, N or WxH. Default: 256; photographs at most 320 wide."),
    ] = None,
    views: Annotated[int, typer.Option(help="How many pictures are made of --target.")] = 6,
    steps: Annotated[
        int | None, typer.Option(help="Steps of both phases together; five sixths are for the shape.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    radius: Annotated[
        float | None, typer.Option(help="Largest radius of HardSoftRas, a fraction of the image height.")
    ] = None,
    form: Annotated[
        str, typer.Option(help="Of HardSoftRas: outer, or slower: contour, or face (the paper's).")
    ] = "outer",
    colours: Annotated[
        bool | None,
        typer.Option(
            "--colours/--no-colours",
            help="The shape follows colours, too, not only outlines. Default: as the outer form, which can; not with --refine-poses or --depth, nor for a --target whose material is recovered with --optimize.",
        ),
    ] = None,
    peels: Annotated[int, typer.Option(help="Layers that the face form of HardSoftRas peels.")] = 3,
    texture_size: Annotated[
        int | None,
        typer.Option(help="Texels along each side of the texture. Default: by the size, at most 1024."),
    ] = None,
    texture_gradient: Annotated[str, typer.Option(help="exact or inverse_uv.")] = "exact",
    target_samples: Annotated[
        int,
        typer.Option(
            help="Samples a pixel of the pictures of --target; 1 samples the centres of pixels alone."
        ),
    ] = 16,
    refine_poses: Annotated[
        bool,
        typer.Option(
            "--refine-poses",
            help="Learn the cameras' poses, too, of photographs that are learned from: for calibrations that are a little wrong.",
        ),
    ] = False,
    batch: Annotated[int, typer.Option(help="Views that each step learns from, at random; 0 for all.")] = 0,
    exposure: Annotated[
        bool, typer.Option("--exposure", help="Find a brightness for each picture along with the texture.")
    ] = False,
    optimize: Annotated[
        str | None,
        typer.Option(
            help="Also recover the material, after the shape, which then moves under the light where a --target is given: some of"
            " albedo, normal, roughness, metallic, emission, clearcoat, sheen, light, exposure, with commas between them; a name"
            " that there is not lists all."
        ),
    ] = None,
    light: Annotated[
        Path | None,
        typer.Option(
            help="With --optimize: the light of the pictures, an equirectangular .hdr or .exr file. A mesh given with --target is"
            " shown under it. Default: a studio for --target; even light, to be optimised, for --photos."
        ),
    ] = None,
    spread: Annotated[
        float, typer.Option(help="Lambda of large steps for the shape, such as 6; 0 for the plain Laplacian.")
    ] = 0.0,
    remesh: Annotated[
        bool | None,
        typer.Option(
            "--remesh/--no-remesh",
            help="Whether the faces follow the shape while it is optimised: edges are split, collapsed and flipped; by default not with --refine-poses. A mesh given with --init keeps its faces.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Vulkan device, by name or index; see `dressi devices`.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the last run was stopped.")] = False,
    preview: Annotated[
        bool,
        typer.Option("--preview", help="Write preview.png into the folder of the results as the fit goes."),
    ] = False,
    view: Annotated[
        bool,
        typer.Option(
            "--view",
            help="Watch and steer the fit in a window; closing it stops the fit, which --resume continues. It stays open at the end if the input is a terminal.",
        ),
    ] = False,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Print the plan of every round and do nothing else; works without a driver."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --plan: the counts, as JSON.")] = False,
    many: Annotated[
        Path | None,
        typer.Option(
            help="Fit many objects: a CSV file with a header; its columns are options of this command, and name. Each object gets"
            " its own folder in --out; options given here hold for all. --resume skips what is done."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="With --many: how many objects are fitted at once. Default: one on each GPU."),
    ] = None,
    ray: Annotated[
        bool,
        typer.Option("--ray", help="With --many: spread the objects over a ray cluster (RAY_ADDRESS)."),
    ] = False,
) -> int:
    """Recover shape and texture from pictures of a mesh, or from photographs."""
    with imports():
        from dressi.cli.fitting.request import Request
        from dressi.cli.fitting.run import run_fit

    request = Request(
        target=target, photos=photos, masks=masks, depth=depth, depth_scale=depth_scale, start=start, init=init, out=out, size=size, views=views, steps=steps, seed=seed,
        radius=radius, form=form, colours=colours, peels=peels, texture_size=texture_size, texture_gradient=texture_gradient, target_samples=target_samples, refine_poses=refine_poses, batch=batch, exposure=exposure, optimize=optimize, light=light,
        spread=spread, remesh=remesh, device=device,
        resume=resume, preview=preview, view=view, plan=plan, as_json=as_json,
    )  # fmt: skip
    if many is not None:
        with imports():
            from dressi.cli.many.command import run_many

        return run_many(many, request, workers, ray)
    if ray or workers is not None:
        raise InputError(
            f"--{'ray' if ray else 'workers'} is for a list of objects; give --many list.csv with it"
        )
    return run_fit(request)
