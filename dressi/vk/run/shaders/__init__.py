"""From GLSL to pipelines: compilers, descriptor sets, pipelines and render passes."""
