"""Transparent surfaces: what lies behind them is seen through them.

Each shaded layer gives a radiance c and a transmittance t, VEC3 each; layers are composed front to back over the opaque
picture: c_1 + t_1 (c_2 + t_2 (... background)).

- ``peel``: which faces each pixel shows, front to back, sorted and exact, K of them.
- ``drawn``: these, drawn by a form: ``stacks`` hard or with silhouettes antialiased, ``margins`` with soft ones.
- ``slivers``: what is seen between two silhouettes that pass between the same pixels.
- ``moments``: all of them in no order, by sums.
"""
