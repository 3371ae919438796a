"""Strands, lines and points: drawn with exact areas in pixels, and differentiable in points, radii, colours
and cameras.

| module | what |
|---|---|
| `geometry` | `StrandGeometry`, `PointGeometry`: what is drawn; lines of meshes, and curves as polylines |
| `ribbons` | strands and points on the screen: ribbons and discs, and their exact areas in a pixel; `StrandPoint`, which shaders read; `KajiyaKay`; `AtPoints` |
| `marschner` | `Marschner`: hair by its pigment and roughness; how much light comes through other hair |
| `draw` | `draw_strands`, `StrandPicture`: segments of a pixel in any order, or the nearest in the right order |
"""
