"""Pictures in windows: the surface of a window, a swapchain on it, and copies of a device's images into it."""
