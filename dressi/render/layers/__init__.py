"""Transparent surfaces: what lies behind them is seen through them.

Each shaded layer gives a radiance c and a transmittance t, VEC3 each; layers are composed front to back over
the opaque picture: c_1 + t_1 (c_2 + t_2 (... background)).

- ``peel``: which faces each pixel shows, front to back, sorted and exact, K of them.
- ``stacks``: these, composed hard or with silhouettes antialiased, with what is seen between silhouettes that
  pass between the same pixels. ``margins``: with soft silhouettes.
- ``moments``: all of them in no order, by sums.
"""
