"""GLSL of contractions by strips, and of several that read each other."""
