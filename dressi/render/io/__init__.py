"""Pictures, photographs, strands and cameras in and out of files.

| what | in | out |
|---|---|---|
| images | `load_image`: PNG and TIFF (8 and 16 bits), JPEG, BMP, GIF, WebP, Radiance .hdr, OpenEXR .exr | `save_image`, `save_gif` |
| environment maps | `load_environment`: .hdr, .exr, and the images above | `save_image` |
| luminaires | `load_ies`: LM-63 .ies | |
| calibrated photographs | `load_photos`: cameras.json, transforms.json, COLMAP; depth pictures | |

Meshes and scenes are in ``dressi.render.formats``. Colours are linear light with sRGB primaries in memory.
Files are not trusted: each loads or raises InputError, one sentence with the file and the cure. A file that
names others reaches its own folder and those below only, links followed; images are decoded by their content,
up to `config.max_megapixels`.
"""

from dressi.render.io.files import write_files, write_json
from dressi.render.io.images import (
    encode_png,
    load_environment,
    load_image,
    read_image,
    resize,
    save_gif,
    save_image,
    save_png,
)
from dressi.render.io.photometry import load_ies
from dressi.render.io.photos import Photos, load_photos

__all__ = [
    "Photos", "encode_png", "load_environment", "load_ies", "load_image", "load_photos", "read_image", "resize", "save_gif",
    "save_image", "save_png", "write_files", "write_json",
]  # fmt: skip
