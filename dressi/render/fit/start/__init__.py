"""What a fit starts from: the visual hull of the masks, or a sphere."""
