// The pixels of a triangle, from its corners in clip space (Olano and Greer 1997): parts of it behind the eye are left out.

// A corner in pixels of an image, times w, and w. It may lie behind the eye.
vec3 pixels_corner(vec4 clip, vec2 size) { return vec3((clip.xy * 0.5 + 0.5 * clip.w) * size, clip.w); }

// Grows a box (low, high) by a corner; it becomes the whole image if the corner lies behind the eye.
vec4 pixels_box(vec4 box, vec3 corner, vec2 size) {
    bool before = corner.z > 0.0;
    vec2 at = before ? corner.xy / corner.z : vec2(0.0);
    return before ? vec4(min(box.xy, at), max(box.zw, at)) : vec4(vec2(0.0), size);
}

// The edges opposite to the corners: products with (x, y, 1), relative to an origin, are positive within the triangle.
mat3 pixels_edges(vec3 a, vec3 b, vec3 c, vec2 origin) {
    a.xy -= origin * a.z;
    b.xy -= origin * b.z;
    c.xy -= origin * c.z;
    mat3 edges = mat3(cross(b, c), cross(c, a), cross(a, b));
    return dot(a, edges[0]) < 0.0 ? mat3(-edges[0], -edges[1], -edges[2]) : edges;
}

// Whether a centre counts that lies at ``away`` from an edge: one on the edge belongs to what is right of it, or below.
bool pixels_side(vec3 edge, float away) {
    return away > 0.0 || (away == 0.0 && (edge.x > 0.0 || (edge.x == 0.0 && edge.y > 0.0)));
}

// The depth z / w at a place relative to the origin, -1 outside of the triangle. z, w: of its corners.
float pixels_depth(mat3 edges, vec2 at, vec3 z, vec3 w) {
    vec3 away = vec3(dot(edges[0], vec3(at, 1.0)), dot(edges[1], vec3(at, 1.0)), dot(edges[2], vec3(at, 1.0)));
    bool inside = pixels_side(edges[0], away.x) && pixels_side(edges[1], away.y) && pixels_side(edges[2], away.z);
    float below = dot(away, w), depth = dot(away, z) / (below == 0.0 ? 1.0 : below);
    return inside && below != 0.0 && depth >= 0.0 && depth <= 1.0 ? depth : -1.0;
}
