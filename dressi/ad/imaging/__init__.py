"""Differentiable operators of image pipelines, composed of contractions, tables and pixel operations."""
