"""From projected vertices to colours: visibility, barycentric coordinates, textures, shading."""
