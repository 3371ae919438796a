"""Cameras: pinhole views, their poses as parameters, and rings of views around an object."""

from .camera import Camera, Cameras, Views
from .rigid import look_at

__all__ = ["Camera", "Cameras", "Views", "look_at"]
