"""Large contractions by strips: one invocation computes several texels, in registers."""
