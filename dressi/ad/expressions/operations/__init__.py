"""The operations that compute expressions, and fewer of them.

steps (sums and products of many operands), pairs, signs, distribute, crossed (fewer products for more sums), reduce, count, shortest (the
best of the ways).
"""
