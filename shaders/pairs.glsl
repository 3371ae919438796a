// What two neighbouring pixels show between their centres. Needs face.glsl.

// The depth of a face at a place on the screen, within the depths of the corners: rounding makes planes of faces that are
// seen edge-on arbitrary. Below 0 nearer than the near plane.
float pairs_depth(vec4 a, vec4 b, vec4 c, vec2 place) {
    vec3 w = vec3(a.z < 0.0 ? a.w : 1.0, b.z < 0.0 ? b.w : 1.0, c.z < 0.0 ? c.w : 1.0), z = vec3(a.z, b.z, c.z);
    vec2 u = a.xy - place * w.x, v = b.xy - place * w.y, x = c.xy - place * w.z;
    vec3 spans = vec3(face_cross(v, x), face_cross(x, u), face_cross(u, v));
    float area = dot(spans, w), low = min(z.x, min(z.y, z.z));
    float depth = area == 0.0 ? z.x : dot(spans, z) / area;
    return clamp(depth, low < 0.0 ? -1.0 : low, max(z.x, max(z.y, z.z)));
}
