#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(local_size_x=16) in;
layout(set=0, binding=0, r32f) uniform readonly image2D dressi_image0_0;
layout(set=0, binding=1, r32f) uniform readonly image2D dressi_image1_0;
layout(set=0, binding=2, r32f) uniform writeonly image2D dressi_output0_0;
void main() {
  ivec2 dressi_group = ivec2(gl_WorkGroupID.xy);
  int dressi_number = dressi_group.y;
  int dressi_a1 = 0;
  int dressi_a0 = 0;
  int dressi_a3 = int(gl_LocalInvocationIndex) + dressi_number % 2 * 16;
  dressi_number /= 2;
  int dressi_a2 = dressi_number % 4 * 2;
  dressi_number /= 4;
  bool dressi_v3 = dressi_a3 - 1 >= 0;
  bool dressi_v4 = dressi_a3 - 1 < 20;
  int dressi_v5 = clamp(dressi_a3 - 1, 0, 19);
  bool dressi_v11 = dressi_a3 < 20;
  int dressi_v12 = clamp(dressi_a3, 0, 19);
  bool dressi_v17 = dressi_a3 + 1 < 20;
  int dressi_v18 = clamp(dressi_a3 + 1, 0, 19);
  float dressi_s0 = float(0);
  float dressi_s1 = float(0);
  for (int dressi_a4 = 0; dressi_a4 < 3; dressi_a4 += 1) {
  bool dressi_v0 = dressi_a2 + dressi_a4 - 1 >= 0;
  bool dressi_v1 = dressi_a2 + dressi_a4 - 1 < 7;
  int dressi_v2 = clamp(dressi_a2 + dressi_a4 - 1, 0, 6);
  float dressi_v6 = imageLoad(dressi_image0_0, max(ivec2(dressi_v5, dressi_v2), ivec2(-2147483647))).x;
  bool dressi_v7 = dressi_v0 && dressi_v1 && dressi_v3 && dressi_v4;
  float dressi_v8 = mix(float(0), dressi_v6, dressi_v7);
  int dressi_v9 = dressi_a4;
  float dressi_v10 = imageLoad(dressi_image1_0, max(ivec2(0, dressi_v9), ivec2(-2147483647))).x;
  float dressi_v13 = imageLoad(dressi_image0_0, max(ivec2(dressi_v12, dressi_v2), ivec2(-2147483647))).x;
  bool dressi_v14 = dressi_v0 && dressi_v1 && dressi_v11;
  float dressi_v15 = mix(float(0), dressi_v13, dressi_v14);
  float dressi_v16 = imageLoad(dressi_image1_0, max(ivec2(1, dressi_v9), ivec2(-2147483647))).x;
  float dressi_v19 = imageLoad(dressi_image0_0, max(ivec2(dressi_v18, dressi_v2), ivec2(-2147483647))).x;
  bool dressi_v20 = dressi_v0 && dressi_v1 && dressi_v17;
  float dressi_v21 = mix(float(0), dressi_v19, dressi_v20);
  float dressi_v22 = imageLoad(dressi_image1_0, max(ivec2(2, dressi_v9), ivec2(-2147483647))).x;
  bool dressi_v23 = dressi_a2 + dressi_a4 < 7;
  int dressi_v24 = clamp(dressi_a2 + dressi_a4, 0, 6);
  float dressi_v25 = imageLoad(dressi_image0_0, max(ivec2(dressi_v5, dressi_v24), ivec2(-2147483647))).x;
  bool dressi_v26 = dressi_v23 && dressi_v3 && dressi_v4;
  float dressi_v27 = mix(float(0), dressi_v25, dressi_v26);
  float dressi_v28 = imageLoad(dressi_image0_0, max(ivec2(dressi_v12, dressi_v24), ivec2(-2147483647))).x;
  bool dressi_v29 = dressi_v23 && dressi_v11;
  float dressi_v30 = mix(float(0), dressi_v28, dressi_v29);
  float dressi_v31 = imageLoad(dressi_image0_0, max(ivec2(dressi_v18, dressi_v24), ivec2(-2147483647))).x;
  bool dressi_v32 = dressi_v23 && dressi_v17;
  float dressi_v33 = mix(float(0), dressi_v31, dressi_v32);
  float dressi_t0 = dressi_v8 * dressi_v10;
  dressi_t0 = fma(dressi_v15, dressi_v16, dressi_t0);
  dressi_t0 = fma(dressi_v21, dressi_v22, dressi_t0);
  dressi_s0 += dressi_t0;
  float dressi_t1 = dressi_v27 * dressi_v10;
  dressi_t1 = fma(dressi_v30, dressi_v16, dressi_t1);
  dressi_t1 = fma(dressi_v33, dressi_v22, dressi_t1);
  dressi_s1 += dressi_t1;
  }
  if (dressi_a3 < 20) {
  imageStore(dressi_output0_0, ivec2(dressi_a3, dressi_a2), vec4(dressi_s0, 0, 0, 0));
  }
  if (dressi_a2 + 1 < 7 && dressi_a3 < 20) {
  imageStore(dressi_output0_0, ivec2(dressi_a3, dressi_a2 + 1), vec4(dressi_s1, 0, 0, 0));
  }
}
