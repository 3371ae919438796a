"""Material, light and exposure of a known shape, from its pictures: ``MaterialFit``.

views = Observations(cameras, masks, colours)
found = MaterialFit(mesh, views, MaterialOptions("albedo,roughness"), Environment(sky), DressiAD).run()
save_mesh("result.glb", found.mesh)
"""

from .material_fit import MaterialFit, MaterialResult
from .options import MaterialOptions
from .recover import Recovery

__all__ = ["MaterialFit", "MaterialOptions", "MaterialResult", "Recovery"]
