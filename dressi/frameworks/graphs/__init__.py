"""The graphs of the operations, over Variables."""
