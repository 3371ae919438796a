"""Losses, regularizers, phases of an optimisation, and metrics of results."""
