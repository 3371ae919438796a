"""Derivatives of computations of one texel as scalar expressions, at few operations.

From the bottom up:

    terms           expressions, each once, with the forms in which it was written; Variables as expressions; derivatives
    operations      the sums, products and Functions that compute expressions, and fewer of them
    writer          Variables again
    emit            F.source: the text of a function
    compare         operations before and after
    jacobian        F.jacobian, F.hessian, F.derivative
"""
