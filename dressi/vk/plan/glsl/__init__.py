"""The GLSL of a SubStage: one file for each kind of work, and the writer that they share."""
