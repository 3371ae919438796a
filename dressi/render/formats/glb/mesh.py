"""glTF 2.0 out: one self-contained GLB of one mesh."""

from __future__ import annotations

import os
from pathlib import Path

from dressi.render.formats.glb.document import Written
from dressi.render.io.files import write_files
from dressi.render.mesh import Mesh


def save_glb(path: str | os.PathLike, mesh: Mesh, *, normal_bits: int = 8) -> None:
    """Write one self-contained GLB: split at seams, normals, UVs, vertex colours (``COLOR_0``, linear floats), albedo as
    an 8-bit sRGB PNG, and the material with its maps as 8-bit PNGs; a rough dielectric without one. A mesh with a normal map
    gets its `tangents` (``TANGENT``).

    normal_bits: of the normal map, 8 or 16; 16 needs OpenCV.  Emission above 1 is written by an extension, as are clearcoat
    and sheen. The file is replaced whole or not at all; InputError when it cannot be written.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.glb")
    >>> save_glb(path, cube())
    >>> open(path, "rb").read(4)
    b'glTF'
    """
    mesh.validate()
    document = Written()
    primitive, _ = document.primitive(mesh, normal_bits)
    document.add("meshes", {"primitives": [primitive]})
    document.add("nodes", {"mesh": 0, "name": mesh.name})
    write_files({Path(path): document.glb()})
