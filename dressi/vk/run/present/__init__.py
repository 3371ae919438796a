"""Pictures in windows: the surface of a window, and a swapchain on it."""
