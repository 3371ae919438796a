"""What the passes ask of a graph: dependencies, an order of execution, what to recompute, what is known
where."""
