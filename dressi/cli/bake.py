"""`dressi bake`: a light mesh with maps that show a fine one."""

from pathlib import Path
from typing import Annotated

import typer

from dressi.cli.core.interrupt import imports
from dressi.cli.view import mesh_of
from dressi.errors import InputError


def bake(
    path: Annotated[Path, typer.Argument(help="The fine mesh, or the folder of a fit.", metavar="MESH")],
    faces: Annotated[int, typer.Option(min=4, help="About how many faces the light mesh has.")] = 2000,
    out: Annotated[Path, typer.Option(help="The file to write, a .glb.")] = Path("light.glb"),
    texture_size: Annotated[
        int | None,
        typer.Option(min=8, max=16384, help="Texels along each side of its maps. Default: by the fine mesh."),
    ] = None,
    rays: Annotated[
        int, typer.Option(min=0, max=65536, help="Rays of the ambient occlusion; 0 bakes none.")
    ] = 64,
    levels: Annotated[
        int,
        typer.Option(
            min=1,
            max=8,
            help="How many levels of detail: each has a quarter of the faces of the one before and half the texels"
            " along each side, in a file of its own (light_lod1.glb, ...).",
        ),
    ] = 1,
    device: Annotated[
        str | None, typer.Option(help="Vulkan device, by name or index; see `dressi devices`.")
    ] = None,
) -> None:
    """Make a light mesh of a fine one: fewer faces, and its colours, normals and occlusion as maps."""
    if out.suffix.lower() != ".glb":
        raise InputError(f"'{out}' cannot hold maps of normals; give a name that ends in .glb")
    with imports():
        from dressi import Device, DressiAD
        from dressi.cli.core.sizes import check_size
        from dressi.render.drawing.detail import bake_maps, lighter, usual_texels
        from dressi.render.formats import load_mesh, save_mesh

    fine = load_mesh(mesh_of(path))
    texels = usual_texels(fine) if texture_size is None else texture_size
    with Device.open(device) as opened:
        check_size((1, 1), texels, opened.limits.max_image_dimension)
        for level in range(levels):
            side = max(texels >> level, 8)
            light = lighter(fine, max(faces >> 2 * level, 4), side)
            baked = bake_maps(fine, light, (side, side), lambda: DressiAD(opened), rays=rays)
            file = out if level == 0 else out.with_stem(f"{out.stem}_lod{level}")
            save_mesh(file, baked)
            print(f"{len(fine.faces)} faces as {len(light.faces)} with maps of {side}x{side}: '{file}'")
