// reduce.0.vertex
#version 450
void main() {
  // One triangle that covers the framebuffer.
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
}
// reduce.0.fragment
#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(location=0) out vec4 color0;
layout(set=0, binding=0) uniform texture2D image0_0;
float make2(ivec2 pixel, int tile) {
  vec3 x0 = texelFetch(image0_0, pixel + ivec2(0, tile * 3), 0).xyz;
  precise float x1 = x0.y;
  return x1;
}
float make1(ivec2 pixel, int tile) {
  precise float x2;
  { precise float lost = float(0);
x2 = float(0);
for (int i = 0; i < ivec2(4, 3).y; ++i) { precise float t = make2(ivec2(pixel.x, i), tile) - lost; precise float sum = x2 + t; lost = (sum - x2) - t; x2 = sum; } }
  return x2;
}
float make0(ivec2 pixel, int tile) {
  precise float x3;
  { precise float lost = float(0);
x3 = float(0);
for (int i = 0; i < ivec2(4, 1).x; ++i) { precise float t = make1(ivec2(i, pixel.y), tile) - lost; precise float sum = x3 + t; lost = (sum - x3) - t; x3 = sum; } }
  return x3;
}
void main() {
  ivec2 place = ivec2(gl_FragCoord.xy);
  int tile = 0;
  ivec2 pixel = ivec2(place.x, place.y - tile * 1);
  precise float x4;
  { precise float lost = float(0);
x4 = float(0);
for (int i = 0; i < 2; ++i) { precise float t = make0(pixel, i) - lost; precise float sum = x4 + t; lost = (sum - x4) - t; x4 = sum; } }
  color0 = vec4(x4, 0, 0, 0);
}
