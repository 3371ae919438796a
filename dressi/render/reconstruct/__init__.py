"""Cameras of photographs that have none: structure from motion with the library pycolmap, which is an extra.

| module | what |
|---|---|
| ``pictures`` | the photographs of a folder or a video: sizes, focal lengths, how they were held |
| ``motion`` | features, matches, mapping: a model of COLMAP, one the masks agree with; points where cameras are known; the world: up, ground, unit |
| ``rolling`` | poses of the middle rows of pictures that a rolling shutter took while the camera moved |
| ``keep`` | the result in a folder, found again by a later run |
"""
