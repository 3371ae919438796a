"""Shadows: what hides a light."""
