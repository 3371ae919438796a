"""Derivatives of computations of one texel as scalar expressions, at few operations.

From the bottom up:

    rational        numbers, and samples in finite fields
    table           expressions, each once, with the forms in which it was written
    reader          Variables as expressions
    steps           the sums, products and Functions that compute expressions
    reduce          fewer of them
    count           operations, the shortest steps, before and after
    emit            F.source: the text of a function
    elimination     the order in which a graph of partial derivatives is multiplied
    jacobian        derivatives of expressions, Variables again; F.jacobian, F.hessian, F.derivative
    sparse          their entries that are not always zero; F.sparse_jacobian
"""
