"""Losses, regularizers, and metrics of results."""
