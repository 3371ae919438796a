"""The panel beside the picture: curves, sliders and buttons, drawn on the host and shown by the device.

``widgets`` are the parts; ``plot`` draws curves; ``panel`` lays them out for a session and takes the pointer's events.
"""
