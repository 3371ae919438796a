// update.0.compute
#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(local_size_x=64) in;
layout(set=0, binding=0, rgba32f) uniform  image2D image0_0;
void main() {
  ivec2 place = ivec2(gl_GlobalInvocationID.xy);
  if (place.x >= 4 || place.y >= 6) return;
  int tile = place.y / 3;
  ivec2 pixel = ivec2(place.x, place.y - tile * 3);
  precise float x0 = 0.5;
  vec3 x1 = imageLoad(image0_0, place).xyz;
  precise vec3 x2 = x1 * x0;
  imageStore(image0_0, place, vec4(x2, 0));
}
