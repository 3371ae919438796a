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

vec3 face_homogeneous(vec4 v) {
    return vec3(v.z < 0.0 ? v.xy : v.xy * v.w, v.w);
}

// The end a of the edge from a to b on the screen, where it meets the near plane if a lies in front of that.
vec2 face_end(vec4 a, vec4 b) {
    if (a.z >= 0.0) return a.xy;
    if (b.z < 0.0 || !face_present(b)) return vec2(0.0);
    float moved = a.z / (a.z - b.z * b.w);
    vec3 from = vec3(a.xy, a.w), to = face_homogeneous(b), place = from + moved * (to - from);
    return place.xy / place.z;
}

// What a gradient by the ends (face_end(a, b), face_end(b, a)) adds to that by a.
vec4 face_end_slope(vec4 a, vec4 b, vec4 slope) {
    if (a.z >= 0.0 && b.z >= 0.0) return vec4(slope.xy, 0.0, 0.0);
    bool own = a.z < 0.0;
    vec4 front = own ? a : b, back = own ? b : a;
    vec2 g = own ? slope.xy : slope.zw;
    if (back.z < 0.0 || !face_present(back)) return vec4(0.0);
    float z = back.z * back.w, apart = front.z - z, moved = front.z / apart;
    vec3 from = face_homogeneous(front), to = face_homogeneous(back), place = from + moved * (to - from);
    vec3 by_place = vec3(g, -dot(g, place.xy) / place.z) / place.z;
    float by_moved = dot(by_place, to - from) / (apart * apart);
    if (own) return vec4((1.0 - moved) * by_place.xy, -by_moved * z, (1.0 - moved) * by_place.z);
    float by_z = by_moved * front.z, w = moved * dot(by_place, vec3(back.xy, 1.0)) + by_z * back.z;
    return vec4(moved * by_place.xy * back.w + slope.xy, by_z * back.w, w);
}

// Whether nothing of the face is drawn. cull: 1 drops faces turned away from the viewer.
bool face_dropped(vec4 a, vec4 b, vec4 c, int cull) {
    float low = min(min(a.z, b.z), c.z), high = max(max(a.z, b.z), c.z);
    if (high < 0.0 || !face_present(a) || !face_present(b) || !face_present(c)) return true;
    float area = face_cross(b.xy - a.xy, c.xy - a.xy), least = FACE_AREA_MINIMUM;
    if (low < 0.0) {
        // The sign is that of the part behind the near plane, wherever the other corners are.
        area = -dot(face_homogeneous(a), cross(face_homogeneous(b), face_homogeneous(c)));
        least = 0.0;
    }
    return !face_defined(area) || (cull == 1 ? area : abs(area)) <= least;
}

// Swaps two corners (numbers f, depths z) unless those behind the near plane come first, then in ascending order.
void face_order(inout ivec2 f, inout vec2 z) {
    bvec2 front = lessThan(z, vec2(0.0));
    if (front.x == front.y ? f.x > f.y : front.x) { f = f.yx; z = z.yx; }
}

// The numbers of the vertices that segment 0, 1 or 2 of a face runs from and to; the first is behind the near plane.
ivec2 face_segment(ivec3 f, vec4 a, vec4 b, vec4 c, int k, int cull) {
    if (face_dropped(a, b, c, cull)) return ivec2(0);
    vec3 z = vec3(a.z, b.z, c.z);
    face_order(f.xy, z.xy);
    face_order(f.yz, z.yz);
    face_order(f.xy, z.xy);
    if (z.z < 0.0 && z.y > z.x) f = f.yxz;
    return k == 0 ? f.xy : k == 2 ? f.xz : z.y < 0.0 ? f.xy : f.yz;
}

// Corner 0 to 5 of the two triangles that cover everything within ``reach`` of a face: clip coordinates. first to
// third: its segments a-b, b-d, a-c.  aspect: width over height of the image.
vec4 face_enlarged(vec4 first, vec4 second, vec4 third, int corner, float reach, float aspect) {
    const vec4 nowhere = vec4(0.0, 0.0, 0.5, 1.0); // not outside of the view, where drivers would start to clip
    vec2 a = first.xy, b = first.zw, c = third.zw, d = second.zw;
    float twice = abs(face_cross(b - a, c - a));
    if (!face_defined(twice) || twice <= FACE_AREA_MINIMUM) return nowhere;
    bvec2 side = bvec2(corner == 1 || corner == 2 || corner == 4, corner == 2 || corner == 4 || corner == 5);
    vec2 place;
    if (c != d && b != d) {
        // What the near plane leaves of a face has four corners: a box along the whole side.
        vec2 along = normalize(b - a), across = vec2(-along.y, along.x);
        mat4x2 from = mat4x2(vec2(0.0), b - a, c - a, d - a);
        vec4 x = along * from, y = across * from;
        vec2 low = vec2(min(min(x.x, x.y), min(x.z, x.w)), min(min(y.x, y.y), min(y.z, y.w))) - reach;
        vec2 high = vec2(max(max(x.x, x.y), max(x.z, x.w)), max(max(y.x, y.y), max(y.z, y.w))) + reach;
        place = a + along * (side.x ? high.x : low.x) + across * (side.y ? high.y : low.y);
        return vec4(place.x / aspect * 2.0 - 1.0, place.y * 2.0 - 1.0, 0.5, 1.0);
    }
    vec3 sides = vec3(distance(b, c), distance(c, a), distance(a, b));
    float around = sides.x + sides.y + sides.z, longest = max(max(sides.x, sides.y), sides.z);
    float grown = 1.0 + reach * around / twice;
    vec2 box = vec2(longest, twice / longest) + 2.0 * reach;
    if (0.5 * twice * grown * grown < box.x * box.y) {
        // Scaled about the centre of the inscribed circle, every side moves outward by the same length.
        if (corner > 2) return nowhere;
        vec2 centre = (sides.x * a + sides.y * b + sides.z * c) / around;
        place = centre + ((corner == 0 ? a : corner == 1 ? b : c) - centre) * grown;
    } else {
        // A box along the longest side, from its first end.
        vec2 start = sides.x == longest ? b : sides.y == longest ? c : a;
        vec2 end = sides.x == longest ? c : sides.y == longest ? a : b;
        vec2 top = sides.x == longest ? a : sides.y == longest ? b : c;
        vec2 along = (end - start) / longest, across = vec2(-along.y, along.x);
        if (dot(top - start, across) < 0.0) across = -across;
        place = start + along * ((side.x ? box.x : 0.0) - reach) + across * ((side.y ? box.y : 0.0) - reach);
    }
    return vec4(place.x / aspect * 2.0 - 1.0, place.y * 2.0 - 1.0, 0.5, 1.0);
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
    precise float away = sqrt(best);
    precise float shifted = inside ? 0.5 * clamp(depth, 0.0, 1.0) : 0.5 + 0.5 * away;
    return vec3(inside ? away : -away, shifted, number);
}
