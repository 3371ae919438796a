"""Poses of objects and cameras that nothing is known of, by rendering."""
