"""The visual hull of masks: cones as fields, which masks agree, and the surface."""
