"""Passes over dispatches of strips: which of them share one."""
