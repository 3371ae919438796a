"""What ``dressi.torch``, ``dressi.numpy`` and ``dressi.jax`` share: operations with gradients.

An ``Operation`` says how its arrays lie in Variables and builds a graph over them. ``Engine`` keeps one
program for each signature, the shapes and types of its arrays, with the gradients that were asked for. The
three packages only turn tensors into arrays and back, and join the gradient to that of their framework.

Signatures and conventions are nvdiffrast's (Laine et al. 2020, Modular Primitives for High-Performance
Differentiable Rendering): clip space with y up, images with the bottom row first, (u, v, z/w, triangle + 1).
"""
