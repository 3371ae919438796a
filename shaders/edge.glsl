// Edges of a projected mesh. Needs face.glsl.
// The side of an edge says where the mesh is: 1 or -1 the sign of face_cross(b - a, inside - a), 0 unknown or both
// sides free, 2 the edge is not drawn.

const int EDGE_HIDDEN = 2;
const float EDGE_NOWHERE = 1e30;

bool edge_there(vec3 v) {
    return v.z >= 0.0 && max(abs(v.x), abs(v.y)) < FACE_FARTHEST;
}

// Where a face on the edge lies, by its third corner c; EDGE_HIDDEN when it is not drawn. facing: sign of
// face_cross(b - a, c - a) for a face turned to the viewer, 0 when both sides are drawn.
int edge_face(vec3 a, vec3 b, vec3 c, float facing) {
    if (!edge_there(c)) return EDGE_HIDDEN;
    vec2 u = b.xy - a.xy;
    float area = face_cross(u, c.xy - a.xy);
    if (facing != 0.0 && area * facing <= FACE_AREA_MINIMUM) return EDGE_HIDDEN;
    vec2 far = max(max(abs(a.xy), abs(b.xy)), abs(c.xy));
    // Below this the sign may be rounding; such a face is as good as a line.
    float doubt = FACE_AREA_MINIMUM + 1e-5 * (1.0 + max(far.x, far.y)) * length(u);
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
// facing as for edge_face.
float edge_rise(vec3 a, vec3 b, vec3 c, float facing) {
    vec2 u = b.xy - a.xy, q = c.xy - a.xy;
    float area = face_cross(u, q);
    bool there = edge_there(a) && edge_there(b) && edge_there(c);
    if (!there || (facing != 0.0 && area * facing <= FACE_AREA_MINIMUM)) return EDGE_NOWHERE;
    if (abs(area) <= FACE_AREA_MINIMUM) return 0.5 * EDGE_NOWHERE;
    return (c.z - a.z - dot(u, q) / max(dot(u, u), 1e-30) * (b.z - a.z)) / abs(area);
}

// (place, sign, 0): where the mesh must have ended for the edge to be the outline seen from p, ``far`` beyond the nearest
// point of the edge; 1 over the mesh, -1 beside it.
vec4 edge_look(vec2 p, vec4 ends, int side, bool covered, float far) {
    vec2 u = ends.zw - ends.xy, q = p - ends.xy;
    float t = dot(q, u) / max(dot(u, u), 1e-30);
    bool within = t > 0.0 && t < 1.0 && abs(side) == 1;
    float sign = (within ? face_cross(u, q) * float(side) > 0.0 : covered) ? 1.0 : -1.0;
    vec2 place = t <= 0.0 ? ends.xy : t >= 1.0 ? ends.zw : ends.xy + t * u;
    vec2 outward = within ? vec2(-u.y, u.x) * float(side) : (place - p) * sign;
    return vec4(place + outward * (far / max(length(outward), 1e-30)), sign, 0.0);
}
