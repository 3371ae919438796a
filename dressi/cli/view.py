"""`dressi view`: a mesh, or the result of a fit, in a window."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dressi.cli.core.interrupt import imports
from dressi.errors import InputError


def view(
    path: Annotated[
        Path, typer.Argument(help="A mesh, as for `dressi fit --target`, or the folder of a fit.")
    ],
    against: Annotated[
        Path | None,
        typer.Option(help="Another one, shown beyond a line that is moved, from the same camera."),
    ] = None,
    size: Annotated[str, typer.Option(help="Pixels of the window, N or WxH.")] = "1000x720",
    backend: Annotated[str, typer.Option(help="glfw, qt, or offscreen, which nobody sees.")] = "glfw",
    device: Annotated[
        str | None, typer.Option(help="Vulkan device, by name or index; see `dressi devices`.")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Write the first picture to this file (.png, .jpg, ...), and close the window."),
    ] = None,
    clip: Annotated[
        str | None, typer.Option(help="The animation that is played first, by name; default: the first.")
    ] = None,
    at: Annotated[
        float | None, typer.Option(help="Seconds of the animation at which it begins, paused.")
    ] = None,
    directional: Annotated[
        bool,
        typer.Option(help="How colours change with the direction of the view, which a fit has found."),
    ] = True,
) -> None:
    """Show a mesh or a scene in a window: turn it with the mouse, 1 to 4 choose what is shown, space pauses an
    animation, q closes."""
    with imports():
        import numpy as np

        from dressi import Device, DressiAD
        from dressi.cli.core.sizes import parse_size
        from dressi.render.fit import DirectionalColour
        from dressi.render.formats import load_scene
        from dressi.render.io import save_image
        from dressi.render.io.images import image_format
        from dressi.viewer import MeshSession, OffscreenPresenter, Viewer, open_canvas

    window = parse_size(size)
    if picture is not None:
        image_format(picture)
        backend = "offscreen"
    files = [mesh_of(one) for one in (path, against) if one is not None]
    scene, *others = shown = [load_scene(file) for file in files]
    colours = (
        [DirectionalColour.beside(*pair) for pair in zip(files, shown, strict=True)] if directional else []
    )
    title = path.name if against is None else f"{path.name} | {against.name}"
    if picture is None and backend == "offscreen":
        raise InputError("nobody can close an offscreen window; give --picture FILE.png with it")
    with Device.open(device) as opened, open_canvas(backend, window, f"{title} - dressi") as canvas:
        with DressiAD(opened) as engine:
            other = others[0] if others else None
            session = MeshSession(scene, engine, title, against=other, directional=colours)
            if clip is not None or at is not None:
                session.show(at, clip)
            viewer = Viewer(session, canvas)
            viewer.paused = at is not None
            coloured = len(scene) > 1 or any(_is_coloured(node) for nodes in shown for node in nodes)
            viewer.choose("textured" if coloured else "shaded")
            if picture is None:
                viewer.run()
                return
            viewer.draw()
        assert isinstance(canvas.presenter, OffscreenPresenter) and canvas.presenter.frame is not None
        save_image(picture, canvas.presenter.frame[..., :3].astype(np.float64) / 255, linear=False)


def _is_coloured(node: Any) -> bool:
    mesh = getattr(node.geometry, "mesh", None)
    return mesh is None or any(x is not None for x in (mesh.texture, mesh.colors, mesh.material))


def mesh_of(path: Path) -> Path:
    """The file of a mesh, also of the folder of a fit. Raises InputError."""
    from dressi.render.fit import FILES

    if not path.is_dir():
        return path
    for name in FILES:
        if name.endswith(".glb") and (path / name).is_file():
            return path / name
    raise InputError(f"'{path}' holds no result of a fit; give a mesh, or the --out of a finished fit")
