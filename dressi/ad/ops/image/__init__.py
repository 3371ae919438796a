"""Functions that read other texels: windows, reductions, activations, lookups and scatters, draws of triangles."""
