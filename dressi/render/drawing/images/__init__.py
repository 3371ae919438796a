"""The arguments of ``render`` as images: geometries, materials, places and lights."""
