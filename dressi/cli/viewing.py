"""What `dressi view` does."""

from pathlib import Path

import numpy as np

from dressi import Device, DressiAD
from dressi.cli.sizes import parse_size
from dressi.errors import InputError
from dressi.render.fit import FILES
from dressi.render.formats import load_scene
from dressi.render.io import save_image
from dressi.render.io.images import image_format
from dressi.render.scene.scene import Node
from dressi.viewer import MeshSession, OffscreenPresenter, Viewer, open_canvas


def run_view(path: Path, size: str, backend: str, device: str | None, picture: Path | None) -> None:
    """Raises DressiErrors."""
    window = parse_size(size)
    if picture is not None:
        image_format(picture)
    scene = load_scene(_mesh_of(path))
    if picture is not None:
        backend = "offscreen"
    elif backend == "offscreen":
        raise InputError("nobody can close an offscreen window; give --picture FILE.png with it")
    with Device.open(device) as opened, open_canvas(backend, window, f"{path.name} - dressi") as canvas:
        with DressiAD(opened) as engine:
            viewer = Viewer(MeshSession(scene, engine, path.name), canvas)
            coloured = len(scene) > 1 or any(map(_is_coloured, scene))
            viewer.choose("textured" if coloured else "shaded")
            if picture is None:
                viewer.run()
                return
            viewer.draw()
        assert isinstance(canvas.presenter, OffscreenPresenter) and canvas.presenter.frame is not None
        save_image(picture, canvas.presenter.frame[..., :3].astype(np.float64) / 255, linear=False)


def _is_coloured(node: Node) -> bool:
    mesh = getattr(node.geometry, "mesh", None)
    return mesh is None or any(x is not None for x in (mesh.texture, mesh.colors, mesh.material))


def _mesh_of(path: Path) -> Path:
    """The file of a mesh, also of the folder of a fit. Raises InputError."""
    if not path.is_dir():
        return path
    found = [path / name for name in FILES if name.endswith(".glb") and (path / name).is_file()]
    if not found:
        raise InputError(f"'{path}' holds no result of a fit; give a mesh, or the --out of a finished fit")
    return found[0]
