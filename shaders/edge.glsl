// Edges of a projected mesh. Needs face.glsl.
// The side of an edge says where the mesh is: 1 or -1 the sign of face_cross(b - a, inside - a), 0 unknown or both
// sides free, 2 the edge is not drawn.

const int EDGE_HIDDEN = 2;
const float EDGE_NOWHERE = 1e30;

const float EDGE_FARTHEST = 1e6;

// Whether the edge between two vertices is seen, and its ends on the screen are usable.
bool edge_seen(vec4 a, vec4 b, vec4 ends) {
    vec2 far = max(abs(ends.xy), abs(ends.zw));
    return face_present(a) && face_present(b) && max(a.z, b.z) >= 0.0 && max(far.x, far.y) < EDGE_FARTHEST;
}

// Twice the area that the edge spans with a face's third corner, times w of a corner in front of the near plane: its
// sign tells the side on which the part of the face behind that plane lies.
float edge_area(vec4 ends, vec4 c) {
    return face_cross(ends.zw - ends.xy, c.xy - (c.z < 0.0 ? c.w : 1.0) * ends.xy);
}

// Where a face on the edge lies, by its third corner c; EDGE_HIDDEN when it is not drawn. facing: sign of
// edge_area for a face turned to the viewer, 0 when both sides are drawn.
int edge_face(vec4 ends, vec4 c, float facing) {
    float area = edge_area(ends, c);
    if (!face_present(c) || (facing != 0.0 && area * facing <= FACE_AREA_MINIMUM)) return EDGE_HIDDEN;
    float w = c.z < 0.0 ? abs(c.w) : 1.0;
    vec2 far = max(max(abs(ends.xy), abs(ends.zw)) * w, abs(c.xy));
    // Below this the sign may be rounding; such a face is as good as a line.
    float doubt = FACE_AREA_MINIMUM + 1e-5 * (w + max(far.x, far.y)) * distance(ends.xy, ends.zw);
    return abs(area) > doubt ? int(sign(area)) : 0;
}

int edge_side(int first, int second) {
    if (first == EDGE_HIDDEN || second == EDGE_HIDDEN) return min(first, second);
    return first == second ? first : first * second < 0 ? EDGE_HIDDEN : 0;
}

// Corner 0 to 5 of two triangles that cover what lies within ``reach`` of the edge, on the side of the mesh within
// ``inward`` only: clip coordinates. aspect: width over height of the image.
vec4 edge_corner(vec4 ends, int side, int corner, float reach, float inward, float aspect) {
    // A point inside the view: for one outside of it drivers would start to clip.
    if (side == EDGE_HIDDEN) return vec4(0.0, 0.0, 0.5, 1.0);
    vec2 u = ends.zw - ends.xy;
    float extent = length(u);
    vec2 along = extent > 0.0 ? u / extent : vec2(1.0, 0.0);
    vec2 across = vec2(-along.y, along.x); // face_cross(u, across) < 0
    vec2 place = corner == 1 || corner == 2 || corner == 4 ? ends.zw + reach * along : ends.xy - reach * along;
    bool up = corner == 2 || corner == 4 || corner == 5;
    place += across * (up ? (side < 0 ? inward : reach) : (side > 0 ? -inward : -reach));
    return vec4(place.x / aspect * 2.0 - 1.0, place.y * 2.0 - 1.0, 0.5, 1.0);
}

// How fast the face with third corner c leaves the viewer with the distance to the edge: the smallest is in front.
// depths: of the ends.  facing as for edge_face.
float edge_rise(vec4 ends, vec2 depths, vec4 c, float facing) {
    float area = edge_area(ends, c), w = c.z < 0.0 ? c.w : 1.0;
    if (!face_present(c) || (facing != 0.0 && area * facing <= FACE_AREA_MINIMUM)) return EDGE_NOWHERE;
    if (abs(area) <= FACE_AREA_MINIMUM) return 0.5 * EDGE_NOWHERE;
    vec2 u = ends.zw - ends.xy, q = c.xy - w * ends.xy;
    return (c.z - w * depths.x - dot(u, q) / max(dot(u, u), 1e-30) * (depths.y - depths.x)) / abs(area);
}
