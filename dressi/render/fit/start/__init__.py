"""What a fit starts from: the visual hull of the masks, the surface that stereo finds within it, a sphere."""
