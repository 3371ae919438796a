// Faces of a cube map, as in Vulkan: 0 to 5 are +X, -X, +Y, -Y, +Z, -Z.
// On a face, (s, t, m) are the coordinates to the right, down, and along the axis of the face.

// (s, t, |m|) of the point p on a face.
ivec3 cube_on_face(ivec3 p, int face) {
    int turn = 1 - 2 * (face & 1);
    if (face < 2) return ivec3(-turn * p.z, -p.y, abs(p.x));
    if (face < 4) return ivec3(p.x, turn * p.z, abs(p.y));
    return ivec3(turn * p.x, -p.y, abs(p.z));
}

// The point with these coordinates on a face.
ivec3 cube_point(ivec3 c, int face) {
    int turn = 1 - 2 * (face & 1);
    if (face < 2) return ivec3(turn * c.z, -c.y, -turn * c.x);
    if (face < 4) return ivec3(c.x, turn * c.z, turn * c.y);
    return ivec3(turn * c.x, -c.y, turn * c.z);
}

// (x, y, face) of the texel that stands at a texel of a face with this width, up to one texel beyond an edge of the face.
// (-1, -1, -1) beyond a corner, where there is none.
ivec3 cube_texel(ivec2 texel, int face, int width) {
    // Twice the coordinates, from the centre of the face: its edges are at +-width.
    ivec2 c = 2 * texel + 1 - width, over = max(abs(c) - width, 0);
    if (over.x > 0 && over.y > 0) return ivec3(-1);
    ivec3 p = cube_point(ivec3(clamp(c, -width, width), width - over.x - over.y), face);
    ivec3 size = abs(p);
    int axis = size.x == width ? 0 : size.y == width ? 1 : 2;
    int other = 2 * axis + (p[axis] < 0 ? 1 : 0);
    return ivec3((cube_on_face(p, other).xy + width - 1) / 2, other);
}
