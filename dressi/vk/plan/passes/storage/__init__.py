"""Passes that decide how values are stored that shaders hand to each other."""
