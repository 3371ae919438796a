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

// The side, by the corner opposite, through which the line from start to goal leaves a face that it entered through another
// one, -1 where a corner is nearer than the near plane.  when: how far along the way.
int pairs_beyond(vec4 a, vec4 b, vec4 c, vec2 start, vec2 goal, int entered, out float when) {
    when = 0.0;
    if (min(a.z, min(b.z, c.z)) < 0.0 || !face_present(a) || !face_present(b) || !face_present(c)) return -1;
    vec2 v[3] = vec2[3](a.xy - start, b.xy - start, c.xy - start), way = goal - start;
    for (int k = 0; k < 3; ++k) {
        if (k == entered) continue;
        vec2 i = v[(k + 1) % 3], j = v[(k + 2) % 3];
        float above = face_cross(way, i), below = face_cross(way, j);
        if (above * below > 0.0 || above == below) continue;
        when = dot(mix(i, j, above / (above - below)), way) / dot(way, way);
        return k;
    }
    return -1;
}
