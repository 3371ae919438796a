"""Activations of networks."""
