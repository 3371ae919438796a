"""Material, light and exposure of a known shape, from its pictures: ``MaterialFit``."""
