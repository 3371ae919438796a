"""Measurements on an open device: its model, the time of every Stage, how fast it copies."""
