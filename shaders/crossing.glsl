// Edges that pass between the centres of neighbouring pixels. Needs edge.glsl.

const float CROSSING_BEYOND = 2.0;

// Where an edge passes between the centre of a pixel and that of the next one along an axis (0: x, 1: y): pixels from the
// centre of the farther of the two, CROSSING_BEYOND when it does not count. p: the centre of the pixel, in pixels.  ends
// and depths: of the edge.  here and next: (face, depth) of the two pixels, (-1, CROSSING_BEYOND) for none.  grid: how far
// beyond the centres a driver may err.
float crossing_place(vec2 p, vec4 ends, vec2 depths, int side, vec2 here, vec2 next, int axis, float height, float grid) {
    if (side == EDGE_HIDDEN || here.x == next.x) return CROSSING_BEYOND;
    vec2 a = ends.xy * height - p, b = ends.zw * height - p;
    if (axis == 1) { a = a.yx; b = b.yx; }
    vec2 u = b - a;
    // Edges that share a vertex see the same sign of it: one of them passes, whatever the row.
    bool passes = a.y * b.y <= 0.0 && u.y != 0.0;
    if (!passes || !(axis == 0 ? abs(u.y) >= abs(u.x) : abs(u.y) > abs(u.x))) return CROSSING_BEYOND;
    float along = -a.y / u.y, place = a.x + along * u.x;
    if (place < -grid || place > 1.0 + grid) return CROSSING_BEYOND;
    bool before = side == 0 ? here.y < next.y : float(side) * (axis == 0 ? -u.y : u.y) > 0.0;
    float near = before ? here.y : next.y, far = before ? next.y : here.y;
    bool counts = near < far && mix(depths.x, depths.y, along) <= far;
    return counts ? (before ? 1.0 - place : place) : CROSSING_BEYOND;
}
