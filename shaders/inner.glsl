// Walks over a surface on the screen. Needs face.glsl.

const float INNER_FLAT = 1e-12;

// (1, number of the corner opposite to the side through which the way from start to goal leaves the face, -1 for none), or
// (0, -1) when the face is seen edge-on, is not there, or faces the other way. facing: sign of the area, 0 before the
// first face.  when: how far along the way it leaves, 1 at the goal.
ivec2 inner_exit(vec4 a, vec4 b, vec4 c, vec2 start, vec2 goal, inout float facing, out float when) {
    when = 1.0;
    if (!face_present(a) || !face_present(b) || !face_present(c)) return ivec2(0, -1);
    vec3 w = vec3(a.z < 0.0 ? a.w : 1.0, b.z < 0.0 ? b.w : 1.0, c.z < 0.0 ? c.w : 1.0);
    vec2 u = a.xy - start * w.x, v = b.xy - start * w.y, x = c.xy - start * w.z;
    vec3 here = vec3(face_cross(v, x), face_cross(x, u), face_cross(u, v));
    u = a.xy - goal * w.x, v = b.xy - goal * w.y, x = c.xy - goal * w.z;
    vec3 there = vec3(face_cross(v, x), face_cross(x, u), face_cross(u, v));
    float area = dot(there, w);
    if (!face_defined(area) || abs(area) <= INNER_FLAT || facing * area < 0.0) return ivec2(0, -1);
    facing = sign(area);
    here = max(here * facing, 0.0);
    there *= facing;
    int side = -1;
    for (int k = 0; k < 3; ++k) {
        if (there[k] >= 0.0) continue;
        float passed = here[k] / max(here[k] - there[k], 1e-30);
        if (side < 0 || passed < when) { side = k; when = passed; }
    }
    return ivec2(1, side);
}
