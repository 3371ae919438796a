"""Bundle adjustment: shape and camera poses together, by colours and outlines (``adjust``)."""
