// update.0.vertex
#version 450
void main() {
  // One triangle that covers the framebuffer.
  gl_Position = vec4(gl_VertexIndex == 1 ? 3.0 : -1.0, gl_VertexIndex == 2 ? 3.0 : -1.0, 0.0, 1.0);
}
// update.0.fragment
#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(location=0) out vec4 dressi_color0;
layout(input_attachment_index=0, set=0, binding=0) uniform subpassInput dressi_image0_0;
void main() {
  ivec2 place = ivec2(gl_FragCoord.xy);
  int tile = place.y / 3;
  ivec2 pixel = ivec2(place.x, place.y - tile * 3);
  precise float dressi_x0 = 0.5;
  vec3 dressi_x1 = subpassLoad(dressi_image0_0).xyz;
  precise vec3 dressi_x2 = dressi_x1 * dressi_x0;
  dressi_color0 = vec4(dressi_x2, 0);
}
