"""glTF 2.0 in: triangle geometry, UVs, tangents and vertex colours of all nodes, with one material."""

from __future__ import annotations

import os
from pathlib import Path

from dressi.errors import InputError
from dressi.render.formats.gltf.document import Document, reading
from dressi.render.formats.gltf.nodes import Nodes
from dressi.render.formats.gltf.primitives import Part
from dressi.render.formats.gltf.rigs import Rigs
from dressi.render.io.files import check_counts
from dressi.render.mesh import Mesh


def load_gltf(path: str | os.PathLike) -> Mesh:
    """Read a .glb or .gltf as one welded Mesh, not cleaned yet: all nodes of the scene, with their transforms, the weights of
    their morph targets and their skins applied, as ``load_scene`` shows them. As glTF says, a mesh with a skin lies where its
    joints are, whatever its own node says.

    Maps and factors of materials that differ lie in one atlas (``joined``). Where that is above `config.max_megapixels`, or maps have
    placements of their own, texture and `Material` are those of the first material with a base colour texture (else with any,
    else the first), and a warning names what is left out. Base colour factors that differ between materials
    are multiplied into the vertex colours (``COLOR_0``, linear light, alpha left out). A file without materials gives
    ``material=None``; a material without metallicFactor and roughnessFactor has the standard's 1. Maps with a texture
    transform other than the base colour's are resampled; maps with other UVs than its are left out with a warning.
    TANGENT is kept where there is a map of normals. Raises InputError naming the file, also when it refers to anything outside its folder.

    >>> import os, tempfile
    >>> from dressi.render.formats.glb.mesh import save_glb
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.glb")
    >>> save_glb(path, cube())
    >>> load_gltf(path).faces.shape
    (12, 3)
    """
    path = Path(path)
    with reading(path):
        return _mesh(Document(path))


def _mesh(document: Document) -> Mesh:
    placed = list(Nodes(document).placed())
    drawn = [node for node in placed if "mesh" in node.entry]
    rigs = Rigs(document, {node.index: node for node in placed})
    primitives = rigs.merged.primitives
    primitives.check_sizes([node.entry["mesh"] for node in drawn])
    primitives.name_losses({node.entry["mesh"] for node in drawn}, lines=True)
    meshes: dict[int, list[Part]] = {}
    parts: list[Part] = []
    vertices = faces = 0
    for node in drawn:
        number = node.entry["mesh"]
        if number not in meshes:
            meshes[number] = list(primitives.parts(number))
        for part in meshes[number]:
            vertices, faces = vertices + len(part.positions), faces + len(part.faces)
            check_counts(document.path, vertices, faces)
            posed, matrix = rigs.posed(part, node), rigs.matrix(node)
            parts.append(posed if matrix is None else posed.placed(matrix))
    if not parts:
        raise InputError(f"'{document.path}' has no triangles; export a mesh with faces")
    return rigs.merged.mesh(parts)
