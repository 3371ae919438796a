// fragment.0.vertex
#version 450
void main() {
  // One triangle that covers the framebuffer.
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
}
// fragment.0.fragment
#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(location=0) out vec4 dressi_color0;
// Sine and cosine to about 1e-7 for |x| below 8192. Vulkan asks for 2^-11 only, and drivers differ by that much.
// The built-in asin and acos are off by 3e-4 on drivers that conform; atan is not.
// Reduction to [-pi/4, pi/4] with pi/2 in three parts (Cody and Waite), polynomials of Cephes.

#define DRESSI_SINE(T) \
T dressi_sine(T x, float quadrants) { \
    precise T n = roundEven(x * 0.63661977236758134); \
    precise T r = x - n * 1.5703125; \
    r = r - n * 4.837512969970703125e-4; \
    r = r - n * 7.54978995489188216e-8; \
    precise T z = r * r; \
    precise T s = ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1) * z * r + r; \
    precise T c = ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2) * z * z - 0.5 * z + 1.0; \
    T quadrant = n + quadrants; \
    quadrant = quadrant - 4.0 * floor(quadrant * 0.25); \
    T half_turn = floor(quadrant * 0.5); \
    return mix(s, c, quadrant - 2.0 * half_turn) * (1.0 - 2.0 * half_turn); \
} \
T dressi_sin(T x) { return dressi_sine(x, 0.0); } \
T dressi_cos(T x) { return dressi_sine(x, 1.0); } \
T dressi_tan(T x) { return dressi_sine(x, 0.0) / dressi_sine(x, 1.0); } \
T dressi_asin(T x) { return atan(x, sqrt((1.0 - x) * (1.0 + x))); } \
T dressi_acos(T x) { return atan(sqrt((1.0 - x) * (1.0 + x)), x); }

DRESSI_SINE(float)
DRESSI_SINE(vec2)
DRESSI_SINE(vec3)
DRESSI_SINE(vec4)

layout(set=0, binding=0, rgba32f) uniform readonly image2D dressi_image0_0;
vec3 dressi_fetch0(ivec2 texel, int tile) { return imageLoad(dressi_image0_0, max(texel + ivec2(0, tile * 3), ivec2(-2147483647))).xyz; }
void main() {
  ivec2 place = ivec2(gl_FragCoord.xy);
  int tile = place.y / 3;
  ivec2 pixel = ivec2(place.x, place.y - tile * 3);
  vec3 dressi_x0 = imageLoad(dressi_image0_0, max(place, ivec2(-2147483647))).xyz;
  precise vec3 dressi_x1 = dressi_sin(dressi_x0);
  precise vec3 dressi_x2 = dressi_fetch0(ivec2(clamp(pixel.x - 1, 0, 3), pixel.y), tile);
  precise float dressi_x3 = dressi_x2.x;
  precise vec3 dressi_x4 = dressi_x1 * dressi_x3;
  dressi_color0 = vec4(dressi_x4, 0);
}
