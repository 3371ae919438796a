// From clip space to the screen, in units of the image height. aspect: width over height of the image.

const float PROJECTION_W_MINIMUM = 1e-6;
const float PROJECTION_FARTHEST = 1e6;
const float PROJECTION_LARGEST = 1e15;

// Whether p is a position, and not too far away.
bool projection_there(vec4 p) {
    vec4 size = abs(p);
    return size.x + size.y + size.z + size.w < PROJECTION_LARGEST;
}

// Whether ``place``, that of p on the screen, is one.
bool projection_seen(vec4 p, vec2 place) {
    return p.w > PROJECTION_W_MINIMUM && max(abs(place.x), abs(place.y)) < PROJECTION_FARTHEST;
}

// (x, y, depth, w) on the screen; (x w, y w, z, w) in front of the near plane, where z < 0; zeros where it is not there.
vec4 projected(vec4 p, float aspect) {
    vec2 scale = vec2(0.5 * aspect, 0.5);
    if (!projection_there(p)) return vec4(0.0);
    if (p.z < 0.0) return vec4((p.xy + p.w) * scale, p.zw);
    vec2 place = p.xy / p.w * scale + scale;
    return projection_seen(p, place) ? vec4(place, p.z / p.w, p.w) : vec4(0.0);
}

// The gradient by p of what has the gradient ``slope`` by projected(p).
vec4 projected_slope(vec4 p, vec4 slope, float aspect) {
    vec2 scale = vec2(0.5 * aspect, 0.5), by_place = slope.xy * scale;
    if (!projection_there(p)) return vec4(0.0);
    if (p.z < 0.0) return vec4(by_place, slope.z, slope.w + by_place.x + by_place.y);
    vec2 place = p.xy / p.w * scale + scale;
    vec3 by = vec3(by_place, slope.z) / p.w;
    return projection_seen(p, place) ? vec4(by, slope.w - dot(by, p.xyz) / p.w) : vec4(0.0);
}
