"""Operators of image pipelines, composed of contractions, tables and operations of one texel: all are
differentiable."""
