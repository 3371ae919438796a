"""Triangle meshes on the host, in NumPy.

``mesh`` the mesh with its measures and connectivity, of lists of ``rows``; ``material`` how its surface
reflects light; ``tangents`` what normal maps go along; ``polygons`` polygons as triangles, and holes closed;
``joining`` several meshes as one, and the connected components of one; ``primitives`` generated meshes;
``checks`` inverted and self-intersecting faces; ``queries`` spatial ones, points on a mesh and distances to
it. The folder ``remesh`` changes its faces.
"""

from dressi.render.mesh.joining import AtlasError, components, joined
from dressi.render.mesh.material import Material
from dressi.render.mesh.mesh import Mesh, SeamSplit
from dressi.render.mesh.polygons import triangulate
from dressi.render.mesh.rows import weld
from dressi.render.mesh.tangents import Tangents

__all__ = [
    "AtlasError", "Material", "Mesh", "SeamSplit", "Tangents", "components", "joined", "triangulate", "weld",
]  # fmt: skip
