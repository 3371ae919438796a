"""Triangle meshes on the host, and what is asked of them and done to them there, in NumPy.

A mesh (mesh) of lists of rows (rows), its connected parts (components), ones made by code (primitives), points on it and distances to it (surface), what is wrong with it (checks),
fewer faces (decimate), holes closed (holes), other topology (volume); and how these find what meets what (boxes, columns).
"""

from dressi.render.mesh.components import components
from dressi.render.mesh.mesh import Mesh, SeamSplit
from dressi.render.mesh.rows import weld, weld_values

__all__ = ["Mesh", "SeamSplit", "components", "weld", "weld_values"]
