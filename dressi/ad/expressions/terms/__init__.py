"""Expressions, of which equal ones are one, and their derivatives.

field (samples), table (entries and forms), reader (Variables as expressions), derivatives (forward and in reverse).
"""
