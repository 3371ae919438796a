// reduce.0.compute
#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(local_size_x=64) in;
layout(set=0, binding=0, rgba32f) uniform readonly image2D dressi_image0_0;
layout(set=0, binding=1, r32f) uniform writeonly image2D dressi_output0_0;
float dressi_make2(ivec2 pixel, int tile) {
  vec3 dressi_x0 = imageLoad(dressi_image0_0, max(pixel + ivec2(0, tile * 3), ivec2(-2147483647))).xyz;
  precise float dressi_x1 = dressi_x0.y;
  return dressi_x1;
}
float dressi_make1(ivec2 pixel, int tile) {
  precise float dressi_x2;
  { int dressi_a0 = tile; int dressi_a1 = 0; int dressi_a2 = 0; int dressi_a3 = pixel.x;
dressi_x2 = float(0); precise float dressi_lost0 = float(0);
for (int dressi_a4 = 0; dressi_a4 < 3; ++dressi_a4) {
float dressi_r0 = dressi_make2(ivec2(dressi_a3, dressi_a4), tile);
precise float dressi_term = dressi_r0;
{ precise float t = dressi_term - dressi_lost0; precise float sum = dressi_x2 + t; dressi_lost0 = (sum - dressi_x2) - t; dressi_x2 = sum; }
} }
  return dressi_x2;
}
float dressi_make0(ivec2 pixel, int tile) {
  precise float dressi_x3;
  { int dressi_a0 = tile; int dressi_a1 = 0; int dressi_a2 = 0; int dressi_a3 = 0;
dressi_x3 = float(0); precise float dressi_lost0 = float(0);
for (int dressi_a4 = 0; dressi_a4 < 4; ++dressi_a4) {
float dressi_r0 = dressi_make1(ivec2(dressi_a4, dressi_a2), tile);
precise float dressi_term = dressi_r0;
{ precise float t = dressi_term - dressi_lost0; precise float sum = dressi_x3 + t; dressi_lost0 = (sum - dressi_x3) - t; dressi_x3 = sum; }
} }
  return dressi_x3;
}
void main() {
  ivec2 place = ivec2(gl_GlobalInvocationID.xy);
  if (place.x >= 1 || place.y >= 1) return;
  int tile = 0;
  ivec2 pixel = ivec2(place.x, place.y - tile * 1);
  precise float dressi_x4;
  { int dressi_a0 = 0; int dressi_a1 = 0; int dressi_a2 = 0; int dressi_a3 = 0;
dressi_x4 = float(0); precise float dressi_lost0 = float(0);
for (int dressi_a4 = 0; dressi_a4 < 2; ++dressi_a4) {
float dressi_r0 = dressi_make0(ivec2(dressi_a3, dressi_a2), dressi_a4);
precise float dressi_term = dressi_r0;
{ precise float t = dressi_term - dressi_lost0; precise float sum = dressi_x4 + t; dressi_lost0 = (sum - dressi_x4) - t; dressi_x4 = sum; }
} }
  imageStore(dressi_output0_0, place, vec4(dressi_x4, 0, 0, 0));
}
