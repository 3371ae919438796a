// Rasterization of a triangle by integers: corners are rounded to 1/256 of a pixel, as devices do, and edges are exact
// products of these, so that faces that meet in an edge share no pixel and leave none out.

// The corners of a triangle in clip space, cut at the near and the far plane where it reaches behind the eye: how many there are.
int visit_cut(inout vec4 p[5], int count, bool far) {
    vec4 kept[5];
    int n = 0;
    for (int k = 0; k < count; ++k) {
        vec4 a = p[k], b = p[k + 1 < count ? k + 1 : 0];
        float da = far ? a.w - a.z : a.z, db = far ? b.w - b.z : b.z;
        if (da >= 0.0 && n < 5) kept[n++] = a;
        if ((da >= 0.0) != (db >= 0.0) && n < 5) {
            // From the corner that is kept to the other: both faces of an edge compute the same point.
            bool first = da >= 0.0;
            vec4 inner = first ? a : b, outer = first ? b : a;
            float d = first ? da : db, e = first ? db : da;
            precise vec4 cut = inner + (outer - inner) * (d / (d - e));
            kept[n++] = cut;
        }
    }
    p = kept;
    return n;
}

// The corners of what of a triangle lies before the eye, as a fan; 0 where nothing does, or where a corner is not finite.
int visit_polygon(inout vec4 p[5]) {
    bool before = p[0].w > 0.0 && p[1].w > 0.0 && p[2].w > 0.0;
    if (any(isnan(p[0] + p[1] + p[2])) || any(isinf(p[0] + p[1] + p[2]))) return 0;
    if (before) return 3;
    int n = visit_cut(p, 3, false);
    if (n > 2) n = visit_cut(p, n, true);
    for (int k = 0; k < n; ++k) if (p[k].w <= 0.0) return 0;
    return n;
}

// A corner in units of 1/256 pixel. Those farther than 2^21 pixels away are moved there.
ivec2 visit_corner(vec4 clip, vec2 size) {
    precise vec2 at = (clip.xy / clip.w * 0.5 + 0.5) * size * 256.0;
    return ivec2(round(clamp(at, -536870912.0, 536870912.0)));
}

// The pixels whose centres may lie within three corners: low, and one beyond the last.
ivec4 visit_box(ivec2 a, ivec2 b, ivec2 c, ivec2 size) {
    ivec2 low = min(a, min(b, c)), high = max(a, max(b, c));
    return ivec4(clamp(low + 127 >> 8, ivec2(0), size), clamp(high + 128 >> 8, ivec2(0), size));
}

// How many pixels a box has; of a larger one, some number beyond the bound.
int visit_pixels(ivec4 box, int bound) {
    ivec2 extent = clamp(box.zw - box.xy, ivec2(0), ivec2(bound + 1));
    return extent.x * extent.y;
}

// Whether a place counts as inside of an edge from p to q: to its right hand, or on a left or a top edge. area: twice that of the
// triangle of the edge and the place, positive inside. Products have 64 bits.
bool visit_side(ivec2 p, ivec2 q, ivec2 at, out float area) {
    int high0, low0, high1, low1;
    ivec2 along = q - p, away = at - p;
    imulExtended(along.x, away.y, high0, low0);
    imulExtended(along.y, away.x, high1, low1);
    uint borrow, low = usubBorrow(uint(low0), uint(low1), borrow);
    int high = high0 - high1 - int(borrow);
    area = float(high) * 4294967296.0 + float(low);
    return (high | int(low)) == 0 ? along.y < 0 || (along.y == 0 && along.x > 0) : high >= 0;
}

// A triangle whose corners are in the order in which its inside is at the right hand, the depths z / w of these, and its box, which is
// empty where the triangle has no area.
struct Visited { ivec2 a, b, c; vec3 z; ivec4 box; };

Visited visit_face(vec4 p, vec4 q, vec4 r, vec2 size) {
    ivec2 a = visit_corner(p, size), b = visit_corner(q, size), c = visit_corner(r, size);
    float area;
    bool turned = !visit_side(a, b, c, area);
    vec3 z = vec3(p.z / p.w, q.z / q.w, r.z / r.w);
    ivec4 box = area == 0.0 ? ivec4(0) : visit_box(a, b, c, ivec2(size));
    return turned ? Visited(a, c, b, z.xzy, box) : Visited(a, b, c, z, box);
}

// The depth at the centre of a pixel, -1 outside of the triangle.
float visit_depth(Visited face, ivec2 pixel) {
    ivec2 at = pixel * 256 + 128;
    float a, b, c;
    bool inside = visit_side(face.b, face.c, at, a);
    inside = visit_side(face.c, face.a, at, b) && inside;
    inside = visit_side(face.a, face.b, at, c) && inside;
    precise float depth = (a * face.z.x + b * face.z.y + c * face.z.z) / (a + b + c);
    return inside ? depth : -1.0;
}
