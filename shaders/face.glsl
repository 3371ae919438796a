// Projected triangles: corners are (x, y, depth) with x and y in units of the image height, depth -1 where the
// vertex cannot be projected.

const float FACE_AREA_MINIMUM = 1e-10;
const float FACE_FARTHEST = 1e6;

ivec2 face_texel(int index, ivec2 extent) {
    return ivec2(index % extent.x, index / extent.x);
}

float face_cross(vec2 u, vec2 v) {
    precise float area = u.y * v.x - u.x * v.y;
    return area;
}

// Whether nothing of the face is drawn. cull: 1 drops faces turned away from the viewer.
bool face_dropped(vec3 a, vec3 b, vec3 c, int cull) {
    vec2 low = min(min(a.xy, b.xy), c.xy), high = max(max(a.xy, b.xy), c.xy);
    bool good = min(min(a.z, b.z), c.z) >= 0.0 && all(greaterThan(low, vec2(-FACE_FARTHEST)))
        && all(lessThan(high, vec2(FACE_FARTHEST)));
    float area = face_cross(b.xy - a.xy, c.xy - a.xy);
    return !(good && (cull == 1 ? area : abs(area)) > FACE_AREA_MINIMUM);
}

// Corner 0 to 5 of the two triangles that cover everything within ``reach`` of a face: clip coordinates.
// aspect: width over height of the image.
vec4 face_enlarged(vec3 a3, vec3 b3, vec3 c3, int corner, float reach, float aspect, int cull) {
    const vec4 nowhere = vec4(0.0, 0.0, 0.5, 1.0); // not outside of the view, where drivers would start to clip
    if (face_dropped(a3, b3, c3, cull)) return nowhere;
    vec2 a = a3.xy, b = b3.xy, c = c3.xy;
    vec3 side = vec3(distance(b, c), distance(c, a), distance(a, b));
    float around = side.x + side.y + side.z, longest = max(max(side.x, side.y), side.z);
    float twice = abs(face_cross(b - a, c - a));
    float grown = 1.0 + reach * around / twice;
    vec2 box = vec2(longest, twice / longest) + 2.0 * reach;
    vec2 place;
    if (0.5 * twice * grown * grown < box.x * box.y) {
        // Scaled about the centre of the inscribed circle, every side moves outward by the same length.
        if (corner > 2) return nowhere;
        vec2 centre = (side.x * a + side.y * b + side.z * c) / around;
        place = centre + ((corner == 0 ? a : corner == 1 ? b : c) - centre) * grown;
    } else {
        // A box along the longest side, from its first end.
        vec2 start = side.x == longest ? b : side.y == longest ? c : a;
        vec2 end = side.x == longest ? c : side.y == longest ? a : b;
        vec2 top = side.x == longest ? a : side.y == longest ? b : c;
        vec2 along = (end - start) / longest, across = vec2(-along.y, along.x);
        if (dot(top - start, across) < 0.0) across = -across;
        float right = corner == 1 || corner == 2 || corner == 4 ? box.x : 0.0;
        float up = corner == 2 || corner == 4 || corner == 5 ? box.y : 0.0;
        place = start + along * (right - reach) + across * (up - reach);
    }
    return vec4(place.x / aspect * 2.0 - 1.0, place.y * 2.0 - 1.0, 0.5, 1.0);
}

ivec3 face_sorted(ivec3 f) {
    int low = min(min(f.x, f.y), f.z), high = max(max(f.x, f.y), f.z);
    return ivec3(low, f.x ^ f.y ^ f.z ^ low ^ high, high);
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

// (signed distance, shifted depth, numbers of the two ends of the nearest edge) of a face with ascending corners a,
// b, c: one is (a.xy, b.xy), two is (c.xy, depths of a and b), three is (depth of c, numbers of a, b, c).
vec4 face_nearest(vec2 p, vec4 one, vec4 two, vec4 three) {
    vec2 a = one.xy, b = one.zw, c = two.xy;
    precise float area = face_cross(b - a, c - a);
    precise vec3 cross = vec3(face_cross(c - b, p - b), -face_cross(c - a, p - a), face_cross(b - a, p - a));
    bool inside = all(greaterThanEqual(cross * sign(area), vec3(0.0)));
    vec3 squared = vec3(face_edge(p, a, b), face_edge(p, b, c), face_edge(p, a, c));
    vec2 ends = three.yz;
    float best = squared.x;
    if (squared.y < best) { best = squared.y; ends = three.zw; }
    if (squared.z < best) { best = squared.z; ends = three.yw; }
    precise float away = sqrt(best);
    precise float depth = (cross.x * two.z + cross.y * two.w + cross.z * three.x) / area;
    precise float shifted = inside ? 0.5 * clamp(depth, 0.0, 1.0) : 0.5 + 0.5 * away;
    return vec4(inside ? away : -away, shifted, ends);
}

// Part 0, 1 or 2 of what face_nearest takes; the corners belong to the ascending numbers f.
vec4 face_record(int part, ivec3 f, vec3 a, vec3 b, vec3 c) {
    if (part == 0) return vec4(a.xy, b.xy);
    if (part == 1) return vec4(c.xy, a.z, b.z);
    return vec4(c.z, vec3(f));
}
