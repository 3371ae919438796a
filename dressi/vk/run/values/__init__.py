"""Values that users read: of any Variables now, of a set that is asked for again and again, and the losses of
steps."""
