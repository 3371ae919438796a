"""What the graphs of a fit are made of: rounds and their terms, lists of a mesh, pictures to learn from,
factors to steer by."""
