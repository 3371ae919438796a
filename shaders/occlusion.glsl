// What lies in front of a face. Needs face.glsl.

// The plane (u, v, c) of a face, whose depth at (x, y) is u x + v y + c; zeros for a face seen edge-on.
vec3 face_plane(vec4 a, vec4 b, vec4 c) {
    vec3 one = vec3(a.xy, a.z < 0.0 ? a.w : 1.0), two = vec3(b.xy, b.z < 0.0 ? b.w : 1.0);
    vec3 three = vec3(c.xy, c.z < 0.0 ? c.w : 1.0);
    vec2 slope;
    if (a.z >= 0.0 && b.z >= 0.0 && c.z >= 0.0) {
        // Relative to a corner, differences of depths keep their precision.
        vec2 u = b.xy - a.xy, v = c.xy - a.xy;
        float area = face_cross(u, v), du = b.z - a.z, dv = c.z - a.z;
        if (area == 0.0) return vec3(0.0);
        slope = vec2(u.y * dv - v.y * du, v.x * du - u.x * dv) / area;
        return vec3(slope, a.z - dot(slope, a.xy));
    }
    vec3 first = cross(two, three), second = cross(three, one), third = cross(one, two);
    float area = dot(one, first);
    return area == 0.0 ? vec3(0.0) : (a.z * first + b.z * second + c.z * third) / area;
}

// Whether the point of an edge nearest to p lies in front of the plane. depths: of the ends, and the side of the mesh
// beside the edge, on which p may lie by ``slack`` at most.
bool edge_in_front(vec2 p, vec4 ends, vec3 depths, vec3 plane, float slack, float tolerance) {
    vec2 u = ends.zw - ends.xy, q = p - ends.xy;
    if (abs(depths.z) == 1.0 && face_cross(u, q) * depths.z > slack * length(u)) return false;
    float t = clamp(dot(q, u) / max(dot(u, u), 1e-30), 0.0, 1.0);
    vec3 size = abs(plane);
    return mix(depths.x, depths.y, t) < dot(plane, vec3(ends.xy + t * u, 1.0)) - tolerance * (size.x + size.y + size.z);
}
