"""Textures: filtered sampling and the inverse UV table. They use dressi.ad.transform."""
