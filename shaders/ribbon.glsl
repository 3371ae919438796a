// Areas of ribbons and of half planes in a pixel. Places are relative to the centre of the pixel, in pixels.

// The mean of clamp(v, 0, 1) for v from a to b.
float ribbon_mean(float a, float b) {
    float extent = b - a, p = clamp(a, 0.0, 1.0), q = clamp(b, 0.0, 1.0);
    bool flat_edge = abs(extent) < 1e-5;
    float over = flat_edge ? 1.0 : extent;
    // Both quotients are exactly 0 or 1 for an edge on one side of each border, however flat it is.
    float mean = 0.5 * (q + p) * ((q - p) / over) + (max(b, 1.0) - max(a, 1.0)) / over;
    return flat_edge ? clamp(0.5 * (a + b), 0.0, 1.0) : mean;
}

// Where a + t u, t in [0, 1], lies within [-1/2, 1/2]; the end is not after the start if nowhere.
vec2 ribbon_span(float a, float u) {
    bool still = u == 0.0;
    float over = still ? 1.0 : u, p = (-0.5 - a) / over, q = (0.5 - a) / over;
    vec2 moving = vec2(max(min(p, q), 0.0), min(max(p, q), 1.0));
    return still ? (abs(a) < 0.5 ? vec2(0.0, 1.0) : vec2(1.0, 0.0)) : moving;
}

// The signed area of the pixel below the edge from a to b.
float ribbon_below(vec2 a, vec2 b) {
    vec2 u = b - a, span = ribbon_span(a.x, u.x);
    return u.x * max(span.y - span.x, 0.0) * ribbon_mean(a.y + span.x * u.y + 0.5, a.y + span.y * u.y + 0.5);
}

// The signed area that the quad from ``a`` to ``b``, each a place and the half width across it, has in the pixel.
float ribbon_area(vec4 a, vec4 b) {
    vec2 p = a.xy + a.zw, q = b.xy + b.zw, r = b.xy - b.zw, s = a.xy - a.zw;
    return ribbon_below(p, q) + ribbon_below(q, r) + ribbon_below(r, s) + ribbon_below(s, p);
}

// The part of the edge from a to b inside the pixel: how the area grows if a, and if b, moves to the left of the edge.
vec2 ribbon_inside(vec2 a, vec2 b) {
    vec2 u = b - a, across = ribbon_span(a.x, u.x), down = ribbon_span(a.y, u.y);
    float first = max(across.x, down.x), last = min(across.y, down.y), mean = 0.5 * (first + last);
    return max(last - first, 0.0) * vec2(1.0 - mean, mean);
}

vec4 ribbon_edge(vec2 a, vec2 b) {
    vec2 left = vec2(a.y - b.y, b.x - a.x), part = ribbon_inside(a, b);
    return vec4(left * part.x, left * part.y);
}

// The gradient of ribbon_area(a, b) by a (end false) or by b.
vec4 ribbon_slope(vec4 a, vec4 b, bool end) {
    vec2 p = a.xy + a.zw, q = b.xy + b.zw, r = b.xy - b.zw, s = a.xy - a.zw;
    vec4 one = end ? ribbon_edge(q, r) : ribbon_edge(s, p), over = ribbon_edge(p, q), under = ribbon_edge(r, s);
    vec2 high = end ? over.zw + one.xy : over.xy + one.zw;
    vec2 low = end ? under.xy + one.zw : under.zw + one.xy;
    return vec4(high + low, high - low);
}
