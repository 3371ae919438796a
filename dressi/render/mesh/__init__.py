"""Triangle meshes on the host, in NumPy.

``mesh`` the mesh, of lists of ``rows``; ``material`` how its surface reflects light; ``tangents`` what normal maps go along;
``shape`` its measures and connectivity; ``polygons`` polygons as triangles; ``joining`` several meshes as one; ``components`` its connected components; ``primitives`` generated meshes; ``sampling``
points on a mesh and distances to it; ``checks`` inverted and self-intersecting faces; ``holes`` and the folder ``remesh`` change
it; ``queries`` are spatial ones of these.
"""

from dressi.render.mesh.joining import AtlasError, components, joined
from dressi.render.mesh.material import Material
from dressi.render.mesh.mesh import Mesh, SeamSplit
from dressi.render.mesh.polygons import triangulate
from dressi.render.mesh.rows import weld, weld_values
from dressi.render.mesh.tangents import Tangents

__all__ = [
    "AtlasError",
    "Material",
    "Mesh",
    "SeamSplit",
    "Tangents",
    "components",
    "joined",
    "triangulate",
    "weld",
    "weld_values",
]
