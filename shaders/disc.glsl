// The area of discs in a pixel. Places are relative to the centre of the pixel, in pixels.

// The angle from a to b, seen from the centre of the disc.
float disc_angle(vec2 a, vec2 b) {
    float y = a.x * b.y - a.y * b.x, x = dot(a, b);
    return y == 0.0 && x >= 0.0 ? 0.0 : atan(y, x);
}

// Of the edge of a pixel from a to a + u, with |u| = 1, relative to the centre of a disc: the area of the disc that it sees
// from there, the length inside of the disc, and the angle of what lies outside of it.
vec3 disc_edge(vec2 a, vec2 u, float radius) {
    float along = -dot(a, u), away = a.x * u.y - a.y * u.x;
    float chord = sqrt(max(radius * radius - away * away, 0.0));
    float start = clamp(along - chord, 0.0, 1.0), end = clamp(along + chord, 0.0, 1.0);
    vec2 p = a + start * u, q = a + end * u;
    float angle = disc_angle(a, p) + disc_angle(q, a + u);
    return vec3(0.5 * (away * (end - start) + radius * radius * angle), end - start, angle);
}

// The area of a disc in the pixel; how that grows with its place and its radius.
vec4 disc_area(vec2 place, float radius) {
    vec2 low = -0.5 - place, high = 0.5 - place;
    vec3 top = disc_edge(low, vec2(1.0, 0.0), radius), right = disc_edge(vec2(high.x, low.y), vec2(0.0, 1.0), radius);
    vec3 bottom = disc_edge(high, vec2(-1.0, 0.0), radius), left = disc_edge(vec2(low.x, high.y), vec2(0.0, -1.0), radius);
    vec3 total = top + right + bottom + left;
    return vec4(left.y - right.y, top.y - bottom.y, radius * total.z, total.x);
}
