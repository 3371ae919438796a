"""Stereo of photographs as a start of a fit: plane sweep, semi-global matching, checks between views, fusion with the hull."""
