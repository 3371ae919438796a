"""What passes ask of a graph: dependencies, order, what to compute again, what is known where."""
