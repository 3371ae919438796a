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
layout(input_attachment_index=0, set=0, binding=0) uniform subpassInput image0_0;
void main() {
  ivec2 place = ivec2(gl_FragCoord.xy);
  int tile = place.y / 3;
  ivec2 pixel = ivec2(place.x, place.y - tile * 3);
  vec3 x0 = subpassLoad(image0_0).xyz;
  precise float x1 = x0.y;
  color0 = vec4(x1, 0, 0, 0);
}
// reduce.1.vertex
#version 450
void main() {
  // One triangle that covers the framebuffer.
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
}
// reduce.1.fragment
#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(location=0) out vec4 color0;
layout(set=0, binding=0) uniform texture2D image0_0;
float fetch_image0(ivec2 texel, int tile) { return texelFetch(image0_0, texel + ivec2(0, tile * 3), 0).x; }
void main() {
  ivec2 place = ivec2(gl_FragCoord.xy);
  int tile = place.y / 1;
  ivec2 pixel = ivec2(place.x, place.y - tile * 1);
  precise float x0;
  { precise float lost = float(0);
x0 = float(0);
for (int i = 0; i < ivec2(4, 3).y; ++i) { precise float t = fetch_image0(ivec2(pixel.x, i), tile) - lost; precise float sum = x0 + t; lost = (sum - x0) - t; x0 = sum; } }
  color0 = vec4(x0, 0, 0, 0);
}
// reduce.2.vertex
#version 450
void main() {
  // One triangle that covers the framebuffer.
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
}
// reduce.2.fragment
#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(location=0) out vec4 color0;
layout(set=0, binding=0) uniform texture2D image0_0;
float fetch_image0(ivec2 texel, int tile) { return texelFetch(image0_0, texel + ivec2(0, tile * 1), 0).x; }
void main() {
  ivec2 place = ivec2(gl_FragCoord.xy);
  int tile = place.y / 1;
  ivec2 pixel = ivec2(place.x, place.y - tile * 1);
  precise float x0;
  { precise float lost = float(0);
x0 = float(0);
for (int i = 0; i < ivec2(4, 1).x; ++i) { precise float t = fetch_image0(ivec2(i, pixel.y), tile) - lost; precise float sum = x0 + t; lost = (sum - x0) - t; x0 = sum; } }
  color0 = vec4(x0, 0, 0, 0);
}
// reduce.3.vertex
#version 450
void main() {
  // One triangle that covers the framebuffer.
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
}
// reduce.3.fragment
#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(location=0) out vec4 color0;
layout(set=0, binding=0) uniform texture2D image0_0;
float fetch_image0(ivec2 texel, int tile) { return texelFetch(image0_0, texel + ivec2(0, tile * 1), 0).x; }
void main() {
  ivec2 place = ivec2(gl_FragCoord.xy);
  int tile = 0;
  ivec2 pixel = ivec2(place.x, place.y - tile * 1);
  precise float x0;
  { precise float lost = float(0);
x0 = float(0);
for (int i = 0; i < 2; ++i) { precise float t = fetch_image0(pixel, i) - lost; precise float sum = x0 + t; lost = (sum - x0) - t; x0 = sum; } }
  color0 = vec4(x0, 0, 0, 0);
}
