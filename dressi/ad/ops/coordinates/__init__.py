"""The places of texels, and what is affine in them."""
