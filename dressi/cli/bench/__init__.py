"""`dressi bench`: how fast a step is, what it moves, what it reaches, and what a device model predicts."""
