"""Lowerings: Functions exchanged for others that suit a device better, before packing."""
