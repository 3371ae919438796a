"""Families of Functions: what happens at one pixel, and what reads other texels."""
