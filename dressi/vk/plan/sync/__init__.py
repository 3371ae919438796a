"""Synchronization: what the commands of a Plan use, and the barriers between them."""
