"""Formats of meshes: each module reads or writes one, or a part of one."""
