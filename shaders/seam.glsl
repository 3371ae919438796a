// Lines on which two faces pass through each other, or the near plane cuts a face. Needs face.glsl.

// Where the plane g changes from positive to negative between the pixel centres p and q = p + step / height: pixels from
// p, 2 where it does not. slack: pixels beyond the centres.  noise: the smallest change.  steep: only where it changes
// along the other axis more slowly.
float seam_place(vec3 g, vec2 p, ivec2 step, float height, float slack, float noise, bool steep) {
    vec2 size = abs(g.xy);
    if (steep && (step.x != 0 ? size.x < size.y : size.y <= size.x)) return 2.0;
    float start = dot(g, vec3(p, 1.0)), fall = -dot(g.xy, vec2(step)) / height;
    if (!face_defined(fall) || fall <= noise || start < -slack * fall || start > (1.0 + slack) * fall) return 2.0;
    return clamp(start / fall, 0.0, 1.0);
}

// Whether a seam may pass between the centres of p, which shows a face of the plane own, and of its neighbour, which shows
// other; zeros for the background.
bool seam_possible(vec3 own, vec3 other, vec2 p, ivec2 step, float height, float slack) {
    vec3 here = vec3(p, 1.0), there = vec3(p + vec2(step) / height, 1.0);
    vec2 d = vec2(dot(own, here), dot(own, there)), e = vec2(dot(other, here), dot(other, there));
    float own_fall = d.x - d.y, other_fall = e.y - e.x, fall = own_fall + other_fall;
    if (own_fall > 0.0 && d.y < slack * own_fall || other_fall > 0.0 && e.x < slack * other_fall) return true;
    float more = slack * abs(fall);
    return own != vec3(0.0) && other != vec3(0.0) && e.x - d.x >= -more && e.y - d.y <= more;
}
