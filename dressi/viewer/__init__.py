"""The viewer: pictures of an optimisation in a window."""
