// Edges of a projected mesh. Needs face.glsl.
// The side of an edge says where the mesh is: 1 or -1 the sign of face_cross(b - a, inside - a), 0 unknown or both
// sides free, 2 the edge is not drawn.

const int EDGE_HIDDEN = 2;
const float EDGE_NOWHERE = 1e30;

const float EDGE_FARTHEST = 1e6;

// Whether the edge between two vertices is seen, and its ends on the screen are usable.
bool edge_seen(vec4 a, vec4 b, vec4 ends) {
    vec2 far = max(abs(ends.xy), abs(ends.zw));
    bool between = max(a.z, b.z) >= 0.0 && min(a.z, b.z) <= 1.0;
    return face_present(a) && face_present(b) && between && max(far.x, far.y) < EDGE_FARTHEST;
}

// Twice the area that the edge spans with a face's third corner, times w of a corner in front of the near plane: its
// sign tells the side on which the part of the face behind that plane lies.
float edge_area(vec4 ends, vec4 c) {
    return face_cross(ends.zw - ends.xy, c.xy - (c.z < 0.0 ? c.w : 1.0) * ends.xy);
}

// How fast the face with third corner c leaves the viewer with the distance to the edge: the smallest is in front.
// depths: of the ends.  facing: sign of edge_area for a
// face turned to the viewer, 0 when both sides are drawn.
float edge_rise(vec4 ends, vec2 depths, vec4 c, float facing) {
    float area = edge_area(ends, c), w = c.z < 0.0 ? c.w : 1.0;
    if (!face_present(c) || (facing != 0.0 && area * facing <= FACE_AREA_MINIMUM)) return EDGE_NOWHERE;
    if (abs(area) <= FACE_AREA_MINIMUM) return 0.5 * EDGE_NOWHERE;
    vec2 u = ends.zw - ends.xy, q = c.xy - w * ends.xy;
    return (c.z - w * depths.x - dot(u, q) / max(dot(u, u), 1e-30) * (depths.y - depths.x)) / abs(area);
}
