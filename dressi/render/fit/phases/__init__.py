"""The phases of a fit, shape and texture, and the parts of a phase."""
