"""Functions that read other texels: windows, reductions, lookups and scatters, draws of triangles."""
