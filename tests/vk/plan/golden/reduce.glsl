// reduce.0.compute
#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(local_size_x=64) in;
layout(set=0, binding=0) uniform texture2D image0_0;
layout(set=0, binding=1, r32f) uniform writeonly image2D output0_0;
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
  ivec2 place = ivec2(gl_GlobalInvocationID.xy);
  if (place.x >= 1 || place.y >= 1) return;
  int tile = 0;
  ivec2 pixel = ivec2(place.x, place.y - tile * 1);
  precise float x4;
  { precise float lost = float(0);
x4 = float(0);
for (int i = 0; i < 2; ++i) { precise float t = make0(pixel, i) - lost; precise float sum = x4 + t; lost = (sum - x4) - t; x4 = sum; } }
  imageStore(output0_0, place, vec4(x4, 0, 0, 0));
}
