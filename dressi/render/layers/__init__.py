"""Transparent surfaces: what lies behind them is seen through them.

Each shaded layer gives a radiance c and a transmittance t, VEC3 each; layers are composed front to back over
the opaque picture: c_1 + t_1 (c_2 + t_2 (... background)).

- ``stacks``: which faces each pixel shows, front to back, sorted and exact, K of them, composed. ``edged``: with the derivative at the edges of all layers, and at the lines on which they pass
  through each other.
- ``moments``: all of them in no order, by sums.
"""
