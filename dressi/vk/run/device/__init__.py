"""A Vulkan device and what it owns: instance, queue, memory, command buffers, transfers."""
