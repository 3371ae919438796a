"""Textures: filtered sampling, and the inverse UV table. Their derivatives use dressi.ad.transform, so this folder lies above it."""
