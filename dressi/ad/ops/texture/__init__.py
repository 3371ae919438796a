"""Textures: filtered sampling, and the inverse UV table. These use derivative graphs, so the room lies above transform."""
