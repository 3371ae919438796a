"""Edges of meshes as the forms see them: lists, segments on the screen, distances, crossings."""
