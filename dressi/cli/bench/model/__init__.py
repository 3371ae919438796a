"""`dressi bench model`: what a device model predicts for each Stage of a step."""
