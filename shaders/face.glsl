// Projected triangles: corners are (x, y, depth, w) with x and y in units of the image height, or (x w, y w, z, w) with
// z < 0 for a corner in front of the near plane; zeros where the vertex is not there.

const float FACE_AREA_MINIMUM = 1e-10;

ivec2 face_texel(int index, ivec2 extent) {
    return ivec2(index % extent.x, index / extent.x);
}

// False for NaN, also where a driver takes it that there are none: by the bits.
bool face_defined(float x) {
    return (floatBitsToInt(x) & 0x7fffffff) <= 0x7f800000;
}

float face_cross(vec2 u, vec2 v) {
    precise float area = u.y * v.x - u.x * v.y;
    return area;
}

bool face_present(vec4 v) {
    return v.z < 0.0 || v.w > 0.0;
}

// Squared distance of p = a + q to the segment from a to a + u; at the end points exactly that to the end point,
// so that edges which meet there tie.
float face_edge(vec2 p, vec2 a, vec2 b) {
    precise vec2 u = b - a, q = p - a;
    precise float t = (q.x * u.x + q.y * u.y) / max(u.x * u.x + u.y * u.y, 1e-30);
    precise vec2 away = t <= 0.0 ? q : t >= 1.0 ? p - b : q - t * u;
    precise float squared = away.x * away.x + away.y * away.y;
    return squared;
}

// (signed distance, shifted depth, number of the nearest segment) of a face with segments a-b, b-d, a-c; c is d unless
// the near plane cuts the face, from c to d. one: (a, b), two: (c, d), depths: of a, b, c.
// (-2, 2, -1) where the nearest point of the face, or of its outline, lies beyond the far plane.
vec3 face_nearest(vec2 p, vec4 one, vec4 two, vec3 depths) {
    vec2 a = one.xy, b = one.zw, c = two.xy, d = two.zw;
    precise float area = face_cross(b - a, c - a);
    precise vec3 cross = vec3(face_cross(c - b, p - b), -face_cross(c - a, p - a), face_cross(b - a, p - a));
    precise float depth = (cross.x * depths.x + cross.y * depths.y + cross.z * depths.z) / area;
    vec3 within = vec3(face_cross(d - b, p - b), cross.y, cross.z);
    bool inside = all(greaterThanEqual(within * sign(area), vec3(0.0))) && depth >= 0.0;
    vec3 squared = vec3(face_edge(p, a, b), face_edge(p, b, d), face_edge(p, a, c));
    float best = squared.x, number = 0.0;
    if (squared.y < best) { best = squared.y; number = 1.0; }
    if (squared.z < best) { best = squared.z; number = 2.0; }
    vec2 start = number == 1.0 ? b : a, u = (number == 0.0 ? b : number == 1.0 ? d : c) - start;
    vec2 q = start + clamp(dot(p - start, u) / max(dot(u, u), 1e-30), 0.0, 1.0) * u;
    vec3 beside = vec3(face_cross(c - b, q - b), -face_cross(c - a, q - a), face_cross(b - a, q - a));
    if ((inside ? depth : dot(beside, depths) / area) > 1.0) return vec3(-2.0, 2.0, -1.0);
    precise float away = sqrt(best);
    precise float shifted = inside ? 0.5 * clamp(depth, 0.0, 1.0) : 0.5 + 0.5 * away;
    return vec3(inside ? away : -away, shifted, number);
}
