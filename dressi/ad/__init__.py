"""Computations as graphs, their derivatives, and optimizers. Nothing here needs a device.

From the bottom up; each line imports only from the lines above it:

    types           types of texels, domains of images
    graph           Variables, Functions, kinds of Functions; operators, which the operations register
    includes, traversal, program, evaluate      files, walks and programs over graphs; their meaning in NumPy
    ops.pixel       operations on the values of one pixel, by family: a file holds classes and their builders
    contract        sums over axes of what is read at affine places, and their derivatives: moves, cuts,
                    resizes, convolves and multiplies images
    coordinates     coordinates of texels, and indices that are affine in them
    ops.image       operations that read other texels: reductions, activations, moves, tables, draws
    show            graphs as text and pictures
    transform       gradient and jvp; rules and passes of simplification
    expressions     Jacobians and Hessians of one texel, at few operations; functions as text
    check           gradients against central differences
    sums            sums over the fragments of draws; their derivatives are built with transform
    ops.texture     sampling of textures; its derivatives are built with transform
    ops.custom      operations of a user's own
    functional      F, all operations by family
    optim           optimizers and schedules
    networks        layers, initialisation, encodings, attention, weights in and out of files
    least_squares   energies of residuals, Gauss-Newton and Levenberg-Marquardt
    objective       loss, optimizer and parameters; the program, or the procedure, of a step
"""

from . import functional as functional  # importing the families registers the operators of Variables
