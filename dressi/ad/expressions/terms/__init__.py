"""Expressions, of which equal ones are one, and their derivatives.

rational (numbers), field (samples), table (entries and forms), reader (Variables as expressions), derivatives (forward and in reverse).
"""
