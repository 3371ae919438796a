"""Strands, lines and points: drawn with exact areas in pixels, and differentiable in points, radii, colours and cameras.

| module | what |
|---|---|
| `geometry` | `StrandGeometry`, `PointGeometry`: what is drawn |
| `curves` | lines of meshes, and curves as polylines |
| `area` | the exact area of a ribbon in a pixel |
| `ribbons`, `discs` | strands and points on the screen, and what each adds to a pixel |
| `point` | `StrandPoint`, which shaders read; `KajiyaKay` |
| `marschner` | `Marschner`: hair by its pigment and roughness, among other hair |
| `opacity` | how much light comes through strands |
| `drawn` | strands on the screen with their shader |
| `sums`, `sorted` | all segments of a pixel in any order, or the nearest in the right order |
| `draw` | `draw_strands`, `StrandPicture` |
"""
